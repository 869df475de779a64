"""The published optimiser against brute force."""

import itertools

import pytest
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute.planning.published import (
    Coefficients,
    Volumes,
    aggregation_blocks,
    normalization_blocks,
    published_blocks,
    published_plan,
)

SIZES = st.integers(1, 10**6)
FACTORS = st.floats(0.1, 8)


@given(SIZES, SIZES, SIZES, FACTORS, FACTORS, FACTORS, st.integers(1, 10**7))
def test_a_is_the_smallest_that_fits(A, S, D, aA, aS, aD, budget):
    volumes = Volumes(A, S, D, 1)
    coefs = Coefficients(aA, aS, aD)
    if aD * D >= budget:
        with pytest.raises(DGLError, match="degrees alone"):
            normalization_blocks(volumes, coefs, budget)
        return

    def fits(a):
        return (aA * A + aS * S) / a + aD * D <= budget

    a = normalization_blocks(volumes, coefs, budget)
    assert fits(a)
    assert a == 1 or not fits(a - 1)


@given(
    st.integers(1, 400),
    st.integers(1, 400),
    FACTORS,
    FACTORS,
    st.integers(60, 600),
    st.integers(1, 12),
)
def test_b_and_c_minimise_their_product(S, X, bS, bX, budget, feats):
    volumes, coefs = Volumes(1, S, 1, X), Coefficients(beta_S=bS, beta_X=bX)
    most = 4_000

    def fits(b, c):
        return bS * S / b + bX * X / c <= budget

    candidates = [
        (b * c, c, b)
        for b, c in itertools.product(range(1, most), range(1, feats + 1))
        if b * c < most and fits(b, c)
    ]
    if not any(bX * X / c < budget for c in range(1, feats + 1)):
        with pytest.raises(DGLError, match="one column alone"):
            aggregation_blocks(volumes, coefs, budget, feats)
        return
    b, c = aggregation_blocks(volumes, coefs, budget, feats)
    assert fits(b, c)
    assert c <= feats
    if candidates:  # ties: the fewest column blocks
        product, fewest, _ = min(candidates)
        assert (b * c, c) == (product, fewest)


def test_the_papers_choice_is_a_minimiser_for_the_default_coefficients():
    """a=3, b=10, c=16 with 67 GB of S, 57 GB of X and 32 GB of memory."""
    volumes = Volumes.of(111_059_956, 2 * 1_615_685_872, 128)
    assert round(volumes.S / 1e9) == 67
    assert round(volumes.X / 1e9) == 57
    coefs = Coefficients()
    assert published_blocks(volumes, coefs, 32 * 10**9, 128) == (3, 10, 16)


def test_published_bytes_are_counted_as_the_schedule_moves_them():
    volumes = Volumes(A=10, S=100, D=1, X=50)
    coefs = Coefficients(1, 1, 1, 1, 1)
    found = published_plan(volumes, coefs, 76, num_feats=4, K=2)
    assert (found.a, found.b, found.c) == (2, 4, 1)
    assert found.bytes_moved == 10 + 100 + 2 * 1 + 2 * (1 * 100 + 2 * 50)
    assert found.peak_bytes == 75
