"""The loss between passes with different masks of dropout."""

import dgl
import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from dgl import DGLError
from night import NIGHT
from ranks_task import Net, assert_equal, together, train_with
from test_losses import CLASSES, MANY, Line
from tiny_task import DATA, DEEP, SPLIT, make

from dgl_lc.experiments.originals import GCN
from dgl_lc.nn import LCGPRGNN
from dgl_lc.training import Consistency, fit
from dgl_lc.training.consistency import Outputs

REST = DATA.test


@pytest.fixture(scope="module")
def hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


def by_hand(passes, temperature, threshold):
    """The formula in NumPy; the sum over rows, and the rows."""
    shares = np.exp(passes) / np.exp(passes).sum(2, keepdims=True)
    mean = shares.mean(0)
    sharp = mean ** (1 / temperature)
    sharp /= sharp.sum(1, keepdims=True)
    losses = ((shares - sharp) ** 2).sum(2).mean(0)
    kept = mean.max(1) >= threshold
    return losses[kept].sum(), kept.sum()


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_the_loss_is_that_of_the_formula(temperature, threshold):
    draw = np.random.default_rng(0)
    first, second = (3 * draw.standard_normal((3, n, 4)) for n in (6, 5))
    mine = Consistency(temperature=temperature, threshold=threshold)
    lists = [list(torch.from_numpy(p)) for p in (first, second)]
    total, rows = mine.total(Outputs(*lists))
    wanted = [by_hand(p, temperature, threshold) for p in (first, second)]
    assert float(total) == pytest.approx(wanted[0][0] + wanted[1][0])
    assert rows == wanted[0][1] + wanted[1][1]
    total, rows = mine.total(Outputs(lists[0], []))
    assert (float(total), rows) == pytest.approx(wanted[0])
    empty = [p[:0] for p in lists[0]]
    assert mine.total(Outputs(empty, empty)) == (0, 0)


def test_no_gradient_passes_through_the_sharpened_mean():
    logits = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    mine = Consistency(temperature=0.5)
    mine.total(Outputs(list(logits), []))[0].backward()
    shares = logits.detach().clone().requires_grad_()
    mean = logits.detach().softmax(2).mean(0)
    sharp = mean**2 / (mean**2).sum(1, keepdim=True)
    ((shares.softmax(2) - sharp) ** 2).sum(2).mean(0).sum().backward()
    torch.testing.assert_close(logits.grad, shares.grad)


@pytest.mark.parametrize("whole", [False, True])
def test_a_step_is_that_of_the_sum_of_losses(hops, whole):
    """One step of gradient descent, computed again by autograd."""
    seen = []

    class Spy(Line):
        def forward(self, graph, batch):
            if whole:
                return self.last(batch)
            seen.append(batch.nodes)
            return super().forward(graph, batch)

    model, other = Spy(CLASSES), Line(CLASSES)
    asked = Consistency(2.0, 0.5, passes=3, unlabelled=REST, batch_size=9)
    inputs = (DATA.graph, DATA.feat) if whole else hops
    found = fit(
        model, inputs, *SPLIT, epochs=1, batch_size=10_000, consistency=asked,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
    )  # fmt: skip
    labelled, drawn = DATA.train, REST
    if not whole:
        labelled, drawn = seen[0], seen[3]
        assert len(drawn) == 9
        assert torch.isin(drawn, REST).all()
        assert all(torch.equal(seen[place], labelled) for place in (1, 2))
        assert all(torch.equal(seen[place], drawn) for place in (4, 5))
    rows = torch.cat([labelled, drawn])
    logits = other.last(DATA.feat[rows])
    shares = logits.softmax(1)
    sharp = (shares**2 / (shares**2).sum(1, keepdim=True)).detach()
    apart = (shares - sharp).square().sum(1).mean()
    loss = F.cross_entropy(logits[: len(labelled)], DATA.labels[labelled])
    (loss + 2.0 * apart).backward()
    with torch.no_grad():
        for own in other.parameters():
            own -= 0.5 * own.grad
    torch.testing.assert_close(model.last.weight, other.last.weight)
    history = found.history.iloc[0]
    assert history.train_loss == pytest.approx(loss.item(), rel=1e-5)
    assert history.train_consistency == pytest.approx(apart.item(), rel=1e-5)


