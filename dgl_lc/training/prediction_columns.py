"""What a file of predictions has for each node."""

from collections.abc import Sequence

import numpy as np

from .output_kind import CLASSES, LABELS, NUMBERS


class PredictionColumns:
    """The columns of a file of predictions, beside the ids of the nodes.

    Parameters
    ----------
    names : sequence of str, or int
        The names of the columns that a model gives, or their number.
    probabilities : bool
        Whether the file has probabilities.
    kind : str
        What the model gives: "classes", "labels" or "numbers".

    Attributes
    ----------
    titles : list of str
        The names of the columns.
    are_numbers : bool
        Whether the model predicts numbers.

    Examples
    --------
    >>> import numpy as np
    >>> columns = PredictionColumns(["a", "b"], True, "labels")
    >>> columns.titles
    ['is_a', 'is_b', 'p_a', 'p_b']
    >>> columns.cut(np.array([[0.5, 0.75]], np.float32))[:2]
    [array([0], dtype=uint8), array([1], dtype=uint8)]
    """

    def __init__(
        self, names: Sequence[str] | int, probabilities: bool, kind: str
    ):
        self._number = names if isinstance(names, int) else len(names)
        self._names = None if isinstance(names, int) else list(names)
        self._kind, self.are_numbers = kind, kind == NUMBERS
        self._probabilities = probabilities and not self.are_numbers
        shown = self._names or [str(place) for place in range(self._number)]
        if kind == CLASSES:
            self.titles = ["class"]
        elif kind == LABELS:
            self.titles = [f"is_{name}" for name in shown]
        elif self._names is None and self._number == 1:
            self.titles = ["value"]
        else:
            self.titles = [f"value_{name}" for name in shown]
        if self._probabilities:
            self.titles += [f"p_{name}" for name in shown]

    def cut(self, values: np.ndarray) -> list[np.ndarray]:
        """Return each column, from probabilities or numbers of some nodes."""
        if self.are_numbers:
            return list(np.ascontiguousarray(values.T))
        found: list[np.ndarray] = []
        if self._kind == LABELS:
            found = list(np.ascontiguousarray(_is_likely(values).T))
        else:
            classes = _likeliest(values)
            if self._names is not None:
                classes = np.array(self._names, dtype=object)[classes]
            found.append(classes)
        if self._probabilities:
            found += list(np.ascontiguousarray(values.T))
        return found

    def describe_array(self, rows: int) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and the type of an array of these predictions."""
        if self._probabilities or self.are_numbers:
            return (rows, self._number), np.dtype("<f4")
        if self._kind == LABELS:
            return (rows, self._number), np.dtype("u1")
        return (rows,), np.dtype("<i8")

    def as_array(self, values: np.ndarray) -> np.ndarray:
        """Return the rows of such an array for some nodes."""
        if self._probabilities or self.are_numbers:
            return values
        if self._kind == LABELS:
            return _is_likely(values)
        return _likeliest(values)


def _likeliest(probabilities: np.ndarray) -> np.ndarray:
    return probabilities.argmax(1).astype(np.int64)


def _is_likely(probabilities: np.ndarray) -> np.ndarray:
    return (probabilities > 0.5).astype(np.uint8)
