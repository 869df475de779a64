"""Mini-batches: what is in them, and in which order."""

from itertools import pairwise

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc import HopFeatures, block_aggregate
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.training import HopLoader
from dgl_lc.training.loader import looked_up

N = 23
GRAPH = dgl.rand_graph(N, 60)
HOPS = block_aggregate(GRAPH, make_features(N, 4), 2)
LABELS = torch.arange(N) % 5


@given(
    ids=st.lists(st.integers(0, N - 1), min_size=1, max_size=40),
    batch_size=st.integers(1, 50),
    shuffle=st.booleans(),
)
def test_every_sample_comes_once_with_its_rows_and_label(
    ids, batch_size, shuffle
):
    loader = HopLoader(HOPS, ids, LABELS, batch_size, shuffle)
    seen = []
    for batch, labels in loader:
        assert isinstance(batch, HopFeatures)
        assert torch.equal(labels, LABELS[batch.nodes])
        for k in (0, 1, 2):
            assert torch.equal(batch[k], HOPS[k][batch.nodes])
        seen += batch.nodes.tolist()
    assert len(loader) == -(-len(ids) // batch_size)
    assert seen == ids if not shuffle else sorted(seen) == sorted(ids)


def batches(loader):
    return [batch.nodes.tolist() for batch, _ in loader]


def test_samples_are_shuffled_and_not_just_batches():
    loader = HopLoader(HOPS, range(20), LABELS, 5, shuffle=True, seed=1)
    first, second = batches(loader), batches(loader)
    assert first != second
    assert {frozenset(b) for b in first} != {frozenset(b) for b in second}


def test_the_order_follows_from_seed_and_epoch():
    def loader(seed):
        return HopLoader(HOPS, range(20), LABELS, 5, shuffle=True, seed=seed)

    again = loader(1)
    first = [batches(again) for _ in range(3)]
    other = loader(1)
    other.set_epoch(2)
    assert batches(other) == first[2]
    assert batches(loader(2)) != first[0]


@given(
    sizes=st.lists(st.integers(0, 4), max_size=12),
    at_once=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_values_are_those_of_each_batch_however_many_at_once(
    sizes, at_once, seed
):
    """Ranks and shards have batches of several sizes, and empty ones."""
    generator = torch.Generator().manual_seed(seed)
    ends = np.cumsum([0, *sizes]).tolist()
    cuts = list(pairwise(ends))
    values = torch.randn(9, generator=generator)
    order = torch.randint(9, (ends[-1],), generator=generator)
    read = []

    class Counted(torch.Tensor):
        def index_select(self, dim, places):
            read.append(len(places))
            return super().index_select(dim, places)

    found = list(looked_up(values.as_subclass(Counted), order, cuts, at_once))
    assert len(found) == len(cuts)
    for own, (first, last) in zip(found, cuts, strict=True):
        assert torch.equal(
            own.as_subclass(torch.Tensor), values[order][first:last]
        )
    # More than asked for are read at once only if a batch is that large.
    assert sum(read) == len(order)
    assert all(count <= max(at_once, *sizes, 0) for count in read)
    # Two neighbours fit together into none of the lookups.
    assert all(one + two > at_once for one, two in pairwise(read))


def test_a_kept_batch_does_not_change_later():
    loader = HopLoader(HOPS, range(20), LABELS, 5)
    kept = list(loader)
    for batch, _ in kept:
        assert torch.equal(batch[1], HOPS[1][batch.nodes])


def test_memory_is_used_again_once_nobody_holds_a_batch():
    places = [
        b.stack.data_ptr() for b, _ in HopLoader(HOPS, [1] * 20, LABELS, 5)
    ]
    assert len(set(places)) < 4


def test_memory_that_autograd_saved_is_not_used_again():
    weight = torch.randn(4, 2, requires_grad=True)
    total = torch.zeros(())
    for batch, _ in HopLoader(HOPS, range(20), LABELS, 2):
        total = total + ((batch[1] @ weight) ** 2).sum()
        del batch
    total.backward()
    found, weight.grad = weight.grad, None
    ((HOPS[1][:20] @ weight) ** 2).sum().backward()
    torch.testing.assert_close(found, weight.grad)


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_shards_have_one_size_and_cover_all(world_size):
    found = []
    for rank in range(world_size):
        loader = HopLoader(
            HOPS, range(20), LABELS, 4, shuffle=True,
            rank=rank, world_size=world_size,
        )  # fmt: skip
        mine = [i for batch in batches(loader) for i in batch]
        assert len(mine) == -(-20 // world_size) == loader.num_samples
        found += mine
    assert set(found) == set(range(20))


def test_rows_asked_for_are_found_by_their_nodes():
    nodes = torch.tensor([20, 3, 11])
    part = block_aggregate(GRAPH, HOPS[0], 2, nodes=nodes)
    ((batch, labels),) = HopLoader(part, [11, 20], LABELS)
    torch.testing.assert_close(batch[2], HOPS[2][[11, 20]])
    assert torch.equal(labels, LABELS[[11, 20]])
    with pytest.raises(DGLError, match="without a row"):
        HopLoader(part, [4], LABELS)


def test_memory_mapped_hops_will_do(tmp_path):
    files = []
    for k in range(3):
        file = np.lib.format.open_memmap(
            tmp_path / f"{k}.npy", "w+", np.float32, (N, 4)
        )
        file[:] = HOPS[k].numpy()
        files.append(torch.from_numpy(file))
    mapped = HopFeatures(files, [0, 1, 2], HOPS.filter)
    for batch, _ in HopLoader(mapped, range(N), LABELS, 7, shuffle=True):
        assert torch.equal(batch[2], HOPS[2][batch.nodes])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_types_and_strided_features_will_do(dtype):
    halves = HOPS.to(dtype)
    strided = HopFeatures(
        [h.t().contiguous().t() for h in HOPS], HOPS.hops, HOPS.filter
    )
    for hops in (halves, strided):
        for batch, _ in HopLoader(hops, range(N), LABELS, 7, shuffle=True):
            assert torch.equal(batch[2], hops[2][batch.nodes])


def test_plain_tensors_come_as_one_tensor():
    ids = [5, 1]
    every = list(HOPS)
    wanted = torch.stack([h[ids] for h in HOPS])
    arrays = [h.numpy() for h in HOPS]
    for given_as in (every, tuple(every), torch.stack(every), arrays):
        ((batch, _),) = HopLoader(given_as, ids, LABELS)
        assert torch.equal(batch, wanted)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("places", [[1], [0, 2], [1, 2], [3]])
def test_plain_tensors_stay_at_the_places_of_their_hops(places, shuffle):
    hops = [HOPS[k % 3] if k in places else None for k in range(4)]
    nids = torch.arange(N)
    loader = HopLoader(hops, nids, LABELS, 7, shuffle)
    ids = HopLoader([nids[:, None]], nids, LABELS, 7, shuffle)
    for (batch, labels), (at, _) in zip(loader, ids, strict=True):
        at = at[0, :, 0]
        assert len(batch) == 4
        assert torch.equal(labels, LABELS[at])
        for k, rows in enumerate(batch):
            if k in places:
                assert torch.equal(rows, hops[k][at])
            else:
                assert rows is None


def test_without_labels_there_are_only_rows():
    (batch,) = HopLoader(HOPS, [3])
    assert torch.equal(batch[0], HOPS[0][[3]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nids": torch.ones(N - 1).bool()}, "nids is a mask of 22 entries"),
        ({"nids": torch.zeros(N).bool()}, "nids is empty"),
        ({"nids": []}, "nids is empty"),
        ({"nids": [N]}, f"nodes 0 to {N - 1}"),
        ({"nids": [-1]}, "not a node id"),
        ({"nids": torch.rand(3)}, "integer ids"),
        ({"labels": LABELS[:-1]}, "labels has 22"),
        ({"labels": LABELS.float()}, "labels should hold one integer"),
        ({"labels": LABELS[:, None]}, "labels should hold one integer"),
        ({"labels": LABELS - 5}, "labels holds -5 for node 0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"rank": 2, "world_size": 2}, "rank=2"),
        ({"hops": torch.ones(N, 4)}, r"one tensor of shape \(23, 4\)"),
        ({"hops": "x"}, "hops should be hop features"),
        ({"hops": []}, "of one shape"),
        ({"hops": [None, None]}, "of one shape"),
        ({"hops": [torch.ones(3, 4), torch.ones(4, 4)]}, "of one shape"),
    ],
)
def test_wrong_input_is_named(change, message):
    options = {"hops": HOPS, "nids": [0, 1], "labels": LABELS, **change}
    with pytest.raises(DGLError, match=message):
        HopLoader(**options)


def test_nodes_can_be_given_as_a_mask():
    mask = torch.zeros(N, dtype=torch.bool)
    mask[[2, 5, 20]] = True
    (wanted,) = HopLoader(HOPS, [2, 5, 20], LABELS)
    for nids in (mask, mask.numpy(), mask.tolist()):
        ((batch, labels),) = HopLoader(HOPS, nids, LABELS)
        assert torch.equal(batch.stack, wanted[0].stack)
        assert torch.equal(labels, wanted[1])


def test_a_mask_of_rows_of_some_nodes_is_as_long_as_the_labels():
    some = HOPS.rows([4, 7])
    mask = torch.arange(N) == 7
    ((batch, labels),) = HopLoader(some, mask, LABELS)
    assert torch.equal(batch[0], HOPS[0][[7]])
    assert labels.tolist() == [int(LABELS[7])]
    with pytest.raises(DGLError, match=f"mask of {N + 1} entries.* {N} nodes"):
        HopLoader(some, torch.ones(N + 1).bool(), LABELS)
