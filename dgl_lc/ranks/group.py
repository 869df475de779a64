"""Ranks: the processes that make a call together.

All of it is torch's: the group that the user initialised (``torchrun`` and
``torch.distributed.init_process_group``), and the key-value store that every
group has.
"""

import json
import os
import socket
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from dgl import DGLError

from .fresh_store import fresh_store

#: What a user may give as ``process_group``.
Group = Any
#: How many calls each group has made.
_calls: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
#: The store of each group without what earlier starts wrote.
_fresh: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Ranks:
    """A process group, seen from one of its processes.

    Attributes
    ----------
    rank, size : int
        The number of this process in the group, and of all processes.
    group : ProcessGroup
        The group.
    store : Store
        The key-value store of the group.
    """

    rank: int
    size: int
    group: dist.ProcessGroup
    store: dist.Store

    @property
    def backends(self) -> set[str]:
        """Names of the backends of the group, such as gloo."""
        text = str(dist.get_backend_config(self.group))
        return {part.split(":")[-1] for part in text.split(",")}

    @property
    def calls_store(self) -> dist.Store:
        """The store for calls, without what earlier starts wrote there.

        ``torchrun`` keeps one store over its restarts: see
        :mod:`.fresh_store`.
        """
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return self.store
        if self.group not in _fresh:
            store: Any = self.store
            seconds = store.timeout.total_seconds()
            _fresh[self.group] = fresh_store(
                self.store, self.rank, self.size, seconds
            )
        return _fresh[self.group]

    def next_call(self) -> int:
        """Count the calls that this process has made with the group."""
        _calls[self.group] = number = _calls.get(self.group, 0) + 1
        return number


def find_ranks(process_group: Group = None) -> Ranks | None:
    """Find the processes that make a call with this one.

    Parameters
    ----------
    process_group : ProcessGroup, False or None
        A group; None for the default group, if it is initialised; False for
        this process alone.

    Returns
    -------
    Ranks or None
        None for a process alone, also in a group of one.
    """
    if process_group is False:
        return None
    if not (dist.is_available() and dist.is_initialized()):
        if process_group is not None:
            raise DGLError(
                "process_group was given, but torch.distributed is not "
                "initialised: call torch.distributed.init_process_group() "
                "first, or omit process_group."
            )
        return None
    if process_group is None:
        process_group = dist.group.WORLD
    if process_group is dist.GroupMember.NON_GROUP_MEMBER:
        raise DGLError(
            "this process is no member of process_group: make the call only "
            "on the ranks of the group."
        )
    if not isinstance(process_group, dist.ProcessGroup):
        raise DGLError(
            f"process_group should be a torch.distributed.ProcessGroup, None "
            f"for the default group or False for this process alone, got "
            f"{type(process_group).__name__}."
        )
    try:
        rank = dist.get_rank(process_group)
        store = dist.distributed_c10d._get_process_group_store(process_group)
    except (KeyError, ValueError, RuntimeError):
        raise DGLError(
            "process_group is not initialised, or was destroyed: make it "
            "with torch.distributed.new_group()."
        ) from None
    if rank < 0:
        raise DGLError(
            "this process is no member of process_group: make the call only "
            "on the ranks of the group."
        )
    size = dist.get_world_size(process_group)
    return None if size == 1 else Ranks(rank, size, process_group, store)


def this_host() -> str:
    """Give a name for the machine that this process runs on.

    ``torchrun`` counts its machines (GROUP_RANK); otherwise the system's
    names tell them apart.
    """
    number = os.environ.get("GROUP_RANK")
    if number is not None and "TORCHELASTIC_RUN_ID" in os.environ:
        return f"node {number}"
    boot = Path("/proc/sys/kernel/random/boot_id")
    text = boot.read_text().strip() if boot.is_file() else ""
    return f"{socket.gethostname()} {text}".strip()


def as_json(value: Any) -> str:
    """Write a value as JSON, the same text for equal values."""
    return json.dumps(value, sort_keys=True)
