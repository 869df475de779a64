"""Training and prediction on plain hop tensors, without hop features."""

import pytest
import torch
from dgl import DGLError
from tiny_task import DATA, OPTIONS, SPLIT, make
from torch import nn

from dgl_lc.nn import LCGraphConv, LCJKNet
from dgl_lc.training import fit, predict

MODEL = make(LCJKNet, num_layers=2)
HOPS = MODEL.precompute(DATA.graph, DATA.feat)
ALONE = [None, *HOPS]
PLAIN = {
    "list with None": ALONE,
    "tuple": tuple(ALONE),
    "all hops": [DATA.feat, *HOPS],
    "one tensor": torch.stack([DATA.feat, *HOPS]),
    "arrays": [None, *(hop.numpy() for hop in HOPS)],
}
EVERY = pytest.mark.parametrize("kind", PLAIN)


def trained(inputs):
    model = make(LCJKNet, num_layers=2, dropout=0.5)
    found = fit(model, inputs, *SPLIT, epochs=3, **OPTIONS)
    return found.history, model


@EVERY
def test_training_is_that_on_hop_features(kind):
    history, model = trained(PLAIN[kind])
    wanted, other = trained(HOPS)
    for name in ("train_loss", "valid_loss"):
        assert history[name].tolist() == pytest.approx(
            wanted[name].tolist(), rel=1e-4
        )
    torch.testing.assert_close(
        predict(model, PLAIN[kind]), predict(other, HOPS), rtol=1e-3, atol=1e-4
    )


@EVERY
def test_predictions_are_those_on_hop_features(kind):
    ids = torch.tensor([9, 3, 250])
    wanted = predict(MODEL, HOPS, ids)
    for size in (2, 1000):
        found = predict(MODEL, PLAIN[kind], ids, batch_size=size)
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        predict(MODEL, PLAIN[kind]), predict(MODEL, HOPS)
    )


def test_tensors_of_the_needed_hops_alone_are_refused():
    with pytest.raises(DGLError, match=r"\[None, x1, x2\].*HopFeatures"):
        fit(make(LCJKNet, num_layers=2), list(HOPS), *SPLIT, epochs=1)
    with pytest.raises(DGLError, match=r"\[None, x1, x2\].*HopFeatures"):
        predict(MODEL, torch.stack(list(HOPS)))


class TwoLayers(nn.Module):
    """A user's own model, of layers that step from hop to hop."""

    def __init__(self):
        super().__init__()
        self.conv1 = LCGraphConv(DATA.num_feats, 8, activation=torch.relu)
        self.conv2 = LCGraphConv(8, DATA.num_classes)

    def forward(self, graph, feat):
        return self.conv2(graph, self.conv1(graph, feat))


@pytest.mark.parametrize(
    "inputs", [[None, None, HOPS[2]], torch.stack([DATA.feat, *HOPS])]
)
def test_a_model_of_layers_trains_on_plain_hops(inputs):
    torch.manual_seed(0)
    model = TwoLayers()
    fit(model, inputs, *SPLIT, epochs=2, **OPTIONS)
    wanted = predict(model, HOPS.select([2]))
    torch.testing.assert_close(predict(model, inputs), wanted)
