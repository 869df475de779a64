"""Collectives of the ranks of a call: numbers, bytes and rows.

A rank that has long to compute does not let the others run into the timeout
of the group: they meet first, where there is none (:meth:`Collectives.begin`).
A rank that fails must not leave the others in a collective: where one may
fail, all exchange first whether they can go on (:meth:`Collectives.check`).
A collective that breaks off says which rank is gone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from dgl import DGLError

from .call import RankCall, RankFailed
from .group import Ranks

#: Bytes of one collective of rows.
_PIECE_BYTES = 1 << 24


class Collectives:
    """The collectives of a call, on tensors in host memory.

    A group that has NCCL alone takes no tensors of the CPU: what is sent
    goes through the current CUDA device.

    Attributes
    ----------
    payload_bytes : int
        Bytes that this rank has handed to :meth:`all_to_all` and
        :meth:`all_gather` for other ranks. What a rank has for itself is
        never handed to them to be sent.

    Parameters
    ----------
    call : RankCall
        The call.
    """

    def __init__(self, call: RankCall):
        self.call, self.ranks = call, call.ranks
        self.payload_bytes = 0
        self._device = _device_of(call.ranks)
        self._stage = "an exchange between ranks"

    def begin(self, stage: str) -> None:
        """Meet the other ranks before collectives, and name these."""
        self._stage = stage
        self.call.barrier(stage)
        self.call.stage(stage)

    # Bytes

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
            dist.all_to_all_single, there, here, received_sizes, sent_sizes
        )
        if there is not received:
            received.copy_(there)

    def all_gather(self, sent: torch.Tensor, received: torch.Tensor) -> None:
        """Send the same bytes to all ranks; receive those of each in order."""
        self.payload_bytes += (self.ranks.size - 1) * sent.nbytes
        there, here = self._staged(received, empty=True), self._staged(sent)
        # The name of torch 2.13 and later, and that of those before.
        all_gather: Any = getattr(dist, "all_gather_single", None)
        self._run(all_gather or dist.all_gather_into_tensor, there, here)
        if there is not received:
            received.copy_(there)

    def broadcast(self, data: bytes | None) -> bytes:
        """Give the bytes of rank 0 to all ranks; others pass None."""
        sizes = self.call.gather(None if data is None else len(data))
        if data is not None:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        else:
            buffer = torch.empty(sizes[0], dtype=torch.uint8)
        self.broadcast_tensor(buffer)
        return data if data is not None else buffer.numpy().tobytes()

    def broadcast_tensor(self, tensor: torch.Tensor) -> None:
        """Overwrite a tensor, of any device, with that of rank 0."""
        first = dist.get_global_rank(self.ranks.group, 0)
        with torch.no_grad():
            piece = tensor if tensor.is_cuda else self._staged(tensor)
            piece = piece.contiguous()
            self._run(dist.broadcast, piece, first)
            if piece is not tensor:
                tensor.copy_(piece)

    def add_rows(self, rows: torch.Tensor) -> None:
        """Put together rows of which each is that of one rank, and 0 on others.

        The tensor, on the CPU, is overwritten in pieces. Bits stay as they
        are: bytes are added, and all but one of them are 0.
        """
        if not rows.is_contiguous():
            raise DGLError("rows should be contiguous.")
        bits = rows.view(-1).view(torch.uint8)
        for first in range(0, len(bits), _PIECE_BYTES):
            piece = bits[first : first + _PIECE_BYTES]
            sent = self._staged(piece)
            self._run(dist.all_reduce, sent)
            if sent is not piece:
                piece.copy_(sent)

    # Numbers

    def gather(self, values: Sequence[float]) -> torch.Tensor:
        """Gather numbers of all ranks: a float64 row for each rank."""
        own = torch.tensor(values, dtype=torch.float64)
        found = own.new_empty((self.ranks.size, len(own)))
        before = self.payload_bytes
        self.all_gather(own, found.view(-1))
        self.payload_bytes = before
        return found

    def check(
        self, error: BaseException | None, values: Sequence[float] = ()
    ) -> torch.Tensor:
        """Gather numbers, unless a rank has failed: then all ranks raise.

        Parameters
        ----------
        error : exception or None
            Why this rank can't go on, if so. It is raised here.
        values : sequence of float
            The numbers of this rank.
        """
        found = self.gather([float(error is not None), *values])
        if error is not None:
            raise error
        failed = found[:, 0].nonzero().view(-1).tolist()
        if failed:
            # It says why when its own error leaves the call.
            self.call.find_silent()
            raise RankFailed(f"{self.call.name} failed on rank {failed[0]}.")
        return found[:, 1:]

    # Failures

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Say which rank failed, where a collective of others breaks off."""
        try:
            yield
        except RuntimeError as error:
            broken = isinstance(error, dist.DistError) or "gloo" in str(error)
            if broken or "Connection closed" in str(error):
                raise self._failed(error) from error
            # A rank that broke off leaves errors of its own kind elsewhere.
            self.call.check_others()
            raise

    def _staged(self, tensor: torch.Tensor, empty: bool = False) -> Any:
        """Give the tensor where the group takes it."""
        if self._device is None:
            return tensor
        if empty:
            return torch.empty(
                tensor.shape, dtype=tensor.dtype, device=self._device
            )
        return tensor.to(self._device)

    def _run(self, collective: Callable[..., Any], *arguments: Any) -> None:
        try:
            work = collective(*arguments, group=self.ranks.group, async_op=True)
            self.call.wait(work.is_completed)
            work.wait()
        except RuntimeError as error:
            raise self._failed(error) from error
        self.call.progress()

    def _failed(self, error: RuntimeError) -> RankFailed:
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
        return RankFailed(
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
