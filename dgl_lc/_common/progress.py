"""Progress bars, all alike."""

from tqdm.auto import tqdm


def progress_bar(
    total: float | None,
    name: str,
    progress: bool | None,
    *,
    done: float = 0,
    unit: str = "B",
) -> tqdm:
    """A progress bar.

    Parameters
    ----------
    total : int or None
        Units of the whole work; None if nobody knows.
    name : str
        What is being done.
    progress : bool or None
        Whether to show it. None: in a terminal, after two seconds.
    done : int
        Units that were finished before.
    unit : str
        "B" for bytes, or what is counted.
    """
    return tqdm(
        total=total, initial=done, desc=name, unit=unit,
        unit_scale=unit == "B", unit_divisor=1024 if unit == "B" else 1000,
        disable=None if progress is None else not progress,
        delay=2 if progress is None else 0,
    )  # fmt: skip
