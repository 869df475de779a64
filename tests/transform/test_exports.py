"""Exports of LC versions: torch.export and ONNX, with any number of rows."""

import re
from pathlib import Path

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from night import NIGHT
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.training import load_model, save_model

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
if not hasattr(torch.export.Dim, "DYNAMIC"):
    pytest.skip("this torch fixes sizes in exports", allow_module_level=True)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    # torch itself still calls what it calls deprecated.
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
]

N, IN, HID, OUT = 60, 6, 8, 3
ROOT = Path(__file__).parents[2]


class Body(nn.Module):
    """A forward function with some modules."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, g, x):
        return self.body(self, g, x)


def _gcn():
    def body(self, g, x):
        h = F.dropout(F.relu(self.one(g, x)), 0.5, self.training)
        return self.two(g, h)

    one, two = dglnn.GraphConv(IN, HID), dglnn.GraphConv(HID, OUT)
    return Body(body, one=one, two=two), {}


def _jknet():
    def body(self, g, x):
        h1 = F.relu(self.one(g, x))
        h2 = F.relu(self.two(g, h1))
        return self.out(torch.cat([h1, h2], 1))

    return Body(
        body, one=dglnn.GraphConv(IN, HID), two=dglnn.GraphConv(HID, HID),
        out=nn.Linear(2 * HID, OUT),
    ), {}  # fmt: skip


def _gprgnn():
    def body(self, g, x):
        h = self.two(F.relu(self.one(x)))
        total = self.gamma[0] * h
        for k in range(1, 4):
            h = self.hop(g, h)
            total = total + self.gamma[k] * h
        return total

    return Body(
        body, one=nn.Linear(IN, HID), two=nn.Linear(HID, OUT),
        gamma=nn.Parameter(torch.rand(4)),
        hop=dglnn.GraphConv(OUT, OUT, weight=False, bias=False),
    ), {}  # fmt: skip


def _appnp():
    def body(self, g, x):
        return self.hops(g, self.two(F.relu(self.one(x))))

    return Body(
        body, one=nn.Linear(IN, HID), two=nn.Linear(HID, OUT),
        hops=dglnn.APPNPConv(5, 0.1),
    ), {"fold": True}  # fmt: skip


def _sign():
    def body(self, g, x):
        found = []
        for layer in self.layers:
            found.append(F.prelu(layer(x), self.slope))
            x = self.hop(g, x)
        return self.out(torch.cat(found, -1))

    return Body(
        body, layers=nn.ModuleList(nn.Linear(IN, HID) for _ in range(3)),
        hop=dglnn.GraphConv(IN, IN, weight=False, bias=False),
        slope=nn.Parameter(torch.tensor([0.2])), out=nn.Linear(3 * HID, OUT),
    ), {}  # fmt: skip


def _residual():
    def body(self, g, x):
        h = self.first(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + F.gelu(norm(conv(g, h)))
        return self.out(h).log_softmax(-1)

    return Body(
        body, first=nn.Linear(IN, HID), out=nn.Linear(HID, OUT),
        convs=nn.ModuleList(dglnn.GraphConv(HID, HID) for _ in range(2)),
        norms=nn.ModuleList([nn.BatchNorm1d(HID), nn.LayerNorm(HID)]),
    ), {}  # fmt: skip


def _gru():
    def body(self, g, x):
        h = torch.tanh(self.first(x))
        for _ in range(2):
            h = self.cell(self.hop(g, h), h)
        return self.out(h)

    return Body(
        body, first=nn.Linear(IN, HID), cell=nn.GRUCell(HID, HID),
        hop=dglnn.GraphConv(HID, HID), out=nn.Linear(HID, OUT),
    ), {}  # fmt: skip


MODELS = {
    "gcn": _gcn, "jknet": _jknet, "gprgnn": _gprgnn, "appnp": _appnp,
    "sign": _sign, "residual": _residual, "gru": _gru,
}  # fmt: skip


def transformed(name):
    torch.manual_seed(1)
    g = dgl.add_self_loop(dgl.rand_graph(N, 4 * N))
    x = torch.randn(N, IN)
    model, options = MODELS[name]()
    lc = lc_transform(model, g, x, **options)
    inputs = lc.precompute(g, x)
    # The statistics of the batch norms are not the first ones.
    lc.module.train()
    lc.module(*inputs)
    lc.module.eval()
    return lc, inputs


def batches(lc, inputs):
    for ids in ([5], [3, 3], list(range(40, 57))):
        rows = tuple(lc.rows(inputs, torch.tensor(ids)))
        yield rows, lc.module(*rows)


def free_rows(example):
    return tuple({0: torch.export.Dim.DYNAMIC} for _ in example)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


# By day a GCN, a PReLU of several inputs, and a GRU; at night all.
@pytest.mark.parametrize("name", MODELS if NIGHT else ["gcn", "sign", "gru"])
def test_exported_modules_take_any_number_of_rows(name, tmp_path):
    lc, inputs = transformed(name)
    example = tuple(lc.rows(inputs, torch.arange(4)))
    program = torch.export.export(
        lc.module, example, dynamic_shapes=free_rows(example)
    )
    for rows, expected in batches(lc, inputs):
        close(program.module()(*rows), expected)
    torch.onnx.export(program, verbose=False).save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = [entry.name for entry in session.get_inputs()]
    assert names == [entry.name for entry in lc.inputs]
    for rows, expected in batches(lc, inputs):
        parts = (part.numpy() for part in rows)
        (found,) = session.run(None, dict(zip(names, parts, strict=True)))
        close(torch.from_numpy(found), expected)


def test_loaded_models_are_exported_too(tmp_path):
    lc, inputs = transformed("jknet")
    save_model(lc.module, tmp_path / "model.pt")
    loaded = load_model(tmp_path / "model.pt")
    example = tuple(lc.rows(inputs, torch.arange(4)))
    program = torch.export.export(
        loaded, example, dynamic_shapes=(free_rows(example),)
    )
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    for rows, expected in batches(lc, inputs):
        close(again(*rows), expected)


def test_the_code_of_the_page_on_serving_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "serving.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)
    assert len(blocks) == 5
    scope = {}
    for block in blocks:
        exec(compile(block, "docs/serving.md", "exec"), scope)
    printed = re.search(r"^```\n(s2_x.*?)^```", page, re.DOTALL | re.M)[1]
    assert capsys.readouterr().out == printed
    expected = scope["lc"].module(*scope["rows"])
    close(torch.from_numpy(scope["logits"]), expected)
    again = torch.export.load("gcn.pt2").module()
    close(again(*scope["rows"]), expected)
