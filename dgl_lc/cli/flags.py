"""Flags that several commands share, and checks of their values.

Commands build their parsers with this module, so it must not import torch,
DGL or anything that does: ``dgl-lc --help`` would take seconds. Functions
import them where they are needed.
"""

import argparse
import math
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from ..experiments.paper import COMMON

if TYPE_CHECKING:
    import torch

    from ..data import DiskData, NodeData

#: What ``add_subparsers`` returns, to which a command adds its parser.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

#: Data types of hop features, and norms of their filter. A test compares them
#: with the tables that they are chosen from, which import torch.
DTYPES = ("float32", "float64", "float16", "bfloat16")
NORMS = ("both", "right", "left", "none", "in")

#: The largest integer that NumPy and torch take.
_LARGEST = 2**63 - 1
#: More hops than any model has; far more would fill the memory as a list.
_MOST_HOPS = 1000


def count(text: str) -> int:
    """Read an integer of at least 1; for ``type=`` of a flag."""
    return _integer(text, 1)


def hop_count(text: str) -> int:
    """Read a number of hops or layers; for ``type=`` of a flag."""
    number = _integer(text, 0)
    if number > _MOST_HOPS:
        raise argparse.ArgumentTypeError(
            f"should be at most {_MOST_HOPS}, got {number}: every hop is a "
            f"copy of the features"
        )
    return number


def rank_split(text: str) -> str | tuple[int, int]:
    """Read what ranks share (``--split``); for ``type=`` of a flag."""
    if text in ("columns", "edges"):
        return text
    match = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"should be columns, edges, or two numbers such as 4x16, got "
            f"{text[:40]!r}"
        )
    return int(match[1]), int(match[2])


def seed(text: str) -> int:
    """Read a random seed, from 0 to 2**63 - 1; for ``type=`` of a flag."""
    return _integer(text, 0)


def positive_float(text: str) -> float:
    """Read a finite number above 0; for ``type=`` of a flag."""
    number = _finite(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"should be above 0, got {text}")
    return number


def non_negative_float(text: str) -> float:
    """Read a finite number of at least 0; for ``type=`` of a flag."""
    number = _finite(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"should be at least 0, got {text}")
    return number


