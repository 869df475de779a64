"""The data sets of the experiments, by name or from files."""

import hashlib
import os
import re

import torch
import torch.nn.functional as F
from dgl import DGLError

from .._common.digest import digest
from ..data import NodeData, load
from ..data.dgl_data import CLASSES
from ..data.ogb import DATASETS
from . import paper
from .closest_name import did_you_mean
from .results_folder import ResultsFolder

#: How the features of a data set are prepared, the same for all models. Data
#: sets that are not listed are taken as they are.
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

#: The paper's names of data sets that are the same.
PAPER_NAMES = {
    "flickr": "Flickr",
    "reddit": "Reddit",
    "ogbn-arxiv": "arxiv",
    "ogbn-papers100m": "papers100M",
}
#: The graph of ogbn-arxiv with the predictions of a language model as features,
#: instead of OGB's 128 columns.
TAPE = "arxiv (TAPE-P)"
#: A graph of 114.6M edges; the paper uses GraphSAINT's Reddit, of 11.6M.
DGL_REDDIT = "Reddit of dgl.data"


def load_task(source: str | os.PathLike[str]) -> NodeData:
    """Load a data set and prepare its features.

    Edges of npz files and of ogbn-arxiv are used in both directions. The
    graph of ogbn-arxiv with 40 columns has the features of TAPE, and is named
    :data:`TAPE`.

    Parameters
    ----------
    source : path or str
        A file or folder, or the name of a data set.
    """
    name = str(source)
    try:
        if os.path.isfile(name) or name.replace("_", "-") == "ogbn-arxiv":
            data = load(source, add_reverse=True)
        else:
            data = load(source)
    except DGLError as error:
        if "neither a known name" not in str(error):
            raise
        question = did_you_mean(name, ["synthetic", *CLASSES, *DATASETS])
        raise DGLError(f"{error}{question}") from None
    if name.startswith("synthetic:"):
        data.name = name.replace(":", "-")
    if name.lower() == "reddit":
        data.name = DGL_REDDIT
    if data.name.replace("-", "_") == "ogbn_arxiv" and data.num_feats == 40:
        data.name = TAPE
    prepare = PREPARED.get(data.name.replace("-", "_"))
    if prepare == "rows of length one":
        data.feat = F.normalize(data.feat, dim=1)
    elif prepare == "standardised":
        # Statistics are those of all nodes, or those of the training nodes if
        # the task is inductive. Features that GraphSAINT's loader has
        # standardised do not change.
        own = data.feat[data.train] if data.inductive else data.feat
        scale = own.std(dim=0).clamp(min=1e-6)
        data.feat = (data.feat - own.mean(dim=0)) / scale
    return data


def reduce_columns(data: NodeData, columns: int) -> None:
    """Replace wider features by their first principal components.

    Labels are not used. The components are those of all nodes, or of the
    training nodes if the task is inductive, and are divided by one number, so
    that the mean of their squares is one.

    Parameters
    ----------
    data : NodeData
        The data set, which is changed in place.
    columns : int
        Number of components.
    """
    if data.num_feats <= columns:
        return
    # scikit-learn takes a second to import.
    from sklearn.decomposition import PCA

    own = data.feat[data.train] if data.inductive else data.feat
    if len(own) < columns:
        raise DGLError(
            f"columns={columns}: {data.name} has {len(own)} nodes to find "
            f"them by. Take at most {len(own)}."
        )
    found = PCA(columns, svd_solver="randomized", random_state=0)
    found.fit(own.numpy())
    feat = torch.from_numpy(found.transform(data.feat.numpy())).float()
    data.feat = feat / feat.square().mean().sqrt().clamp(min=1e-6)


def load_named_task(source: str, results: ResultsFolder) -> NodeData:
    """Load a data set, with the name that it has in a folder of results."""
    data = load_task(source)
    own = data.name
    data.name = results.name_data(own, fingerprint_of(data), source)
    if data.name != own:
        print(
            f"{source} is named {data.name!r} in {results.folder}, where "
            f"{own!r} is another data set",
            flush=True,
        )
    return data


def load_tasks(
    sources: list[str], results: ResultsFolder
) -> dict[str, NodeData]:
    """Load the data sets that are available; print why others are not.

    No two of them have the same name or the same content.
    """
    found: dict[str, NodeData] = {}
    same: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        try:
            data = load_named_task(source, results)
        except (DGLError, OSError) as error:
            print(f"skipped: {source}: {error}", flush=True)
            continue
        other = same.setdefault(fingerprint_of(data), source)
        if other == source:
            found[source] = data
        else:
            print(f"skipped: {source}: it is the same as {other}", flush=True)
    if not found:
        raise DGLError("none of the data sets could be loaded; see above.")
    return found


def paper_name(data: NodeData) -> str | None:
    """Return the paper's name of a data set, or None if it is another one."""
    own = re.sub(r" \([0-9a-f]{8,}\)$", "", data.name)  # see name_data
    name = PAPER_NAMES.get(own.lower().replace("_", "-"))
    if name is None or name not in paper.DATASETS:
        return None
    sizes = {"nodes": data.graph.num_nodes(), "features": data.num_feats}
    theirs = paper.DATASETS[name]
    return name if all(theirs[k] == sizes[k] for k in sizes) else None


def fingerprint_of(data: NodeData) -> str:
    """Return a digest of the content, as two data sets may have one name."""
    parts = [
        str(data.graph.num_nodes()), str(data.graph.num_edges()),
        *map(digest, data.graph.edges()),
        *map(digest, (data.feat, data.labels)),
        *map(digest, (data.train, data.valid, data.test)),
    ]  # fmt: skip
    return hashlib.blake2b("-".join(parts).encode(), digest_size=8).hexdigest()
