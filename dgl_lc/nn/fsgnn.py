"""Torch module for FSGNN."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from ..hops import HopFeatures
from ..node_rows import ModelInputs
from ..precompute import block_aggregate
from .activations import activation_name, get_activation
from .dropout import Dropout
from .hop_attention import WeighsHops
from .model import Features
from .normalization import NORMALIZATIONS, make_norm, reset_norms
from .plain.model_on_hops import check_last_hop
from .several_filters import FEATURES, SeveralFilters

#: Folders of the hop stores of the two filters, in ``out``.
_WITH_LOOPS, _WITHOUT_LOOPS = "with-loops", "without-loops"


class FSGNN(WeighsHops, SeveralFilters):
    r"""FSGNN, from `Improving Graph Neural Networks with Simple Architecture
    Design <https://arxiv.org/abs/2105.07634>`__

    Its inputs :math:`X_i` are the features and their hops 1 to K by the
    filter with and by the one without self-loops, :math:`2K + 1` in all:

    .. math::
      H = \sigma\Big(\Vert_i\, a_i \frac{X_i W_i}{\Vert X_i W_i \Vert_2}\Big)
      W, \quad a = \mathrm{softmax}(m)

    With three layers it is the form published for large graphs, where the
    weights of the inputs sum to their number:

    .. math::
      H = \sigma\Big(\sigma\Big(\Vert_i\, (2K + 1)\, a_i
      \frac{X_i W_i}{\Vert X_i W_i \Vert_2}\Big) W_h\Big) W

    For ogbn-papers100M its authors use ``hid_feats=1280, K=4, num_layers=3,
    dropout=0.5, dropout2=0.6``, and a learning rate and weight decay for each
    part: 5e-5 and 1e-5 for ``layers``, 2e-4 and 1e-6 for ``hidden``, 2e-5
    and 9e-6 for ``output``, 1e-4 and 0.1 for ``att``. Their "layer norm" is
    the division by the length of the rows, ``normalization="l2"``.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns for each input.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: 3.
    dropout : float, optional
        Dropout rate of the concatenation. Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: ReLU.
    norm : str, optional
        The norm of the filters. Default: ``'both'``.
    num_layers : int, optional
        2, or 3 for a hidden layer of ``hid_feats`` columns. Default: 2.
    dropout2 : float, optional
        Dropout rate after the hidden layer. Default: ``dropout``.
    normalization : str, optional
        Normalisation of each :math:`X_i W_i`: ``'l2'``, the one in the
        formulas, ``'layer'``, ``'batch'``, or None. Default: ``'l2'``.
    select : sequence of int, optional
        Which inputs the model reads, and precomputes: 0 is the features, 1
        to K their hops with, and K + 1 to 2K those without self-loops.
        Default: all of them.
    **options
        ``input_dropout`` and ``residual``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import FSGNN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = FSGNN(10, 16, 3, K=2)
    >>> len(model.precompute(g, x))
    5
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> FSGNN(10, 16, 3, K=2, select=[0, 4]).hop_names
    ['0', '2 without loops']
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 3,
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        num_layers: int = 2,
        dropout2: float | None = None,
        normalization: str | None = "l2",
        select: Sequence[int] | None = None,
        **options: Any,
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm=norm, **options)
        check_last_hop(K)
        if normalization not in ("l2", *NORMALIZATIONS, None):
            raise DGLError(
                f"normalization={normalization!r} should be 'l2', 'layer', "
                f"'batch' or None."
            )
        if num_layers not in (2, 3):
            raise DGLError(f"num_layers={num_layers!r} should be 2 or 3.")
        if num_layers == 2 and dropout2 is not None:
            raise DGLError(
                f"dropout2={dropout2!r} is for the hidden layer, which exists "
                f"with num_layers=3 only: omit it, or give num_layers=3."
            )
        self._K = K
        self._select = None if select is None else _check_select(select, K)
        if (
            self._select is not None
            and 0 not in self._select
            and self.front is not None
            and self.front.residual is not None
        ):
            raise DGLError(
                f"residual=True adds hop 0, but select={select!r} leaves out "
                f"input 0, the features: add it, or omit residual."
            )
        self._normalization = normalization
        self._activation = get_activation(activation)
        self.layers = nn.ModuleList(
            nn.Linear(in_feats, hid_feats) for _ in range(self.num_inputs)
        )
        self.norms = nn.ModuleList(
            make_norm(normalization, hid_feats)
            for _ in range(self.num_inputs)
            if normalization in NORMALIZATIONS
        )
        self.att = nn.Parameter(th.empty(self.num_inputs))
        self.dropout = Dropout(dropout)
        width = hid_feats * self.num_inputs
        self.hidden: nn.Linear | None = None
        if num_layers == 3:
            self.hidden = nn.Linear(width, hid_feats)
            self.dropout2 = Dropout(dropout if dropout2 is None else dropout2)
            width = hid_feats
        self.output = nn.Linear(width, out_feats)
        self.reset_parameters()

    @property
    def _inputs_read(self) -> list[tuple[int, bool]]:
        """The hop of each input, and whether its filter has self-loops."""
        later = range(1, self._K + 1)
        every = [(0, True), *((k, loops) for loops in (True, False)
                              for k in later)]  # fmt: skip
        if self._select is None:
            return every
        return [every[place] for place in self._select]

    @property
    def hops(self) -> list[int]:
        """The hops the model needs, of one filter or both."""
        return sorted({hop for hop, _ in self._inputs_read})

    @property
    def input_names(self) -> list[str]:
        """What each input is: the features, and their hops by both filters."""
        norm = self.filter.norm
        return [
            f"hop {hop} (norm={norm!r}, self_loop={loops})" if hop else FEATURES
            for hop, loops in self._inputs_read
        ]

    @property
    def hop_names(self) -> list[str]:
        """What each column of :meth:`hop_attention` is the weight of."""
        return [
            str(hop) if loops else f"{hop} without loops"
            for hop, loops in self._inputs_read
        ]

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
            "num_layers": 2 if self.hidden is None else 3,
            "dropout2": None if self.hidden is None else self.dropout2.p,
            "normalization": self._normalization,
            "select": self._select,
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters; all inputs weigh the same.
        """
        for layer in [*self.layers, self.output]:
            layer.reset_parameters()
        if self.hidden is not None:
            self.hidden.reset_parameters()
        reset_norms(self.norms)
        nn.init.ones_(self.att)
        self.reset_options()

    def precompute(
        self, graph: dgl.DGLGraph, feat: th.Tensor, **options: Any
    ) -> ModelInputs:
        r"""

        Description
        -----------
        Compute the inputs: the features, their hops with, and those without
        self-loops.

        Parameters
        ----------
        graph : DGLGraph, sparse matrix or pair
            The graph, as :func:`dgl_lc.block_aggregate` takes it.
        feat : torch.Tensor
            Its node features.
        **options
            As for :func:`dgl_lc.block_aggregate`, ``memory`` being for each
            of the two filters, and ``out`` a folder for both, which
            :func:`dgl_lc.precompute.open_store` opens again.

        Returns
        -------
        ModelInputs
            :math:`2K + 1` inputs, or those of ``select``.
        """
        out = options.pop("out", None)
        if out is not None and not options.get("shared", True):
            raise DGLError(
                "shared=False is for models of one filter: FSGNN writes its "
                "inputs to one folder, which all ranks have to see. Omit out "
                "for the rows of each rank in memory."
            )
        # Hop 0 is the same for both filters.
        parts: dict[str, dict[str, Any]] = {}
        for folder, loops in ((_WITH_LOOPS, True), (_WITHOUT_LOOPS, False)):
            hops = [hop for hop, with_loops in self._inputs_read
                    if with_loops == loops]  # fmt: skip
            if hops:
                parts[folder] = {"hops": hops, "self_loop": loops}

        def compute(folder: str, to: Path | None) -> HopFeatures:
            last = parts[folder]["hops"][-1]
            return block_aggregate(
                graph, feat, last, norm=self.filter.norm, out=to,
                **parts[folder], **options,
            )  # fmt: skip

        if out is not None:
            return self._store_inputs(
                graph, feat, out, list(parts),
                lambda writer, name: compute(name, writer.folder(name)),
                options,
            )  # fmt: skip
        found = [compute(name, None) for name in parts]
        tensors = [hop for hops in found for hop in hops]
        weighted = found[0].filter.weighted
        inputs = self._inputs(tensors, found[0].nodes, weighted)
        inputs.shard = found[0].shard
        return inputs

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute FSGNN.

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
        rows = self.inputs(graph, feat)
        weights = F.softmax(self.att, dim=0)
        if self.hidden is not None:
            weights = self.num_inputs * weights
        branches = [
            weights[place] * self._normalize(layer(rows[place]), place)
            for place, layer in enumerate(self.layers)
        ]
        rst = self.dropout(self._activation(th.cat(branches, dim=-1)))
        if self.hidden is not None:
            rst = self.dropout2(self._activation(self.hidden(rst)))
        return self.add_labels(self.output(rst), feat)

    def _normalize(self, rows: th.Tensor, place: int) -> th.Tensor:
        """Normalise what the layer of an input has computed."""
        if self._normalization == "l2":
            return F.normalize(rows, dim=-1)
        return self.norms[place](rows) if len(self.norms) else rows

    def _weigh(self, rows: th.Tensor) -> th.Tensor:
        """Return the weights, which are the same for all rows."""
        return F.softmax(self.att, dim=0).expand(rows.shape[1], -1)

    def extra_repr(self) -> str:
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}"


def _check_select(select: Sequence[int], K: int) -> list[int]:
    """Return the places of inputs, ascending; refuse others."""
    known = range(2 * K + 1)
    places = sorted(select)
    whole = all(type(place) is int and place in known for place in places)
    if not places or not whole or len(set(places)) < len(places):
        raise DGLError(
            f"select={select!r} should hold different inputs out of 0 to "
            f"{2 * K}: 0 for the features, 1 to {K} for hops with, and "
            f"{K + 1} to {2 * K} for hops without self-loops."
        )
    return places
