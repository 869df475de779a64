"""Training in stages with soft labels of confident nodes."""

import os
import re
import signal
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from dgl import DGLError
from dgl.base import DGLWarning
from ranks_task import HOPS, Net, assert_equal, together
from tiny_task import DATA, SPLIT, make

from dgl_lc.nn import LCGPRGNN
from dgl_lc.training import confident_nodes as confident
from dgl_lc.training import fit, predict, self_train, stage_record

LABELS, TRAIN, VALID = SPLIT
DEEP = {"K": 2, "dropout": 0.1}
OPTIONS = {"epochs": 4, "batch_size": 16, "lr": 0.02}
#: So low that nodes join after these few epochs.
LOW = 0.3
COLUMNS = ["train_loss", "valid_loss", "valid_accuracy"]


@pytest.fixture(scope="module")
def hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


def stages(hops, number=3, model=None, **options):
    model = make(LCGPRGNN, **DEEP) if model is None else model
    options = {"threshold": LOW, **OPTIONS, **options}
    found = self_train(
        model, hops, LABELS, TRAIN, VALID, stages=number, **options
    )
    return model, found


def numbers(found):
    return found.history[[*COLUMNS, "stage", "pseudo"]].values.tolist()


def choose(model, hops, threshold):
    """The confident nodes, all at once, and their probabilities."""
    rest = torch.ones(len(LABELS), dtype=torch.bool)
    rest[torch.cat([TRAIN, VALID])] = False
    rest = rest.nonzero().view(-1)
    shares = predict(model, hops, rest).softmax(1)
    sure = shares.max(1).values >= threshold
    return rest[sure], shares[sure].half().float()


@pytest.mark.parametrize("restart", [True, False])
def test_stages_are_those_of_separate_calls(hops, restart):
    model = make(LCGPRGNN, **DEEP)
    begin = {k: v.clone() for k, v in model.state_dict().items()}
    rows, joined, labels = [], torch.empty(0).long(), LABELS
    best, weights = None, None
    for stage in (1, 2, 3):
        if restart:
            model.load_state_dict(begin)
        found = fit(model, hops, labels, torch.cat([TRAIN, joined]), VALID,
                    seed=5 + stage - 1, **OPTIONS)  # fmt: skip
        for row in found.history[COLUMNS].values.tolist():
            rows.append([*row, stage, len(joined)])
        loss = found.history.valid_loss[found.best_epoch]
        if best is None or loss < best:
            best, weights = loss, {
                k: v.clone() for k, v in model.state_dict().items()
            }  # fmt: skip
        joined, soft = choose(model, hops, LOW)
        assert len(joined) > 3
        labels = F.one_hot(LABELS, DATA.num_classes).float()
        labels[joined] = soft / soft.sum(1, keepdim=True)
    seen = []
    own, found = stages(hops, seed=5, restart=restart, on_epoch=seen.append)
    torch.testing.assert_close(
        torch.tensor(numbers(found)), torch.tensor(rows), rtol=1e-3, atol=1e-3
    )
    # The first stage is fit itself, to the last bit.
    assert numbers(found)[:4] == rows[:4]
    for key, value in weights.items():
        torch.testing.assert_close(
            own.state_dict()[key], value, rtol=1e-2, atol=1e-3
        )
    assert found.history.valid_loss[found.best_epoch] == pytest.approx(
        best, rel=1e-3
    )
    assert [row["epoch"] for row in seen] == list(range(1, 13))
    assert [row["stage"] for row in seen] == found.history.stage.tolist()
    assert found.history.seconds.is_monotonic_increasing


def test_nodes_are_chosen_in_chunks_as_at_once(hops, monkeypatch):
    model = make(LCGPRGNN, **DEEP)
    fit(model, hops, *SPLIT, **OPTIONS)
    nodes = torch.arange(400).flip(0)
    shares = predict(model, hops, nodes).softmax(1)
    sure = shares.max(1).values
    monkeypatch.setattr(confident, "_CHUNK", 7)
    ids, soft = confident.confident_nodes(model, hops, nodes, threshold=LOW)
    assert torch.equal(ids, nodes[sure >= LOW])
    assert soft.dtype == torch.float16
    torch.testing.assert_close(soft.float(), shares[sure >= LOW], atol=1e-3,
                               rtol=1e-3)  # fmt: skip
    few, _ = confident.confident_nodes(
        model, hops, nodes, threshold=0.0, limit=5
    )
    wanted = sure.argsort(descending=True)[:5].sort().values
    assert torch.equal(few, nodes[wanted])
    none, _ = confident.confident_nodes(model, hops, nodes, threshold=1.0)
    assert len(none) == 0


