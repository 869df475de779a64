"""Finding the Open Graph Benchmark's files, and downloading them."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dgl import DGLError

from .._common.bytes import format_bytes
from .node_data import SPLITS


@dataclass(frozen=True)
class OgbDataset:
    """What OGB calls a dataset's parts.

    Attributes
    ----------
    archive : str
        The name of the zip file, and of the folder in it.
    split : str
        The folder of the split.
    num_classes : int
        How many classes there are.
    disk : int
        Bytes of disk for the archive and its content, about.
    """

    archive: str
    split: str
    num_classes: int
    disk: int

    @property
    def url(self) -> str:
        base = "http://snap.stanford.edu/ogb/data/nodeproppred"
        return f"{base}/{self.archive}.zip"

    def split_files(self, home: Path) -> dict[str, Path]:
        """The files with the ids of training, validation and test nodes."""
        folder = home / "split" / self.split
        return {split: folder / f"{split}.csv.gz" for split in SPLITS}


def find_files(
    name: str,
    dataset: OgbDataset,
    root: Path,
    wanted: Callable[[Path], Iterable[Path]],
) -> Path:
    """Find the folder of a dataset, and download it where it is missing.

    Parameters
    ----------
    name : str
        OGB's name of the dataset.
    dataset : OgbDataset
        What OGB calls its parts.
    root : Path
        Where OGB puts its datasets, or the folder of the dataset itself.
    wanted : callable
        Gives the files that a dataset in a folder needs.
    """
    if (root / "raw").is_dir():
        home = root
    else:
        home = root / name.replace("-", "_")
        if not home.is_dir() or not any(home.iterdir()):
            _download(name, dataset, root, home, wanted(home))
    missing = [str(file) for file in wanted(home) if not file.is_file()]
    if missing:
        raise DGLError(
            f"{name} is incomplete: {', '.join(missing)} missing. Unpack "
            f"{dataset.url} again, or remove {home} to have it downloaded."
        )
    return home


def _download(
    name: str,
    dataset: OgbDataset,
    folder: Path,
    home: Path,
    wanted: Iterable[Path],
) -> None:
    """Download and unpack a dataset into ``home``, by OGB's own functions.

    OGB asks whether to download more than 1 GB, which a run without a
    terminal cannot answer. Instead the free disk space is checked.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < dataset.disk:
            raise RuntimeError(
                f"it needs about {format_bytes(dataset.disk)} of disk, but "
                f"only {format_bytes(free)} are free"
            )
        # Not at the top: OGB asks the network for its newest version.
        from ogb.utils.url import download_url, extract_zip

        archive = download_url(dataset.url, str(folder))
        try:
            extract_zip(archive, str(folder))
        finally:
            # A broken one would be used again.
            os.unlink(archive)
        if home.is_dir():
            home.rmdir()
        os.replace(folder / dataset.archive, home)
    except Exception as error:
        with contextlib.suppress(OSError):  # those that are not empty stay
            for path in created:
                path.rmdir()
        files = ", ".join(str(file.relative_to(home)) for file in wanted)
        raise DGLError(
            f"{name} could not be downloaded ({type(error).__name__}: "
            f"{error}). Without a network, get {dataset.url} elsewhere and "
            f"unpack it so that {home} has {files}."
        ) from error
