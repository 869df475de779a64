"""Running a function on several ranks, for tests.

Each rank is a process of its own, with gloo. The group's store is kept by the
process that starts them, as ``torchrun``'s agent does, so that any rank may
be killed.
"""

import datetime
import multiprocessing
import pickle
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist

#: What the server of new processes imports once for all of them.
_IMPORTS = [
    "dgl_lc", "dgl_lc.training", "dgl_lc.testing.run_ranks",
    # What training imports late, which takes seconds.
    "pandas", "torch._dynamo", "torch.distributed.fsdp",
]  # fmt: skip
#: Seconds that a rank may take to end when it has answered.
_END_SECONDS = 30.0


class RankErrors(Exception):
    """Some ranks raised an error.

    Attributes
    ----------
    errors : dict
        The error of each of these ranks.
    """

    def __init__(self, errors: dict[int, BaseException], texts: list[str]):
        super().__init__("\n".join(texts))
        self.errors = errors


def run_ranks(
    size: int,
    function: Callable[..., Any],
    *args: Any,
    timeout: float = 120.0,
    threads: int = 1,
    spawn: bool = False,
) -> list[Any]:
    """Call a function of a module on so many ranks; give what they return.

    The default process group is initialised. :class:`RankErrors` is raised
    if any rank fails, and TimeoutError if they take too long. Processes are
    copies of one that may have been started earlier; with ``spawn`` they are
    new ones, with the environment of now.
    """
    context: Any = multiprocessing.get_context(
        "spawn" if spawn else "forkserver"
    )
    if not spawn:
        context.set_forkserver_preload(_IMPORTS)
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    processes, pipes = [], []
    for rank in range(size):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_run,
            args=(rank, size, store.port, threads, theirs, function, args),
            daemon=True,
        )
        process.start()
        theirs.close()
        processes.append(process)
        pipes.append(mine)
    try:
        found = _collect(pipes, timeout)
    finally:
        for process in processes:
            process.join(_END_SECONDS)
            if process.is_alive():
                process.kill()
    for rank, process in enumerate(processes):
        if found[rank][0] == "result" and process.exitcode not in (0, None):
            ended = RuntimeError(f"it ended with {process.exitcode}")
            found[rank] = ("error", ended, str(ended))
    failed = {r: own for r, own in enumerate(found) if own[0] != "result"}
    if failed:
        raise RankErrors(
            {rank: own[1] for rank, own in failed.items()},
            [f"rank {rank}: {own[2]}" for rank, own in failed.items()],
        )
    return [own[1] for own in found]


def _collect(pipes: list[Connection], timeout: float) -> list[Any]:
    found: list[Any] = [None] * len(pipes)
    left: dict[Any, int] = {pipe: rank for rank, pipe in enumerate(pipes)}
    end = datetime.datetime.now() + datetime.timedelta(seconds=timeout)
    while left:
        rest = (end - datetime.datetime.now()).total_seconds()
        ready = wait(list(left), max(0.0, rest))
        if not ready:
            raise TimeoutError(f"ranks {sorted(left.values())} take too long")
        pipe: Any
        for pipe in ready:
            rank = left.pop(pipe)
            try:
                found[rank] = pickle.loads(pipe.recv_bytes())
            except EOFError:
                died = RuntimeError("the process died")
                found[rank] = ("error", died, str(died))
    return found


def _run(
    rank: int,
    size: int,
    port: int,
    threads: int,
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple,
) -> None:
    torch.set_num_threads(threads)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    # A rank that fails at once must not break off the connections that others
    # are still making.
    store.add("connected", 1)
    while store.add("connected", 0) < size:
        time.sleep(0.01)
    try:
        answer: tuple = ("result", function(*args))
    except BaseException as error:
        answer = ("error", error, traceback.format_exc())
    # As bytes: tensors would be sent as memory of a process that ends.
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()
    dist.destroy_process_group()
