"""Calls that edge shards compute, drawn from a seed, and how ranks run them."""

import ctypes
import random

import dgl
import numpy as np
import torch
import torch.distributed as dist

from dgl_lc.data import DiskFeatures, build_disk_graph, write_features
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sharded.edge_engine import EdgeShardEngine
from dgl_lc.precompute.sharded.edge_shards import EdgeShard, cut_destinations
from dgl_lc.precompute.sharded.row_exchange import PIECE_BYTES, RowExchange
from dgl_lc.precompute.survey import survey
from dgl_lc.ranks.call import RankCall
from dgl_lc.ranks.group import Ranks
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.testing.random_graphs import make_features


def draw(seed):
    """Draw the sizes, types and options of a call."""
    rng = random.Random(seed)
    n = rng.choice([1, 2, 3, 5, 9, 30, 60])
    K = rng.choice([1, 2, 3, 4])
    return {
        "seed": seed,
        "n": n,
        "m": rng.choice([0, 1, n, 3 * n, 6 * n]),
        "shape": rng.choice(["random", "hub", "loops", "late", "dense"]),
        "format": rng.choice(["coo", "csc made", "only csr", "disk"]),
        "K": K,
        "hops": [*sorted(rng.sample(range(K), rng.randint(0, K))), K],
        "norm": rng.choice(["both", "right", "left", "none", "in"]),
        "self_loop": rng.random() < 0.5,
        "weighted": rng.random() < 0.4,
        "nodes": rng.choice([None, None, 1, 3, n]),
        "columns": rng.choice([1, 3, 8, 17]),
        "width": rng.choice([1, 5, 17]),
        "feat": rng.choice(["float32", "float64"]),
        "feat_in": rng.choice(["memory", "memory", "file", "folder"]),
        "dtype": rng.choice(["float32", "float64", "float16", "bfloat16"]),
        "edge_blocks": rng.choice([1, 1, 3]),
        "piece": rng.choice([1, 64, 700, PIECE_BYTES]),
    }


def make_graph(case):
    """Make the graph in memory, and its weights or None."""
    rng = np.random.default_rng(case["seed"])
    n, m = case["n"], case["m"]
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    if case["shape"] == "hub":
        target[: m // 2] = rng.integers(0, n)
    elif case["shape"] == "loops":
        source[: m // 2] = target[: m // 2]
    elif case["shape"] == "huge hub":
        # More than the kernels take at a time.
        target[1000:] = n // 2
    elif case["shape"] == "late":
        # The first shards have no edges but many rows.
        target[:] = n - 1 - target // 4
    elif case["shape"] == "dense":
        source, target = (ends.ravel() for ends in np.indices((n, n)))
    g = dgl.graph(
        (torch.from_numpy(source), torch.from_numpy(target)), num_nodes=n
    )
    if case["format"] == "csc made":
        g.create_formats_()
    elif case["format"] == "only csr":
        g = g.formats("csr")
    weight = torch.from_numpy(rng.random(g.num_edges()) + 0.5).float()
    return g, weight if case["weighted"] else None


def make_nodes(case):
    """Draw nodes with repeats, in any order; None for all."""
    if case["nodes"] is None:
        return None
    rng = np.random.default_rng(case["seed"] + 1)
    return torch.from_numpy(rng.integers(0, case["n"], case["nodes"]))


def arguments(case):
    """Give the other arguments of a call."""
    return {
        "K": case["K"], "norm": case["norm"], "self_loop": case["self_loop"],
        "nodes": make_nodes(case), "hops": case["hops"],
        "dtype": getattr(torch, case["dtype"]),
    }  # fmt: skip


def features(case):
    """Give the features, which float32 holds exactly."""
    found = make_features(case["n"], case["columns"], case["seed"])
    return found.to(getattr(torch, case["feat"]))


def write_inputs(case, folder):
    """Write what a case has on disk."""
    folder.mkdir()
    np.save(folder / "feat.npy", features(case).numpy())
    if case["feat_in"] == "folder":
        write_features(folder / "feat.npy", folder / "feat", width=4)
    if case["format"] == "disk":
        write_graph(case, folder)


def write_graph(case, folder):
    """Write the graph of a case to disk."""
    g, weight = make_graph(case)
    ends = torch.stack(g.edges(order="eid"))
    np.save(folder / "edges.npy", ends.numpy())
    if weight is not None:
        np.save(folder / "weights.npy", weight.numpy())
    build_disk_graph(
        folder / "edges.npy", case["n"], folder / "graph",
        weights=None if weight is None else folder / "weights.npy",
    )  # fmt: skip


def given_features(case, folder):
    """Give the features as the call gets them."""
    path = f"{folder}/{case['seed']}/feat"
    if case["feat_in"] == "file":
        return np.load(f"{path}.npy", mmap_mode="r")
    if case["feat_in"] == "folder":
        return DiskFeatures(path)
    return features(case)


def make_request(case, folder):
    if case["format"] == "disk":
        g, weight = DiskGraph(f"{folder}/{case['seed']}/graph"), None
    else:
        g, weight = make_graph(case)
    feat = given_features(case, folder)
    return Request.of(g, feat, weight=weight, **arguments(case))


class Collected:
    """Takes the rows that were asked for, copied."""

    def __init__(self, request, shard):
        self.hops = {
            hop: torch.zeros(
                shard.num_kept, request.num_feats, dtype=request.dtype
            )
            for hop in request.kept
        }
        self.columns = slice(0, 0)

    def keep(self, hop, values, places):
        rows = values if places is None else values[places.long()]
        assert len(rows) == len(self.hops[hop])
        self.hops[hop][:, self.columns] = rows


def give_memory_back():
    """Give freed memory back at once, so that it is not counted twice."""
    libc = ctypes.CDLL(None)
    for option, value in ((-3, 1 << 16), (-1, 0), (-2, 0), (-8, 1)):
        libc.mallopt(option, value)


def this_call(name="test"):
    """Begin a call of all ranks, also of one."""
    store = dist.distributed_c10d._get_process_group_store(dist.group.WORLD)
    ranks = Ranks(
        dist.get_rank(), dist.get_world_size(), dist.group.WORLD, store
    )
    return RankCall(ranks, name)


def run_shard(case, request, call):
    """Compute a case on this rank; give what it has, as plain values."""
    found = survey(request)
    ranks = call.ranks
    bounds = cut_destinations(found.edges.indptr, ranks.size)
    shard = EdgeShard(request, found, bounds, ranks.rank, case["edge_blocks"])
    exchange = RowExchange(shard, call, case["piece"])
    width = min(case["width"], request.num_feats)
    engine = EdgeShardEngine(shard, exchange, call, width)
    sink, done = Collected(request, shard), [0]

    def tell(amount):
        done[0] += amount

    for first in range(0, request.num_feats, width):
        last = min(first + width, request.num_feats)
        sink.columns = slice(first, last)
        engine.column_block(first, last, sink, tell)
    return {
        # float64 holds every type exactly.
        "places": shard.kept_places.numpy(),
        "hops": {hop: own.double().numpy() for hop, own in sink.hops.items()},
        "payload": exchange.payload_bytes,
        "planned": [exchange.planned_bytes(r) for r in range(ranks.size)],
        "gathers": [swap.gathers for swap in exchange.swaps.values()],
        "done": (done[0], engine.total),
    }


def run_cases(cases, folder):
    """Compute cases one after the other, on each rank."""
    with this_call() as call:
        return [
            run_shard(case, make_request(case, folder), call) for case in cases
        ]
