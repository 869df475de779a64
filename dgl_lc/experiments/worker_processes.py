"""Processes that share the work and the threads of an experiment."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

import torch

#: How processes are started: a forked one could hang on a lock that a thread
#: of torch holds.
CONTEXT = multiprocessing.get_context("spawn")


def threads_per_worker(workers: int) -> int:
    """Return how many of torch's threads each worker may use."""
    return max(1, torch.get_num_threads() // workers)


def run_workers(
    target: Callable[..., None], arguments: Sequence[tuple[Any, ...]]
) -> int:
    """Call ``target`` in one process per tuple of arguments, and wait.

    Returns the number of processes that failed. If this process is
    interrupted, it ends the others.
    """
    processes = [
        CONTEXT.Process(target=target, args=given) for given in arguments
    ]
    try:
        with _ctrl_c_blocked():
            for process in processes:
                process.start()
        for process in processes:
            process.join()
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
                process.join()
    return sum(process.exitcode != 0 for process in processes)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C.

    A terminal sends Ctrl-C to all of them, and each would print a traceback.
    This process ends them instead.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    # Python starts this process before the first worker, and unblocks Ctrl-C
    # afterwards.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
