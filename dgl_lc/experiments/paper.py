"""The paper's parameters and tables, as data.

They are from the experiments and the appendix of `GNN Transformation
Framework for Improving Efficiency and Scalability
<https://arxiv.org/abs/2207.12000>`__. Models have our names: the paper's
GCN_LC is LCGCN. Parameters have the names that
:func:`~dgl_lc.experiments.configure.configure` reads.
"""

from typing import Any

#: Parameters of all models. The batch size is that of models on hop features;
#: the others take one step per epoch on the whole graph. Trials are Optuna's.
COMMON: dict[str, int] = {
    "batch_size": 4096,
    "patience": 300,
    "epochs": 2000,
    "hid_feats": 256,
    "trials": 50,
}

#: The search spaces, by model and parameter. ``dprate`` is the dropout rate
#: before the propagation, and ``alpha`` initialises the attention (gamma). The
#: "number of layers" of SGC and FSGNN is their last hop, ``K``.
SPACES: dict[str, dict[str, list[Any]]] = {
    "GCN": {
        "weight_decay": [1e-8, 1e-7, 1e-6, 1e-5],
        "lr": [0.005, 0.01, 0.02],
        "dropout": [0.0, 0.5],
        "num_layers": [2],
    },
    "JKNet": {
        "weight_decay": [1e-8, 1e-7, 1e-6, 1e-5],
        "lr": [0.001, 0.005, 0.01],
        "dropout": [0.0, 0.5],
        "num_layers": [3],
        "pooling": ["concat", "max"],
    },
    "GPRGNN": {
        "weight_decay": [0.0, 1e-10, 1e-9, 1e-8],
        "lr": [0.005, 0.01, 0.02],
        "dropout": [0.5],
        "dprate": [0.0, 0.5, 0.7],
        "alpha": [0.0, 0.1, 0.5, 0.9, 1.0],
        "K": [5],
        "mlp_layers": [4],
    },
    "SGC": {
        "weight_decay": [1e-9, 1e-8, 1e-7, 1e-6, 1e-5],
        "lr": [1e-4, 0.001, 0.01],
        "K": [2],
    },
    # Each part has its own learning rate and decay: 1 is the layer of each
    # input, 2 the hidden layer, 3 the output layer, att the weights of the
    # inputs.
    "FSGNN": {
        "wd1": [1e-5, 1e-4, 1e-3],
        "lr1": [1e-4, 0.001, 0.01],
        "wd2": [1e-6, 1e-5, 1e-4, 1e-3],
        "lr2": [1e-4, 0.001, 0.01],
        "wd3": [1e-6, 1e-5, 1e-4, 1e-3],
        "lr3": [1e-4, 0.001, 0.01],
        "wd_att": [1e-6, 1e-5, 1e-4, 0.001],
        "lr_att": [0.001, 0.01, 0.1],
        "dp1": [0.5, 0.6, 0.7],
        "dp2": [0.5, 0.6, 0.7],
        "K": [3],
    },
    "LCGCN": {
        "weight_decay": [1e-7, 1e-6, 1e-5, 1e-4],
        "lr": [5e-5, 1e-4, 0.001, 0.01],
        "dropout": [0.0, 0.5],
        "num_layers": [2],
    },
    "LCJKNet": {
        "weight_decay": [1e-6, 1e-5, 1e-4, 0.001],
        "lr": [1e-4, 0.001],
        "dropout": [0.0, 0.5],
        "num_layers": [3],
        "pooling": ["concat", "max"],
    },
    "LCGPRGNN": {
        "weight_decay": [0.0, 1e-8, 1e-7],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.5],
        "dprate": [0.0, 0.5, 0.7],
        "alpha": [0.0, 0.1, 0.5, 0.9, 1.0],
        "K": [5],
        "mlp_layers": [4],
    },
}

