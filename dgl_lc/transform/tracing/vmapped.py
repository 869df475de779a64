"""Functions that ``torch.vmap`` applies to each row.

Inside of vmap, tensors stand for single rows, and what is done to them can't
be followed. Most functions do the same to all rows at once, because they use
the last dimension (a linear layer, an activation, ``softmax(-1)``). They are
called so, and the result is compared with that of vmap.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import causes
from ..linearity import close
from .recorder import hidden
from .values import leaves

if TYPE_CHECKING:
    from .torch_tracer import TorchTracer


def call_on_all_rows(
    original: Callable,
    tracer: "TorchTracer",
    function: Callable,
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call a function on all rows at once, in the place of vmap."""
    with hidden():
        options = (in_dims, out_dims, randomness, chunk_size)
        expected = original(function, *options, *args, **kwargs)
    by_rows = all(dim in (0, None) for dim in leaves(in_dims))
    if by_rows and all(dim == 0 for dim in leaves(out_dims)):
        try:
            found = function(*args, **kwargs)
        except (RuntimeError, IndexError, TypeError):
            found = None
        if _same(found, expected):
            return found
    name = getattr(function, "__name__", type(function).__name__)
    return tracer.refuse(
        causes.OUTSIDE_TORCH,
        f"torch.vmap of {name}",
        "runs a function on single rows, where its operations can't be "
        "followed, and the function does something else to all rows at once",
        "Call the function without vmap, and let it use the last dimension "
        "(softmax(-1) instead of softmax(0), h @ w.t() instead of w @ h)",
    )


def _same(found: Any, expected: Any) -> bool:
    """Return whether two results have the same numbers."""
    mine, its = leaves(found), leaves(expected)
    if len(mine) != len(its):
        return False
    with hidden(), torch.no_grad():
        return all(
            isinstance(a, torch.Tensor)
            and isinstance(b, torch.Tensor)
            and a.shape == b.shape
            and a.dtype == b.dtype
            and close(a, b, rtol=1e-5)
            for a, b in zip(mine, its, strict=True)
        )
