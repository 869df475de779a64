"""Comparing a written program with the module that it was written from."""

from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .._common.nested import leaves
from .needs import NeededInput, Needs
from .read_program import read_program
from .row_module import RowModule
from .write_program import WrittenProgram

_ROWS = 3


def verify_program(module: RowModule, written: WrittenProgram) -> Any:
    """Read a program again, and refuse one that gives other results.

    Both run on a few random rows, in evaluation. Returns the results of the
    module.
    """
    needs = module._row_needs
    assert needs is not None
    tensors = {name: t.cpu() for name, t in written.tensors.items()}
    try:
        again = read_program(written.text, tensors).eval()
    except ValueError as error:
        raise DGLError(
            f"this LC version can't be written to a file, because it could "
            f"not be read: {error}."
        ) from error
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    training = {name: m.training for name, m in module.named_modules()}
    try:
        rows, found = _try_rows(module.eval(), needs, device)
    finally:
        for name, part in module.named_modules():
            part.training = training[name]
    if not _same(found, _run(again.to(device), rows)):
        raise DGLError(
            "this LC version can't be written to a file: what would be read "
            "gives other results. Please report it, with the model."
        )
    return found


def _try_rows(
    module: RowModule, needs: Needs, device: torch.device
) -> tuple[list[torch.Tensor], Any]:
    """Run a module on random rows; return them and the results."""
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    # The module may have been converted since it was transformed.
    others = sorted(kinds, key=str) if len(kinds) == 1 else []
    failed: Exception | None = None
    for dtype in (None, *others):
        rows = [_random_rows(e, dtype).to(device) for e in needs.inputs]
        try:
            return rows, _run(module, rows)
        except Exception as error:
            failed = failed or error
    raise DGLError(
        f"this LC version can't be written to a file: it does not run on "
        f"{_ROWS} random rows ({' '.join(str(failed).split())})."
    ) from failed


def _random_rows(entry: NeededInput, dtype: torch.dtype | None) -> torch.Tensor:
    """Draw rows of an input; fractions are of a type, or of the input's."""
    shape = (_ROWS, *entry.shape)
    if not entry.dtype.is_floating_point:
        return torch.zeros(shape, dtype=entry.dtype)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(shape, generator=generator, dtype=torch.float64)
    return rows.to(entry.dtype if dtype is None else dtype)


def _run(module: nn.Module, rows: list[torch.Tensor]) -> Any:
    devices = [rows[0].device] if rows[0].is_cuda else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(0)
        return module(*rows)


def _same(found: Any, again: Any) -> bool:
    """Return whether results are the same, bit for bit."""
    one, other = leaves(found), leaves(again)
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    if not isinstance(other, torch.Tensor) or one.dtype != other.dtype:
        return False
    if one.shape != other.shape:
        return False
    return torch.equal(one, other) or torch.allclose(
        one, other, rtol=0, atol=0, equal_nan=True
    )
