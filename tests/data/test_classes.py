"""Labels of any kind, turned into classes."""

import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError

from dgl_lc.data.classes import encode_labels

NAN = float("nan")
LABELS = {
    "tensor": (torch.tensor([1, -1, 0]), [1, -1, 0], 2, None),
    "column": (torch.tensor([[1], [0]]), [1, 0], 2, None),
    "int8": (np.array([1, 0], np.int8), [1, 0], 2, None),
    "bool": (np.array([True, False]), [1, 0], 2, None),
    "float": (np.array([1.0, NAN, 0]), [1, -1, 0], 2, None),
    "none at all": (np.array([NAN, -1]), [-1, -1], 1, None),
    "list with None": ([1, None, 0, -1], [1, -1, 0, -1], 2, None),
    "gaps": ([30, 10, -1, 10], [1, 0, -1, 0], 2, ["10", "30"]),
    "texts": (["b", "", None, "a", "b"], [1, -1, -1, 0, 1], 2, ["a", "b"]),
    "unicode": (np.array(["é", "a"]), [1, 0], 2, ["a", "é"]),
    "series": (pd.Series(["b", None, "a"]), [1, -1, 0], 2, ["a", "b"]),
    "category": (
        pd.Series(["b", None, "a"], dtype="category"),
        [1, -1, 0], 2, ["a", "b"],
    ),
    "nullable": (pd.Series([1, None, 0], dtype="Int64"), [1, -1, 0], 2, None),
    "words for none": (
        ["nan", "None", "x", "-1", "NA", "n/a", " ", "NULL", "-1.0"],
        [-1, -1, 0] + 6 * [-1], 1, ["x"],
    ),
    "-1 among texts": (["a", -1, "b"], [0, -1, 1], 2, ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "labels", "count", "names"), LABELS.values(), ids=LABELS.keys()
)
def test_labels_become_classes(values, labels, count, names):
    found = encode_labels(values, "y")
    assert found.labels.dtype == torch.int64
    assert found.labels.tolist() == labels
    assert (found.num_classes, found.class_names) == (count, names)


def test_integers_that_are_classes_already_are_kept():
    found = encode_labels(torch.tensor([0, 3, -1]), "y", keep=True)
    assert found.labels.tolist() == [0, 3, -1]
    assert (found.num_classes, found.class_names) == (4, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([0.5]), "y holds 0.5 for node 0, which is not an integer"),
        ([0.5], "y holds 0.5: labels are integers or texts"),
        ([1, "a"], "y holds both integers and texts"),
        (np.eye(3), r"shape \(3, 3\).* y.argmax\(1\)"),
        ([(1, 2), 3], r"y holds \(1, 2\)"),
        (3, "should be a list"),
    ],
)
def test_what_is_no_label_is_refused(values, message):
    with pytest.raises(DGLError, match=message):
        encode_labels(values, "y")
