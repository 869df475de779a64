"""The datasets that DGL brings, by name."""

import os
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from .node_data import NodeData
from .splits import random_split

#: What we call them, and DGL's classes.
CLASSES = {
    "cora": "CoraGraphDataset",
    "citeseer": "CiteseerGraphDataset",
    "pubmed": "PubmedGraphDataset",
    "flickr": "FlickrDataset",
    "reddit": "RedditDataset",
    "coauthor_cs": "CoauthorCSDataset",
    "coauthor_physics": "CoauthorPhysicsDataset",
    "amazon_computers": "AmazonCoBuyComputerDataset",
    "amazon_photo": "AmazonCoBuyPhotoDataset",
}
_INDUCTIVE = ("flickr", "reddit")
_MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}


def load_dgl(
    name: str,
    folder: str | os.PathLike | None = None,
    *,
    inductive: bool | None = None,
    seed: int = 0,
) -> NodeData:
    """Load one of DGL's datasets, which DGL downloads if it is missing.

    DGL's own code reads the files, and unpickles some of them.

    Parameters
    ----------
    name : str
        cora, citeseer, pubmed, flickr, reddit, coauthor_cs,
        coauthor_physics, amazon_computers or amazon_photo.
    folder : path, optional
        Where the files are, or are downloaded to. Default: DGL's folder.
    inductive : bool, optional
        Whether training sees training nodes only. By default as is usual:
        yes for flickr and reddit, no for the others.
    seed : int
        The seed of the random split, 60/20/20, of a dataset that has none.
    """
    if name not in CLASSES:
        raise DGLError(
            f"name={name!r} is not known: choose one of {', '.join(CLASSES)}."
        )
    make = getattr(dgl.data, CLASSES[name])
    raw_dir = None if folder is None else os.fspath(folder)
    try:
        dataset = make(raw_dir=raw_dir, verbose=False)
    except Exception as error:
        raise DGLError(
            f"{name} could not be loaded ({type(error).__name__}: {error}). "
            f"{_where(make, raw_dir)}"
        ) from error
    graph = dataset[0]
    labels = graph.ndata["label"].long()
    if inductive is None:
        inductive = name in _INDUCTIVE
    return NodeData(
        graph=graph,
        feat=graph.ndata["feat"].float(),
        labels=labels,
        **_split(graph, labels, seed),
        num_classes=dataset.num_classes,
        name=name,
        inductive=inductive,
    )


def _split(
    graph: dgl.DGLGraph, labels: torch.Tensor, seed: int
) -> dict[str, Any]:
    if all(mask in graph.ndata for mask in _MASKS.values()):
        return {
            split: graph.ndata[mask].bool().nonzero().squeeze(1)
            for split, mask in _MASKS.items()
        }
    labelled = np.flatnonzero(labels.numpy() >= 0)
    rng = np.random.default_rng(seed)
    return random_split(labelled, (0.6, 0.2, 0.2), rng)


def _where(make: type, raw_dir: str | None) -> str:
    """Say which file DGL needs, and where.

    The folder's name has a hash of the address in it, so DGL's own class is
    asked, with a method for loading that does nothing.
    """
    silent = type(make.__name__, (make,), {"_load": lambda self: None})
    wanted = silent(raw_dir=raw_dir, verbose=False)
    return (
        f"Without a network, get {wanted.url} elsewhere and unpack it into "
        f"{wanted.raw_path}."
    )