def test_only_nodes_that_may_join_do(hops):
    seen = []

    def inputs(stage, ids, soft):
        seen.append((stage, ids, soft))
        return hops

    some = DATA.test[:30]
    checked = []

    def valid_inputs(stage, ids, soft):
        checked.append(stage)
        return hops

    stages(inputs, unlabelled=some, threshold=0.0, limit=20,
           valid_inputs=valid_inputs)  # fmt: skip
    assert checked == [1, 2, 3]
    (one, *none), (two, ids, soft), (three, _, _) = seen
    assert (one, two, three) == (1, 2, 3)
    assert none == [None, None]
    assert len(ids) == 20
    assert torch.isin(ids, some).all()
    assert soft.shape == (20, DATA.num_classes)
    assert soft.sum(1).tolist() == pytest.approx([1.0] * 20, abs=1e-2)
    mask = torch.zeros(400, dtype=torch.bool)
    mask[some] = True
    found = stages(hops, 2, unlabelled=mask, threshold=0.0)[1]
    assert found.history.pseudo.iloc[-1] == 30


def test_the_weight_of_joined_nodes_counts(hops):
    plain, little = (
        numbers(stages(hops, 2, weight=weight)[1]) for weight in (1.0, 1e-6)
    )
    assert plain[:4] == little[:4]
    assert plain[4:] != little[4:]


def test_if_no_node_is_confident_training_ends(hops):
    with pytest.warns(DGLWarning, match=r"none of \d+ nodes .* after stage 1"):
        _, found = stages(hops, threshold=1.0)
    assert found.history.stage.tolist() == [1] * 4


# Checkpoints


@pytest.mark.parametrize("epoch", [2, 6, 11])
def test_an_interrupted_stage_is_resumed(hops, tmp_path, epoch):
    model, expected = stages(hops)
    file = tmp_path / "run.pt"

    def stop(row):
        if row["epoch"] == epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stages(hops, checkpoint=file, on_epoch=stop)
    stage = (epoch - 1) // 4 + 1
    assert set(os.listdir(tmp_path)) == {"run.pt", f"run.pt.stage{stage}"}
    rows = []
    # The weights of another start are not used.
    torch.manual_seed(9)
    other = LCGPRGNN(DATA.num_feats, 8, DATA.num_classes, **DEEP)
    own, found = stages(
        hops, model=other, checkpoint=file, on_epoch=rows.append
    )
    assert [row["epoch"] for row in rows] == list(range(epoch + 1, 13))
    assert numbers(found) == numbers(expected)
    assert found.best_epoch == expected.best_epoch
    for key, value in model.state_dict().items():
        assert torch.equal(own.state_dict()[key], value)
    assert os.listdir(tmp_path) == ["run.pt"]
    # A finished run is only read.
    again, found = stages(hops, checkpoint=file, on_epoch=stop)
    assert numbers(found) == numbers(expected)
    assert torch.equal(again.state_dict()["gamma"], own.state_dict()["gamma"])


SCRIPT = """
import os, signal, sys
import dgl_lc  # before dgl, which may not be importable otherwise
sys.path.insert(0, {folder!r})
from test_self_training import *

def kill(row):
    if row["epoch"] == 7:
        os.kill(os.getpid(), signal.SIGKILL)

from dgl_lc.training import epochs
epochs._CHECKPOINT_SECONDS = 0.0
hops = make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)
stages(hops, checkpoint={file!r}, on_epoch=kill)
"""


def test_a_kill_in_the_second_stage_resumes_there(hops, tmp_path):
    file = tmp_path / "run.pt"
    script = SCRIPT.format(folder=os.path.dirname(__file__), file=str(file))
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
    rows = []
    _, found = stages(hops, checkpoint=file, on_epoch=rows.append)
    # The checkpoint is written after on_epoch.
    assert rows[0]["epoch"] == 7
    assert rows[0]["stage"] == 2
    assert numbers(found) == numbers(stages(hops)[1])


def test_a_full_disk_does_not_cost_the_stages(hops, tmp_path, monkeypatch):
    def fail(self, state):
        raise DGLError("the disk is full.")

    expected = stages(hops, 2)[1]
    monkeypatch.setattr(stage_record.Checkpoint, "write", fail)
    with pytest.warns(UserWarning, match="could not be written") as warned:
        _, found = stages(hops, 2, checkpoint=tmp_path / "run.pt")
    assert any("finished stages" in str(w.message) for w in warned)
    assert numbers(found) == numbers(expected)


