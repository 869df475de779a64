"""Torch module for the LC version of H2GCN."""

import itertools
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from dgl.base import DGLWarning
from torch import nn
from torch.nn import init

from ..node_rows import ModelInputs
from ..precompute import block_aggregate
from ..precompute.checks import check_nodes, has_weights
from ..precompute.graph.adjacency import as_graph
from ..precompute.graph.two_hop import one_hop_graph, two_hop_graph
from ..ranks.first_rank import on_first_rank
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import open_hop_store
from ..storage.input_store import InputsWriter, open_inputs
from .activations import activation_name, get_activation
from .dropout import Dropout
from .model import Features
from .plain.model_on_hops import check_last_hop
from .several_filters import FEATURES, SeveralFilters


class LCH2GCN(SeveralFilters):
    r"""LC version of H2GCN, from `Beyond Homophily in Graph Neural Networks:
    Current Limitations and Effective Designs
    <https://arxiv.org/abs/2006.11468>`__

    H2GCN aggregates over the nodes exactly one and exactly two steps away,
    by two filters :math:`S_1` and :math:`S_2`, keeps all that it gets and
    has no other non-linearity than that of the embedding:
    :math:`R_0 = \sigma(X W_e)`, :math:`R_k = S_1 R_{k-1} \Vert S_2 R_{k-1}`,
    :math:`H = (\Vert_{k=0}^K R_k) W_c`. Its LC version reads the features at
    all words of the two filters, 7 for K = 2:

    .. math::
      H = \Big(\Vert_{k=0}^K \Vert_{w \in \{1, 2\}^k}
      \sigma(S_{w_1} \cdots S_{w_k} X W_e)\Big) W_c

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the embedding.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The rounds of aggregation. Default: 2.
    dropout : float, optional
        Dropout rate before the last layer. Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: ReLU.
    norm : str, optional
        The norm of the two filters. Default: ``'both'``.
    **options
        ``input_dropout``, ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCH2GCN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = LCH2GCN(10, 16, 3)
    >>> model.words
    [(), (1,), (2,), (1, 1), (1, 2), (2, 1), (2, 2)]
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    #: Nodes exactly two steps away have no edge that could have a weight.
    uses_weights = False

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 2,
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, norm=norm, self_loop=False,
            **options,
        )  # fmt: skip
        check_last_hop(K)
        self._K = K
        self._activation = get_activation(activation)
        self.embedding = nn.Linear(in_feats, hid_feats, bias=False)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(
            hid_feats * self.num_inputs, out_feats, bias=False
        )
        self._normalize_hidden([hid_feats])
        self.reset_parameters()

    @property
    def hops(self) -> list[int]:
        """The lengths of the words: 0 to K."""
        return list(range(self._K + 1))

    @property
    def words(self) -> list[tuple[int, ...]]:
        """The words of the two filters, in the order of the inputs."""
        return [
            word
            for k in range(self._K + 1)
            for word in itertools.product((1, 2), repeat=k)
        ]

    @property
    def input_names(self) -> list[str]:
        """What each input is: the features at a word of the two filters."""
        norm = self.filter.norm
        return [
            " ".join([*(f"S{letter}" for letter in word), FEATURES])
            + (f" (norm={norm!r})" if word else "")
            for word in self.words
        ]

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        init.xavier_uniform_(self.embedding.weight)
        init.xavier_uniform_(self.output.weight)
        self.reset_options()

    def precompute(
        self,
        graph: dgl.DGLGraph,
        feat: th.Tensor,
        nodes: th.Tensor | None = None,
        memory: int | str | None = None,
        **options: Any,
    ) -> ModelInputs:
        r"""

        Description
        -----------
        Compute the features at all words. Exact 2-hop neighbourhoods are
        very large on graphs with hubs: their size is estimated first.

        Parameters
        ----------
        graph : DGLGraph, sparse matrix or pair
            The graph, as :func:`dgl_lc.block_aggregate` takes it; self-loops
            and multi-edges are left out, and edge weights are not used, with
            a warning.
        feat : torch.Tensor
            Its node features.
        nodes : torch.Tensor, optional
            Ids or a mask of the nodes whose rows are wanted. Default: all
            nodes.
        memory : int or str, optional
            Bytes the exact 2-hop neighbourhoods may take. Default: "4GiB".
        **options
            As for :func:`dgl_lc.block_aggregate`; ``out`` is a folder for
            all words, which :func:`dgl_lc.precompute.open_store` opens
            again. ``edge_weight=False`` ignores weights without a warning.

        Returns
        -------
        ModelInputs
            An input for each word.
        """
        graph, values = as_graph(graph, len(feat))
        weight = options.pop("edge_weight", None)
        _warn_of_weights(graph, values, weight)
        options["edge_weight"] = False
        nodes = check_nodes(graph, nodes)
        out = options.pop("out", None)
        # Words are computed from one another, at all rows: each rank does so
        # by itself, or the first one writes for all.
        group = options.pop("process_group", None)
        options["process_group"] = False

        @cache
        def graphs() -> tuple[dgl.DGLGraph, dgl.DGLGraph]:
            near = one_hop_graph(graph)
            return near, two_hop_graph(near, memory)

        found: dict[tuple[int, ...], th.Tensor] = {}

        def at_all_rows(word: tuple[int, ...]) -> th.Tensor:
            """Compute a word in memory, or give one that was computed."""
            if word not in found:
                found[word] = apply(word, **options)
            return found[word]

        def apply(word: tuple[int, ...], **options: Any) -> th.Tensor:
            """Apply the filter that comes last in a word, its first letter."""
            filtered = len(word) > 0
            rows = at_all_rows(word[1:]) if filtered else feat
            hops = block_aggregate(
                graphs()[word[0] - 1] if filtered else graph, rows,
                int(filtered), hops=[int(filtered)], norm=self.filter.norm,
                self_loop=False, **options,
            )  # fmt: skip
            return hops[int(filtered)]

        if out is not None:
            folders = {_folder_of(word): word for word in self.words}

            def write(writer: InputsWriter, folder: str) -> None:
                word = folders[folder]
                if nodes is None and word:
                    # What it is computed from was written before.
                    before = writer.folder(_folder_of(word[1:]))
                    found.setdefault(word[1:], open_hop_store(before).stack)
                apply(word, nodes=nodes, out=writer.folder(folder), **options)

            return on_first_rank(
                group, "precompute",
                lambda: self._store_inputs(
                    graph, feat, out, list(folders), write,
                    {**options, "nodes": nodes},
                ),
                lambda: open_inputs(out),
            )  # fmt: skip
        inputs = [at_all_rows(word) for word in self.words]
        if nodes is not None:
            inputs = [tensor[nodes] for tensor in inputs]
        return self._inputs(inputs, nodes)

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute the LC version of H2GCN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : ModelInputs, sequence of torch.Tensor, or torch.Tensor
            The inputs, as :meth:`precompute` gives them, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self._activate(self.embedding(self.inputs(graph, feat)), 0)
        rst = rows.transpose(0, 1).flatten(1)
        return self.add_labels(self.output(self.dropout(rst)), feat)

    def extra_repr(self) -> str:
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}"


def _warn_of_weights(
    graph: dgl.DGLGraph | DiskGraph, values: th.Tensor | None, weight: Any
) -> None:
    """Warn of weights, given or of the graph, that are not used."""
    if weight is False:
        return
    if weight is not None or values is not None or has_weights(graph):
        warnings.warn(
            "LCH2GCN ignores the weights of edges: its exact 1-hop and 2-hop "
            "neighbourhoods have none. edge_weight=False ignores them without "
            "this warning.",
            DGLWarning,
            stacklevel=3,
        )


def _folder_of(word: tuple[int, ...]) -> str:
    """Name the folder of a word's hop store, such as "S1S2"."""
    return "".join(f"S{letter}" for letter in word) or "features"
