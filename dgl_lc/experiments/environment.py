"""Versions, threads and commit: what the figures of a run depend on."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import dgl
import torch

from .. import __version__


def environment() -> dict[str, Any]:
    """Describe the software and the machine that a run depends on."""
    return {
        "dgl_lc": __version__,
        "torch": torch.__version__,
        "dgl": dgl.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """Return the commit of this code, if it runs from a repository."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=folder, check=True,
            capture_output=True, text=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