#: Our own search spaces, of about the same size, for the models without one in
#: the paper. (The paper took ShaDow-GAT's parameters from its authors.)
OUR_SPACES: dict[str, dict[str, list[Any]]] = {
    "MLP": {
        "weight_decay": [1e-8, 1e-7, 1e-6, 1e-5],
        "lr": [0.001, 0.005, 0.01],
        "dropout": [0.0, 0.5],
        "num_layers": [2],
    },
    "SIGN": {
        "weight_decay": [1e-7, 1e-6, 1e-5, 1e-4],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.0, 0.5, 0.7],
        "K": [3],
    },
    "SAGN": {
        "weight_decay": [0.0, 1e-6, 1e-5, 1e-4],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.5, 0.7],
        "input_dropout": [0.0, 0.2],
        "attention_dropout": [0.0, 0.4],
        "K": [3, 5],
    },
    "GAMLP": {
        "weight_decay": [0.0, 1e-6, 1e-5, 1e-4],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.5, 0.7],
        "input_dropout": [0.0, 0.2],
        "attention_dropout": [0.0, 0.5],
        "mode": ["recursive", "jk"],
        "num_layers": [2, 4],
        "K": [3, 5],
    },
    "LCAPPNP": {
        "weight_decay": [0.0, 1e-8, 1e-7, 1e-6],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.0, 0.5],
        "alpha": [0.1, 0.2, 0.5],
        "K": [5],
        "mlp_layers": [2, 4],
    },
    "LCMixHop": {
        "weight_decay": [1e-7, 1e-6, 1e-5, 1e-4],
        "lr": [1e-4, 0.001, 0.01],
        "input_dropout": [0.0, 0.5],
        "layer_dropout": [0.0, 0.5],
        "num_layers": [2],
    },
    "LCH2GCN": {
        "weight_decay": [1e-7, 1e-6, 1e-5, 1e-4],
        "lr": [1e-4, 0.001, 0.01],
        "dropout": [0.0, 0.5],
        "K": [1, 2],
    },
    "ShaDow-GAT": {
        "weight_decay": [0.0, 1e-6, 1e-5],
        "lr": [5e-4, 0.001, 0.002],
        "dropout": [0.2, 0.35, 0.5],
        "num_layers": [3, 5],
        "num_heads": [4],
    },
}

