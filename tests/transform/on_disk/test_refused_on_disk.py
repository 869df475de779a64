"""What can't be computed on disk is refused in words, before any work."""

import dgl
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transform.on_disk.disk_cases import IN, Model, OnDisk, gcn, odd_power

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.on_disk import precompute_steps, run_steps


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return OnDisk(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    return OnDisk(tmp_path_factory.mktemp("weighted"), weights=True)


def test_tracing_needs_a_sample(task):
    for call in (
        (task.graph, task.sample_x), (task.sample, task.features),
        (task.graph, task.features),
    ):  # fmt: skip
        with pytest.raises(LCError, match=r"disk_graph\.sample\(1000\)"):
            lc_transform(gcn(), *call)


def test_a_sample_keeps_edges_into_nodes(task, weighted):
    sample = weighted.graph.sample(20)
    assert sample.num_nodes() == 20
    assert torch.equal(sample.in_degrees(), weighted.g.in_degrees()[:20])
    first = weighted.graph.to_dgl().edata["weight"][: sample.num_edges()]
    assert torch.equal(sample.edata["weight"], first)
    assert task.graph.sample(10**6).num_nodes() == task.graph.num_nodes()
    with pytest.raises(dgl.DGLError, match="at least 1"):
        task.graph.sample(0)


def test_facts_of_the_sample_are_checked_on_the_graph(tmp_path):
    """A limit of degrees has an effect on the whole graph only."""
    task = OnDisk(tmp_path, m=30_000)

    def limited(self, g, x):
        degrees = g.in_degrees().to(x).clamp(min=1).unsqueeze(1)
        h = dgl.ops.copy_u_sum(g, self.fc(x)) / degrees
        most = degrees.clamp(max=100)
        return dgl.ops.copy_u_sum(g, F.relu(h)) / most

    sample = dgl.graph((torch.arange(50), torch.arange(50).roll(1)))
    lc = lc_transform(body_of(limited), sample, task.sample_x)
    with pytest.raises(LCError, match="differ on this graph"):
        lc.precompute(task.graph, task.features, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_parallel_edges_are_not_known_on_disk(task, tmp_path):
    def body(self, g, x):
        assert not g.is_multigraph
        return dgl.ops.copy_u_sum(g, self.fc(x))

    sample = dgl.graph((torch.arange(50), torch.arange(50).roll(1)))
    lc = lc_transform(body_of(body), sample, task.sample_x)
    with pytest.raises(LCError, match="not known of a graph on disk"):
        lc.precompute(task.graph, task.features, out=tmp_path / "s")


def body_of(code):
    """A model whose forward is a function, on a hidden layer."""
    return Model(code)


def ndata(self, g, x):
    return dgl.ops.copy_u_mean(g, self.fc(g.ndata["feat"]))


def largest(self, g, x):
    return dgl.ops.copy_u_mean(g, self.fc(dgl.ops.copy_u_max(g, x)))


def centred(self, g, x):
    return dgl.ops.copy_u_mean(g, self.fc(x - x.mean(0)))


def softmaxed(self, g, x):
    weight = dgl.ops.edge_softmax(g, dgl.ops.u_add_v(g, *[
        g.in_degrees().float().unsqueeze(1)] * 2))  # fmt: skip
    return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), weight)


def similar(self, g, x):
    weight = dgl.ops.u_dot_v(g, x, x)
    return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), weight)


def simple(self, g, x):
    return dgl.ops.copy_u_mean(dgl.to_simple(g), F.relu(self.fc(x)))


def both_ways(self, g, x):
    return dgl.ops.copy_u_mean(dgl.to_bidirected(g), F.relu(self.fc(x)))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ndata, r"g\.ndata\['feat'\].* no features of nodes"),
        (largest, "copy_lhs, max.* not known for a graph on disk"),
        (centred, "mean: takes all rows of the features at once"),
        (softmaxed, "edge softmax: depends on several edges at once"),
        (similar, "computed from rows of features"),
        (simple, r"dgl\.to_simple: .*remove multi-edges"),
        (both_ways, r"dgl\.to_bidirected: .*add_reverse=True"),
    ],
)
def test_static_values_that_are_refused(task, tmp_path, code, words):
    sample = task.sample.local_var()
    sample.ndata["feat"] = task.sample_x
    lc = lc_transform(body_of(code), sample, task.sample_x)
    with pytest.raises(LCError, match=words):
        lc.precompute(task.graph, task.features, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_weights_of_another_name(weighted, tmp_path):
    def read(self, g, x):
        return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), g.edata["w"])

    sample = weighted.sample.local_var()
    sample.edata["w"] = sample.edata["weight"]
    lc = lc_transform(Model(read), sample, weighted.sample_x)
    with pytest.raises(LCError, match=r"g\.edata\['w'\].*build_disk_graph"):
        lc.precompute(weighted.graph, weighted.features)


