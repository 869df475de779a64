"""Files of LC versions: loaded without the model's class, trained again."""

import os
import subprocess
import sys
from pathlib import Path

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import GraphConv, SAGEConv
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.data import block_model
from dgl_lc.precompute import open_store
from dgl_lc.training import fit, load_model, predict, save_model
from dgl_lc.training.tensor_files import write_file

DATA = block_model(300, num_feats=16, seed=2)
GRAPH = dgl.add_self_loop(DATA.graph)
SPLIT = (DATA.labels, DATA.train, DATA.valid)


class Net(nn.Module):
    """Two layers, with a norm and dropout between them."""

    def __init__(self, conv=GraphConv, *args):
        super().__init__()
        self.first = conv(16, 12, *args)
        self.norm = nn.BatchNorm1d(12)
        self.second = conv(12, DATA.num_classes, *args)

    def forward(self, g, x):
        h = self.norm(F.relu(self.first(g, x)))
        return self.second(g, F.dropout(h, 0.5, self.training))


def transformed(*args):
    torch.manual_seed(0)
    lc = lc_transform(Net(*args), GRAPH, DATA.feat)
    return lc, lc.precompute(GRAPH, DATA.feat)


def trained():
    lc, inputs = transformed()
    fit(lc.module, inputs, *SPLIT, epochs=3, batch_size=64)
    return lc, inputs


def test_a_loaded_model_predicts_the_same(tmp_path):
    lc, inputs = trained()
    save_model(lc.module, tmp_path / "net.pt")
    found = load_model(tmp_path / "net.pt")
    assert not found.training
    expected = predict(lc.module, inputs)
    assert torch.equal(predict(found, inputs), expected)
    assert torch.equal(predict(found, inputs, DATA.test), expected[DATA.test])
    halves = [part.half() for part in inputs]
    torch.testing.assert_close(
        found(*halves), lc.module.eval()(*halves), rtol=0, atol=0
    )


def test_saving_leaves_the_module_as_it_was(tmp_path):
    lc, _ = transformed()
    lc.module.train()
    lc.module.norm.eval()
    before = {name: t.clone() for name, t in lc.module.state_dict().items()}
    state = torch.get_rng_state()
    save_model(lc.module, tmp_path / "net.pt")
    assert torch.equal(torch.get_rng_state(), state)
    assert lc.module.training
    assert not lc.module.norm.training
    for name, tensor in lc.module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_training_goes_on_after_loading(tmp_path):
    lc, inputs = transformed()
    save_model(lc.module, tmp_path / "start.pt")
    found = load_model(tmp_path / "start.pt")
    options = {"epochs": 4, "batch_size": 64, "weight_decay": 1e-3}
    mine = fit(found, inputs, *SPLIT, **options)
    its = fit(lc.module, inputs, *SPLIT, **options)
    columns = [name for name in its.history if "seconds" not in name]
    assert mine.history[columns].equals(its.history[columns])
    save_model(found, tmp_path / "end.pt")
    again = load_model(tmp_path / "end.pt")
    assert torch.equal(predict(again, inputs), predict(lc.module, inputs))


_ELSEWHERE = """
import sys, torch
from dgl_lc.training import load_model, predict
from dgl_lc.precompute import open_store
model = load_model("net.pt")
assert not any("saved_lc_version" in name for name in sys.modules)
assert "dgl_lc.transform" not in sys.modules
print(model.needs)
torch.save(predict(model, open_store("inputs")), "found.pt")
"""


def test_it_loads_where_the_class_can_not_be_imported(tmp_path):
    lc, _ = trained()
    stored = lc.precompute(GRAPH, DATA.feat, out=tmp_path / "inputs")
    save_model(lc.module, tmp_path / "net.pt")
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE], cwd=tmp_path, text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, check=True,
    )  # fmt: skip
    assert run.stdout.startswith("s2_x: S² x, 16 columns of float32\n")
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    assert torch.equal(found, predict(lc.module, stored))