#: The best parameters, by data set and model; None if it ran out of memory.
BEST: dict[str, dict[str, dict[str, Any] | None]] = {
    "Flickr": {
        "GCN": {
            "weight_decay": 1e-6, "lr": 0.02, "dropout": 0.0, "num_layers": 2,
        },
        "JKNet": {
            "weight_decay": 1e-5, "lr": 0.01, "dropout": 0.0, "num_layers": 3,
            "pooling": "concat",
        },
        "GPRGNN": {
            "weight_decay": 0.0, "lr": 0.005, "dropout": 0.5, "dprate": 0.5,
            "alpha": 0.1, "K": 5, "mlp_layers": 4,
        },
        "SGC": {"weight_decay": 1e-6, "lr": 0.01, "K": 2},
        # This wd_att is not in the space, which ends at 0.001.
        "FSGNN": {
            "wd1": 1e-4, "lr1": 1e-4, "wd2": 1e-4, "lr2": 0.001,
            "wd3": 1e-4, "lr3": 0.001, "wd_att": 0.01, "lr_att": 0.001,
            "dp1": 0.7, "dp2": 0.7, "K": 3,
        },
        "LCGCN": {
            "weight_decay": 1e-5, "lr": 1e-4, "dropout": 0.0, "num_layers": 2,
        },
        "LCJKNet": {
            "weight_decay": 1e-4, "lr": 1e-4, "dropout": 0.0, "num_layers": 3,
            "pooling": "concat",
        },
        "LCGPRGNN": {
            "weight_decay": 0.0, "lr": 1e-4, "dropout": 0.5, "dprate": 0.0,
            "alpha": 0.1, "K": 5, "mlp_layers": 4,
        },
    },
    "Reddit": {
        "GCN": {
            "weight_decay": 1e-7, "lr": 0.02, "dropout": 0.0, "num_layers": 2,
        },
        "JKNet": {
            "weight_decay": 1e-7, "lr": 0.005, "dropout": 0.5, "num_layers": 3,
            "pooling": "concat",
        },
        # This lr is not in the space, which begins at 0.005.
        "GPRGNN": {
            "weight_decay": 1e-9, "lr": 1e-4, "dropout": 0.5, "dprate": 0.5,
            "alpha": 0.1, "K": 5, "mlp_layers": 4,
        },
        "SGC": {"weight_decay": 1e-9, "lr": 0.01, "K": 2},
        "FSGNN": {
            "wd1": 1e-5, "lr1": 1e-4, "wd2": 0.001, "lr2": 0.001,
            "wd3": 1e-4, "lr3": 0.001, "wd_att": 0.001, "lr_att": 0.01,
            "dp1": 0.6, "dp2": 0.5, "K": 3,
        },
        "LCGCN": {
            "weight_decay": 1e-7, "lr": 0.001, "dropout": 0.5, "num_layers": 2,
        },
        "LCJKNet": {
            "weight_decay": 1e-6, "lr": 1e-4, "dropout": 0.5, "num_layers": 3,
            "pooling": "concat",
        },
        "LCGPRGNN": {
            "weight_decay": 0.0, "lr": 1e-4, "dropout": 0.5, "dprate": 0.0,
            "alpha": 0.5, "K": 5, "mlp_layers": 4,
        },
    },
    "arxiv": {
        "GCN": {
            "weight_decay": 1e-5, "lr": 0.02, "dropout": 0.0, "num_layers": 2,
        },
        "JKNet": {
            "weight_decay": 1e-7, "lr": 0.001, "dropout": 0.5, "num_layers": 3,
            "pooling": "concat",
        },
        "GPRGNN": {
            "weight_decay": 1e-9, "lr": 0.005, "dropout": 0.5, "dprate": 0.0,
            "alpha": 0.9, "K": 5, "mlp_layers": 4,
        },
        "SGC": {"weight_decay": 1e-9, "lr": 0.01, "K": 2},
        "FSGNN": {
            "wd1": 1e-5, "lr1": 1e-4, "wd2": 1e-5, "lr2": 0.001,
            "wd3": 1e-4, "lr3": 0.001, "wd_att": 0.001, "lr_att": 0.01,
            "dp1": 0.7, "dp2": 0.6, "K": 3,
        },
        "LCGCN": {
            "weight_decay": 1e-4, "lr": 0.001, "dropout": 0.0, "num_layers": 2,
        },
        "LCJKNet": {
            "weight_decay": 1e-6, "lr": 1e-4, "dropout": 0.5, "num_layers": 3,
            "pooling": "concat",
        },
        "LCGPRGNN": {
            "weight_decay": 1e-8, "lr": 0.001, "dropout": 0.5, "dprate": 0.5,
            "alpha": 0.9, "K": 5, "mlp_layers": 4,
        },
    },
    "papers100M": {
        "GCN": None,
        "JKNet": None,
        "GPRGNN": None,
        "SGC": {"weight_decay": 1e-8, "lr": 0.01, "K": 2},
        "FSGNN": {
            "wd1": 1e-4, "lr1": 1e-4, "wd2": 1e-5, "lr2": 1e-4,
            "wd3": 1e-6, "lr3": 0.001, "wd_att": 1e-4, "lr_att": 0.1,
            "dp1": 0.5, "dp2": 0.5, "K": 3,
        },
        "LCGCN": {
            "weight_decay": 1e-6, "lr": 0.001, "dropout": 0.0, "num_layers": 2,
        },
        "LCJKNet": {
            "weight_decay": 1e-6, "lr": 0.001, "dropout": 0.0, "num_layers": 3,
            "pooling": "concat",
        },
        "LCGPRGNN": {
            "weight_decay": 1e-7, "lr": 0.001, "dropout": 0.5, "dprate": 0.0,
            "alpha": 1.0, "K": 5, "mlp_layers": 4,
        },
    },
}  # fmt: skip

#: Test accuracy of 5 runs, by data set and model: mean, standard deviation.
ACCURACY: dict[str, dict[str, tuple[float, float]]] = {
    "Flickr": {
        "GCN": (0.525, 0.003),
        "JKNet": (0.526, 0.004),
        "GPRGNN": (0.494, 0.006),
        "SGC": (0.494, 0.037),
        "FSGNN": (0.513, 0.001),
        "ShaDow-GAT": (0.531, 0.003),
        "LCGCN": (0.515, 0.003),
        "LCJKNet": (0.517, 0.004),
        "LCGPRGNN": (0.513, 0.001),
    },
    "Reddit": {
        "GCN": (0.945, 0.000),
        "JKNet": (0.941, 0.006),
        "GPRGNN": (0.918, 0.012),
        "SGC": (0.948, 0.001),
        "FSGNN": (0.964, 0.001),
        "ShaDow-GAT": (0.947, 0.003),
        "LCGCN": (0.947, 0.001),
        "LCJKNet": (0.951, 0.000),
        "LCGPRGNN": (0.961, 0.000),
    },
    "arxiv": {
        "GCN": (0.702, 0.005),
        "JKNet": (0.712, 0.001),
        "GPRGNN": (0.694, 0.006),
        "SGC": (0.692, 0.004),
        "FSGNN": (0.722, 0.003),
        "ShaDow-GAT": (0.716, 0.004),
        "LCGCN": (0.710, 0.001),
        "LCJKNet": (0.710, 0.003),
        "LCGPRGNN": (0.720, 0.004),
    },
}

