"""Reading how much a model weighs each hop of each node."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch as th
from torch import nn

from .model import Features, HopModel


class WeighsHops(HopModel):
    """A model that adds up hops by weights, which can be read.

    A subclass computes them (:meth:`_weigh`).
    """

    def hop_attention(self, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute how much the model weighs each hop in the given rows, without
        dropout and gradients.

        Parameters
        ----------
        feat : NodeRows, sequence of torch.Tensor, or torch.Tensor
            Rows as :meth:`forward` takes them without a graph, such as a
            batch of a :class:`~dgl_lc.training.HopLoader`.

        Returns
        -------
        torch.Tensor
            Shape (rows, hops): a weight for each row and each of
            :attr:`hop_names`.
        """
        with th.no_grad(), in_evaluation(self):
            # Training on must not change what was read.
            return self._weigh(self.inputs(None, feat)).detach().clone()

    @property
    def hop_names(self) -> list[str]:
        """What each column of :meth:`hop_attention` is the weight of."""
        return [str(hop) for hop in self.hops]

    def _weigh(self, rows: th.Tensor) -> th.Tensor:
        """Compute the weights of stacked hops, shape (rows, hops)."""
        raise NotImplementedError


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Have a model in evaluation mode, and each of its modules as before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