def test_inputs_of_another_model_are_refused(tmp_path):
    lc, _ = trained()
    save_model(lc.module, tmp_path / "net.pt")
    found = load_model(tmp_path / "net.pt")
    other, wrong = transformed(SAGEConv, "mean")
    for model in (found, lc.module):
        with pytest.raises(DGLError, match="the model needs S² x, and these"):
            predict(model, wrong)
        with pytest.raises(DGLError, match="not precomputed for this model"):
            fit(model, wrong, *SPLIT, epochs=1)
        with pytest.raises(DGLError, match=r"shape \(16,\), and has \(3,\)"):
            model(None, [torch.ones(2, 3)])
    _, right = transformed()
    assert torch.equal(predict(found, right), predict(lc.module, right))
    stored = other.precompute(GRAPH, DATA.feat, out=tmp_path / "inputs")
    with pytest.raises(DGLError, match="the model needs S² x, and these"):
        predict(found, stored)
    with pytest.raises(DGLError, match="the model needs S² x, and these"):
        predict(found, open_store(tmp_path / "inputs"))


def test_inputs_of_another_filter_are_refused(tmp_path):
    lc, _ = transformed()
    other, wrong = transformed(GraphConv, "right")
    assert wrong.names == ["S² x"]
    with pytest.raises(DGLError, match="were made with"):
        predict(lc.module, wrong)
    stored = other.precompute(GRAPH, DATA.feat, out=tmp_path / "inputs")
    assert stored.filters == wrong.filters
    with pytest.raises(DGLError, match="were made with"):
        predict(lc.module, stored)
    with pytest.raises(DGLError, match="were made with"):
        predict(lc.module, open_store(tmp_path / "inputs"))


def test_names_are_kept(tmp_path):
    lc, _ = transformed()
    classes = [f"class {n}" for n in range(DATA.num_classes)]
    feats = [f"column {n}" for n in range(16)]
    save_model(lc.module, tmp_path / "net.pt", classes, feats)
    found = load_model(tmp_path / "net.pt")
    assert found.trained_on.class_names == tuple(classes)
    assert found.trained_on.feat_names == tuple(feats)
    with pytest.raises(DGLError, match="class_names has 1 entries"):
        save_model(lc.module, tmp_path / "net.pt", classes[:1])
    with pytest.raises(DGLError, match="feat_names has 1 entries"):
        save_model(lc.module, tmp_path / "net.pt", None, feats[:1])


def test_what_can_not_be_written_is_refused_before_the_file_is(tmp_path):
    lc, _ = transformed()
    lc.module.norm.register_forward_hook(print)
    with pytest.raises(DGLError, match="norm is not a BatchNorm1d as torch"):
        save_model(lc.module, tmp_path / "net.pt")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DGLError, match=r"lc\.module"):
        save_model(lc, tmp_path / "net.pt")


def test_damage_is_one_clear_error(tmp_path):
    lc, _ = transformed()
    path = tmp_path / "net.pt"
    save_model(lc.module, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 50)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + b"x")
        with pytest.raises(DGLError, match=r"net\.pt"):
            load_model(path)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"program": "{}", "tensors": {}},
        {"program": "[]", "tensors": {}},
        {"program": "import os", "tensors": {}},
        {"program": 3, "tensors": {}},
        {"program": "[" * 100_000, "tensors": {}},
        {"program": '{"version": 2}', "tensors": {}},
    ],
)
def test_hostile_content_is_one_clear_error(tmp_path, content):
    path = tmp_path / "net.pt"
    write_file(path, "model", {"name": "LC version", **content})
    with pytest.raises(DGLError, match=r"net\.pt does not hold a LC") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_a_graph_without_features_is_not_asked_for(tmp_path):
    lc, inputs = trained()
    save_model(lc.module, tmp_path / "net.pt")
    found = load_model(tmp_path / "net.pt")
    with pytest.raises(DGLError, match="takes the rows of 1 inputs"):
        found(dgl.rand_graph(3, 3), inputs[0])


def test_a_converted_module_can_be_saved(tmp_path):
    lc, inputs = trained()
    rows = [part.double() for part in inputs]
    save_model(lc.module.double(), tmp_path / "net.pt")
    found = load_model(tmp_path / "net.pt")
    assert torch.equal(found(*rows), lc.module.eval()(*rows))
