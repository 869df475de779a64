"""The epochs of a training run that several ranks make together."""

import io
from collections.abc import Iterator
from contextlib import closing
from inspect import signature
from typing import Any

import numpy as np
import torch
from dgl import DGLError
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..ranks.collectives import Collectives
from .checkpoint import Checkpoint
from .consistency import Passes
from .epochs import OnEpoch, Source, TrainingRun
from .run_options import RunOptions
from .validation import Validation, as_targets

#: The option of buffers, which torch 2.13 gave another name.
_SEND_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)


#: Types of outputs and targets.
_DTYPES = (
    torch.float32, torch.float64, torch.int64, torch.float16, torch.bfloat16
)  # fmt: skip


class _Called(nn.Module):
    """A model, with a parameter that is never used.

    Parameters without a gradient are looked for in every step, as a model may
    have some. Where it finds none, torch advises on stderr against looking.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        like = next(p for p in model.parameters() if p.requires_grad)
        self.never_used = nn.Parameter(torch.zeros_like(like.flatten()[:1]))

    def forward(self, *args: Any) -> Any:
        return self.model(*args)


class RanksRun(TrainingRun):
    """A training run in which each rank takes a part of every step.

    Gradients are added by DistributedDataParallel. All ranks have the same
    weights and the same history at the end of each epoch. Rank 0 alone reads
    and writes the checkpoint.

    Parameters
    ----------
    collectives : Collectives
        The ranks.
    steps : int
        Steps of an epoch, the same on all ranks.
    seed : int
        Seed of dropout.
    saves : bool
        Whether rank 0 has a checkpoint.
    model, optimizer, monitor, patience, options
        As for :class:`TrainingRun`.
    """

    def __init__(
        self,
        collectives: Collectives,
        steps: int,
        seed: int,
        saves: bool,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        monitor: str,
        patience: int,
        options: RunOptions,
    ):
        self._collectives, self._steps = collectives, steps
        self._seed, self._saves = seed, saves
        ranks = collectives.ranks
        self._rank, self._size = ranks.rank, ranks.size
        # It gives all ranks the weights of rank 0. Buffers are not sent with
        # each step: a rank whose batch can't be read would leave the others
        # waiting for them.
        sending: dict[str, Any] = {_SEND_BUFFERS: False}
        called = model
        if options.consistency is not None:
            called = Passes(model, options.consistency.passes)
        self._parallel = DistributedDataParallel(
            _Called(called), process_group=ranks.group,
            find_unused_parameters=True, **sending,
        )  # fmt: skip
        self.model = model
        self._share_buffers()
        super().__init__(
            model, optimizer, monitor, patience, options=options
        )  # fmt: skip

    def close(self) -> None:
        """Take the hooks of DistributedDataParallel off the weights.

        They would also go with the wrapper. But the traceback of an error
        may keep that alive, and then the backward pass of a later run would
        wait for other ranks.
        """
        parallel: Any = self._parallel
        parallel.reducer = parallel.logger = None

    @property
    def _where(self) -> str:
        return f" on rank {self._rank}"

    def _begin(self, saved: Checkpoint | None, resume: bool) -> None:
        if not self._saves:
            return
        call, data = self._collectives.call, None
        call.stage("reading the checkpoint")
        super()._begin(saved, resume)
        if self._rank == 0:
            buffer = io.BytesIO()
            torch.save(self.state() if self.epoch else {}, buffer)
            data = buffer.getvalue()
        data = self._collectives.broadcast(data)
        state = torch.load(
            io.BytesIO(data), map_location="cpu", weights_only=True
        )
        if state and self._rank:
            self.load(state)
        call.barrier("checkpoint")

    def _train(self, source: Source) -> float:
        # A stream for each epoch and rank, so that a run resumes with the
        # same masks of dropout without a generator of each rank.
        state = np.random.SeedSequence([self._seed, self.epoch, self._rank])
        torch.manual_seed(int(state.generate_state(1, np.uint64)[0]))
        call = self._collectives.call
        call.stage(f"epoch {self.epoch + 1}")
        self.model.train()
        steps: Any = source(self._parallel, self.epoch)
        # Closed at once after an error, as threads read ahead.
        with closing(steps) as batches:
            total, count = self._take_steps(batches)
        self._share_buffers()
        return total / count

    def _take_steps(self, batches: Iterator) -> tuple[float, float]:
        """Train on batches; return the loss and the weight of their rows."""
        call = self._collectives.call
        consistency = self.options.consistency
        total, count = 0.0, 0.0
        apart, rows = 0.0, 0
        for number in range(self._steps):
            error: Exception | None = None
            value, weight, far, others = 0.0, 0.0, 0.0, 0
            try:
                output, given = next(batches)
                target = as_targets(given)
                self._check_step(number, output, target)
                loss, weight = self._of_labels(
                    output, target, self.options.objective.total
                )
                value = self._check_value(number, loss.item())
                if consistency is not None:
                    more, others = consistency.total(output)
                    far = self._check_value(number, more.item())
            except Exception as caught:
                error = caught
            found = self._collectives.check(
                error, [value, weight, far, others]
            ).sum(0)
            total += float(found[0])
            count += float(found[1])
            apart += float(found[2])
            rows += int(found[3])
            # The gradients of all ranks are averaged.
            loss = loss * (self._size / float(found[1]))
            if consistency is not None:
                factor = consistency.weight / max(1, int(found[3]))
                loss = loss + more * (self._size * factor)
            with self._collectives.watch():
                self._descend(loss)
            call.progress()
        self._apart = apart / max(1, rows)
        return total, count

    def _share_buffers(self) -> None:
        """Give all ranks the buffers of rank 0, such as running means."""
        for buffer in self.model.buffers():
            self._collectives.broadcast_tensor(buffer)

    def _evaluate(self, source: Source) -> tuple[float, float]:
        self._collectives.call.stage(f"validation of epoch {self.epoch + 1}")
        error: Exception | None = None
        own = Validation()
        try:
            own = self._validate(source)
        except Exception as caught:
            error = caught
        loss, weight, right, entries = (
            self._collectives.check(
                error, [own.loss, own.weight, own.right, own.entries]
            )
            .sum(0)
            .tolist()
        )
        if self.options.metric.counted:
            return loss / weight, right / entries
        return loss / weight, self._metric(own)

    def _metric(self, own: Validation) -> float:
        """Compute the metric from the validation rows of all ranks."""
        logits, values = self._all_rows(own.logits), self._all_rows(own.values)
        error: Exception | None = None
        found = 0.0
        try:
            found = self.options.metric.value(logits, values)
        except Exception as caught:
            error = caught
        # A function of the user's may round differently: rank 0 decides.
        return float(self._collectives.check(error, [found])[0, 0])

    def _all_rows(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """Put together the rows of all ranks, in the order of the ranks."""
        part = torch.cat(parts) if parts else torch.empty(0)
        # A rank without rows does not know what the others have.
        facts = [len(part), part.dim() * (len(part) > 0), 0, 0]
        if len(part):
            facts[2:] = [part[0].numel(), _DTYPES.index(part.dtype)]
        found = self._collectives.check(None, facts).long()
        _, dims, columns, kind = found.max(0).values.tolist()
        rows = torch.zeros(
            (int(found[:, 0].sum()), columns), dtype=_DTYPES[kind]
        )
        first = int(found[: self._rank, 0].sum())
        rows[first : first + len(part)] = part.view(len(part), -1)
        self._collectives.add_rows(rows)
        return rows if dims == 2 else rows[:, 0]

    def _agree(self, row: dict[str, Any]) -> dict[str, Any]:
        """Take the times of rank 0; refuse weights that differ."""
        names = ("train_seconds", "seconds")
        sums = [own.detach().double().sum() for own in self.model.parameters()]
        own = torch.stack(sums).cpu().tolist()
        found = self._collectives.check(None, [*(row[n] for n in names), *own])
        # As bits, because nan is not equal to itself.
        bits = found.view(torch.int64)[:, len(names) :]
        if not torch.equal(bits, bits[:1].expand_as(bits)):
            raise DGLError(
                f"the weights of ranks differ after epoch {self.epoch}, and "
                f"{self._kept}: an optimizer that draws random numbers, or "
                f"on_epoch, which runs on rank 0 alone, may have changed them."
            )
        times = found[0, : len(names)].tolist()
        return {**row, **dict(zip(names, times, strict=True))}

    def _report(self, row: dict[str, Any], on_epoch: OnEpoch | None) -> None:
        error: BaseException | None = None
        before = self._options()
        if self._rank == 0 and on_epoch is not None:
            try:
                on_epoch(row)
            except BaseException as caught:
                error = caught
        changed = before != self._options()
        found = self._collectives.check(error, [float(changed)])
        if found[0, 0]:
            self._share_options()

    def _options(self) -> list[dict[str, Any]]:
        """Return the options of the optimizer, such as the learning rate."""
        return [
            {
                name: _plain(value)
                for name, value in group.items()
                if name != "params"
            }
            for group in self.optimizer.param_groups
        ]

    def _share_options(self) -> None:
        """Give all ranks the options that on_epoch changed on rank 0."""
        theirs = self._collectives.call.gather(self._options())[0]
        for group, options in zip(
            self.optimizer.param_groups, theirs, strict=True
        ):
            for name, value in options.items():
                own = group[name]
                if isinstance(own, torch.Tensor):
                    own.fill_(value)
                elif value is not None or own is None:
                    group[name] = (
                        type(own)(value) if isinstance(own, tuple) else value
                    )


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(own) for own in value]
    return value if isinstance(value, (bool, int, float, str)) else None
