"""Models in the styles that users of DGL write, to be transformed or refused.

Every entry is a function that makes a :class:`Case`; the decorator says what
becomes of the model.
"""

# Importing a family adds its models to TAKEN or REFUSED.
from . import (
    architectures,  # noqa: F401
    by_hand,  # noqa: F401
    calls,  # noqa: F401
    categories,  # noqa: F401
    complex_numbers,  # noqa: F401
    convolutions,  # noqa: F401
    dgl_calls,  # noqa: F401
    edge_columns,  # noqa: F401
    edge_tables,  # noqa: F401
    edge_types,  # noqa: F401
    end_products,  # noqa: F401
    layers_on_edges,  # noqa: F401
    matrices,  # noqa: F401
    message_styles,  # noqa: F401
    one_filter,  # noqa: F401
    polynomials,  # noqa: F401
    published,  # noqa: F401
    refused,  # noqa: F401
    refused_causes,  # noqa: F401
    refused_numbers,  # noqa: F401
    row_functions,  # noqa: F401
    torch_styles,  # noqa: F401
    types_of_nodes,  # noqa: F401
    user_functions,  # noqa: F401
)
from .cases import HID, IN, OUT, REFUSED, TAKEN, Case, Function, Layers, gcn
from .inputs import (
    features,
    looped_graph,
    model_of,
    permutation_graph,
    random_graph,
    randomised,
    transform_body,
    weighted_graph,
)
from .ready import lent, ready, refusal, transformed

__all__ = [
    "HID",
    "IN",
    "OUT",
    "REFUSED",
    "TAKEN",
    "Case",
    "Function",
    "Layers",
    "features",
    "gcn",
    "lent",
    "looped_graph",
    "model_of",
    "permutation_graph",
    "random_graph",
    "randomised",
    "ready",
    "refusal",
    "transform_body",
    "transformed",
    "weighted_graph",
]
