"""A weighted sum over hops, estimated from some hops of each row."""

import torch as th

#: The share of the chance to be drawn that all hops have alike. Without it, a
#: hop of weight 0 would never be drawn, and its weight would get no gradient.
_ALIKE = 0.5


def chances(weights: th.Tensor, count: int) -> th.Tensor:
    """Return how likely each hop is drawn, if ``count`` of them are.

    Half of it is the same for all hops, and half follows the size of their
    weights. The chances sum to ``count``, none is above 1.

    Parameters
    ----------
    weights : torch.Tensor
        A weight for each hop.
    count : int
        The number of hops to draw, 1 to all of them.

    Examples
    --------
    >>> import torch as th
    >>> from dgl_lc.nn.sampled_hops import chances
    >>> chances(th.tensor([0.0, 0.5, 0.5, 0.0]), 2).tolist()
    [0.25, 0.75, 0.75, 0.25]
    >>> chances(th.tensor([0.0, 1.0, 0.0]), 2).tolist()
    [0.5, 1.0, 0.5]
    """
    size = weights.detach().double().abs()
    total = size.sum()
    # Weights that are all 0, or not finite, do not tell hops apart.
    usable = total > 0 and bool(th.isfinite(total))
    share = size / total if usable else th.zeros_like(size)
    alike = _ALIKE if usable else 1.0
    share = (1 - alike) * share + alike / len(size)
    found = count * share
    while (found > 1 + 1e-12).any():
        # What is above 1 goes to the hops that are not drawn for certain.
        certain = found >= 1
        rest = count - int(certain.sum())
        found = rest * share / share[~certain].sum()
        found[certain] = 1.0
        share = found / count
    return found.clamp(max=1.0)


def draw_hops(chance: th.Tensor, count: int, rows: int) -> th.Tensor:
    """Draw different hops for each row, each by its chance.

    This is systematic sampling: the chances are laid side by side on a line
    of length ``count``, and the hops are those at a random place in [0, 1)
    and at whole steps from it. As no chance is above 1, they differ.

    Returns
    -------
    torch.Tensor
        Numbers of hops, shape (count, rows).
    """
    ends = chance.cumsum(0)
    start = th.rand(rows, dtype=th.float64, device=chance.device)
    places = start + th.arange(count, device=chance.device)[:, None]
    drawn = th.searchsorted(ends, places, right=True)
    # The sum of the chances is count only to rounding.
    return drawn.clamp(max=len(chance) - 1)


def sample_hops(
    hops: th.Tensor, weights: th.Tensor, count: int
) -> tuple[th.Tensor, th.Tensor]:
    r"""Draw some hops of each row, and the factors that make up for the rest.

    For any function f of a row, :math:`\sum_k w_k f(x_k)` is the expectation
    of the sum over the drawn hops of factor times f, and so are the gradients
    with respect to the weights and to what f has learned.

    Parameters
    ----------
    hops : torch.Tensor
        Rows of all hops, shape (hops, rows, columns).
    weights : torch.Tensor
        A weight for each hop.
    count : int
        The number of hops to draw for each row.

    Returns
    -------
    tuple of torch.Tensor
        The drawn rows, shape (count, rows, columns), and their factors
        (weight by chance), shape (count, rows).
    """
    rows = hops.shape[1]
    chance = chances(weights, count)
    drawn = draw_hops(chance, count, rows)
    flat = (drawn * rows + th.arange(rows, device=hops.device)).flatten()
    picked = hops.flatten(0, 1).index_select(0, flat)
    factors = weights / chance.to(weights.dtype)
    return picked.view(count, *hops.shape[1:]), factors[drawn]
