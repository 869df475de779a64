"""Correct and Smooth: dense float64, DGL's formulas, memory."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.nn import LabelPropagation
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.data import block_model, build_disk_graph
from dgl_lc.precompute.propagate import propagate
from dgl_lc.testing.peak_memory import LIVE
from dgl_lc.testing.random_graphs import graphs, make_features
from dgl_lc.testing.reference import dense_filter
from dgl_lc.training import correct_and_smooth

STEPS = {"num_correction": 4, "num_smoothing": 3}


def spread(S, start, steps, alpha, after):
    found = start
    for _ in range(steps):
        found = after(alpha * S @ found + (1 - alpha) * start)
    return found


def dense(logits, g, labels, train, alphas, steps, scale, filters):
    """Correct and Smooth as in the paper, in dense float64."""
    z = F.softmax(logits.double(), dim=1).numpy()
    y = F.one_hot(labels.clamp(min=0), z.shape[1]).double().numpy()
    errors = np.zeros_like(z)
    errors[train] = y[train] - z[train]
    one, two = (dense_filter(g, **own) for own in filters)

    def reset(found):
        found[train] = errors[train]
        return found

    def clamp(found):
        return found.clip(-1, 1)

    if steps[0]:
        if scale is None:
            found = spread(one, errors, steps[0], alphas[0], clamp)
            sigma = np.abs(errors[train]).sum() / len(train)
            with np.errstate(all="ignore"):
                factor = sigma / np.abs(found).sum(axis=1, keepdims=True)
            factor[~(factor <= 1000)] = 1.0
            z = z + factor * found
        else:
            z = z + scale * spread(one, errors, steps[0], alphas[0], reset)
    if steps[1]:
        z = z.copy()
        z[train] = y[train]
        z = spread(two, z, steps[1], alphas[1], lambda x: x.clip(0, 1))
    return z


def make(n=40, m=160, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(n, (2, m), generator=generator)
    g = dgl.graph((ends[0], ends[1]), num_nodes=n)
    labels = torch.randint(classes, (n,), generator=generator)
    train = torch.randperm(n, generator=generator)[: n // 3]
    logits = torch.randn(n, classes, generator=generator)
    return logits.double(), g, labels, train


@settings(max_examples=cases(10, 200))
@given(
    graphs(max_nodes=25, max_edges=90), st.integers(1, 7),
    st.sampled_from([None, 0.5, 1.5]), st.integers(0, 3), st.integers(0, 3),
    st.sampled_from(["both", "right", "left"]), st.booleans(),
    st.floats(0, 1), st.integers(0, 99),
)  # fmt: skip
def test_it_is_what_the_paper_computes(
    g, classes, scale, correction, smoothing, norm, self_loop, alpha, seed
):
    n = g.num_nodes()
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(0, classes, n))
    train = torch.from_numpy(rng.permutation(n)[: rng.integers(1, n + 1)])
    logits = make_features(n, classes, seed, torch.float64)
    found = correct_and_smooth(
        logits, g, labels, train, correction_alpha=alpha, smoothing_alpha=0.6,
        num_correction=correction, num_smoothing=smoothing, scale=scale,
        norm=(norm, "both"), self_loop=self_loop,
    )  # fmt: skip
    filters = [{"norm": own, "self_loop": self_loop} for own in (norm, "both")]
    expected = dense(
        logits, g, labels, train, (alpha, 0.6), (correction, smoothing),
        scale, filters,
    )  # fmt: skip
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("norm_type", ["sym", "row"])
@pytest.mark.parametrize("reset", [False, True])
def test_steps_are_those_of_dgls_label_propagation(norm_type, reset):
    _, g, labels, train = make()
    mask = torch.zeros(40, dtype=torch.bool)
    mask[train] = True
    module = LabelPropagation(6, 0.7, norm_type, clamp=True, reset=reset)
    expected = module(g, labels, mask)
    one_hot = F.one_hot(labels).float()
    start = one_hot * mask[:, None]

    def after(found):
        found.clamp_(0, 1)
        if reset:
            found[mask] = one_hot[mask]

    norm = {"sym": "both", "row": "right"}[norm_type]
    found = propagate(g, start, 6, 0.7, after, norm=norm, self_loop=False)
    torch.testing.assert_close(found, expected)
    assert torch.equal(start, one_hot * mask[:, None])


def spread_by_dgl(g, start, steps, alpha, after):
    """The loop of DGL's example: messages and norms, step by step."""
    inner = g.in_degrees().double().clamp(min=1).pow(-0.5)[:, None]
    outer = g.out_degrees().double().clamp(min=1).pow(-0.5)[:, None]
    found = start
    with g.local_scope():
        for _ in range(steps):
            g.ndata["h"] = found * outer
            g.update_all(dgl.function.copy_u("h", "m"),
                         dgl.function.sum("m", "h"))  # fmt: skip
            found = alpha * g.ndata["h"] * inner + (1 - alpha) * start
            found = after(found)
    return found


