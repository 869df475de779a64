"""The command ``dgl-lc``; each of its commands is a module here.

A command's module is imported when the command is called, and imports torch
and DGL when it runs, so that ``dgl-lc --help`` answers at once.
"""

import argparse
import importlib
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from .. import __version__
from .ranks import rank_for_errors
from .shell_words import name_flags

#: The commands and their help. The module of the same name here defines
#: ``add_command``, which adds the command's parser and sets its defaults:
#: ``run``, which does the work and returns the exit code, and optionally
#: ``kept``, which says what an interrupted command leaves for the next call.
COMMANDS = {
    "demo": "train models and their LC versions on a generated graph",
    "prepare": "turn files of your own into a task on disk",
    "train": "train a model on a data set of your own",
    "predict": "predict the classes of nodes with a saved model",
    "plan": "show how the precomputation of a graph of a given size would be "
    "cut into blocks, and what it costs",
    "precompute": "compute hop features and store them on disk",
    "selftest": "check that a GPU computes exact results within its memory, "
    "measure its speed, and print a report",
    "tune": "tune a model's parameters on the validation nodes",
    "reproduce": "reproduce the paper's tables and figures",
    "store": "inspect, verify or extend a hop store",
    "update": "update a hop store after its graph or features changed",
    "warmup": "compile the kernels of the CPU ahead, for images and CI",
    "calibrate": "measure the coefficients of the published optimiser",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of the commands are."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dgl-lc: {message} (see {self.prog} --help)\n")


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    It is 2 if an argument is wrong, and 130 after Ctrl-C.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = kept = None
    with (
        _warnings_as_lines(),
        _signals_interrupt() as received,
    ):
        try:
            args = _make_parser(argv).parse_args(argv)
            kept = getattr(args, "kept", None)
            return args.run(args)
        except BaseException as error:
            # Libraries may turn an interrupt into an error of their own.
            if not received and not isinstance(error, KeyboardInterrupt):
                return _report(error, args)
            _say(f"interrupted; {kept}" if kept else "interrupted")
            return 128 + (received or [signal.SIGINT])[0]


def _report(error: BaseException, args: argparse.Namespace | None) -> int:
    """Print an error that a user can mend in one line; raise any other."""
    if isinstance(error, BrokenPipeError):
        return 0
    # An error of DGL can only be raised after DGL was imported.
    dgl_error = getattr(sys.modules.get("dgl"), "DGLError", OSError)
    if not isinstance(error, (dgl_error, OSError, MemoryError)):
        raise error
    failed = getattr(sys.modules.get("dgl_lc.ranks.call"), "RankFailed", ())
    if rank_for_errors() and failed and isinstance(error, failed):
        # The rank that failed says so itself, and so does rank 0.
        return 2
    _say(name_flags(str(error), args) or "there is not enough memory")
    return 2


def _say(text: str) -> None:
    text = rank_for_errors() + " ".join(text.split())
    # In one write, so that the lines of ranks do not mix.
    sys.stderr.write(f"dgl-lc: {text}\n")


def _make_parser(argv: list[str]) -> argparse.ArgumentParser:
    """Make the parser, with the flags of the command that is called."""
    parser = _Parser(
        prog="dgl-lc",
        description="Graph neural networks that train like an MLP, by "
        "block-wise precomputation of hop features.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    called = next((word for word in argv if word != "--"), None)
    for name, text in COMMANDS.items():
        if name == called:
            module = importlib.import_module(f".{name}", __name__)
            module.add_command(commands)
            commands.choices[name].description = f"{text[0].upper()}{text[1:]}."
        else:
            commands.add_parser(name, help=text)
    return parser


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning as one line, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"note: {' '.join(str(message).split())}", flush=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


class _Interrupt(KeyboardInterrupt):
    """An interrupt that is caught in :func:`main`.

    Python ends a program with the signal itself, whatever its exit code, if a
    KeyboardInterrupt has passed through the ``exec`` of a text, as in
    ``collections.namedtuple``. It looks for just that class.
    """


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """Let SIGTERM interrupt as Ctrl-C does; yield the signals that came."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        received.append(number)
        raise _Interrupt

    before: dict[int, Callable[..., Any] | int | None] = {}
    try:
        # Only the main thread can set handlers.
        with suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                # What was to be ignored stays so: a shell has programs in
                # the background ignore Ctrl-C.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, interrupt)
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
