"""Edge shards against a dense float64 reference, and against one process."""

import numpy as np
import pytest
import torch
from night import NIGHT, cases

from dgl_lc.precompute import block_aggregate
from dgl_lc.testing.reference import dense_filter
from dgl_lc.testing.run_ranks import run_ranks

from . import edge_cases

TOLERANCE = {
    "float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2
}  # fmt: skip
#: How many calls are drawn for each number of ranks. By day, other tests have
#: two and four ranks.
COUNT = cases(15, 40)
RANKS = [1, 2, 3, 4] if NIGHT else [1, 3]


def expected(case):
    """Hops by dense products, stored in the type of the case after each."""
    g, weight = edge_cases.make_graph(case)
    matrix = dense_filter(
        g, norm=case["norm"], self_loop=case["self_loop"], edge_weight=weight
    )
    dtype = getattr(torch, case["dtype"])
    hops = [edge_cases.features(case).to(dtype).double()]
    for _ in range(case["K"]):
        hop = torch.from_numpy(matrix @ hops[-1].numpy())
        hops.append(hop.to(dtype).double())
    nodes = edge_cases.make_nodes(case)
    return hops if nodes is None else [hop[nodes] for hop in hops]


def put_together(found, hop, rows):
    """Put the rows of all ranks together; each place has one rank."""
    whole = np.zeros((rows, found[0]["hops"][hop].shape[1]))
    times = np.zeros(rows, np.int64)
    for own in found:
        places = own["places"]
        assert (np.diff(places) > 0).all()
        whole[places] = own["hops"][hop]
        times[places] += 1
    assert (times == 1).all()
    return torch.from_numpy(whole)


def check(case, found, folder):
    one = block_aggregate(
        edge_cases.make_request(case, folder).graph,
        edge_cases.given_features(case, folder),
        edge_weight=None if case["format"] == "disk"
        else edge_cases.make_graph(case)[1],
        out=folder / f"hops-{case['seed']}-{len(found)}",
        **edge_cases.arguments(case),
    )  # fmt: skip
    dense = expected(case)
    for hop in case["hops"]:
        whole = put_together(found, hop, len(dense[0]))
        scale = 1 + dense[hop].abs().max()
        error = (whole - dense[hop]).abs().max() / scale
        assert error < TOLERANCE[case["dtype"]], f"hop {hop}: {error:.2e}"
        if case["edge_blocks"] == 1:
            # The same bits as a store that one process writes.
            assert torch.equal(whole, one[hop].double())
    for rank, own in enumerate(found):
        assert own["payload"] == own["planned"][rank]
        assert own["planned"] == found[0]["planned"]
        assert own["done"][0] == own["done"][1]


def check_all(ranks, calls, folder):
    """Compute calls on so many ranks; give which exchanges were gathers."""
    for case in calls:
        edge_cases.write_inputs(case, folder / str(case["seed"]))
    found = run_ranks(ranks, edge_cases.run_cases, calls, str(folder))
    for place, case in enumerate(calls):
        try:
            check(case, [own[place] for own in found], folder)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error
    return {gathers for own in found[0] for gathers in own["gathers"]}


@pytest.mark.parametrize("ranks", RANKS)
def test_shards_equal_dense_products(ranks, tmp_path):
    drawn = [edge_cases.draw(1000 * ranks + i) for i in range(COUNT)]
    drawn = [c for c in drawn if all(h.isfinite().all() for h in expected(c))]
    found = check_all(ranks, drawn, tmp_path)
    # Both ways of exchanging rows were taken.
    assert ranks == 1 or found == {False, True}


def test_a_hub_with_more_edges_than_a_share_stays_whole(tmp_path):
    # It is summed in parts, as by one process.
    case = edge_cases.draw(0) | {
        "n": 50, "m": 100_000, "shape": "huge hub", "K": 3, "hops": [0, 2, 3],
        "norm": "both", "nodes": None, "columns": 3, "width": 3,
        "feat": "float64", "dtype": "float64", "edge_blocks": 1,
        "piece": 1 << 20, "feat_in": "memory",
    }  # fmt: skip
    calls = [
        case | {"seed": seed, "format": format, "self_loop": seed == 2}
        for seed, format in enumerate(["coo", "csc made", "disk"])
    ]
    check_all(3, calls, tmp_path)
