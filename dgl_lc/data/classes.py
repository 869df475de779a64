"""Labels of any kind in memory, turned into classes."""

from typing import Any, NamedTuple

import numpy as np
import torch
from dgl import DGLError

#: Texts that stand for a label that is missing, in lower case.
_NO_LABEL = ("", "nan", "na", "n/a", "<na>", "null", "none", "-1", "-1.0")


def is_missing(text: str) -> bool:
    """Tell whether a text stands for a label that is missing.

    These do, in upper and lower case: nothing or blanks, nan, na, n/a, <na>,
    null, none and -1.

    >>> is_missing("N/A"), is_missing("-1"), is_missing("0")
    (True, True, False)
    """
    return text.strip().lower() in _NO_LABEL


class EncodedLabels(NamedTuple):
    """The class of each node, -1 for none; how many, and their names."""

    labels: torch.Tensor
    num_classes: int
    class_names: list[str] | None


def encode_labels(
    values: Any, argument: str, keep: bool = False
) -> EncodedLabels:
    """Turn labels into classes 0 to C - 1, and -1 where there is none.

    Missing are -1, None, NaN and the texts of :func:`is_missing`. Integers are
    sorted by value and texts as texts; integers from 0 to C - 1 are the
    classes and need no names.

    Parameters
    ----------
    values : array, tensor or sequence
        A label for each node.
    argument : str
        Its name in messages.
    keep : bool
        Whether integers are classes already, even if some do not occur.

    Examples
    --------
    >>> encode_labels(["b", None, "a"], "y")
    EncodedLabels(labels=tensor([ 1, -1,  0]), num_classes=2,
                  class_names=['a', 'b'])
    """
    if isinstance(values, torch.Tensor):
        values = values.cpu().numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    array = values if isinstance(values, np.ndarray) else _objects(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise DGLError(
            f"{argument} has shape {array.shape}: give the class of each node; "
            f"for one-hot rows that is {argument}.argmax(1). Nodes with "
            f"several labels are not supported."
        )
    if array.dtype.kind not in "iubf":
        array = _integers_or_texts(array, argument)
    if array.dtype == object:
        return _named(array, array != None)  # noqa: E711
    if array.dtype.kind == "f":
        array = _whole(array, argument)
    numbers = array.astype(np.int64)
    found = np.unique(numbers[numbers != -1])
    counted = keep and (len(found) == 0 or found[0] >= 0)
    if counted or np.array_equal(found, np.arange(len(found))):
        count = int(found[-1]) + 1 if len(found) else 1
        return EncodedLabels(torch.from_numpy(numbers), count, None)
    return _named(numbers, numbers != -1)


def fill_missing(values: Any, argument: str) -> Any:
    """Return labels in which -1 or an empty text stands for None.

    Arrays of numbers or texts are returned as they are.

    >>> fill_missing([1, None], "labels")
    array([ 1, -1])
    """
    if isinstance(values, torch.Tensor):
        return values
    array = np.asanyarray(values)
    if array.dtype != object:
        return values
    found = _integers_or_texts(array, argument)
    if found.dtype == object:
        found[[value is None for value in found]] = ""
    return found


def _objects(values: Any) -> np.ndarray:
    try:
        return np.array(list(values), dtype=object)
    except TypeError:
        raise DGLError(
            f"labels should be a list, an array or a tensor, got {values!r}."
        ) from None


def _integers_or_texts(array: np.ndarray, argument: str) -> np.ndarray:
    """Return integers where all labels are, or texts; None where missing."""
    values = [_label(value, argument) for value in array.tolist()]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, str}:
        raise DGLError(
            f"{argument} holds both integers and texts: give labels of one "
            f"kind."
        )
    if kinds == {str}:
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    numbers = [-1 if value is None else value for value in values]
    return np.array(numbers, dtype=np.int64)


def _label(value: Any, argument: str) -> int | str | None:
    if value is None or is_missing(str(value)):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise DGLError(
        f"{argument} holds {value!r}: labels are integers or texts, and None "
        f"where there is none."
    )


def _whole(array: np.ndarray, argument: str) -> np.ndarray:
    missing = np.isnan(array)
    whole = np.where(missing, -1, array)
    wrong = np.flatnonzero((whole != np.floor(whole)) | (abs(whole) > 2**53))
    if len(wrong):
        raise DGLError(
            f"{argument} holds {array[wrong[0]]} for node {wrong[0]}, which is "
            f"not an integer: labels are classes, integers or texts."
        )
    return whole


def _named(values: np.ndarray, known: np.ndarray) -> EncodedLabels:
    names, classes = np.unique(values[known], return_inverse=True)
    labels = np.full(len(values), -1, np.int64)
    labels[known] = classes
    return EncodedLabels(
        torch.from_numpy(labels), len(names), [str(name) for name in names]
    )
