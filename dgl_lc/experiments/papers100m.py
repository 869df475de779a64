"""The paper's table on ogbn-papers100M, from files on disk."""

import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from dgl import DGLError

from ..data import DiskData, prepare_ogb, write_papers_like
from ..precompute.disk_folder import read_json, write_json
from ..training import fit, predict
from . import paper
from .configure import configure, make_optimizer
from .recorded_run import LastEpoch, environment
from .results_folder import Results, hash_of
from .tables import save_table
from .train_one import MODELS

#: The models of the paper's table that fit.
TABLE_MODELS = ["SGC", "FSGNN", "LCGCN", "LCJKNet", "LCGPRGNN"]


def reproduce_papers100m(
    root: Path,
    results: Results,
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

    Every stage is kept, and a call that was stopped goes on. With
    ``synthetic`` a data set of that scale is generated first, in OGB's raw
    layout; its scores have nothing to do with the paper's.
    """
    if seeds < 1:
        raise DGLError(f"--seeds should be at least 1, got {seeds}.")
    name = "papers100M"
    if synthetic is not None:
        name = f"papers-like-{synthetic:g}-{feat_dim}"
        write_papers_like(root, synthetic, feat_dim=feat_dim, memory=memory)
    data = prepare_ogb(root, root / "prepared", memory=memory)
    print(data, flush=True)
    for model in models:
        for seed in range(seeds):
            params = paper.BEST["papers100M"][model]
            assert params is not None
            key = {"params": params, "training": training}
            if results.run(model, name, seed, key) is None:
                # Its own: another call's would be taken for this one's.
                checkpoint = data.path / f"{model}-{seed}-{hash_of(key)}.pt"
                record = _run(
                    model, data, params, seed, memory, device, checkpoint,
                    training,
                )  # fmt: skip
                results.keep_run({**record, "data": name}, key)
                checkpoint.unlink(missing_ok=True)
    frame = _table(models, name, seeds, results, training, synthetic is None)
    print(f"\n{save_table(frame, results.folder / name)}")
    return frame


def _run(
    name: str,
    data: DiskData,
    params: dict,
    seed: int,
    memory: str,
    device: str | None,
    checkpoint: Path,
    training: dict,
) -> dict[str, Any]:
    options, rates = configure(name, params)
    torch.manual_seed(seed)
    sizes = {"in_feats": data.num_feats, "out_feats": data.num_classes}
    if name != "SGC":
        sizes["hid_feats"] = paper.COMMON["hid_feats"]
    model: Any = MODELS[name](**sizes, **options)
    nodes = torch.cat([data.train, data.valid, data.test])
    hops = "-".join(map(str, model.hops))
    folder = data.path / f"{'several-' * (name == 'FSGNN')}hops-{hops}"
    inputs, seconds = _precompute(model, data, nodes, memory, folder)
    optimizer = make_optimizer(model, rates)
    last = LastEpoch(model)
    found = fit(
        model, inputs, data.labels, data.train, data.valid, seed=seed,
        device=device, progress=False, checkpoint=checkpoint, on_epoch=last,
        **training, **({"optimizer": optimizer} if optimizer else rates),
    )  # fmt: skip

    def test():
        logits = predict(model, inputs, data.test)
        right = logits.argmax(dim=1).cpu() == data.labels[data.test]
        return float(right.double().mean())

    best = test()
    model.load_state_dict(last.state)
    return {
        "model": name,
        "seed": seed,
        "params": params,
        "test": best,
        "test_last": test(),
        "valid": found.valid_accuracy,
        "epochs": len(found.history),
        "epoch_seconds": float(found.history.train_seconds.mean()),
        "precompute_seconds": seconds,
        "total_seconds": seconds + float(found.history.train_seconds.sum()),
        "history": {
            "seconds": [float(s) for s in found.history.train_seconds.cumsum()],
            "valid": [float(v) for v in found.history.valid_accuracy],
        },
        "best_epoch": int(found.best_epoch),
        "environment": environment(),
    }


def _precompute(model, data, nodes, memory, folder: Path):
    """Hop features, and how long they took in all, interruptions and all.

    Other seeds and models find the store there, and count its seconds too.
    """
    note = folder.with_name(f"{folder.name}.seconds.json")
    before = read_json(note) if note.exists() else {"seconds": 0.0}
    if before.get("finished"):
        inputs = model.precompute(
            data.graph, data.feat, nodes=nodes, memory=memory, out=folder
        )
        return inputs, before["seconds"]
    start = time.perf_counter()
    finished = False
    try:
        inputs = model.precompute(
            data.graph, data.feat, nodes=nodes, memory=memory, out=folder
        )
        finished = True
    finally:
        seconds = before["seconds"] + time.perf_counter() - start
        write_json(note, {"seconds": seconds, "finished": finished})
    return inputs, seconds


def _table(models, name, seeds, results, training, is_real) -> pd.DataFrame:
    rows: list[dict[str, str]] = []
    for model in models:
        key = {"params": paper.BEST["papers100M"][model], "training": training}
        found = [results.run(model, name, seed, key) for seed in range(seeds)]
        runs = pd.DataFrame([record for record in found if record])
        theirs = paper.PAPERS100M[model]
        assert theirs is not None
        test, valid, epoch, total = theirs
        rows.append(
            {
                "model": model,
                "test": f"{100 * runs.test.mean():.2f} "
                f"({100 * runs.test.std(ddof=0):.2f})",
                "test, last epoch": f"{100 * runs.test_last.mean():.2f} "
                f"({100 * runs.test_last.std(ddof=0):.2f})",
                "validation": f"{100 * runs.valid.mean():.2f} "
                f"({100 * runs.valid.std(ddof=0):.2f})",
                "s/epoch": f"{runs.epoch_seconds.mean():.2f}",
                "s in all": f"{runs.total_seconds.mean():.1f}",
            }
        )
        if is_real:
            rows[-1] |= {
                "paper, test": f"{100 * test[0]:.1f} ({100 * test[1]:.1f})",
                "paper, validation": f"{100 * valid[0]:.1f} "
                f"({100 * valid[1]:.1f})",
                "paper, s/epoch": f"{epoch:.2f}",
                "paper, s in all": f"{total:.0f}",
            }
    return pd.DataFrame(rows)
