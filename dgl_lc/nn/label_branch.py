"""The part of a model that reads label features."""

from typing import Any

import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from ..labelled_rows import LabelledRows
from .dropout import Dropout
from .plain.model_on_hops import check_sizes

#: Hidden columns, for a model that has none of its own.
_HIDDEN = 256


class LabelBranch(nn.Module):
    r"""A perceptron on label features, whose output is added to the logits

    .. math::
      \sigma([L_1 \Vert \dots \Vert L_K] W_1 + b_1) W_2 + b_2

    The label models of SAGN with SLE and of GAMLP with RLU have four layers,
    and read the last hop alone, of which there are 9 or 14: the label of a
    node is a part of its own row there, and many hops make that part small.
    Here no row has it, so that the near hops, which tell most, can be read.

    Parameters
    ----------
    label_feats : int
        Columns of each hop of the label features: the number of classes.
    label_hops : int
        K, the hops that it reads: 1 to K.
    hid_feats : int or None
        Hidden feature size. None: 256.
    out_feats : int
        Output feature size.
    dropout : float
        Dropout rate of the label features and of the hidden layer.
    """

    def __init__(
        self,
        label_feats: int,
        label_hops: int,
        hid_feats: int | None,
        out_feats: int,
        dropout: float,
    ):
        super().__init__()
        check_sizes(label_feats=label_feats, label_hops=label_hops)
        self.label_feats, self.label_hops = label_feats, label_hops
        hidden = _HIDDEN if hid_feats is None else hid_feats
        self.hidden = nn.Linear(label_feats * label_hops, hidden)
        self.output = nn.Linear(hidden, out_feats)
        self.dropout = Dropout(dropout)

    @property
    def config(self) -> dict[str, Any]:
        """The options of a model that make such a branch again."""
        return {
            "label_feats": self.label_feats,
            "label_hops": self.label_hops,
            "label_dropout": self.dropout.p,
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        self.hidden.reset_parameters()
        self.output.reset_parameters()

    def rows(self, name: str, feat: Any) -> th.Tensor:
        r"""

        Description
        -----------
        Find the rows of label features in what a model was given.

        Parameters
        ----------
        name : str
            The model, for messages.
        feat : LabelledRows
            What the model was given. Anything else is an error.

        Returns
        -------
        torch.Tensor
            Shape (label_hops, rows, label_feats).
        """
        if not isinstance(feat, LabelledRows):
            raise DGLError(
                f"{name} was made with label_feats={self.label_feats}, but "
                f"feat has no label features: give with_labels(hops, "
                f"label_features(g, labels, train, {self.label_hops}))."
            )
        found = feat.labels
        if found.shape[1:] != (self.label_feats,):
            raise DGLError(
                f"the label features of feat have {found.shape[1]} columns, "
                f"but {name} was made with label_feats={self.label_feats}: "
                f"give num_classes={self.label_feats} to label_features."
            )
        hops = list(range(1, self.label_hops + 1))
        if not set(hops) <= set(found.hops):
            raise DGLError(
                f"{name} was made with label_hops={self.label_hops}, but the "
                f"label features of feat have hops {found.hops}: compute them "
                f"with K={self.label_hops}."
            )
        rows = found.select(hops).stack.unflatten(0, (len(hops), -1))
        if rows.dtype in (th.float16, th.bfloat16):
            # They may be stored with fewer bits than the model computes with.
            rows = rows.to(self.hidden.weight.dtype)
        return rows

    def forward(self, rows: th.Tensor) -> th.Tensor:
        r"""

        Description
        -----------
        Compute what is added to the logits.

        Parameters
        ----------
        rows : torch.Tensor
            Shape (label_hops, rows, label_feats).
        """
        rst = self.dropout(rows.transpose(0, 1).flatten(1))
        return self.output(self.dropout(F.relu(self.hidden(rst))))

    def extra_repr(self) -> str:
        """Describe the arguments of the module, for printing it."""
        return f"label_feats={self.label_feats}, label_hops={self.label_hops}"
