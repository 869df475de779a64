"""Checking that a static value can be an input of the LC version."""

import torch

from . import causes
from .filter_words import Word
from .refusals import refuse, refuse_value
from .tracing.values import Value


def check_input(value: Value, word: Word, user: Value | None = None) -> None:
    """Refuse a static value that can't be an input.

    ``user`` is the operation that needs it.
    """
    if value.row_dim != 0:
        refuse_value(
            causes.NUMBER_OF_THE_GRAPH, value,
            f"mixes nodes, or its first dimension is not that of the "
            f"nodes (its shape is {value.dims})",
            "Compute it before the model is called, and store it as an "
            "attribute of the model",
        )  # fmt: skip
    ids = value.op == "graph" and value.target[1] == "nodes"
    if word and (ids or value.name == "arange"):
        refuse_value(
            causes.SIZE_OF_THE_GRAPH, value,
            "is made of integers, the ids of nodes: what is looked up by "
            "them (a learnable embedding for each node) is not a function "
            "of the features",
            "Use features of nodes, given to the model, instead of "
            "learned embeddings",
        )  # fmt: skip
    if word and value.example.dtype == torch.bool:
        refuse_value(
            causes.INTEGERS, value,
            "is a mask of nodes (true or false), which can't be aggregated",
            "Multiply by the mask as a number: h * mask.float()",
        )  # fmt: skip
    if word and value.example.is_complex():
        refuse_value(
            causes.UNSUPPORTED_MESSAGES, value,
            "is made of complex numbers, and filters are applied to real "
            "ones",
            "Compute with the real and the imaginary part, as two tensors, "
            "and join them in forward: torch.complex(real, imag)",
        )  # fmt: skip
    if word and not value.example.is_floating_point():
        if user is not None and user.learned and value.op == "input":
            # The line of an argument would be that of lc_transform.
            refuse(
                causes.INTEGERS, user.where,
                f"{user.name} by integers of nodes",
                "is a function of integers (types of nodes or categories), "
                "which can't be aggregated",
                "Use nn.Embedding or dgl.nn.TypedLinear, or a layer for each "
                "type, multiplied by a mask as a number: "
                "(types == 0).float().unsqueeze(1) * self.fc(x)", user.line,
            )  # fmt: skip
        refuse_value(
            causes.INTEGERS, value,
            "is made of integers (ids or categories), which can't be "
            "aggregated",
            "Pass floating-point features to the model, such as one-hot "
            "columns",
        )  # fmt: skip
