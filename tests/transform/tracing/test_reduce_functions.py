"""Reduce functions are recognised by running them on random mailboxes."""

import pytest
import torch

from dgl_lc.transform.tracing.reduce_functions import Law, law_of, laws_of


def ones(mail):
    return torch.ones_like(mail.sum(1))


MESSAGES = {"m": torch.zeros(4, 3), "k": torch.zeros(4, 3)}


@pytest.mark.parametrize(
    ("reduce", "law"),
    [
        (lambda m: m.sum(1), Law(1.0, 0.0)),
        (lambda m: m.mean(1), Law(1.0, -1.0)),
        (lambda m: 3 * m.sum(1) / m.shape[1], Law(3.0, -1.0)),
        (lambda m: m.sum(1) / m.shape[1] ** 0.5, Law(1.0, -0.5)),
        (lambda m: torch.einsum("ndf->nf", m), Law(1.0, 0.0)),
        (lambda m: sum(m.unbind(1)), Law(1.0, 0.0)),
        (lambda m: torch.cumsum(m, 1)[:, -1], Law(1.0, 0.0)),
    ],
)
def test_a_sum_is_known_by_its_factor(reduce, law):
    found = laws_of(lambda nodes: {"h": reduce(nodes.mailbox["m"])}, MESSAGES)
    assert found == {"h": {"m": law}}


@pytest.mark.parametrize(
    "reduce",
    [
        lambda m: m.max(1).values,
        lambda m: m.sum(1).relu(),
        lambda m: m[:, 0],
        lambda m: m.sum(1) + 1e-3,
        lambda m: m.sum(1) if m.shape[1] < 7 else m.mean(1),
        lambda m: (m * torch.softmax(m, 1)).sum(1),
        lambda m: (m * torch.arange(m.shape[1]).view(1, -1, 1)).sum(1),
        lambda m: m.std(1),
        lambda m: m.sum(1).flip(-1),
        lambda m: m.sum((0, 1)).expand(5, 3),
        # What is added is orthogonal to the sum, and hidden in a projection.
        lambda m: m.sum(1) + torch.linalg.cross(ones(m), m.sum(1)),
    ],
)
def test_what_is_not_a_sum_has_no_factor(reduce):
    def reduced(nodes):
        return {"h": reduce(nodes.mailbox["m"])}

    assert laws_of(reduced, MESSAGES) is None


def test_several_fields_have_a_factor_each():
    def reduce(nodes):
        m, k = nodes.mailbox["m"], nodes.mailbox["k"]
        return {"both": m.sum(1) - 2 * k.mean(1), "one": k.sum(1)}

    assert laws_of(reduce, MESSAGES) == {
        "both": {"m": Law(1.0, 0.0), "k": Law(-2.0, -1.0)},
        "one": {"k": Law(1.0, 0.0)},
    }


def test_a_product_of_fields_is_no_sum():
    def reduce(nodes):
        return {"h": (nodes.mailbox["m"] * nodes.mailbox["k"]).sum(1)}

    assert laws_of(reduce, MESSAGES) is None


def test_factors_have_to_follow_one_power_of_the_degree():
    assert law_of({d: 2.0 / d for d in (1, 2, 3, 7, 12)}) == Law(2.0, -1.0)
    assert law_of({1: 1.0, 2: 0.5, 3: 0.5, 7: 1 / 7, 12: 1 / 12}) is None
