"""Base class of the models: where their hop features come from."""

from collections.abc import Sequence
from typing import Any

import dgl
import torch as th
from dgl import DGLError
from torch import nn

from ..hops import FilterSpec, HopFeatures
from ..label_recipe import LabelRecipe
from ..labelled_rows import LabelledRows
from ..node_rows import NodeRows
from ..precompute import block_aggregate
from .cache import InputCache
from .compare_graph import check_rows, check_same_graph
from .dropout import use_quick_dropout
from .front import Front
from .label_branch import LabelBranch
from .normalization import check_normalization, make_norm, reset_norms
from .plain import model_on_hops
from .plain.model_on_hops import ModelOnHops, stack_hops

#: Plain hop tensors, from hop 0 on.
Hops = Sequence[th.Tensor | None] | th.Tensor
#: What the ``forward`` of a model takes as its features.
Features = NodeRows | Hops


class HopModel(ModelOnHops):
    r"""A model whose only use of the graph is a set of hop features.

    It turns a model of :mod:`dgl_lc.nn.plain`, which reads plain hop tensors,
    into one that knows its filter: ``class LCJKNet(HopModel, plain.LCJKNet)``
    reads hop features as well, or a graph and its features. In the latter
    case it precomputes once, and uses the result again for as long as the
    graph and the features stay the same.

    Parameters
    ----------
    *sizes, **options
        The arguments of the plain model.
    norm : str
        The norm of the filter, as in :class:`dgl.nn.GraphConv`.
    self_loop : bool
        Whether the filter gives every node exactly one self-loop.
    input_dropout : float, optional
        Dropout rate of the features. Default: 0.
    residual : bool, optional
        Whether a linear map of hop 0, which is learned and starts as zeros,
        is added to every hop that the model reads. Default: False.
    normalization : str, optional
        Normalisation before each activation: ``'batch'``, with the statistics
        of all hops together, ``'layer'``, or None. Default: None.
    label_feats : int, optional
        The number of classes of label features, which the model then reads
        beside the hop features (:func:`dgl_lc.precompute.with_labels`): a
        perceptron of them is added to the output. Default: none.
    label_hops : int, optional
        The hops of label features that it reads: 1 to this one. Default: 3.
    label_dropout : float, optional
        Dropout rate of the label features and of their perceptron.
        Default: 0.5.
    """

    #: Names of the parameters that training should not decay.
    no_weight_decay: frozenset[str] = frozenset()
    #: Whether weights of edges can be a part of the model's filter.
    uses_weights: bool = True

    def __init__(
        self,
        *sizes: Any,
        norm: str = "both",
        self_loop: bool = True,
        input_dropout: float = 0.0,
        residual: bool = False,
        normalization: str | None = None,
        label_feats: int | None = None,
        label_hops: int = 3,
        label_dropout: float = 0.5,
        **options: Any,
    ):
        filter = FilterSpec(norm, self_loop)
        check_normalization(normalization)
        super().__init__(*sizes, **options)
        #: What reads label features; None if the model reads none.
        self.label_branch: LabelBranch | None = None
        if label_feats is not None:
            self.label_branch = LabelBranch(
                label_feats, label_hops, self._hid_feats, self._out_feats,
                label_dropout,
            )  # fmt: skip
        #: How the label features were made that the model was trained with.
        self.label_recipe: LabelRecipe | None = None
        self.filter = filter
        self._hidden_normalization = normalization
        #: The normalisation before each activation, if there is one.
        self.hidden_norms: nn.ModuleList | None = None
        #: What is done to the hops before the model's own layers, if anything.
        self.front: Front | None = None
        # Whether hop 0 is read for the residual alone. Models that name their
        # hops themselves read it anyway.
        self._adds_hop_0 = False
        if input_dropout or residual:
            self.front = Front(self._in_feats, input_dropout, residual)
        if residual and type(self).hops is HopModel.hops:
            self._adds_hop_0 = 0 not in self.hops
        #: Whether the model was trained with edge weights; None if that is
        #: not known. Inputs of the other filter are refused.
        self.weighted: bool | None = None
        self._cache = InputCache()
        use_quick_dropout(self)

    @property
    def num_inputs(self) -> int:
        """The number of feature matrices the model reads."""
        return len(self.hops)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        found = {"in_feats": self._in_feats, "out_feats": self._out_feats}
        if self._hid_feats is not None:
            found["hid_feats"] = self._hid_feats
        return {
            **found,
            "norm": self.filter.norm,
            "self_loop": self.filter.self_loop,
            **({} if self.front is None else self.front.config),
            **(
                {}
                if self._hidden_normalization is None
                else {"normalization": self._hidden_normalization}
            ),
            **({} if self.label_branch is None else self.label_branch.config),
        }

    @property
    def hops(self) -> list[int]:
        """The hops that the model needs, ascending."""
        added = [0] if getattr(self, "_adds_hop_0", False) else []
        return added + super().hops

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        super().reset_parameters()  # type: ignore[misc]
        self.reset_options()

    def reset_options(self) -> None:
        """Reinitialize what options of all models have added."""
        # A plain model resets its parameters before these exist.
        if (front := getattr(self, "front", None)) is not None:
            front.reset_parameters()
        if (norms := getattr(self, "hidden_norms", None)) is not None:
            reset_norms(norms)
        if (branch := getattr(self, "label_branch", None)) is not None:
            branch.reset_parameters()

    def _normalize_hidden(self, widths: Sequence[int]) -> None:
        """Have hidden layers of these columns normalised, if so asked for."""
        kind = self._hidden_normalization
        if kind is not None:
            norms = [make_norm(kind, width) for width in widths]
            self.hidden_norms = nn.ModuleList(norms)

    def _activate(self, rows: th.Tensor, number: int) -> th.Tensor:
        """Normalise, if so asked for, and activate a hidden layer's rows."""
        if self.hidden_norms is not None:
            rows = self.hidden_norms[number](rows)
        return super()._activate(rows, number)

    def add_labels(self, output: th.Tensor, feat: Any) -> th.Tensor:
        """Add what the label features of ``feat`` say to an output.

        The ``forward`` of every model ends with it.
        """
        if self.label_branch is None:
            return output
        rows = self.label_branch.rows(type(self).__name__, feat)
        return output + self.label_branch(rows)

    def precompute(
        self, graph: dgl.DGLGraph, feat: th.Tensor, **options: Any
    ) -> NodeRows:
        r"""

        Description
        -----------
        Compute the hop features this model needs, and no others.

        Parameters
        ----------
        graph : DGLGraph, sparse matrix or pair
            The graph, as :func:`dgl_lc.block_aggregate` takes it.
        feat : torch.Tensor
            Its node features.
        **options
            As for :func:`dgl_lc.block_aggregate`: nodes, memory, dtype …

        Returns
        -------
        HopFeatures
            What :meth:`forward` takes.
        """
        return block_aggregate(
            graph, feat, self.hops[-1], hops=self.hops,
            norm=self.filter.norm, self_loop=self.filter.self_loop, **options,
        )  # fmt: skip

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute the model's output.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor of features; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with the hops of :attr:`hops`; plain hop tensors,
            from hop 0 on, as a list with None for a hop that is not needed,
            or as one tensor of shape (hops, rows, columns); or the features.
            With ``label_feats``, hop features paired with label features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        return self.add_labels(super().forward(graph, feat), feat)

    def inputs(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Find the rows of the hops the model needs.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor of features. With hop features
            it is not used, but a graph with other nodes or degrees than
            theirs is refused. For rows of some nodes, give None.
        feat : NodeRows, sequence of torch.Tensor, or torch.Tensor
            What :meth:`forward` was given.

        Returns
        -------
        torch.Tensor
            Shape (hops, rows, columns), with the data type of the model's
            parameters: a model computes with its own precision, however the
            hop features are stored.
        """
        if isinstance(feat, LabelledRows):
            if self.label_branch is None:
                raise DGLError(
                    f"feat has label features, but {type(self).__name__} was "
                    f"made without label_feats: make it with label_feats="
                    f"{feat.labels.shape[1]}, or give feat.features."
                )
            feat = feat.rows_of_features()
        if isinstance(feat, th.Tensor) and feat.dim() != 3:
            feat = self._from_graph(graph, feat)
        elif isinstance(feat, HopFeatures) and graph is not None:
            check_same_graph(type(self).__name__, feat.filter, graph)
        if isinstance(feat, NodeRows):
            if graph is not None:
                check_rows(type(self).__name__, feat, graph)
            rows = self._from_rows(feat).unflatten(0, (self.num_inputs, -1))
        elif isinstance(feat, (list, tuple, th.Tensor)):
            rows = self._from_sequence(feat)
            model_on_hops.check_rows(rows, graph)
        else:
            raise DGLError(
                f"feat should be hop features, a sequence of hop tensors or, "
                f"with a graph, a tensor, got {type(feat).__name__}."
            )
        rows = self._check_columns(rows)
        if self.front is None:
            return rows
        return self.front(rows, len(rows) - self._adds_hop_0)

    def weighted_of(self, feat: Any) -> bool | None:
        """Tell whether inputs were made with edge weights; None if unknown."""
        if isinstance(feat, LabelledRows):
            feat = feat.features
        if isinstance(feat, HopFeatures):
            return feat.filter.weighted
        return None

    def check_weighted(self, feat: NodeRows) -> None:
        """Refuse inputs of another filter than the model was trained on."""
        found = self.weighted_of(feat)
        if found is None or self.weighted in (None, found):
            return
        known, other = ("without", "with") if found else ("with", "without")
        option = False if found else "'weight'"
        raise DGLError(
            f"{type(self).__name__} was trained {known} edge weights, but "
            f"these hop features were made {other} them: precompute {known} "
            f"edge weights (edge_weight={option}), or train the model again."
        )

    def _from_rows(self, feat: NodeRows) -> th.Tensor:
        """Return the stack of the hops the model needs."""
        if not isinstance(feat, HopFeatures):
            raise DGLError(
                f"{type(self).__name__} reads hops of one filter, but feat is "
                f"{type(feat).__name__}: precompute with model.precompute(g, "
                f"x)."
            )
        found = FilterSpec(feat.filter.norm, feat.filter.self_loop)
        if found != self.filter:
            raise DGLError(
                f"{type(self).__name__} needs hop features of norm="
                f"{self.filter.norm!r}, self_loop={self.filter.self_loop}; "
                f"these are of norm={found.norm!r}, self_loop="
                f"{found.self_loop}. Make the model with the same, or "
                f"precompute with model.precompute(g, x)."
            )
        self.check_weighted(feat)
        lacking = [hop for hop in self.hops if hop not in feat.hops]
        if lacking:
            raise DGLError(
                f"{type(self).__name__} needs hops {self.hops}, and these hop "
                f"features lack {lacking} (they have {feat.hops}): precompute "
                f"with K={self.hops[-1]} and without hops=, or with "
                f"model.precompute(g, x)."
            )
        return feat.select(self.hops).stack

    def _from_sequence(self, feat: Hops) -> th.Tensor:
        """Return the hops the model needs of plain hop tensors."""
        try:
            return stack_hops(feat, self.hops)
        except DGLError as error:
            if not len(feat) == len(self.hops) <= self.hops[-1]:
                raise
            # The tensors may well be those of the needed hops.
            raise DGLError(
                f"{error} Or say which hops they are of: dgl_lc.HopFeatures("
                f"tensors, hops={self.hops}, filter=model.filter)."
            ) from None

    def _from_graph(
        self, graph: dgl.DGLGraph | None, feat: th.Tensor
    ) -> NodeRows:
        """Precompute, or use what was precomputed before."""
        if not isinstance(graph, dgl.DGLGraph):
            raise DGLError(
                f"feat is a tensor, so {type(self).__name__} needs a DGLGraph "
                f"to precompute its hop features, got {type(graph).__name__}: "
                f"give one, or the hop features model.precompute(graph, feat)."
            )
        found = self._cache.get(graph, feat)
        options: dict[str, Any] = {}
        if self.weighted is not None:
            options["edge_weight"] = "weight" if self.weighted else False
            if found is not None and self.weighted_of(found) != self.weighted:
                found = None
        if found is None:
            # Hop 0 may be the very tensor that is given. If that were feat,
            # the cache would keep feat alive.
            same = feat.detach().requires_grad_(feat.requires_grad)
            # A forward pass is this process's own, also among ranks.
            found = self.precompute(graph, same, process_group=False, **options)
            self._cache.put(graph, feat, found)
        return found