#: Mean training time of 5 runs on a V100S, by data set and model: seconds per
#: epoch, and total seconds with the precomputation. (The paper gives the first
#: in milliseconds.)
TIMES: dict[str, dict[str, tuple[float, float]]] = {
    "Flickr": {
        "GCN": (0.06462, 129.24),
        "JKNet": (0.17043, 253.25),
        "GPRGNN": (0.27286, 539.48),
        "SGC": (0.05118, 30.31),
        "FSGNN": (0.34697, 133.63),
        "ShaDow-GAT": (120.85, 3634.65),
        "LCGCN": (0.05675, 49.85),
        "LCJKNet": (0.14478, 78.24),
        "LCGPRGNN": (0.28754, 164.88),
    },
    "Reddit": {
        "GCN": (0.65470, 1309.40),
        "JKNet": (1.42851, 2552.45),
        "GPRGNN": (1.45601, 2806.62),
        "SGC": (0.14168, 285.43),
        "FSGNN": (1.06666, 1793.91),
        "ShaDow-GAT": (376.42, 11321.09),
        "LCGCN": (0.16573, 212.16),
        "LCJKNet": (0.43041, 865.71),
        "LCGPRGNN": (0.81813, 1645.49),
    },
    "arxiv": {
        "GCN": (0.21081, 421.63),
        "JKNet": (0.52905, 1058.10),
        "GPRGNN": (0.52308, 961.76),
        "SGC": (0.05027, 42.23),
        "FSGNN": (0.28473, 382.67),
        "ShaDow-GAT": (163.67, 4913.29),
        "LCGCN": (0.06259, 120.60),
        "LCJKNet": (0.13852, 277.63),
        "LCGPRGNN": (0.21966, 204.56),
    },
}

#: Results on papers100M, by model: test accuracy and validation accuracy (mean
#: and standard deviation each), seconds per epoch, total seconds; None if it
#: ran out of memory.
PAPERS100M: dict[
    str,
    tuple[tuple[float, float], tuple[float, float], float, float] | None,
] = {
    "GCN": None,
    "JKNet": None,
    "GPRGNN": None,
    "SGC": ((0.623, 0.007), (0.667, 0.002), 0.42515, 2211.23),
    "FSGNN": ((0.665, 0.003), (0.706, 0.001), 3.55082, 8612.48),
    "ShaDow-GAT": ((0.666, 0.003), (0.703, 0.001), 2948.50, 92264.76),
    "LCGCN": ((0.647, 0.006), (0.688, 0.002), 0.61190, 2477.55),
    "LCJKNet": ((0.641, 0.003), (0.689, 0.004), 1.48880, 3396.69),
    "LCGPRGNN": ((0.658, 0.002), (0.696, 0.001), 2.74927, 7410.47),
}

#: The data sets. Reddit is GraphSAINT's, with each edge counted once; Flickr's
#: edges are counted in both directions. Flickr and Reddit are inductive.
DATASETS: dict[str, dict[str, int]] = {
    "Flickr": {
        "nodes": 89_250, "edges": 899_756, "features": 500, "classes": 7,
    },
    "Reddit": {
        "nodes": 232_965, "edges": 11_606_919, "features": 602, "classes": 41,
    },
    "arxiv": {
        "nodes": 169_343, "edges": 1_166_243, "features": 128, "classes": 40,
    },
    "papers100M": {
        "nodes": 111_059_956, "edges": 1_615_685_872, "features": 128,
        "classes": 172,
    },
}  # fmt: skip
