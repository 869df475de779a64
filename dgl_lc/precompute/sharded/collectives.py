"""Handing bytes to other ranks, and counting them."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from dgl import DGLError

from ...ranks.call import RankCall
from ...ranks.group import Ranks


class Collectives:
    """The collectives of a call, on bytes in host memory.

    A rank that has long to compute does not let the others run into the
    timeout of the group: they meet in :meth:`begin`, which has none. A group
    that has NCCL alone takes no tensors of the CPU: pieces go through the
    current CUDA device.

    Attributes
    ----------
    payload_bytes : int
        Bytes that this rank has handed to collectives for other ranks. What
        a rank has for itself is never handed to them to be sent.
    """

    def __init__(self, call: RankCall):
        self.call, self.ranks = call, call.ranks
        self.payload_bytes = 0
        self._device = _device_of(call.ranks)
        self._stage = ""

    def begin(self, stage: str) -> None:
        """Meet the other ranks before collectives, and name these."""
        self._stage = stage
        self.call.barrier(stage)
        self.call.stage(stage)

    def all_to_all(
        self,
        sent: torch.Tensor,
        sent_sizes: list[int],
        received: torch.Tensor,
        received_sizes: list[int],
    ) -> None:
        """Send bytes to each other rank, and receive from each.

        The parts follow each other in the order of the ranks; this rank's
        own are empty.
        """
        own = self.ranks.rank
        assert sent_sizes[own] == received_sizes[own] == 0
        self.payload_bytes += sum(sent_sizes)
        there, here = self._staged(received, empty=True), self._staged(sent)
        self._run(
            lambda: dist.all_to_all_single(
                there, here, received_sizes, sent_sizes,
                group=self.ranks.group, async_op=True,
            )
        )  # fmt: skip
        if there is not received:
            received.copy_(there)

    def all_gather(self, sent: torch.Tensor, received: torch.Tensor) -> None:
        """Send the same bytes to all ranks; receive those of each in order."""
        self.payload_bytes += (self.ranks.size - 1) * sent.nbytes
        there, here = self._staged(received, empty=True), self._staged(sent)
        # The name of torch 2.13 and later, and that of those before.
        all_gather: Any = getattr(dist, "all_gather_single", None)
        all_gather = all_gather or dist.all_gather_into_tensor
        self._run(
            lambda: all_gather(
                there, here, group=self.ranks.group, async_op=True
            )
        )
        if there is not received:
            received.copy_(there)

    def _staged(self, tensor: torch.Tensor, empty: bool = False) -> Any:
        """Give the tensor where the group takes it."""
        if self._device is None:
            return tensor
        if empty:
            return torch.empty(
                tensor.shape, dtype=tensor.dtype, device=self._device
            )
        return tensor.to(self._device)

    def _run(self, start: Callable[[], Any]) -> None:
        try:
            work = start()
            self.call.wait(work.is_completed)
            work.wait()
        except RuntimeError as error:
            raise self._failed(error) from error
        self.call.progress()

    def _failed(self, error: RuntimeError) -> DGLError:
        """Say which ranks are gone, or raise what one of them has reported."""
        call, reason = self.call, (str(error).splitlines() or [""])[0]
        silent = call.find_silent()
        who = "all ranks show signs of life, so look at the network"
        if silent:
            who = "no sign of life of " + ", ".join(
                f"rank {rank} ({call.hosts[rank]}; its last stage was: "
                f"{call.sign_of(rank)['stage']})"
                for rank in silent
            )
        return DGLError(
            f"{call.name}: {self._stage} failed on rank {self.ranks.rank} "
            f"({reason}); {who}. Start the ranks again (torchrun "
            f"--max-restarts=3 does so by itself); what was finished on disk "
            f"is kept."
        )


def _device_of(ranks: Ranks) -> torch.device | None:
    """Give the device that tensors are staged through; None for the CPU."""
    if ranks.backends != {"nccl"}:
        return None
    return torch.device("cuda", torch.cuda.current_device())