def test_more_stages_may_follow(hops, tmp_path):
    file = tmp_path / "run.pt"
    seen = []

    def inputs(stage, ids, soft):
        seen.append((stage, 0 if ids is None else len(ids)))
        return hops

    expected = stages(inputs)[1]
    made, seen[:] = list(seen), []
    for number in (1, 2, 3):
        _, found = stages(inputs, number, checkpoint=file)
    assert numbers(found) == numbers(expected)
    # Inputs of the stage before are made again to choose nodes, and those of
    # the first one to compare them with those of the run.
    first, second, third = made
    assert seen == [first, first, second, first, second, third]


def test_stages_of_other_options_are_refused(hops, tmp_path):
    file = tmp_path / "run.pt"
    stages(hops, 2, checkpoint=file)
    for change, message in (
        ({"threshold": 0.5}, "threshold is 0.3, that of this run is 0.5"),
        ({"lr": 0.2}, "lr is 0.02, that of this run is 0.2"),
        ({"unlabelled": DATA.test}, "unlabelled differ from those"),
        ({"model": make(LCGPRGNN, K=2, dropout=0.4)}, "dropout"),
    ):
        with pytest.raises(DGLError, match=f"of another run: its .*{message}"):
            stages(hops, checkpoint=file, **change)
    with pytest.raises(DGLError, match="of another run"):
        fit(make(LCGPRGNN, **DEEP), hops, *SPLIT, checkpoint=file, **OPTIONS)
    fit(make(LCGPRGNN, **DEEP), hops, *SPLIT, checkpoint=tmp_path / "other",
        **OPTIONS)  # fmt: skip
    with pytest.raises(DGLError, match="of another run"):
        stages(hops, checkpoint=tmp_path / "other")
    stages(hops, 1, checkpoint=file, threshold=0.5, resume=False)


def test_stages_of_other_inputs_are_refused_if_a_function_makes_them(
    hops, tmp_path
):
    # A finished stage has no checkpoint of its own that would tell.
    file, made = tmp_path / "run.pt", []

    def inputs(stage, ids, probabilities):
        made.append(stage)
        return hops if len(made) < 5 else other

    other = make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat + 1)
    _, found = stages(inputs, 2, checkpoint=file)
    assert made == [1, 2]
    _, again = stages(inputs, 2, checkpoint=file)
    assert numbers(again) == numbers(found)
    made += [0, 0]
    with pytest.raises(DGLError, match=r"its inputs \(.*\) differ from those"):
        stages(inputs, 2, checkpoint=file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": 0}, "stages=0 should be an integer, 1 or more"),
        ({"stages": 1.5}, "stages=1.5 should be an integer, 1 or more"),
        ({"threshold": 1.5}, "threshold=1.5 should be between 0 and 1"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"weight": 0}, "weight=0 should be"),
        ({"limit": 0}, "limit=0 should be"),
        ({"loss": "mse"}, "loss should be 'cross_entropy'"),
        ({"optimizer": torch.optim.SGD([torch.ones(1)], lr=1)},
         "optimizer should be a function"),
        ({"unlabelled": TRAIN[:3]}, "unlabelled holds 3 nodes of train"),
        ({"unlabelled": VALID[:2]}, "unlabelled holds 2 nodes of valid"),
        ({"unlabelled": DATA.test[[0, 1, 0]]}, "a node twice"),
        ({"unlabelled": [400]}, "holds 400, and labels has"),
        ({"unlabelled": []}, "no node that may join"),
        ({"model": 3}, "the model should be a torch.nn.Module"),
        ({"labels": F.one_hot(LABELS).float()}, "labels should hold one int"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(hops, options, message):
    options = {"model": make(LCGPRGNN, **DEEP), "inputs": hops,
               "labels": LABELS, "train": TRAIN, "valid": VALID, "epochs": 1,
               "threshold": 0.0, **options}  # fmt: skip
    with pytest.raises(DGLError, match=message):
        self_train(**options)


# Ranks


def _on_ranks(number, file=None):
    share = dist.get_world_size() if dist.is_initialized() else 1
    model = Net()
    found = self_train(
        model, HOPS, DATA.labels, DATA.train[:50], DATA.valid, lr=0.05,
        stages=number, threshold=0.3, epochs=3, batch_size=24 // share,
        checkpoint=file, class_weight="balanced", weight=0.5,
    )  # fmt: skip
    return {
        "weights": {k: v.numpy() for k, v in model.state_dict().items()},
        "history": found.history.to_dict("list"),
        "best_epoch": found.best_epoch,
    }


def test_ranks_train_the_stages_of_one_process(tmp_path):
    expected = _on_ranks(3)
    assert expected["history"]["pseudo"][-1] > 5
    assert_equal(together(2, _on_ranks, 3), expected)
    file = tmp_path / "run"
    together(2, _on_ranks, 2, file)
    assert_equal(_on_ranks(3, file), expected)
    assert re.fullmatch("run", *os.listdir(tmp_path))
