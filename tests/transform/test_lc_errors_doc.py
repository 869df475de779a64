"""docs/lc_errors.md: every code has a section, whose examples are run."""

import re
from pathlib import Path

import dgl
import dgl.function as fn
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import GraphConv
from torch import nn

import dgl_lc
from dgl_lc import LCError, lc_transform
from dgl_lc.training import save_model
from dgl_lc.transform import causes

TEXT = (Path(__file__).parents[2] / "docs/lc_errors.md").read_text()
SECTIONS = {
    title.split()[0]: (title, body)
    for title, body in re.findall(
        r"^## (LC\d+ .*?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE
    )
}
EXAMPLES = {
    code: re.findall(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE)
    for code, (_, body) in SECTIONS.items()
}
#: Causes that other tests trigger, because no short example does.
ELSEWHERE = {"LC035", "LC099"}


class Model(nn.Module):
    """The model that the examples speak of."""

    def __init__(self, n):
        super().__init__()
        self.fc, self.out = nn.Linear(8, 8), nn.Linear(8, 3)
        self.conv = GraphConv(8, 8, allow_zero_in_degree=True)
        self.table = nn.Embedding(9999, 8)
        self.many = nn.Embedding(9999, 8)
        self.embedding = nn.Parameter(torch.randn(n, 4))

    def forward(self, g, x):
        return self.out(self.conv(g, x).relu())


def run(code, example):
    """Run an example: a forward function, or statements."""
    torch.manual_seed(0)
    g = dgl.add_self_loop(dgl.rand_graph(50, 200))
    g.edata["w"] = torch.rand(g.num_edges(), 1)
    g.ndata["kind"] = torch.randint(0, 9999, (50,))
    g.ndata["position"] = torch.randn(50, 8)
    x = torch.randn(50, 8)
    model = Model(50)
    names = {
        "dgl": dgl, "fn": fn, "torch": torch, "F": F, "nn": nn, "g": g,
        "x": x, "model": model, "dgl_lc": dgl_lc,
        "lc_transform": lc_transform, "save_model": save_model,
    }  # fmt: skip
    if code == "LC007":
        names["drops_edges"] = made(Model(50), EXAMPLES[code][0], names)
    if example.startswith("def forward"):
        return lc_transform(made(model, example, names), g, x)
    return exec(example, names)


def made(model, example, names):
    """Give a model the forward of an example."""
    scope = dict(names)
    exec(example, scope)
    kind = type("Model", (Model,), {"forward": scope["forward"]})
    model.__class__ = kind
    return model


def test_every_code_has_a_section_with_its_name():
    assert [str(cause) for cause in causes.CAUSES.values()] == [
        title for title, _ in SECTIONS.values()
    ]


@pytest.mark.parametrize("code", sorted(set(SECTIONS) - ELSEWHERE))
def test_the_first_example_is_refused_with_the_code_of_its_section(
    code, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DGLError, match=code) as caught:
        run(code, EXAMPLES[code][0])
    # Files are written by a part of the package that knows no models.
    assert code == "LC034" or caught.value.code == code
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", sorted(set(SECTIONS) - ELSEWHERE))
def test_what_a_section_advises_is_transformed(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES[code]) > 1
    for example in EXAMPLES[code][1:]:
        run(code, example)


def test_lc099_is_what_the_transformation_does_not_expect(monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("a defect")

    path = "dgl_lc.transform.transform_model.name_inputs"
    monkeypatch.setattr(path, fail)
    with pytest.raises(LCError, match="a defect") as caught:
        run("", "lc_transform(model, g, x)")
    assert caught.value.code == "LC099"
