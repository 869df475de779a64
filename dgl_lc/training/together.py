"""What ranks that train together agree on, and the nodes of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..node_rows import NodeRows
from ..ranks.call import Call
from ..ranks.exchange import Exchange
from .batch_norm import synchronised
from .description import describe_shard
from .loader import HopLoader, Inputs
from .pieces import PieceLoader, RangeLoader, ShardLoader
from .predict import is_full_graph
from .ranks_run import RanksRun
from .task_store import has_row


class Together:
    """The ranks of a call of ``fit``.

    Parameters
    ----------
    call : Call
        The call.
    """

    def __init__(self, call: Call):
        self._call, self._ranks = call, call.ranks

    def check_inputs(
        self, inputs: Any, valid_inputs: Any, device: torch.device
    ) -> None:
        """Refuse inputs that several ranks can't train on."""
        for name, given in (("inputs", inputs), ("valid_inputs", valid_inputs)):
            if is_full_graph(given):
                raise DGLError(
                    f"{name} is a graph with its features, on which one "
                    f"process trains: with several ranks give hop features, "
                    f"as model.precompute makes them, or train in one process "
                    f"with process_group=False."
                )
            check_shard(self._call, given, name)
        backends = self._ranks.backends
        if device.type == "cpu" and "gloo" not in backends:
            raise DGLError(
                f"device=cpu needs a process group with the backend gloo, and "
                f"this one has {', '.join(sorted(backends))}: initialise it "
                f"with backend='cpu:gloo,cuda:nccl', or train on the GPU."
            )

    def agree(
        self,
        described: dict[str, str],
        inputs: Any,
        valid_inputs: Any,
        **options: Any,
    ) -> None:
        """Refuse data, models or options that differ between ranks.

        What a rank holds of row shards is added to the description.
        """
        self._call.stage("comparing the arguments of all ranks")
        # That of the run is for all ranks together.
        self._call.agree({**options, **described})
        for name, given in (("inputs", inputs), ("valid_inputs", valid_inputs)):
            if isinstance(given, NodeRows) and given.shard is not None:
                found = self._call.gather(describe_shard(given))
                described[f"{name}: shards (digests)"] = " | ".join(found)

    def train_loader(
        self,
        inputs: Inputs,
        ids: torch.Tensor,
        labels: torch.Tensor,
        batch_size: int,
        device: torch.device,
        seed: int,
    ) -> HopLoader:
        """Make the batches of this rank; all ranks have as many."""
        rank, size = self._ranks.rank, self._ranks.size
        if not isinstance(inputs, NodeRows) or inputs.shard is None:
            return PieceLoader(
                inputs, ids, labels, batch_size, True, device, seed=seed,
                rank=rank, world_size=size,
            )  # fmt: skip
        own, counts = held_nodes(self._call, inputs, ids, "train")
        return ShardLoader(
            inputs, own, labels, batch_size, True, device, seed=seed,
            shard=rank, counts=counts,
        )  # fmt: skip

    def valid_loader(
        self,
        inputs: Inputs,
        ids: torch.Tensor,
        labels: torch.Tensor,
        batch_size: int,
        device: torch.device,
    ) -> HopLoader:
        """Make the batches of this rank's part of the validation."""
        if not isinstance(inputs, NodeRows) or inputs.shard is None:
            return RangeLoader(
                inputs, ids, labels, batch_size, False, device,
                rank=self._ranks.rank, world_size=self._ranks.size,
            )  # fmt: skip
        own, _ = held_nodes(self._call, inputs, ids, "valid")
        return ShardLoader(
            inputs, own, labels, batch_size, False, device,
            shard=self._ranks.rank, counts=[len(own)],
        )  # fmt: skip

    @contextmanager
    def run(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        monitor: str,
        patience: int,
        steps: int,
        seed: int,
        device: torch.device,
        saves: bool,
    ) -> Iterator[RanksRun]:
        """Make the run, in which batch norm is that of all ranks."""
        with synchronised(model, self._ranks, device):
            yield RanksRun(
                Exchange(self._call), steps, seed, saves, model, optimizer,
                monitor, patience,
            )  # fmt: skip


def check_shard(call: Call, inputs: Any, name: str) -> None:
    """Refuse row shards of another rank, or of another number of ranks."""
    shard = getattr(inputs, "shard", None)
    rank, size = call.ranks.rank, call.ranks.size
    if isinstance(inputs, NodeRows) and shard not in (None, (rank, size)):
        raise DGLError(
            f"{name} is row shard {shard[0]} of {shard[1]}, and this is rank "
            f"{rank} of {size}: start as many ranks as there are shards, and "
            f"give each its own, or precompute again."
        )


def held_nodes(
    call: Call, inputs: NodeRows, ids: torch.Tensor, name: str
) -> tuple[torch.Tensor, list[int]]:
    """Find the nodes that this rank holds, and how many each rank holds.

    Every node has to be held by one rank.
    """
    own = ids[has_row(inputs, ids)]
    counts = call.gather(len(own))
    if sum(counts) != len(ids):
        raise DGLError(
            f"{name} has {len(ids):,} nodes, and the row shards of all ranks "
            f"have {sum(counts):,} of them: precompute with all nodes of "
            f"train and valid among nodes=."
        )
    return own, counts
