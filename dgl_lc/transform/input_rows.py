"""The inputs of an LC version for some nodes: what loaders and fit take."""

from ..node_rows import NodeRows


class InputRows(NodeRows):
    """The inputs of an LC version, for some nodes.

    Iterating over it gives the tensors, in the order of ``lc.inputs``.
    Loaders and ``fit`` take it as they take hop features.

    Attributes
    ----------
    names : list of str, or None
        Formulas of the inputs; a module that needs others refuses them.
    filters : tuple of str, or None
        What the names of filters in the formulas mean.
    """

    names: list[str] | None = None
    filters: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        columns = [tuple(tensor.shape[1:]) for tensor in self]
        return f"InputRows(rows={self.shape[0]}, columns={columns})"
