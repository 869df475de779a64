"""Names of the models, for those who only need to list them.

The command's parsers list them in their help, and must not import torch for
that.
"""

#: Models that read the graph.
ORIGINALS = ["GCN", "JKNet", "GPRGNN", "MLP"]

#: Models on hop features: the whole models of :mod:`dgl_lc.nn`.
HOP_MODELS = [
    "LCGCN", "LCJKNet", "LCGPRGNN", "LCAPPNP", "LCMixHop", "LCH2GCN", "SGC",
    "SIGN", "FSGNN", "SAGN", "GAMLP",
]  # fmt: skip

#: The LC versions that lc_transform makes, and their originals.
AUTOMATIC = {"autoGCN": "GCN", "autoJKNet": "JKNet", "autoGPRGNN": "GPRGNN"}

#: The model that trains on sampled subgraphs.
SHADOW = "ShaDow-GAT"

#: All models that can be run.
NAMES = [*ORIGINALS, *HOP_MODELS, *AUTOMATIC, SHADOW]

#: The models of the paper's tables, later models on the same hop features, and
#: the LC versions by lc_transform.
TABLE_MODELS = [
    "GCN", "JKNet", "GPRGNN", "SGC", "FSGNN", "SIGN", "SAGN", "GAMLP", "LCGCN",
    "LCJKNet", "LCGPRGNN", "autoGCN", "autoJKNet", "autoGPRGNN", "LCAPPNP",
    "LCMixHop",
]  # fmt: skip

#: The models of the paper's table of ogbn-papers100M that did not run out of
#: memory there.
PAPERS_MODELS = ["SGC", "FSGNN", "LCGCN", "LCJKNet", "LCGPRGNN"]
