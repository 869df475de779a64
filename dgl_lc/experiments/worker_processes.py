"""Processes that share the work and the threads of an experiment."""

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import torch


def threads_per_worker(workers: int) -> int:
    """Return how many of torch's threads each worker may use."""
    return max(1, torch.get_num_threads() // workers)


def run_workers(
    target: Callable[..., None], arguments: Sequence[tuple[Any, ...]]
) -> int:
    """Call ``target`` in one process per tuple of arguments, and wait.

    Returns the number of processes that failed.
    """
    # A forked process could hang on a lock that a thread of torch holds.
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=target, args=given) for given in arguments
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return sum(process.exitcode != 0 for process in processes)
