"""Seconds, and peak memory, of calls: what every benchmark measures with."""

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def fastest(
    call: Callable[[], Any],
    runs: int,
    look: Callable[[Any], Any] = lambda result: None,
) -> tuple[float, Any]:
    """Return the minimum seconds of some runs, and ``look`` of the warm-up.

    A quick call is run up to ten times, because the first runs on a shared
    machine may wait for memory. No result is kept: two results of the largest
    size would not fit in memory.
    """
    seen = look(call())
    times: list[float] = []
    while len(times) < runs or (len(times) < 10 and sum(times) < 15):
        gc.collect()
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        del result
    return min(times), seen


def by_turns(
    calls: Mapping[Any, Callable[[], Any]], runs: int
) -> dict[Any, float]:
    """Return the minimum seconds of each call.

    The calls take turns, so that a busy machine slows down all of them.
    """
    for call in calls.values():
        call()
    found: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            found[name].append(seconds_of(call))
    return {name: min(times) for name, times in found.items()}


class OtherWork:
    """How much of the cores other processes use, from now on.

    Where they use more than a little, times are not to be believed: training
    on two threads takes several times as long if one of them has to wait.
    """

    def __init__(self) -> None:
        self._start = self._look()

    @staticmethod
    def _look() -> tuple[float, float, float]:
        """Return seconds of the clock, of all processes, and of our own."""
        times = psutil.cpu_times()
        own = sum(
            sum(resource.getrusage(who)[:2])
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        every = times.user + times.nice + times.system
        every += getattr(times, "steal", 0.0)  # by other virtual machines
        return time.perf_counter(), every, own

    def percent(self) -> float:
        """Return the share of all cores; children count once they end."""
        clock, every, own = (
            now - then
            for now, then in zip(self._look(), self._start, strict=True)
        )
        cores = len(os.sched_getaffinity(0))
        return max(0.0, 100 * (every - own) / (clock * cores))


class Peak:
    """The highest resident memory of this process from now on."""

    def __init__(self) -> None:
        gc.collect()
        self.before = psutil.Process().memory_info().rss
        # Writing 5 resets the peak that VmHWM shows.
        Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int:
        """Return by how many bytes the peak is above the start."""
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
        return max(0, peak - self.before)


def in_process(script: str | Path, task: dict[str, Any]) -> dict[str, Any]:
    """Run a task of a script in a new process, and return what it found.

    The script is called with ``--task`` and the task as JSON, and its last
    printed line is the result as JSON: see :func:`answer`. A process that
    fails is an error with its last words.
    """
    found = subprocess.run(
        [sys.executable, str(script), "--task", json.dumps(task)],
        capture_output=True, text=True,
    )  # fmt: skip
    if found.returncode:
        raise RuntimeError(
            f"{Path(script).name} --task {json.dumps(task)} failed with code "
            f"{found.returncode}: {found.stderr[-1000:]}"
        )
    return json.loads(found.stdout.strip().splitlines()[-1])


def answer(run: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    """Answer a call of :func:`in_process`, if this process is one."""
    if sys.argv[1:2] != ["--task"]:
        return False
    print(json.dumps(run(json.loads(sys.argv[2]))))
    return True
