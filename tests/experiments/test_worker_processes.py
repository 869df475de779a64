"""Processes that share work."""

import sys

import torch

from dgl_lc.experiments.worker_processes import run_workers, threads_per_worker


def test_failed_processes_are_counted():
    assert run_workers(sys.exit, [(0,), (1,), (2,)]) == 2


def test_threads_are_shared_and_each_worker_has_one():
    assert threads_per_worker(1) == torch.get_num_threads()
    assert threads_per_worker(1000) == 1
