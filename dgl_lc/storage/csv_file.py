"""csv files of numbers, plain or gz, read a few lines at a time."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .npy_header import UNREADABLE, open_file, unreadable

if TYPE_CHECKING:
    import pandas as pd

#: Lines that are read at a time.
_LINES = 1 << 12
#: Memory that this takes for one or two columns, at most: what pandas holds,
#: and the buffers of a gz file.
CSV_BYTES = 5 << 19


def read_tables(
    path: Path, dtype: Any, *, header: bool = False, exact: bool = False
) -> Iterator[np.ndarray]:
    """Read a csv file as matrices of numbers, one after another.

    Parameters
    ----------
    path : Path
        The file; it is unpacked if its name ends in .gz.
    dtype : numpy.dtype
        The type of all numbers.
    header : bool
        Whether the first line has names.
    exact : bool
        Whether to read decimals as Python does, to the last bit, which takes
        longer.
    """
    import pandas as pd  # takes half a second, and only csv files need it

    packed: Any = "gzip" if path.suffix == ".gz" else None
    try:
        with (
            open_file(path) as file,
            # Some versions of pandas do not close what they are given.
            io.BufferedReader(file) as buffered,  # type: ignore[type-var]
            pd.read_csv(
                buffered,
                header=0 if header else None, dtype=dtype, compression=packed,
                chunksize=_LINES, **(_exact_decimals() if exact else {}),
            ) as tables,
        ):  # fmt: skip
            while (table := _next(tables)) is not None:
                if not isinstance(table.index, pd.RangeIndex):
                    # pandas takes the first columns for names of the rows.
                    raise ValueError("its header has too few columns")
                yield table.to_numpy()
    except pd.errors.EmptyDataError:
        return
    except UNREADABLE as error:
        raise unreadable(str(path), error) from None


def _exact_decimals() -> dict[str, Any]:
    """The option of pandas that makes it read decimals exactly.

    From 3.1 on it always does, and warns of the option.
    """
    import pandas as pd

    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


def _next(tables: Iterator["pd.DataFrame"]) -> "pd.DataFrame | None":
    # pandas casts what is too large for an integer, and then refuses it.
    with np.errstate(invalid="ignore"):
        return next(tables, None)
