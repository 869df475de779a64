"""Base class of the models that read hops of the features"""
# pylint: disable= no-member, invalid-name
import torch as th
from dgl import DGLError
from torch import nn


class ModelOnHops(nn.Module):
    r"""A model that reads hops :math:`S^k X` of the features, which were
    computed before, and nothing else of the graph

    A subclass names the hops that it needs (:attr:`hops`), and computes its
    output from :meth:`inputs`.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int or None
        Hidden feature size; None for a model without hidden layers.
    out_feats : int
        Output feature size.
    """

    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        check_sizes(in_feats=in_feats, out_feats=out_feats)
        if hid_feats is not None:
            check_sizes(hid_feats=hid_feats)
        self._in_feats = in_feats
        self._hid_feats = hid_feats
        self._out_feats = out_feats

    @property
    def hops(self):
        """The hops that the model needs, ascending."""
        raise NotImplementedError

    def inputs(self, graph, feat):
        r"""

        Description
        -----------
        Stack the hops that the model needs.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used; a subclass may compute hops with it.
            For rows of some nodes, give None.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(K + 1, N, D_{in})`.

        Returns
        -------
        torch.Tensor
            Shape :math:`(|hops|, N, D_{in})`, with the data type of the
            model's parameters.

        Raises
        ------
        DGLError
            If ``feat`` is not a list of hop tensors, lacks a hop, or has
            other columns than the model was made for, or other rows than the
            graph has nodes.
        """
        rows = self._check_columns(stack_hops(feat, self.hops))
        check_rows(rows, graph)
        return rows

    def _activate(self, rows, number):
        """Apply the activation to what hidden layer ``number``, counted from
        0, has computed; a subclass may do more."""
        return self._activation(rows)

    def _check_columns(self, rows):
        """Refuse hops of another size; compute with the model's precision."""
        if rows.shape[2:] != (self._in_feats,):
            columns = " x ".join(map(str, rows.shape[2:]))
            raise DGLError(
                f"feat has {columns} columns, but "
                f"{type(self).__name__} was made with in_feats="
                f"{self._in_feats}."
            )
        # Hops may be stored with fewer bits than the model computes with.
        return rows.to(next(self.parameters()).dtype)


def stack_hops(feat, hops):
    """Stack some hops of hop tensors; those of one tensor without a copy.

    Parameters
    ----------
    feat : list of torch.Tensor, or torch.Tensor
        The hops, from hop 0 on, as for :class:`ModelOnHops`.
    hops : list of int
        The hops to stack, ascending.

    Returns
    -------
    torch.Tensor
        Shape (number of hops, rows, columns).

    Examples
    --------
    >>> x1, x2 = th.tensor([[1.0, 2.0]]), th.tensor([[3.0, 4.0]])
    >>> stack_hops([None, x1, x2], [1, 2])
    tensor([[[1., 2.]],
            [[3., 4.]]])
    """
    whole = isinstance(feat, th.Tensor)
    if feat.dim() != 3 if whole else not isinstance(feat, (list, tuple)):
        raise DGLError(
            f"feat should be a list of hop tensors from hop 0 on, or one "
            f"tensor of shape (hops, rows, columns), got {_kind(feat)}."
        )
    found = [hop for hop, rows in enumerate(feat) if rows is not None]
    if not set(hops) <= set(found):
        names = [f"x{k}" if k in hops else "None" for k in range(hops[-1] + 1)]
        raise DGLError(
            f"feat has hops {found}, counted from hop 0, but hops {hops} are "
            f"needed: give [{', '.join(names)}], where the place of a tensor "
            f"is its hop."
        )
    if whole:
        adjacent = hops[-1] - hops[0] + 1 == len(hops)
        return feat[hops[0] : hops[-1] + 1] if adjacent else feat[hops]
    tensors = [feat[hop] for hop in hops]
    kinds = [_kind(rows) for rows in tensors]
    plain = isinstance(tensors[0], th.Tensor) and tensors[0].dim() == 2
    if not plain or len(set(kinds)) > 1:
        raise DGLError(
            f"feat should hold tensors of one shape (rows, columns), got "
            f"{', '.join(kinds)} for hops {hops}."
        )
    return th.stack(tensors) if len(tensors) > 1 else tensors[0][None]


def check_rows(rows, graph):
    """Refuse stacked hops of other rows than the graph has nodes, if any."""
    if graph is None:
        return
    if not hasattr(graph, "num_nodes"):
        raise DGLError(
            f"graph should be None or a DGLGraph, got {type(graph).__name__}."
        )
    if rows.shape[1] != graph.num_nodes():
        raise DGLError(
            f"feat has hops of {rows.shape[1]} rows, but the graph has "
            f"{graph.num_nodes()} nodes: give None as the graph of rows of "
            f"some nodes."
        )


def _kind(value):
    """Describe what was given, for a message."""
    if isinstance(value, th.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return type(value).__name__


def check_sizes(**sizes):
    """Refuse a size that is not a positive integer."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DGLError(f"{name}={size!r} should be a positive integer.")


def check_last_hop(K, name="K"):
    """Refuse a last hop that is not an integer, 0 or more."""
    if isinstance(K, bool) or not isinstance(K, int) or K < 0:
        raise DGLError(f"{name}={K!r} should be an integer, 0 or more.")
