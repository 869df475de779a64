"""The module of an LC version: code, copies, pickles, names."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from night import every, in_turn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    TAKEN,
    Function,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_module_can_be_saved_and_copied():
    graph, feat = looped_graph(), features()
    model = Layers(*gcn()).double().eval()
    lc = lc_transform(model, graph, feat)
    inputs = lc.precompute(graph, feat)
    expected = lc.module(*inputs)
    torch.testing.assert_close(copy.deepcopy(lc.module)(*inputs), expected)
    file = io.BytesIO()
    torch.save(lc.module.state_dict(), file)
    file.seek(0)
    other = Layers(*gcn()).double().eval()
    loaded = lc_transform(other, graph, feat)
    loaded.module.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(loaded.module(*inputs), expected)


@pytest.mark.parametrize("training", [True, False])
def test_a_pickled_module_knows_training(training):
    lc = transform_body(
        lambda self, g, x: self.conv(
            g, F.dropout(self.fc(x), 0.5, self.training)
        )
    )
    inputs = lc.precompute(random_graph(), features())
    lc.module.train(training)
    again = pickle.loads(pickle.dumps(lc.module))
    assert again.training is training
    assert list(again.state_dict()) == list(lc.module.state_dict())
    again.eval()
    lc.module.eval()
    assert torch.equal(again(*inputs), lc.module(*inputs))
    again.train()
    assert not torch.equal(again(*inputs), again(*inputs))


def test_code_reads_like_the_models():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    assert "def forward(self, s2_x)" in lc.code
    assert "self.convs" in lc.code
    assert lc.code.count(" @ ") == 2
    assert "None" not in lc.code


def test_each_operation_is_called_once():
    graph, feat = looped_graph(), features()
    lc = lc_transform(TAKEN["gprgnn"].make().model.double(), graph, feat)
    called = [n.target for n in lc.module.graph.nodes if n.op == "call_module"]
    assert sorted(called) == ["fc1", "fc2"]


def test_batch_norm_pools_over_words():
    graph, feat = looped_graph(), features()

    def body(self, g, x):
        h = torch.relu(self.norm(self.fc(x)))
        return h + self.conv(g, h)

    model = Function(
        body,
        fc=nn.Linear(IN, HID),
        norm=nn.BatchNorm1d(HID),
        conv=dglnn.GraphConv(HID, HID),
    ).double()
    lc = lc_transform(model, graph, feat)
    lc.module.train()
    inputs = lc.precompute(graph, feat)
    lc.module(*inputs)
    assert int(model.norm.num_batches_tracked) == 1
    rows = model.fc(torch.cat(list(inputs)))
    expected = 0.1 * rows.mean(0)
    torch.testing.assert_close(model.norm.running_mean, expected)


def test_rows_by_name():
    lc = transform_body(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    (rows,) = lc.precompute(random_graph(), features())
    named = lc.module(**{lc.inputs[0].name: rows})
    assert torch.equal(named, lc.module(rows))


@pytest.mark.parametrize("name", ["meta", "_graph", "recompile", "graph"])
def test_names_that_torch_fx_has_taken(name):
    def body(self, g, x):
        return self.conv(g, getattr(self, name)(x))

    with pytest.raises(LCError, match="fx uses itself"):
        transform_body(body, **{name: nn.Linear(IN, HID)})


def test_what_should_not_decay_is_known_to_the_module():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    model.no_weight_decay = frozenset({"fc.weight"})
    lc = lc_transform(model, random_graph(), features())
    assert lc.module.no_weight_decay == {"fc.weight"}


_NAMES = [
    "in", "class", "None", "self", "a b", "a-b", 'a"b', "a'b", "a\\", "a\nb",
    "{x}", "é", "\uff43lass", "print", "torch", "1", "_lc",
    'x") or fail("it ran") or getattr(self, "x',
]  # fmt: skip


class _Named(nn.Module):
    """Has a part with a name that may come from data."""

    def __init__(self, name, kind):
        super().__init__()
        self.conv = dglnn.GraphConv(HID, HID)
        self.parts = nn.ModuleDict()
        if kind == "parameter":
            self.parts = nn.ParameterDict({name: torch.rand(IN, HID)})
        elif kind == "module":
            self.parts[name] = nn.Linear(IN, HID)
        else:
            self.add_module(name, nn.Linear(IN, HID))
        self.name, self.kind = name, kind

    def forward(self, g, x):
        if self.kind == "top":
            h = self._modules[self.name](x)
        else:
            part = self.parts[self.name]
            h = x @ part if self.kind == "parameter" else part(x)
        return self.conv(g, h.relu())


# By day each name for one kind of part; at night for all of them.
@pytest.mark.parametrize(
    ("name", "kind"), in_turn(_NAMES, ["parameter", "module", "top"])
)
def test_names_of_parts_are_never_code(name, kind):
    graph, feat = looped_graph(), features()
    model = _Named(name, kind).double().eval()
    lc = lc_transform(model, graph, feat)
    (rows,) = lc.precompute(graph, feat)
    expected = lc.module(rows)
    assert list(lc.module.state_dict()) == list(model.state_dict())
    for again in (
        copy.deepcopy(lc.module), pickle.loads(pickle.dumps(lc.module)),
    ):  # fmt: skip
        assert torch.equal(again(rows), expected)
    compile(lc.code, "the code", "exec")
    # The code has the weights of the model, not copies of them.
    lc.module.load_state_dict(
        {k: torch.zeros_like(v) for k, v in model.state_dict().items()}
    )
    assert not torch.equal(lc.module(rows), expected)


# By day every fourth name, the first and the last one included; at night all.
@pytest.mark.parametrize("name", every(4, [n for n in _NAMES if n != "self"]))
def test_names_of_features_are_never_code(name):
    graph = looped_graph()
    graph.ndata[name] = features()
    model = model_of(
        lambda self, g: self.conv(g, self.fc(g.ndata[name]).relu())
    )
    lc = lc_transform(model, graph)
    assert lc.inputs[0].name.isidentifier()
    (rows,) = lc.precompute(graph)
    named = lc.module(**{lc.inputs[0].name: rows})
    assert torch.equal(named, lc.module(rows))