def rate(text: str) -> float:
    """Read a number from 0 to below 1; for ``type=`` of a flag."""
    number = _finite(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(
            f"should be at least 0 and below 1, got {text}"
        )
    return number


def share(text: str) -> float:
    """Read a number from 0 to 1; for ``type=`` of a flag."""
    number = _finite(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(
            f"should be between 0 and 1, got {text}"
        )
    return number


def small_count(text: str) -> int:
    """Read an integer from 1 to 10000; for ``type=`` of a flag.

    For what is listed before the work starts, such as runs and processes.
    """
    return _integer(text, 1, 10_000)


def given_path(text: str) -> Path:
    """Read a path that is not empty; for ``type=`` of a flag."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: write a path")
    return Path(text)


def _integer(text: str, least: int, most: int = _LARGEST) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"should be an integer, got {text!r}"
        ) from None
    if number < least:
        raise argparse.ArgumentTypeError(
            f"should be at least {least}, got {number}"
        )
    if number > most:
        raise argparse.ArgumentTypeError(
            f"should be at most {most}, got {number}"
        )
    return number


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"should be a number, got {text!r}"
        ) from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(
            f"should be a finite number, got {text}"
        )
    return number


def check_device(text: str, usable: bool = True) -> str:
    """Return the name of a device; an unknown one is an error.

    Parameters
    ----------
    text : str
        The value of ``--device``: cpu, cuda or such as cuda:1.
    usable : bool
        Whether a GPU that cannot be used is an error, too.
    """
    import torch

    from ..precompute.device.cuda import why_not

    try:
        device = torch.device(text)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        refuse(
            f"--device {text!r} is not known: choose cpu, cuda, or a number "
            f"of GPU such as cuda:1."
        )
    if usable and device.type == "cuda":
        reason = why_not(device)
        if reason is not None:
            refuse(
                f"--device {text} cannot be used: {reason}. Choose cpu, or "
                f"omit the flag."
            )
    return text


def check_output_file(path: Path, flag: str) -> None:
    """Check that a file can be written, and create its folder.

    Parameters
    ----------
    path : Path
        The file. One that exists has to be a regular file.
    flag : str
        The flag that names the file, such as ``--save``, for errors.
    """
    try:
        found = path.stat() if _exists(path) else None
    except OSError as error:
        refuse(f"{flag} {path} cannot be written: {error.strerror}.")
    if found is not None and stat.S_ISDIR(found.st_mode):
        refuse(
            f"{flag} {path} is a folder: name a file, for example one in "
            f"this folder."
        )
    if found is not None and not stat.S_ISREG(found.st_mode):
        refuse(f"{flag} {path} is not a regular file: name another file.")
    if found is not None and not os.access(path, os.W_OK):
        refuse(f"{flag} {path} cannot be written: name another file.")
    check_output_folder(path.parent, flag)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"{flag} {path} cannot be written: {error.strerror}.")


def check_output_folder(path: Path, flag: str) -> None:
    """Check that a folder can be written, or created; creates nothing.

    Parameters
    ----------
    path : Path
        The folder.
    flag : str
        The flag that names the folder, such as ``--out``, for errors.
    """
    existing = path.absolute()
    try:
        while not _exists(existing):
            existing = existing.parent
        if not existing.is_dir():
            refuse(f"{flag} {path}: {existing} is a file, not a folder.")
        # As root every folder seems to be writable, even one of /proc.
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        refuse(
            f"{flag} {path} cannot be written: {existing}: {error.strerror}."
        )


def _exists(path: Path) -> bool:
    """Whether there is anything, even a broken link; too long is an error."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def refuse(message: str) -> NoReturn:
    """Raise the error that ends a command with exit code 2 and this line."""
    from dgl import DGLError

    raise DGLError(message) from None


def check_at_least(args: argparse.Namespace, least: int, *names: str) -> None:
    """Raise an error that names the first flag with a value below ``least``."""
    for name in names:
        value = getattr(args, name)
        if value < least:
            flag = name.replace("_", "-")
            refuse(f"--{flag} should be at least {least}, got {value}.")


def add_reverse_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--add-reverse``."""
    parser.add_argument(
        "--add-reverse", action="store_true",
        help="make the graph undirected: every edge in both directions, "
        "once, so that duplicates become one edge",
    )  # fmt: skip


def load_options(args: argparse.Namespace) -> dict[str, bool]:
    """Return the options of ``dgl_lc.data.load`` that flags ask for."""
    return {"add_reverse": True} if args.add_reverse else {}


def split_nodes(data: "NodeData | DiskData") -> "torch.Tensor":
    """Return the nodes that ``--split-only`` asks for."""
    import torch

    nodes = torch.cat([data.train, data.valid, data.test])
    if len(nodes) == 0:
        refuse(f"--split-only: {data.name} has no split. Omit the flag.")
    return nodes


def add_results_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--out``, the folder of the experiments' results."""
    parser.add_argument(
        "--out", type=given_path, default=Path("results"),
        help="folder of the results (default: %(default)s)",
    )  # fmt: skip


def add_seeds_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--seeds``, the number of runs of each model."""
    parser.add_argument(
        "--seeds", type=small_count, default=5,
        help="number of runs per model, each with its own seed "
        "(default: %(default)s)",
    )  # fmt: skip


def add_limit_flags(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the results, and the limits of a training run."""
    add_results_flag(parser)
    add = parser.add_argument
    add("--epochs", type=count, default=COMMON["epochs"],
        help="maximum number of epochs "
        "(default: %(default)s, as in the paper)")  # fmt: skip
    add("--patience", type=count, default=COMMON["patience"],
        help="stop after this many epochs without a lower validation loss "
        "(default: %(default)s)")  # fmt: skip
    add("--batch-size", type=count, default=COMMON["batch_size"],
        help="nodes per mini-batch (default: %(default)s)")  # fmt: skip


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Add the limits, the hidden size and the number of processes."""
    add_limit_flags(parser)
    parser.add_argument(
        "--hid-feats", type=count, default=COMMON["hid_feats"],
        help="hidden feature size (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=small_count, default=1,
        help="number of processes, which share the threads "
        "(default: %(default)s)",
    )  # fmt: skip


def training_options(args: argparse.Namespace) -> dict[str, int]:
    """Return the options of a training run that flags give."""
    names = ("epochs", "patience", "batch_size", "hid_feats")
    return {name: getattr(args, name) for name in names if name in args}
