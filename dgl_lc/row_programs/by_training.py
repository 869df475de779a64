"""A number that a module has in training, and another in evaluation."""

from typing import Any


def if_training(training: bool, value: Any, otherwise: Any) -> Any:
    """Return the value in training, and the other one in evaluation.

    Generated code calls it for ``dropout_p=0.2 if self.training else 0.0``.

    >>> if_training(False, 0.2, 0.0)
    0.0
    """
    return value if training else otherwise
