"""Rules for products with a matrix of nodes by nodes, however written.

``torch.einsum("ij,jhk->ihk", adj, h)``, ``torch.addmm(b, adj, h)`` and
``torch.matmul(adj, heads)`` are recorded as products of the matrix and rows
of nodes, ``adj @ h``, which :mod:`dgl_lc.transform.matrix_filters` knows as a
filter. A matrix that is learned, or that is not one of all nodes, is left to
the other rules.

``(torch.eye(n) - adj) @ h`` is recorded as ``h - adj @ h``: the LC version of a
difference of filters is closer to the model than that of one filter that is
their difference.
"""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .recorder import shape_of
from .torch_call import TorchCall
from .torch_rules import RECORD, rule
from .values import Value

if TYPE_CHECKING:
    from .torch_tracer import TorchTracer


@rule("einsum")
def _einsum(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Record a sum over the columns of a matrix of nodes as a product."""
    equation, *operands = call.args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if not isinstance(equation, str) or len(operands) != 2:
        return RECORD
    terms, output = _letters(equation)
    if len(terms) != 2 or not all(map(str.isalpha, [*terms, output])):
        return RECORD
    for place in (0, 1):
        matrix, rows = operands[place], operands[1 - place]
        if _is_of_nodes(tracer, matrix):
            found = _places(terms[place], terms[1 - place], output)
            if found is not None:
                return _contract(tracer, matrix, rows, *found)
    return RECORD


def _letters(equation: str) -> tuple[list[str], str]:
    """Return the letters of the operands, and those of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:
        once = [letter for letter in left if left.count(letter) == 1]
        right = "".join(sorted(filter(str.isalpha, once)))
    return left.split(","), right


def _places(
    matrix: str, rows: str, output: str
) -> tuple[bool, int, tuple[int, ...]] | None:
    """Return whether to transpose the matrix, and where the nodes are.

    That is the dimension of ``rows`` that is summed over, and the order in
    which the dimensions of the product are those of the result.
    """
    kept = [letter for letter in matrix if letter in output]
    summed = [letter for letter in matrix if letter in rows]
    if len(set(matrix)) != 2 or len(kept) != 1 or len(summed) != 1:
        return None
    if kept == summed or len(set(rows)) != len(rows):
        return None
    (row,), (column,) = kept, summed
    made = row + rows.replace(column, "")
    if sorted(made) != sorted(output):
        return None
    order = tuple(made.index(letter) for letter in output)
    return matrix.index(row) == 1, rows.index(column), order


def _contract(
    tracer: "TorchTracer",
    matrix: torch.Tensor,
    rows: torch.Tensor,
    transposed: bool,
    dim: int,
    order: tuple[int, ...],
) -> Any:
    """Multiply a matrix and rows, whose nodes are in any dimension."""
    if transposed:
        matrix = _do(tracer, torch.t, matrix)
    if dim:
        first = (dim, *(d for d in range(rows.dim()) if d != dim))
        rows = _do(tracer, torch.permute, rows, first)
    widths = shape_of(rows)[1:]
    if not widths:
        rows = _do(tracer, torch.unsqueeze, rows, 1)
    elif len(widths) > 1:
        rows = _do(tracer, torch.flatten, rows, 1)
    found = _do(tracer, torch.matmul, matrix, rows)
    if not widths:
        found = _do(tracer, torch.squeeze, found, 1)
    elif len(widths) > 1:
        found = _do(tracer, torch.unflatten, found, 1, widths)
    if order != tuple(range(len(order))):
        found = _do(tracer, torch.permute, found, order)
    return found


@rule("matmul", "__matmul__")
def _rows_of_heads(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Record a product of a matrix with the rows of several heads."""
    if len(call.args) != 2 or call.kwargs:
        return RECORD
    matrix, rows = call.args
    if not isinstance(rows, torch.Tensor) or rows.dim() != 3:
        return RECORD
    if not _is_of_nodes(tracer, matrix):
        return RECORD
    return _contract(tracer, matrix, rows, False, 1, (1, 0, 2))


@rule("matmul", "__matmul__", "mm")
def _identity_minus(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Record a product with ``eye - matrix`` as a difference of rows."""
    if len(call.args) != 2 or call.kwargs:
        return RECORD
    matrix, rows = call.args
    if not isinstance(rows, torch.Tensor) or rows.dim() != 2:
        return RECORD
    if not _is_of_nodes(tracer, matrix) or tracer.value_of(rows).static:
        return RECORD
    parts = _parts(tracer.value_of(matrix))
    identities = [factor for factor, part in parts if part is None]
    if not identities:
        return RECORD
    terms = [(sum(identities), rows)] if sum(identities) else []
    for factor, part in parts:
        if part is not None:
            product = _do(tracer, torch.matmul, part.example, rows)
            terms.append((factor, product))
    total: Any = 0
    for factor, term in terms:
        if factor != 1:
            term = _do(tracer, torch.mul, term, factor)
        total = _do(tracer, torch.add, term, total)
    return total if terms else RECORD


def _parts(matrix: Value) -> list[tuple[float, Value | None]]:
    """Return the terms of a matrix: factors, and None for the identity.

    A matrix without the identity among its terms is one term.
    """
    whole: list[tuple[float, Value | None]] = [(1.0, matrix)]
    if matrix.op == "call" and matrix.target is torch.eye:
        rows, columns = shape_of(matrix.example)
        return [(1.0, None)] if rows == columns else whole
    if matrix.op != "call" or matrix.kwargs or len(matrix.args) != 2:
        return whole
    a, b = matrix.args
    if matrix.target is operator.mul and isinstance(b, Value):
        a, b = b, a
    if not isinstance(a, Value):
        return whole
    found = whole
    if isinstance(b, Value) and matrix.target is operator.sub:
        found = _parts(a) + [(-factor, part) for factor, part in _parts(b)]
    elif type(b) in (int, float) and b:
        scale = {operator.mul: b, operator.truediv: 1 / b}.get(matrix.target)
        if scale is not None:
            found = [(scale * factor, part) for factor, part in _parts(a)]
    return found if any(part is None for _, part in found) else whole


@rule("addmm", "_sparse_addmm")
def _add_product(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Record ``torch.addmm(b, adj, h)`` as a sum and a product."""
    added = call.argument(0, "input")
    matrix, rows = call.argument(1, "mat1"), call.argument(2, "mat2")
    rest = set(call.kwargs) - {"input", "mat1", "mat2", "beta", "alpha"}
    if rest or len(call.args) > 3 or not _is_of_nodes(tracer, matrix):
        return RECORD
    beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
    found = _do(tracer, torch.matmul, matrix, rows)
    if not _is_number(alpha, 1):
        found = _do(tracer, torch.mul, found, alpha)
    if _is_number(beta, 0):
        return found
    if not _is_number(beta, 1):
        added = _do(tracer, torch.mul, added, beta)
    return _do(tracer, torch.add, found, added)


def _is_of_nodes(tracer: "TorchTracer", matrix: Any) -> bool:
    """Return whether it is a static matrix of nodes by nodes."""
    if not isinstance(matrix, torch.Tensor) or matrix.dim() != 2:
        return False
    rows, columns = shape_of(matrix)
    size = tracer.sizes.get(rows)
    if rows != columns or size is None or size.target != "N":
        return False
    return tracer.value_of(matrix).static


def _is_number(item: Any, number: int) -> bool:
    return type(item) in (int, float) and item == number


def _do(tracer: "TorchTracer", function: Callable, *args: Any) -> Any:
    """Call a function of torch as the model would have called it."""
    return tracer.call(TorchCall(function, function.__name__, args, {}))
