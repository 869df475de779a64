"""The most memory that a call takes, as the system counts it.

What is counted is anonymous memory that is resident: arrays of NumPy, torch
and DGL alike, and what the C library keeps after it was freed. Python's
tracemalloc sees none of torch's or DGL's. Pages of mapped files do not count;
the system can drop them.

With :data:`LIVE` in the environment of the process the C library gives freed
memory back at once, so that what is resident is what is in use.
"""

import ctypes
import gc
import threading
from collections.abc import Callable

#: Environment for a process whose resident memory is what is in use.
LIVE = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
    "MALLOC_ARENA_MAX": "1",
}


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def peak_memory(call: Callable[[], object], maps_files: bool = False) -> int:
    """Count the bytes that a call takes at its peak, beyond those before it.

    The system's own record of the peak is exact, but includes pages of files:
    those of libraries that came during the call are subtracted. With
    ``maps_files``, for calls that write or read large files, a thread looks
    at the anonymous memory every half a millisecond instead.
    """
    gc.collect()
    # What was freed before must not hide what is allocated now.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = _status("RssAnon") if maps_files else _status("VmRSS")
    files = _status("RssFile")
    highest = before
    stop = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not stop.wait(0.0005):
            highest = max(highest, _status("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    if maps_files:
        watcher.start()
    try:
        call()
    finally:
        stop.set()
        if maps_files:
            watcher.join()
    if maps_files:
        return highest - before
    return _status("VmHWM") - before - max(0, _status("RssFile") - files)
