"""Every model of the zoo is transformed, or refused for the right reason."""

import copy
import pickle
from pathlib import Path

import pytest
import torch
from night import every
from transform.zoo import REFUSED, TAKEN, lent, ready, refusal

from dgl_lc.transform.apply_words import precompute_plainly
from dgl_lc.transform.causes import CAUSES
from dgl_lc.transform.evaluate import Evaluator
from dgl_lc.transform.tracing.model_call import read_call

# With this scope, all tests of a model follow each other, so that it is
# transformed by one process alone.
EVERY = pytest.mark.parametrize("name", TAKEN, scope="module")
EVERY_REFUSED = pytest.mark.parametrize("name", REFUSED, scope="module")
pytestmark = [
    pytest.mark.usefixtures("double_precision"),
    pytest.mark.filterwarnings("ignore:.*lambda_max"),
]


def plain_inputs(lc, model, args, kwargs):
    evaluate = Evaluator(read_call(model, args, kwargs))
    return precompute_plainly(lc.inputs, evaluate)


def first(output):
    if isinstance(output, dict):
        return next(iter(output.values()))
    return output if isinstance(output, torch.Tensor) else output[0]


def test_no_model_of_the_zoo_was_lost():
    assert len(TAKEN) == 228
    assert len(REFUSED) == 96


@EVERY
def test_batches_are_rows_of_the_whole(name):
    _, args, kwargs, lc = ready(name)
    inputs = lc.precompute(*args, **kwargs)
    ids = torch.tensor([7, 0, 59, 7, 3])
    with torch.no_grad():
        whole = first(lc.module(*inputs))
        part = first(lc.module(*lc.rows(inputs, ids)))
        one = first(lc.module(*lc.rows(inputs, ids[:1])))
    assert whole.shape[0] == 60
    torch.testing.assert_close(part, whole[ids])
    torch.testing.assert_close(one, whole[ids[:1]])


#: Filters with self-loops: they are the identity on a graph of self-loops.
_WITH_LOOPS = {
    "self_loops_in_forward", "sage_gcn", "edges_in_both_directions_with_loops",
}  # fmt: skip
#: Features and types of edges, which look like those of nodes there.
_EDGE_FEATURES = {
    "edge_features_added_to_messages", "summed_layer_on_edge_features",
    "edge_features_beside_those_of_sources",
    "embedded_types_are_added_to_messages", "mean_of_joined_embeddings",
    "learned_number_for_each_type", "matrices_of_types_by_hand",
    "relations_multiply_both_ends", "weights_for_each_head",
    "several_weights_in_a_message_function", "gate_of_the_target_by_indices",
    "joined_products_and_edge_features", "nnconv_of_given_sources",
    "nnconv_of_learned_sources", "matrices_by_two_linear_layers",
    "linear_gates_of_edge_features", "composition_of_all_edges",
    "composition_of_some_edges", "rows_of_some_edges_by_a_mask",
}  # fmt: skip
#: Filters with weights or types of edges that are not one there.
_WEIGHTED = {
    "by_hand_dgl_ops", "by_hand_message_function", "gcn_edge_weights",
    "dense_normed_adjacency", "diffusion_in_forward", "ignored_drop_edge",
    "rgcn", "rgcn_basis", "rgcn_blocks", "gated_graph_of_two_types",
    "types_by_masks", "layer_with_a_bias_on_weighted_messages",
    "parameter_added_to_weighted_messages", "layer_on_weighted_features",
}  # fmt: skip


#: These models are transformed on another graph: by day, a few of them.
_ON_PERMUTATIONS = every(
    8, (name for name in TAKEN if name not in _WEIGHTED | _EDGE_FEATURES)
)


@pytest.mark.parametrize("name", _ON_PERMUTATIONS)
def test_equal_on_a_permutation_graph(name):
    """One edge in, one out: aggregation commutes with everything."""
    graph = "loops" if name in _WITH_LOOPS else "permutation"
    model, args, kwargs, lc = ready(name, graph)
    with torch.no_grad():
        expected = first(model(*args, **kwargs))
    found = first(lc.module(*plain_inputs(lc, model, args, kwargs)))
    torch.testing.assert_close(found, expected)
    engine = lc.precompute(*args, **kwargs)
    torch.testing.assert_close(first(lc.module(*engine)), expected)


@EVERY
def test_the_engine_computes_what_dgl_does(name):
    model, args, kwargs, lc = ready(name)
    plain = plain_inputs(lc, model, args, kwargs)
    for mine, its in zip(lc.precompute(*args, **kwargs), plain, strict=True):
        torch.testing.assert_close(mine, its)
    nodes = torch.tensor([5, 0, 59])
    some = lc.precompute(*args, **kwargs, nodes=nodes)
    for mine, its in zip(some, plain, strict=True):
        torch.testing.assert_close(mine, its[nodes])


@EVERY
def test_parameters_and_state_are_the_models(name):
    model, _, _, lc = ready(name)
    mine, its = lc.module.state_dict(), model.state_dict()
    assert list(mine) == list(its)
    for key, tensor in its.items():
        assert mine[key].data_ptr() == tensor.data_ptr()
    lc.module.load_state_dict(copy.deepcopy(its))


@EVERY
def test_train_and_evaluation_differ_only_where_the_model_does(name):
    model, args, kwargs, lc = ready(name)
    inputs = lc.precompute(*args, **kwargs)
    with lent(lc.module):
        lc.module.train()
        first(lc.module(*inputs)).sum().backward()
        used = [p for p in lc.module.parameters() if p.grad is not None]
        assert len(used) == len(list(model.parameters()))
        lc.module.eval()
        assert not model.training or not list(model.children())


@EVERY
def test_transformed_to_the_inputs_that_the_zoo_says(name):
    lc = ready(name).lc
    assert tuple(map(str, lc.inputs)) == TAKEN[name].inputs
    assert lc.report.exact == TAKEN[name].exact


@EVERY_REFUSED
def test_refused_with_the_reason_that_the_zoo_says(name):
    error = refusal(name)
    assert REFUSED[name].code in (None, error.code)
    assert error.operation == REFUSED[name].operation
    assert REFUSED[name].reason in error.reason
    assert error.advice
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


#: Models of the zoo with several problems; all others have one.
SEVERAL = {
    "layers_on_the_nodes_of_a_type": ["LC024"] * 3,
    "pair_norm": ["LC014"] * 2, "graph_norm": ["LC014"] * 2,
    "five_problems_at_once": ["LC004", "LC014", "LC011", "LC006", "LC013"],
    "reduce_by_max": ["LC006"] * 2, "reduce_by_median": ["LC006"] * 2,
    "reduce_by_attention": ["LC004"] * 2,
    "heads_in_a_batch_of_graphs": ["LC008", "LC029"],
    "reduce_sorted_messages": ["LC006"] * 2,
    "reduce_with_a_branch_on_the_degree": ["LC006"] * 2,
}  # fmt: skip
ZOO = Path(__file__).parent / "zoo"


@EVERY_REFUSED
def test_every_refusal_of_the_zoo_has_a_line_and_advice(name):
    """Run with -s to read the table: would the author know what to do?"""
    problems = refusal(name).problems
    print(f"\n{name}")
    for problem in problems:
        print(f"  {problem}")
        assert problem.code in CAUSES
        assert problem.advice
        if problem.code not in ("LC001", "LC002", "LC031", "LC032", "LC033"):
            assert Path(problem.file).parent == ZOO
            assert problem.text
    assert problems[0].code != "LC099"
    codes = [problem.code for problem in problems]
    assert codes == SEVERAL.get(name, codes[:1])
