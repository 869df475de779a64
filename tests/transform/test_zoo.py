"""Every model of the zoo is transformed, or refused for the right reason."""

import copy
import pickle

import dgl
import pytest
import torch
from conftest import make_features
from zoo import IN, REFUSED, TAKEN, ZOO

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.apply_words import precompute_plainly
from dgl_lc.transform.evaluate import Evaluator
from dgl_lc.transform.tracing.model_call import read_call

EVERY = pytest.mark.parametrize("name", TAKEN)
pytestmark = pytest.mark.filterwarnings("ignore:.*lambda_max")


@pytest.fixture(autouse=True)
def _double():
    """APPNPConv makes edge weights of torch's default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def random_graph(n=60, m=300, seed=0):
    """A hub, multi-edges, self-loops, and edges into every node."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randint(0, n - 1, (m,), generator=generator)
    v = torch.randint(0, n - 1, (m,), generator=generator)
    v[: m // 5], u[:10], v[:10] = 3, u[10:20].clone(), v[10:20].clone()
    ring = torch.arange(n)
    u, v = torch.cat([u, ring]), torch.cat([v, ring.roll(1)])
    return dgl.graph((u, v), num_nodes=n)


def features(n=60):
    return make_features(n, IN, dtype=torch.float64)


def permutation_graph(n=60, seed=0):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return dgl.graph((order, order.roll(1)), num_nodes=n)


def randomised(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.3 * noise.to(parameter))
    return model


def transformed(name, g, x):
    torch.manual_seed(0)
    case = ZOO[name]()
    args, kwargs = case.call(g, x)
    randomised(case.model).to(x.dtype).eval()
    lc = lc_transform(case.model, *args, **kwargs, **case.options)
    return case, args, kwargs, lc


def plain_inputs(lc, model, args, kwargs):
    evaluate = Evaluator(read_call(model, args, kwargs))
    return precompute_plainly(lc.inputs, evaluate)


def first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


def test_the_zoo_is_large_enough():
    assert len(TAKEN) >= 30
    assert len(REFUSED) >= 20


@EVERY
def test_batches_are_rows_of_the_whole(name):
    g, x = random_graph(), features()
    _, args, kwargs, lc = transformed(name, g, x)
    inputs = lc.precompute(*args, **kwargs)
    ids = torch.tensor([7, 0, 59, 7, 3])
    with torch.no_grad():
        whole = first(lc.module(*inputs))
        part = first(lc.module(*lc.rows(inputs, ids)))
        one = first(lc.module(*lc.rows(inputs, ids[:1])))
    assert whole.shape[0] == 60
    torch.testing.assert_close(part, whole[ids])
    torch.testing.assert_close(one, whole[ids[:1]])


#: Filters with self-loops, or with factors that are not one there.
_OWN_LOOPS = {
    "cheb",
    "self_loops_in_forward", "sage_gcn", "by_hand_dgl_ops",
    "by_hand_message_function", "gcn_edge_weights",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in TAKEN if name not in _OWN_LOOPS]
)
def test_equal_on_a_permutation_graph(name):
    """One edge in, one out: aggregation commutes with everything."""
    g = permutation_graph()
    x = features()
    case, args, kwargs, lc = transformed(name, g, x)
    with torch.no_grad():
        expected = first(case.model(*args, **kwargs))
    found = first(lc.module(*plain_inputs(lc, case.model, args, kwargs)))
    torch.testing.assert_close(found, expected)
    engine = lc.precompute(*args, **kwargs)
    torch.testing.assert_close(first(lc.module(*engine)), expected)


@EVERY
def test_the_engine_computes_what_dgl_does(name):
    g, x = random_graph(), features()
    case, args, kwargs, lc = transformed(name, g, x)
    plain = plain_inputs(lc, case.model, args, kwargs)
    for mine, its in zip(lc.precompute(*args, **kwargs), plain, strict=True):
        torch.testing.assert_close(mine, its)
    nodes = torch.tensor([5, 0, 59])
    some = lc.precompute(*args, **kwargs, nodes=nodes)
    for mine, its in zip(some, plain, strict=True):
        torch.testing.assert_close(mine, its[nodes])


@EVERY
def test_parameters_and_state_are_the_models(name):
    g, x = random_graph(), features()
    case, _, _, lc = transformed(name, g, x)
    mine, its = lc.module.state_dict(), case.model.state_dict()
    assert list(mine) == list(its)
    for key, tensor in its.items():
        assert mine[key].data_ptr() == tensor.data_ptr()
    lc.module.load_state_dict(copy.deepcopy(its))


@EVERY
def test_train_and_evaluation_differ_only_where_the_model_does(name):
    g, x = random_graph(), features()
    case, args, kwargs, lc = transformed(name, g, x)
    inputs = lc.precompute(*args, **kwargs)
    lc.module.train()
    first(lc.module(*inputs)).sum().backward()
    used = [p for p in lc.module.parameters() if p.grad is not None]
    assert len(used) == len(list(case.model.parameters()))
    lc.module.eval()
    assert not case.model.training or not list(case.model.children())


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name):
    g, x = random_graph(), features()
    torch.manual_seed(0)
    case = ZOO[name]()
    args, kwargs = case.call(g, x)
    with pytest.raises(LCError) as caught:
        lc_transform(case.model, *args, **kwargs, **case.options)
    error = caught.value
    assert case.refused in str(error)
    assert error.operation
    assert error.reason
    assert error.advice
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_table(capsys):
    """Prints what becomes of every model."""
    lines = []
    for name, make in ZOO.items():
        g, x = random_graph(), features()
        case = make()
        args, kwargs = case.call(g, x)
        try:
            lc = lc_transform(case.model, *args, **kwargs, **case.options)
        except LCError as error:
            lines.append(f"{name:32} refused: {error.operation}: "
                         f"{error.reason[:70]}")  # fmt: skip
        else:
            kind = "exact" if lc.report.exact else "LC"
            formulas = ", ".join(map(str, lc.inputs))
            lines.append(f"{name:32} {kind:5} {formulas}")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
