"""What ranks that train together agree on, and the nodes of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..ranks.call import RankCall
from ..ranks.collectives import Collectives
from .batch_norm import synchronised
from .chunk_order import RowChunks
from .description import describe_shard
from .loader import HopLoader, Inputs, as_rows
from .pieces import PieceLoader, RangeLoader, SampleLoader, ShardLoader
from .rank_inputs import (
    check_shard,
    held_nodes,
    is_shard,
    refuse_full_graph,
)
from .ranks_run import RanksRun
from .run_options import RunOptions
from .targets import Targets


class Together:
    """The ranks of a call of ``fit``.

    Parameters
    ----------
    call : RankCall
        The call.
    """

    def __init__(self, call: RankCall):
        self._call, self._ranks = call, call.ranks

    def check(
        self,
        model: nn.Module,
        inputs: Any,
        valid_inputs: Any,
        device: torch.device,
    ) -> None:
        """Refuse models, inputs and groups with which ranks can't train."""
        for name, given in (("inputs", inputs), ("valid_inputs", valid_inputs)):
            refuse_full_graph(given, name)
            check_shard(self._ranks, given, name)
        if not any(own.requires_grad for own in model.parameters()):
            raise DGLError("the model has no parameters to train.")
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
        self._call.agree({**described, **options})
        for name, given in (("inputs", inputs), ("valid_inputs", valid_inputs)):
            if is_shard(given):
                found = self._call.gather(describe_shard(given))
                described[f"{name}: shards (digests)"] = " | ".join(found)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._ranks.size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which reads and writes the checkpoint."""
        return self._ranks.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Return what all ranks give, plain values, in the order of ranks."""
        return self._call.gather(value)

    def train_loader(
        self,
        inputs: Inputs,
        ids: torch.Tensor,
        targets: Targets,
        batch_size: int,
        device: torch.device,
        seed: int,
        shuffle: str | RowChunks = "full",
    ) -> HopLoader:
        """Make the batches of this rank; all ranks have as many."""
        rank, size = self._ranks.rank, self._ranks.size
        if not is_shard(inputs):
            return PieceLoader(
                inputs, ids, targets, batch_size, shuffle, device, seed=seed,
                rank=rank, world_size=size,
            )  # fmt: skip
        held, counts = held_nodes(self._call, as_rows(inputs), ids, "train")
        return ShardLoader(
            inputs, ids[held], targets[held], batch_size, shuffle, device,
            seed=seed, shard=rank, counts=counts,
        )  # fmt: skip

    def sample_loader(
        self,
        inputs: Inputs,
        ids: torch.Tensor,
        batch_size: int,
        device: torch.device,
        seed: int,
        steps: int,
    ) -> HopLoader:
        """Make batches that this rank draws from nodes without a label."""
        rank, size = self._ranks.rank, self._ranks.size
        if not is_shard(inputs):
            return SampleLoader(
                inputs, ids, None, batch_size, True, device, seed=seed,
                rank=rank, world_size=size, steps=steps,
            )  # fmt: skip
        held, _ = held_nodes(self._call, as_rows(inputs), ids, "unlabelled")
        return SampleLoader(
            inputs, ids[held], None, batch_size, True, device, seed=seed,
            steps=steps, shard=rank,
        )  # fmt: skip

    def valid_loader(
        self,
        inputs: Inputs,
        ids: torch.Tensor,
        targets: Targets,
        batch_size: int,
        device: torch.device,
    ) -> HopLoader:
        """Make the batches of this rank's part of the validation."""
        if not is_shard(inputs):
            return RangeLoader(
                inputs, ids, targets, batch_size, False, device,
                rank=self._ranks.rank, world_size=self._ranks.size,
            )  # fmt: skip
        held, _ = held_nodes(self._call, as_rows(inputs), ids, "valid")
        own = ids[held]
        return ShardLoader(
            inputs, own, targets[held], batch_size, False, device,
            shard=self._ranks.rank, counts=[len(own)],
        )  # fmt: skip

    @contextmanager
    def run(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        monitor: str,
        patience: int,
        options: RunOptions,
        steps: int,
        seed: int,
        device: torch.device,
        saves: bool,
    ) -> Iterator[RanksRun]:
        """Make the run, in which batch norm is that of all ranks."""
        with synchronised(model, self._ranks, device):
            found = RanksRun(
                Collectives(self._call), steps, seed, saves, model, optimizer,
                monitor, patience, options,
            )  # fmt: skip
            try:
                yield found
            finally:
                found.close()