@pytest.mark.parametrize("scale", [None, 1.5])
def test_it_is_what_dgls_message_passing_computes(scale):
    logits, g, labels, train = make(seed=3)
    z = logits.softmax(dim=1)
    one_hot = F.one_hot(labels, 5).double()
    errors = torch.zeros_like(z)
    errors[train] = one_hot[train] - z[train]
    if scale is None:
        found = spread_by_dgl(g, errors, 4, 0.8, lambda x: x.clamp(-1, 1))
        sigma = errors[train].abs().sum() / len(train)
        factor = sigma / found.abs().sum(dim=1, keepdim=True)
        factor[factor.isinf() | (factor > 1000)] = 1.0
        z = z + factor * found
    else:

        def reset(x):
            x[train] = errors[train]
            return x

        z = z + scale * spread_by_dgl(g, errors, 4, 0.8, reset)
    z[train] = one_hot[train]
    z = spread_by_dgl(g, z, 3, 0.8, lambda x: x.clamp(0, 1))
    found = correct_and_smooth(logits, g, labels, train, scale=scale, **STEPS)
    torch.testing.assert_close(found, z)


def test_it_improves_predictions_without_a_graph():
    data = block_model(2000, num_classes=4, seed=0)
    # Features tell the class of most nodes, not of all.
    logits = 2 * F.one_hot(data.labels, 4) + 2 * torch.randn(
        2000, 4, generator=torch.Generator().manual_seed(0)
    )
    before = (logits.argmax(1) == data.labels)[data.test].float().mean()
    found = correct_and_smooth(
        logits, data.graph, data.labels, data.train, nodes=data.test
    )
    after = (found.argmax(1) == data.labels[data.test]).float().mean()
    assert after > before + 0.05


@pytest.mark.parametrize("scale", [None, 1.0])
def test_columns_in_blocks_give_the_same(monkeypatch, tmp_path, scale):
    logits, g, labels, train = make(n=3000, m=20_000, classes=7)
    whole = correct_and_smooth(logits, g, labels, train, scale=scale, **STEPS)
    widths = []

    def spy(graph, start, *args, **options):
        widths.append(start.shape[1])
        return propagate(graph, start, *args, **options)

    # The package has a function of the same name.
    module = importlib.import_module("dgl_lc.training.correct_and_smooth")
    monkeypatch.setattr(module, "propagate", spy)
    np.save(tmp_path / "edges.npy", torch.stack(g.edges()).numpy())
    disk = build_disk_graph(tmp_path / "edges.npy", 3000, tmp_path / "graph")
    np.save(tmp_path / "logits.npy", logits.numpy())
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    nodes = torch.tensor([5, 2999, 17])
    for graph in (g, disk):
        widths.clear()
        found = correct_and_smooth(
            mapped, graph, labels, train, scale=scale, nodes=nodes,
            memory="9MB", **STEPS,
        )  # fmt: skip
        assert max(widths) < 7
        torch.testing.assert_close(found, whole[nodes])


def test_probabilities_are_taken_as_they_are():
    logits, g, labels, train = make()
    one = correct_and_smooth(logits, g, labels, train, **STEPS)
    other = correct_and_smooth(
        logits.softmax(dim=1), g, labels, train, probabilities=True, **STEPS
    )
    torch.testing.assert_close(one, other)
    # Large logits are no reason for numbers that are not finite.
    large = correct_and_smooth(1e6 * logits, g, labels, train, **STEPS)
    assert large.isfinite().all()


def test_float32_and_halves_are_computed_in_float32():
    logits, g, labels, train = make()
    expected = correct_and_smooth(logits, g, labels, train, **STEPS)
    for dtype in (torch.float32, torch.bfloat16):
        found = correct_and_smooth(logits.to(dtype), g, labels, train, **STEPS)
        assert found.dtype == torch.float32
        torch.testing.assert_close(
            found.double(), expected, rtol=0.05, atol=0.05
        )


def test_labels_outside_train_are_not_read():
    logits, g, labels, train = make()
    unknown = torch.full_like(labels, -1)
    unknown[train] = labels[train]
    mask = torch.zeros(40, dtype=torch.bool)
    mask[train] = True
    one = correct_and_smooth(logits, g, labels, train, **STEPS)
    other = correct_and_smooth(logits, g, unknown, mask, **STEPS)
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"correction_alpha": 1.5}, "correction_alpha=1.5"),
        ({"smoothing_alpha": -0.1}, "smoothing_alpha=-0.1"),
        ({"num_correction": -1}, "num_correction=-1"),
        ({"num_smoothing": 2.0}, "num_smoothing=2.0"),
        ({"norm": ("both",)}, "norm="),
        ({"norm": "odd"}, "norm='odd'"),
        ({"nodes": [40]}, "nodes holds 40"),
        ({"train": [40]}, "train holds 40"),
        ({"memory": "1kB"}, "memory="),
        ({"logits": torch.zeros(40)}, "logits should be"),
        ({"logits": torch.zeros(39, 5)}, "logits has 39 rows"),
        ({"logits": torch.full((40, 5), torch.nan)}, "logits holds a number"),
        ({"logits": torch.zeros(40, 3)}, "num_classes=3"),
        ({"scale": torch.nan}, "scale=nan"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"logits": torch.eye(40)[:, :5] * 3, "probabilities": True},
         "which are no probabilities"),
        ({"labels": torch.ones(40, 1, dtype=int)}, r"give labels\[:, 0\]"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(change, named):
    logits, g, labels, train = make()
    options = {"logits": logits, "labels": labels, "train": train, **change}
    with pytest.raises(DGLError, match=named):
        correct_and_smooth(g=g, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_a_promise(tmp_path):
    script = Path(__file__).with_name("smooth_memory_case.py")
    budget = 14 << 20
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(budget)],
        capture_output=True, text=True, env={**os.environ, **LIVE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= budget
