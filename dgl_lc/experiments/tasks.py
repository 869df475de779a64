"""The data sets of the experiments, by name or from files."""

import difflib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from dgl import DGLError

from .._common.digest import digest
from ..data import NodeData, load
from ..data.dgl_data import CLASSES
from ..data.ogb import DATASETS
from . import paper

#: How features are prepared, the same for all models of a data set; others
#: are taken as they are.
PREPARED = {
    "flickr": "standardised",
    "cora": "rows of length one",
    "citeseer": "rows of length one",
    "pubmed": "rows of length one",
    "amazon_computers": "standardised",
    "amazon_photo": "standardised",
    "coauthor_cs": "standardised",
    "tolokers": "standardised",
}

#: What else a task may be called; the paper's names where it is the same.
PAPER_NAMES = {
    "flickr": "Flickr",
    "reddit": "Reddit",
    "ogbn-arxiv": "arxiv",
    "ogbn-papers100m": "papers100M",
}
#: Not the 128 columns of OGB: what a language model guessed.
TAPE = "arxiv (TAPE-P)"
#: Another graph than GraphSAINT's, which is the paper's: 114.6M edges.
DGL_REDDIT = "Reddit of dgl.data"


def load_task(source: str | os.PathLike) -> NodeData:
    """A data set with its features prepared.

    Edges of npz files and of ogbn-arxiv count in both directions. The real
    ogbn-arxiv graph with 40 columns has the features of TAPE, and is named
    so.
    """
    name = str(source)
    try:
        if Path(name).is_file() or name.replace("_", "-") == "ogbn-arxiv":
            data = load(source, add_reverse=True)
        else:
            data = load(source)
    except DGLError as error:
        if "neither a known name" not in str(error):
            raise
        near = nearest(name, ["synthetic", *CLASSES, *DATASETS])
        raise DGLError(f"{error}{near}") from None
    if name.lower() == "reddit":
        data.name = DGL_REDDIT
    if data.name.replace("-", "_") == "ogbn_arxiv" and data.num_feats == 40:
        data.name = TAPE
    prepare = PREPARED.get(data.name.replace("-", "_"))
    if prepare == "rows of length one":
        data.feat = F.normalize(data.feat, dim=1)
    elif prepare == "standardised":
        # By all nodes, or by the training nodes where these alone are seen;
        # what GraphSAINT's loader has standardised stays as it is.
        own = data.feat[data.train] if data.inductive else data.feat
        scale = own.std(dim=0).clamp(min=1e-6)
        data.feat = (data.feat - own.mean(dim=0)) / scale
    return data


def load_tasks(sources: list[str]) -> dict[str, NodeData]:
    """The data sets that can be had, by source; says why others cannot."""
    found = {}
    for source in sources:
        try:
            found[source] = load_task(source)
        except (DGLError, OSError) as error:
            print(f"left out: {source}: {error}", flush=True)
    if not found:
        raise DGLError("none of the data sets can be had; see above.")
    return found


def nearest(name: str, known: list[str]) -> str:
    """A suggestion, to be put behind an error message."""
    close = closest(name, known, 0.5)
    return f" Did you mean {close!r}?" if close else ""


def closest(name: str, known: Iterable[str], cutoff: float = 0.0) -> str | None:
    """The known name that is most like this one."""
    lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(str(name).lower(), lower, 1, cutoff)
    return lower[found[0]] if found else None


def paper_name(data: NodeData) -> str | None:
    """What the paper calls this data set, if it is the same."""
    name = PAPER_NAMES.get(data.name.lower().replace("_", "-"))
    if name is None or name not in paper.DATASETS:
        return None
    sizes = {"nodes": data.graph.num_nodes(), "features": data.num_feats}
    theirs = paper.DATASETS[name]
    return name if all(theirs[k] == sizes[k] for k in sizes) else None


def fingerprint_of(data: NodeData) -> str:
    """Stands for the content: two data sets may have one name."""
    parts = [
        str(data.graph.num_nodes()), str(data.graph.num_edges()),
        *map(digest, data.graph.edges()),
        *map(digest, (data.feat, data.labels)),
        *map(digest, (data.train, data.valid, data.test)),
    ]  # fmt: skip
    return hashlib.blake2b("-".join(parts).encode(), digest_size=8).hexdigest()


def slug(name: str) -> str:
    """A name as part of a file's."""
    kept = [c if c.isalnum() or c in "-_" else "-" for c in name]
    return "".join(kept).strip("-")


def accuracy(
    logits: torch.Tensor, data: NodeData, nodes: torch.Tensor
) -> float:
    """The share of nodes whose class is right."""
    right = logits.argmax(dim=1) == data.labels[nodes]
    return float(right.double().mean())
