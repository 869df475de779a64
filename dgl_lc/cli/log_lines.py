"""What the library logs, as lines of a command's output."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    """Prints each record of the log as one line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        print(record.getMessage(), flush=True)


@contextmanager
def log_as_lines() -> Iterator[None]:
    """Print what the library logs, such as how training rows are shuffled.

    Commands that train many models leave it out: it would be most of what
    they print.
    """
    log, handler = logging.getLogger("dgl_lc"), _Lines()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
