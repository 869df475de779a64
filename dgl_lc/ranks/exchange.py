"""Exchange of numbers and rows between the ranks of a call, by collectives.

Collectives wait: a rank that fails must not leave the others in one. Where a
rank may fail, all ranks exchange first whether they can go on.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from dgl import DGLError

from .call import RankCall, RankFailed

# torch 2.13 gave it another name.
_all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
#: Seconds for which a rank waits to learn why another one failed.
_REASON_SECONDS = 10.0
#: Bytes of one collective of rows.
_PIECE_BYTES = 1 << 24


class Exchange:
    """Collectives of the ranks that make a call together.

    Parameters
    ----------
    call : RankCall
        The call.
    """

    def __init__(self, call: RankCall):
        self.call, self.ranks = call, call.ranks
        self._device = torch.device("cpu")
        if "gloo" not in self.ranks.backends and torch.cuda.is_available():
            # A group that has nccl alone takes no tensors of the CPU.
            self._device = torch.device("cuda", torch.cuda.current_device())

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Say which rank failed, where a collective breaks off."""
        try:
            yield
        except RuntimeError as error:
            broken = isinstance(error, dist.DistError) or "gloo" in str(error)
            if broken or "Connection closed" in str(error):
                self._find_reason()
                raise RankFailed(
                    f"{self.call.name}: the connection to another rank broke "
                    f"({str(error).splitlines()[0]}). It was killed, or the "
                    f"network is down. Start the ranks again (torchrun "
                    f"--max-restarts=3 does so by itself); a checkpoint is "
                    f"resumed from."
                ) from error
            # A rank that broke off leaves errors of its own kind elsewhere.
            self.call.check_others()
            raise

    def gather(self, values: Sequence[float]) -> torch.Tensor:
        """Gather numbers of all ranks: a float64 row for each rank."""
        own = torch.tensor(values, dtype=torch.float64, device=self._device)
        found = own.new_empty((self.ranks.size, len(own)))
        with self.watch():
            _all_gather(found.view(-1), own, group=self.ranks.group)
        return found.cpu()

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
            self._find_reason()
            raise RankFailed(f"{self.call.name} failed on rank {failed[0]}.")
        return found[:, 1:]

    def _find_reason(self) -> None:
        """Raise the error of the rank that failed, if it gives one."""
        end = time.monotonic() + _REASON_SECONDS
        while time.monotonic() < end:
            self.call.check_others()
            time.sleep(0.02)

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
        """Overwrite a tensor with that of rank 0."""
        first = dist.get_global_rank(self.ranks.group, 0)
        with self.watch(), torch.no_grad():
            piece = tensor
            staged = not tensor.is_contiguous() or (
                tensor.device.type != self._device.type
                and tensor.device.type == "cpu"
            )
            if staged:
                piece = tensor.to(self._device).contiguous().clone()
            dist.broadcast(piece, first, group=self.ranks.group)
            if staged:
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
            sent = piece.to(self._device)
            with self.watch():
                dist.all_reduce(sent, group=self.ranks.group)
            if sent is not piece:
                piece.copy_(sent)
