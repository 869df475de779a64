"""Getting the Open Graph Benchmark's archives."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dgl import DGLError

from .._common.bytes import format_bytes


@dataclass(frozen=True)
class OgbDataset:
    """What OGB calls a dataset's parts."""

    archive: str
    split: str
    num_classes: int
    #: Bytes of disk for the archive and its content, about.
    disk: int

    @property
    def url(self) -> str:
        base = "http://snap.stanford.edu/ogb/data/nodeproppred"
        return f"{base}/{self.archive}.zip"


def download(
    name: str,
    dataset: OgbDataset,
    folder: Path,
    home: Path,
    wanted: Iterable[Path],
) -> None:
    """Download and unpack a dataset into ``home``, by OGB's own functions.

    OGB's question whether to download more than 1 GB is left out: a run
    without a terminal cannot answer. Instead the disk is looked at.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < dataset.disk:
            raise RuntimeError(
                f"it needs about {format_bytes(dataset.disk)} of disk, free "
                f"are {format_bytes(free)}"
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
        files = ", ".join(str(file.relative_to(home)) for file in wanted)
        raise DGLError(
            f"{name} could not be downloaded ({type(error).__name__}: "
            f"{error}). Without a network, get {dataset.url} elsewhere and "
            f"unpack it so that {home} has {files}."
        ) from error
