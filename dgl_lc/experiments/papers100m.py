"""The paper's table on ogbn-papers100M, from files on disk."""

import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from dgl import DGLError

from .._common.json_files import read_json, write_json
from ..data import DiskData, prepare_ogb, write_papers_like
from ..nn.model import HopModel
from ..node_rows import NodeRows
from . import paper
from .configure import configure
from .named_models import make_model
from .recorded_run import train_and_record
from .results_folder import ResultsFolder, hash_of, slug
from .tables import published_spread, save_table, spread


def reproduce_papers100m(
    root: Path,
    results: ResultsFolder,
    models: list[str],
    seeds: int,
    *,
    memory: str = "16GiB",
    device: str | None = None,
    synthetic: float | None = None,
    feat_dim: int = 128,
    **training: Any,
) -> pd.DataFrame:
    """Prepare, precompute, train with the paper's parameters, and tabulate.

    The result of every stage is kept, and a call that was stopped resumes.

    Parameters
    ----------
    root : Path
        Folder of OGB's raw files.
    results : ResultsFolder
        Where records and tables are saved.
    models : list of str
        Models of :data:`~dgl_lc.experiments.model_names.PAPERS_MODELS`.
    seeds : int
        Number of runs per model.
    memory : str, optional
        Memory budget of each stage. Default: "16GiB".
    device : str, optional
        Device to train on. Default: the CPU.
    synthetic : float, optional
        Scale of a data set to generate first, in OGB's raw layout. Its
        scores cannot be compared with the paper's.
    feat_dim : int, optional
        Number of feature columns of the generated data set. Default: 128.
    **training
        epochs, patience and batch_size of :func:`~dgl_lc.training.fit`.
    """
    if seeds < 1:
        raise DGLError(f"seeds={seeds} should be at least 1.")
    name = "papers100M"
    if synthetic is not None:
        name = f"papers-like-{synthetic:g}-{feat_dim}"
        write_papers_like(root, synthetic, feat_dim=feat_dim, memory=memory)
    data = prepare_ogb(root, root / "prepared", memory=memory)
    print(data, flush=True)
    name = results.name_data(name, data.key, str(root))
    records: dict[str, list[dict[str, Any]]] = {}
    for model in models:
        params = paper.BEST["papers100M"][model]
        assert params is not None
        key = {"params": params, "training": training, "data": data.key}
        for seed in range(seeds):
            record = results.load_run(model, name, seed, key)
            if record is None:
                # The name has the key in it, so that a run with other
                # parameters does not resume from this file.
                checkpoint = data.path / f"{model}-{seed}-{hash_of(key)}.pt"
                record = _run(
                    model, data, params, seed, memory, device=device,
                    checkpoint=checkpoint, **training,
                )  # fmt: skip
                record["data"] = name
                results.save_run(record, key)
                checkpoint.unlink(missing_ok=True)
            records.setdefault(model, []).append(record)
    frame = _table(records, with_paper=synthetic is None)
    print(f"\n{save_table(frame, results.folder / slug(name))}")
    return frame


def _run(
    name: str,
    data: DiskData,
    params: dict[str, Any],
    seed: int,
    memory: str,
    **training: Any,
) -> dict[str, Any]:
    """Precompute, train and test one model; return the record."""
    options, rates = configure(name, params)
    torch.manual_seed(seed)
    model = make_model(name, data, paper.COMMON["hid_feats"], **options)
    assert isinstance(model, HopModel)
    hops = "-".join(map(str, model.hops))
    folder = data.path / f"{'several-' * (name == 'FSGNN')}hops-{hops}"
    inputs, seconds = _precompute(model, data, memory, folder)
    return train_and_record(
        name, model, data, params, seed, (inputs, inputs, seconds), rates,
        **training,
    )  # fmt: skip


def _precompute(
    model: HopModel, data: DiskData, memory: str, folder: Path
) -> tuple[NodeRows, float]:
    """Compute hop features, or open those of another seed or model.

    Returns them with the seconds that they took, those of interrupted calls
    included.
    """

    # Any, as the precomputation reads features on disk like a tensor.
    feat: Any = data.feat

    def compute() -> NodeRows:
        nodes = torch.cat([data.train, data.valid, data.test])
        return model.precompute(
            data.graph, feat, nodes=nodes, memory=memory, out=folder
        )

    note = folder.with_name(f"{folder.name}.seconds.json")
    before = read_json(note) if note.exists() else {"seconds": 0.0}
    if before.get("finished"):
        return compute(), before["seconds"]
    start = time.perf_counter()
    finished = False
    try:
        inputs = compute()
        finished = True
    finally:
        seconds = before["seconds"] + time.perf_counter() - start
        write_json(note, {"seconds": seconds, "finished": finished})
    return inputs, seconds


def _table(
    records: dict[str, list[dict[str, Any]]], with_paper: bool
) -> pd.DataFrame:
    """Make a table with one row per model, and the paper's figures."""
    rows: list[dict[str, str]] = []
    for model, found in records.items():
        runs = pd.DataFrame(found)
        row = {
            "model": model,
            "test": spread(runs.test),
            "test, last epoch": spread(runs.test_last),
            "validation": spread(runs.valid),
            "s/epoch": f"{runs.epoch_seconds.mean():.2f}",
            "total s": f"{runs.total_seconds.mean():.1f}",
        }
        if with_paper:
            published = paper.PAPERS100M[model]
            assert published is not None
            test, valid, epoch, total = published
            row |= {
                "paper, test": published_spread(test),
                "paper, validation": published_spread(valid),
                "paper, s/epoch": f"{epoch:.2f}",
                "paper, total s": f"{total:.0f}",
            }
        rows.append(row)
    return pd.DataFrame(rows)