def test_passes_have_masks_of_their_own_and_resume(hops, tmp_path):
    def go(epochs, **options):
        model = make(LCGPRGNN, **DEEP)
        asked = Consistency(0.5, unlabelled=REST, batch_size=20)
        return fit(model, hops, *SPLIT, epochs=epochs, batch_size=64,
                   consistency=asked, **options).history  # fmt: skip

    columns = ["train_loss", "train_consistency", "valid_loss"]
    expected = go(4)[columns].values.tolist()
    assert all(row[1] > 0 for row in expected)
    file = tmp_path / "run"
    go(2, checkpoint=file)
    assert go(4, checkpoint=file)[columns].values.tolist() == expected
    with pytest.raises(DGLError, match=r"its consistency is .*=0.5, .* None"):
        fit(make(LCGPRGNN, **DEEP), hops, *SPLIT, epochs=1, batch_size=64,
            checkpoint=file)  # fmt: skip
    asked = Consistency(0.5, unlabelled=REST[1:], batch_size=20)
    with pytest.raises(DGLError, match="unlabelled nodes of consistency"):
        fit(make(LCGPRGNN, **DEEP), hops, *SPLIT, epochs=1, batch_size=64,
            checkpoint=file, consistency=asked)  # fmt: skip


def test_the_whole_graph_has_passes_as_well():
    found = fit(
        make(GCN, dropout=0.5), (dgl.add_self_loop(DATA.graph), DATA.feat),
        *SPLIT, epochs=2, consistency=Consistency(unlabelled=REST),
    )  # fmt: skip
    assert (found.history.train_consistency > 0).all()


def _on_ranks(batch_size):
    share = dist.get_world_size() if dist.is_initialized() else 1
    return [
        train_with(
            Net(), train=DATA.train[:count], batch_size=batch_size // share,
            consistency=Consistency(
                0.7, 0.4, threshold=threshold, unlabelled=rest,
                batch_size=12 // share,
            ),
        )
        for count, rest, threshold in (
            (45, REST, 0.0), (3, REST, 0.15), (50, None, 0.0)
        )
    ]  # fmt: skip


@pytest.mark.parametrize("size", [2, 3] if NIGHT else [3])
def test_ranks_have_the_loss_of_one_process(size):
    found = together(size, _on_ranks, 24)
    # Without masks of dropout, and with the numbers that one process draws.
    for own, one in zip(found, _on_ranks(24), strict=True):
        assert_equal(own, one)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -1.0}, "consistency.weight=-1.0"),
        ({"temperature": 0.0}, "consistency.temperature=0.0"),
        ({"passes": 1}, "consistency.passes=1"),
        ({"threshold": 2.0}, "consistency.threshold=2.0"),
        ({"batch_size": 0}, "consistency.batch_size=0"),
        ({"unlabelled": [400]}, "holds 400"),
        ({"unlabelled": [True]}, "consistency.unlabelled is a mask of 1"),
    ],
)
def test_wrong_values_are_named(hops, options, message):
    with pytest.raises(DGLError, match=message):
        fit(Line(CLASSES), hops, *SPLIT, consistency=Consistency(**options))


def test_it_is_for_classes(hops):
    with pytest.raises(DGLError, match=r"not for loss='bce'"):
        fit(Line(3), hops, MANY, *SPLIT[1:], loss="bce",
            consistency=Consistency())  # fmt: skip
    # The softmax of numbers means nothing.
    with pytest.raises(DGLError, match="not for other labels"):
        fit(Line(3), hops, MANY.float(), *SPLIT[1:], metric="mae",
            loss=torch.nn.functional.l1_loss,
            consistency=Consistency())  # fmt: skip


def test_a_number_is_no_consistency(hops):
    with pytest.raises(DGLError, match=r"consistency=0.5 should be a Consist"):
        fit(Line(CLASSES), hops, *SPLIT, consistency=0.5)
