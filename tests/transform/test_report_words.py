"""The words of reports and of errors after them."""

import dgl
import pytest
import torch
from dgl import DGLError
from torch import nn

from dgl_lc import LCError, lc_transform
from dgl_lc.training import fit, predict


class Model(nn.Module):
    def __init__(self, form=lambda h: h, layers=1):
        super().__init__()
        self.fc = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.act, self.out, self.form = nn.ReLU(), nn.Linear(8, 1), form

    def forward(self, graph, node_feat, edge_w):
        h = node_feat
        for fc in self.fc:
            h = self.act(fc(h))
            h = dgl.ops.u_mul_e_sum(graph, h, edge_w)
        return self.form(self.out(h))


def call():
    torch.manual_seed(0)
    g = dgl.add_self_loop(dgl.rand_graph(60, 240))
    return g, torch.randn(60, 8), torch.rand(g.num_edges())


def test_arguments_and_submodules_are_named_once():
    text = str(lc_transform(Model(), *call()).report)
    assert "inputs: S node_feat" in text
    assert "weighted by edge_w" in text
    assert "  non-linear: act\n" in text
    assert "not compared" not in text
    assert "output:" not in text


def test_many_operations_of_a_kind_share_a_line():
    text = str(lc_transform(Model(layers=16), *call()).report)
    assert "  bias: fc.* (16 times)" in text
    assert "  non-linear: act (16 times)" in text
    assert len(text.splitlines()) < 12


@pytest.mark.parametrize(
    ("form", "line", "words"),
    [
        (lambda h: h[:, 0], "shape (rows,)", "shape (60,). Leave out squeeze"),
        (lambda h: (h, h), "a tuple of 2", "a tuple of 2 items. Return the"),
        (lambda h: {"a": h}, "a dict of 1", "the keys 'a'"),
        (
            lambda h: h.unsqueeze(1),
            "shape (rows, 1, 1)",
            "shape (60, 1, 1). Return h.flatten(1)",
        ),
    ],
)
def test_outputs_that_are_no_classes_are_named(form, line, words):
    args = call()
    lc = lc_transform(Model(form), *args)
    assert line in str(lc.report).splitlines()[-1]
    inputs = lc.precompute(*args)
    with pytest.raises(DGLError) as caught:
        predict(lc.module, inputs)
    assert words in str(caught.value)
    ids = torch.arange(60).split(30)
    with pytest.raises(DGLError, match="should give a tensor of shape"):
        fit(lc.module, inputs, torch.zeros(60).long(), *ids, epochs=1)


def test_predict_asks_for_the_module():
    args = call()
    lc = lc_transform(Model(), *args)
    with pytest.raises(DGLError, match=r"Pass its module: lc\.module"):
        predict(lc, lc.precompute(*args))


def test_a_folder_of_other_data_says_what_differs(tmp_path):
    g, x, w = call()
    lc = lc_transform(Model(), g, x, w)
    lc.precompute(g, x, w, out=tmp_path / "a")
    with pytest.raises(DGLError, match="else: the features differ from those"):
        lc.precompute(g, 2 * x, w, out=tmp_path / "a")
    with pytest.raises(DGLError, match="else: the graph, its weights or the"):
        lc.precompute(g, x, 2 * w, out=tmp_path / "a")


def test_a_type_as_a_string_is_told():
    args = call()
    lc = lc_transform(Model(), *args)
    with pytest.raises(DGLError, match="is the string 'float64'"):
        lc.precompute(*args, dtype="float64")


def test_a_picture_that_cant_be_written(monkeypatch, tmp_path):
    def fail(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("dgl_lc.transform.drawing.svg_file.replace_file", fail)
    lc = lc_transform(Model(), *call())
    with pytest.raises(DGLError, match="Read-only file system"):
        lc.draw(tmp_path / "a.svg")


def test_the_limit_of_inputs_is_the_one_that_is_named():
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

        def forward(self, g, x, w):
            for fc in self.fc:
                mean = dgl.ops.copy_u_mean(g, x)
                x = torch.relu(fc(mean + dgl.ops.u_mul_e_sum(g, x, w)))
            return x

    with pytest.raises(LCError, match="more than 256") as caught:
        lc_transform(Sums(), *call())
    assert "500" not in str(caught.value)