def test_a_graph_without_weights(task, weighted):
    def read(self, g, x):
        return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), g.edata["weight"])

    lc = lc_transform(Model(read), weighted.sample, weighted.sample_x)
    with pytest.raises(LCError, match="has no weights"):
        lc.precompute(task.graph, task.features)


def test_a_branch_that_would_be_taken(tmp_path, task):
    disk = OnDisk(tmp_path, zero_in=True)
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    with pytest.raises(LCError, match="another branch"):
        lc.precompute(disk.graph, disk.features)


def test_other_arguments(task, tmp_path):
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    wide = np.zeros((task.graph.num_nodes(), IN + 1), np.float32)
    np.save(tmp_path / "wide.npy", wide)
    mapped = np.load(tmp_path / "wide.npy", mmap_mode="r")
    with pytest.raises(LCError, match="another argument"):
        lc.precompute(task.graph, mapped)
    with pytest.raises(LCError, match="has no graph"):
        lc.precompute(task.features)
    short = task.features.rows(range(5))
    with pytest.raises(LCError):
        lc.precompute(task.graph, short)


def test_bad_options(task, tmp_path):
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    call = task.graph, task.features
    for options, words in (
        ({"nodes": [97]}, "nodes holds 97"),
        ({"nodes": []}, "nodes is empty"),
        ({"memory": "lots"}, "not a number of bytes"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"memory": 1000}, "memory="),
    ):
        with pytest.raises(dgl.DGLError, match=words):
            lc.precompute(*call, out=tmp_path / "s", **options)
        assert not (tmp_path / "s").exists()


def test_memory_is_checked_for_all_steps_before_the_first(
    task, tmp_path, monkeypatch
):
    lc = lc_transform(Model(odd_power), task.sample, task.sample_x)

    def never(*args, **options):
        raise AssertionError("work began")

    monkeypatch.setattr(run_steps, "block_aggregate", never)
    monkeypatch.setattr(run_steps.Runner, "_write", never)
    with pytest.raises(dgl.DGLError, match="is too small"):
        lc.precompute(
            task.graph, task.features, out=tmp_path / "s", memory="2MiB"
        )


def test_a_disk_that_is_too_small(task, tmp_path, monkeypatch):
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(dgl.DGLError, match="of disk"):
        lc.precompute(task.graph, task.features, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_graphs_on_disk_and_in_memory(task):
    def two(self, g, x, other=None):
        h = dgl.ops.copy_u_mean(g, F.relu(self.fc(x)))
        return h + dgl.ops.copy_u_mean(other, F.relu(self.fc(x)))

    lc = lc_transform(
        Model(two), task.sample, task.sample_x, other=task.sample.clone()
    )
    with pytest.raises(dgl.DGLError, match="some graphs of the call"):
        lc.precompute(task.graph, task.features, other=task.g)


def test_masks_are_not_stored(task, tmp_path):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(IN, IN)

        def forward(self, g, x):
            return dgl.ops.copy_u_mean(g, self.fc(x)) * (x > 0)

    lc = lc_transform(Masked(), task.sample, task.sample_x)
    with pytest.raises(dgl.DGLError, match=r"torch\.bool"):
        lc.precompute(task.graph, task.features, out=tmp_path / "s")


def test_gpus_that_are_not_there_give_way_with_one_warning(task, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    lc = lc_transform(Model(odd_power), task.sample, task.sample_x)
    with pytest.warns(dgl.base.DGLWarning, match="computed on the CPU") as seen:
        lc.precompute(
            task.graph, task.features, out=tmp_path / "s", device="cuda"
        )
    assert len(seen) == 1


def test_steps_on_a_device(task, tmp_path, monkeypatch):
    from dgl_lc.precompute import api
    from dgl_lc.testing.cpu_device import CpuDevice

    device = CpuDevice()
    for module in (api, precompute_steps):
        monkeypatch.setattr(module, "find_device", lambda name: device)
    lc = lc_transform(Model(odd_power), task.sample, task.sample_x)
    (found,) = lc.precompute(
        task.graph, task.features, out=tmp_path / "s", device="cuda",
        memory="32MiB",
    )  # fmt: skip
    monkeypatch.undo()
    (expected,) = lc.precompute(task.g, task.x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
