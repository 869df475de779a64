"""Files of models: the same predictions, or an error."""

import errno
import os

import pytest
import torch
from dgl import DGLError
from test_tensor_files import corruptions, foreign_files
from tiny_task import DATA, make, stray
from torch import nn

from dgl_lc.experiments.named_models import MODELS
from dgl_lc.nn import FSGNN, LCGPRGNN, SGC
from dgl_lc.training import load_model, predict, save_model
from dgl_lc.training.saved_model import check_model_file
from dgl_lc.training.tensor_files import write_file
from dgl_lc.training.trained_on import TrainedOn


@pytest.mark.parametrize("name", [n for n in MODELS if n.startswith("LC")])
def test_a_saved_model_gives_the_same_predictions(name, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name](DATA.num_feats, 8, DATA.num_classes)
    inputs = model.precompute(DATA.graph, DATA.feat)
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert not again.training
    torch.testing.assert_close(predict(again, inputs), predict(model, inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_keeps_its_number_type(dtype, tmp_path):
    model = make(LCGPRGNN, K=2).to(dtype)
    save_model(model, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    for key, value in model.state_dict().items():
        assert again.state_dict()[key].dtype == value.dtype
        assert torch.equal(again.state_dict()[key], value)


def test_what_a_file_of_a_model_can_not_hold_is_refused(tmp_path):
    with pytest.raises(DGLError, match="not a whole model"):
        save_model(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(DGLError, match="no name"):
        save_model(make(FSGNN, activation=torch.sin), tmp_path / "model.pt")


def test_a_model_of_format_1_is_still_read(tmp_path):
    model = make(SGC, K=4)
    old = {"kind": "model", "format": 1, "name": "SGC",
           "config": model.config, "state": model.state_dict()}  # fmt: skip
    torch.save(old, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert again.config == model.config
    assert torch.equal(again.fc.weight, model.fc.weight)
    # Without a checksum, what is of format 2 is not.
    torch.save({**old, "format": 2}, tmp_path / "cut.pt")
    with pytest.raises(DGLError, match="checksum is missing"):
        load_model(tmp_path / "cut.pt")


def test_a_full_disk_is_an_error_and_the_earlier_file_is_intact(
    tmp_path, monkeypatch
):
    file = tmp_path / "model.pt"
    save_model(make(SGC, K=4), file)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(DGLError, match=r"could not be written.*space"):
                save_model(make(SGC, K=1), file)
        assert stray(file) == []
        assert load_model(file).config["K"] == 4
    with pytest.raises(DGLError, match="could not be written"):
        save_model(make(), file / "below.pt")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(DGLError, match="is not a model that dgl-lc wrote"):
        save_model(make(), tmp_path / "notes.txt")


@pytest.mark.filterwarnings("ignore")
def test_foreign_files_are_refused_and_nothing_is_executed(tmp_path):
    for name in foreign_files(tmp_path):
        with pytest.raises(DGLError, match=r"can't be read as a model"):
            load_model(tmp_path / name)
    assert not (tmp_path / "executed").exists()
    with pytest.raises(DGLError, match="does not exist"):
        load_model(tmp_path / "none.pt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DGLError, match="not a regular file"):
        load_model(tmp_path / "pipe")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Linear"}, {"name": "LCGraphConv"}, {"name": ["SGC"]},
        {"name": None}, {"config": None}, {"config": {"unknown": 1}},
        {"config": {}}, {"config": {1: 2}}, {"state": None}, {"state": {}},
        {"config": {"in_feats": "many", "out_feats": 3}},
        {"config": {"in_feats": -5, "out_feats": 3}},
        {"config": {"in_feats": 10**15, "out_feats": 10**15}},
        {"state": {"fc.weight": 1, "fc.bias": "b"}},
        {"state": {"fc.weight": torch.ones(1), "fc.bias": torch.ones(1)}},
        {"state": {1: torch.ones(1)}},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("number", [1, 2])
def test_content_that_is_not_of_a_model_is_refused(tmp_path, change, number):
    model = make()
    content = {
        "name": "SGC", "config": model.config, "state": model.state_dict(),
    } | change  # fmt: skip
    file = tmp_path / "model.pt"
    if number == 1:
        torch.save({"kind": "model", "format": 1, **content}, file)
    else:
        write_file(file, "model", content)
    with pytest.raises(DGLError, match=r"model.pt"):
        load_model(file)


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_model_is_refused_or_harmless(tmp_path):
    model = make(LCGPRGNN, K=2, dropout=0.25)
    file = tmp_path / "model.pt"
    save_model(model, file)
    data = file.read_bytes()
    refused = 0
    for damaged in corruptions(data, 150, seed=1):
        file.write_bytes(damaged)
        try:
            found = load_model(file)
        except DGLError:
            refused += 1
        else:
            assert found.config == model.config
            for key, value in model.state_dict().items():
                assert torch.equal(found.state_dict()[key], value)
    assert refused > 100


def test_names_of_classes_and_features_are_kept(tmp_path):
    names, columns = ["cat", "dog"], ["age", "size", "x", "y"]
    save_model(SGC(4, 2), tmp_path / "named.pt", names, columns)
    model = load_model(tmp_path / "named.pt")
    assert model.trained_on == TrainedOn(tuple(columns), tuple(names))
    # They are kept when the model is saved again.
    save_model(model, tmp_path / "again.pt")
    assert load_model(tmp_path / "again.pt").trained_on == model.trained_on
    save_model(SGC(4, 2), tmp_path / "plain.pt")
    assert load_model(tmp_path / "plain.pt").trained_on == TrainedOn()


def test_names_that_do_not_suit_the_model_are_refused(tmp_path):
    with pytest.raises(DGLError, match="class_names has 1 entries"):
        save_model(SGC(4, 2), tmp_path / "model.pt", ["cat"])
    with pytest.raises(DGLError, match="feat_names has 5 entries"):
        save_model(SGC(4, 2), tmp_path / "model.pt", feat_names=list("abcde"))
    for key in ("class_names", "feat_names"):
        model = SGC(4, 2)
        content = {"name": "SGC", "config": model.config,
                   "state": model.state_dict(), key: [1, 2]}  # fmt: skip
        write_file(tmp_path / "odd.pt", "model", content)
        with pytest.raises(DGLError, match=f"its {key} should be texts"):
            load_model(tmp_path / "odd.pt")


def test_a_path_that_can_not_be_saved_to_is_refused_before(tmp_path):
    check_model_file(tmp_path / "new.pt")
    (tmp_path / "text").write_text("precious")
    with pytest.raises(DGLError, match="is not a model that dgl-lc wrote"):
        check_model_file(tmp_path / "text")
