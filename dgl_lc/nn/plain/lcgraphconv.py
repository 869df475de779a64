"""Torch module for the LC version of the graph convolutional layer"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
from dgl import DGLError
from torch import nn
from torch.nn import init


class LCConv(nn.Module):
    """Base class of the layers on hops."""

    def _update_hops(self, update, reads, graph, edge_weight):
        """Compute the hops of the output. ``edge_weight`` is for subclasses
        that know what the hops were computed with."""
        # pylint: disable=unused-argument
        return update_hops(update, reads, graph)


class LCGraphConv(LCConv):
    r"""LC version of the graph convolution, from `GNN Transformation Framework
    for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.GraphConv` computes :math:`\sigma(S H W + b)`
    for the filter :math:`S` of a graph. Here :math:`H` is given by its hops,
    :math:`f(S^k X)`, and swapping :math:`S` with what was done to the rows
    before makes the aggregation a step to the next hop:

    .. math::
      h^{(l+1)}[k] = \sigma(h^{(l)}[k + 1] W^{(l)} + b^{(l)})

    The features' hops :math:`S^k X` are computed once, before training. A
    stack of K of these layers reads hop K, and trains on mini-batches of rows
    without a graph. Signature, parameters and their names are those of
    GraphConv, so that the layers of a model can be swapped one by one.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    out_feats : int
        Output feature size.
    norm : str, optional
        The norm of the filter the hops were computed with, as in
        :class:`~dgl.nn.pytorch.conv.GraphConv`: ``'both'``, ``'right'``,
        ``'left'`` or ``'none'``. Default: ``'both'``.
    weight : bool, optional
        If True, apply a linear layer. Default: ``True``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation : callable activation function/layer or None, optional
        If not None, applies an activation function to the updated features.
        Default: ``None``.
    allow_zero_in_degree : bool, optional
        As in :class:`~dgl.nn.pytorch.conv.GraphConv`, and without effect: the
        hops of a node without in-edges are what they were computed to be.
        Default: ``False``.

    Attributes
    ----------
    weight : torch.Tensor
        The learnable weight tensor.
    bias : torch.Tensor
        The learnable bias tensor.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn import LCGraphConv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> conv1, conv2 = LCGraphConv(10, 16, activation=th.relu), LCGraphConv(16, 2)
    >>> conv2(g, conv1(g, hops)).shape
    torch.Size([6, 2])

    >>> # A mini-batch of rows of the only hop that two layers need
    >>> batch = [None, None, hops[2][[4, 0]]]
    >>> conv2(None, conv1(None, batch)).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        in_feats,
        out_feats,
        norm="both",
        weight=True,
        bias=True,
        activation=None,
        allow_zero_in_degree=False,
    ):
        super().__init__()
        if norm not in ("none", "both", "right", "left"):
            raise DGLError(
                f"norm={norm!r} is not known: choose 'both', 'right', 'left' "
                f"or 'none'."
            )
        self._in_feats = in_feats
        self._out_feats = out_feats
        self._norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree

        if weight:
            self.weight = nn.Parameter(th.empty(in_feats, out_feats))
        else:
            self.register_parameter("weight", None)

        if bias:
            self.bias = nn.Parameter(th.empty(out_feats))
        else:
            self.register_parameter("bias", None)

        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        As in :class:`~dgl.nn.pytorch.conv.GraphConv`, the weight is
        initialized using Glorot uniform initialization, and the bias is
        initialized to be zero.
        """
        if self.weight is not None:
            init.xavier_uniform_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value):
        r"""

        Description
        -----------
        Set allow_zero_in_degree flag, which has no effect.

        Parameters
        ----------
        set_value : bool
            The value to be set to the flag.
        """
        self._allow_zero_in_degree = set_value

    def forward(self, graph, feat, weight=None, edge_weight=None):
        r"""

        Description
        -----------
        Aggregate once: the next hop of each, times the weight.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation, and is here so that
            the code of a model stays as it is. For rows of some nodes, give
            None.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(K + 1, N, D_{in})`.
        weight : torch.Tensor, optional
            Optional external weight tensor.
        edge_weight : torch.Tensor, optional
            Weights of edges are a part of the filter the hops were computed
            with. They are not used here.

        Returns
        -------
        list of torch.Tensor, or torch.Tensor
            The hops of the output, one fewer and of the same kind. If hop 0
            is the only one, the tensor of hop 0.

        Raises
        ------
        DGLError
            Case 1:
            ``feat`` has no hop but hop 0, so that nothing is left to step to.

            Case 2:
            ``weight`` is given, and the layer has a weight of its own.

            Case 3:
            A graph is given, and ``feat`` has not a row for each of its nodes.
        """
        if weight is None:
            weight = self.weight
        elif self.weight is not None:
            raise DGLError(
                "weight was given to forward, but the layer has a weight of "
                "its own: create it with weight=False."
            )

        def update(rst):
            if weight is not None:
                check_columns(rst, weight.shape[0])
                rst = th.matmul(rst, weight)
            if self.bias is not None:
                rst = rst + self.bias
            if weight is None and self.bias is None:
                # As after an aggregation, the output can be changed in place.
                rst = rst.clone()
            if self._activation is not None:
                rst = self._activation(rst)
            return rst

        return self._update_hops(update, [(feat, 1)], graph, edge_weight)

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        summary = "in={_in_feats}, out={_out_feats}"
        summary += ", normalization={_norm}"
        # A module is printed as a submodule, and is not in __dict__.
        if self.__dict__.get("_activation") is not None:
            summary += ", activation={_activation}"
        return summary.format(**self.__dict__)


def update_hops(update, reads, graph=None):
    """Compute each hop of the output from some hops of the inputs.

    The hops of the output are those for which all of these exist.

    Parameters
    ----------
    update : callable
        Takes the tensors that are read for a hop, and returns the output's.
    reads : list of (hops, int)
        What is read for hop k: hop k + offset of these hops, which are given
        as for :class:`LCGraphConv`.
    graph : DGLGraph, optional
        If given, the hops have a row for each of its nodes.

    Returns
    -------
    list of torch.Tensor, or torch.Tensor
        The hops of the output; if hop 0 is the only one, its tensor.
    """
    for feat, _ in reads:
        _check_hops(feat)
        _check_rows(feat, graph)
    count = min(len(feat) - offset for feat, offset in reads)
    if count > 0 and all(isinstance(feat, th.Tensor) for feat, _ in reads):
        # The rows of all hops at once, so that dim=1 means their columns.
        rows = [feat[off : off + count].flatten(0, 1) for feat, off in reads]
        rst = update(*rows)
        if count == 1:
            return rst
        return rst.unflatten(0, (count, len(rst) // count))
    rst = []
    for hop in range(count):
        rows = [feat[hop + offset] for feat, offset in reads]
        lacks = any(tensor is None for tensor in rows)
        rst.append(None if lacks else update(*rows))
    if all(tensor is None for tensor in rst):
        raise DGLError(
            f"feat has too few hops: the layer reads "
            f"{name_hops(offset for _, offset in reads)}. Compute as many "
            f"hops as the model aggregates times."
        )
    if all(tensor is None for tensor in rst[1:]):
        return rst[0]
    return rst


def _check_hops(feat):
    """Refuse what is not a list of hop tensors, or one tensor of hops."""
    if isinstance(feat, th.Tensor) and feat.dim() < 3:
        raise DGLError(
            f"feat is a tensor of shape {tuple(feat.shape)}, but hop tensors "
            f"are needed: a list of them from hop 0 on, or one tensor of "
            f"shape (hops, rows, columns)."
        )
    if isinstance(feat, tuple):
        raise DGLError(
            "feat is a tuple, which is a pair of features of a bipartite "
            "graph or of a sampled block: their nodes have no later hops. "
            "Give hop tensors as a list."
        )
    if not isinstance(feat, (list, th.Tensor)):
        raise DGLError(
            f"feat should be a list of hop tensors, or one tensor of shape "
            f"(hops, rows, columns), got {type(feat).__name__}."
        )


def _check_rows(feat, graph):
    """Refuse tensors of other rows than each other, or than the graph."""
    tensors = [tensor for tensor in feat if tensor is not None]
    plain = all(isinstance(t, th.Tensor) and t.dim() > 0 for t in tensors)
    if not plain or len({tensor.shape[:1] for tensor in tensors}) > 1:
        kinds = [tuple(t.shape) if plain else type(t).__name__ for t in tensors]
        raise DGLError(
            f"feat should be a list of tensors with as many rows each, one "
            f"for each hop, got {', '.join(map(str, kinds))}."
        )
    if graph is not None and not hasattr(graph, "num_nodes"):
        raise DGLError(
            f"graph should be None or a DGLGraph, got {type(graph).__name__}."
        )
    if graph is not None and {len(t) for t in tensors} - {graph.num_nodes()}:
        raise DGLError(
            f"feat of shape {(len(feat), *tensors[0].shape)} is taken as "
            f"(hops, rows, columns), with {len(tensors[0])} rows, but the "
            f"graph has {graph.num_nodes()} nodes: compute the hops of "
            f"features first, or give None as the graph of some nodes' rows."
        )


def name_hops(hops):
    """Name hops in a message.

    >>> name_hops([1]), name_hops([0, 1, 2])
    ('hop 1', 'hops 0, 1 and 2')
    """
    *first, last = map(str, sorted(set(hops)))
    return f"hops {', '.join(first)} and {last}" if first else f"hop {last}"


def check_columns(rows, columns, name="feat"):
    """Refuse rows of another length than the weight of a layer takes."""
    if rows.shape[-1] != columns:
        raise DGLError(
            f"{name} has {rows.shape[-1]} columns, but the layer takes "
            f"{columns}."
        )
