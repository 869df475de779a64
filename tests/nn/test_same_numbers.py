"""A seed gives the numbers that it gave before models had two layers."""

import dgl
import numpy as np
import pytest
import torch

from dgl_lc import nn

MODELS = {
    "LCGCN": lambda: nn.LCGCN(20, 16, 3, 3, 0.3),
    "LCJKNet": lambda: nn.LCJKNet(20, 16, 3, 3, "cat", 0.4),
    "LCGPRGNN": lambda: nn.LCGPRGNN(20, 16, 3, 4, 3, 0.2, 0.5, 0.3),
    "LCAPPNP": lambda: nn.LCAPPNP(20, 16, 3, 4, 0.1, 2, 0.5),
    "LCMixHop": lambda: nn.LCMixHop(20, 16, 3, 2, (0, 1, 3), 0.2, 0.3),
    "SGC": lambda: nn.SGC(20, 3, K=3),
    "SIGN": lambda: nn.SIGN(20, 16, 3, 2, 0.3),
    "FSGNN": lambda: nn.FSGNN(20, 16, 3, 2, 0.3, num_layers=3),
    "LCH2GCN": lambda: nn.LCH2GCN(20, 16, 3, 2, 0.3),
}
#: Row 5 of the output, in training (with dropout) and in evaluation.
NUMBERS = {
    "LCGCN": [(-0.02089, 0.01805, 0.02862), (0.01177, -0.01784, 0.03154)],
    "LCJKNet": [(-0.21300, 0.02868, 0.26936), (-0.18838, -0.05172, 0.20813)],
    "LCGPRGNN": [(0.59948, 0.18368, -0.36710), (0.35478, 0.04296, -0.20259)],
    "LCAPPNP": [(-0.12694, -0.31526, 0.13552), (-0.13122, -0.23634, 0.11598)],
    "LCMixHop": [(-0.18241, -0.67794, 0.14204), (0.01520, -0.45157, 0.20105)],
    "SGC": [(0.14749, -0.02163, -0.19422), (0.14749, -0.02163, -0.19422)],
    "SIGN": [(-0.02090, 0.09767, -0.11221), (-0.03809, 0.08580, -0.03485)],
    "FSGNN": [(0.04170, 0.11526, -0.18206), (0.04034, 0.12677, -0.23494)],
    "LCH2GCN": [(-0.63836, 0.88199, -0.40411), (-0.56952, 0.53605, -0.27767)],
}
KEYS = {
    "LCGCN": "layers.0.weight layers.0.bias layers.1.weight layers.1.bias "
    "layers.2.weight layers.2.bias",
    "LCJKNet": "layers.0.weight layers.0.bias layers.1.weight layers.1.bias "
    "layers.2.weight layers.2.bias output.weight output.bias",
    "LCGPRGNN": "gamma mlp.layers.0.weight mlp.layers.0.bias "
    "mlp.layers.1.weight mlp.layers.1.bias mlp.layers.2.weight "
    "mlp.layers.2.bias",
    "LCAPPNP": "mlp.layers.0.weight mlp.layers.0.bias mlp.layers.1.weight "
    "mlp.layers.1.bias",
    "SGC": "fc.weight fc.bias",
}


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_the_numbers_it_gave(name):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 300, (2, 3000))
    graph = dgl.graph((source, target), num_nodes=300)
    feat = torch.from_numpy(rng.standard_normal((300, 20))).float()
    torch.manual_seed(3)
    model = MODELS[name]()
    found = [model(graph, feat)[5].tolist()]
    found.append(model.eval()(graph, feat)[5].tolist())
    for row, expected in zip(found, NUMBERS[name], strict=True):
        assert row == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", KEYS)
def test_parameters_have_the_names_they_had(name):
    assert list(MODELS[name]().state_dict()) == KEYS[name].split()
