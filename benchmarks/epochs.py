"""Measure epochs of originals and of their LC versions.

    python benchmarks/epochs.py [--runs 5]

An epoch is one pass of training and one of validation, as in fit. Batches have
4096 nodes; an original makes one step on the whole graph. The first table has
GCN, JKNet and GPRGNN in float32. The second one has GPRGNN and its LC version
with all hops of a row, or some of them, per step, in float32 and within
autocast to bfloat16.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import torch
import torch.nn.functional as F
from measure import by_turns
from section import (
    Options,
    Row,
    Section,
    add_options,
    format_ratio,
    options_of,
    print_rows,
    row,
    select,
    value,
)
from tasks import arxiv_task, power_law_task
from torch import nn

from dgl_lc.data import NodeData
from dgl_lc.experiments import originals
from dgl_lc.experiments.originals import with_self_loops
from dgl_lc.nn import LCGCN, LCGPRGNN, LCJKNet
from dgl_lc.training import HopLoader

HIDDEN, LR = 256, 0.01
PAIRS: dict[str, tuple[Callable, Callable]] = {
    "GCN": (originals.GCN, LCGCN),
    "JKNet": (originals.JKNet, LCJKNet),
    "GPRGNN": (originals.GPRGNN, LCGPRGNN),
}
#: Hops of a row that LCGPRGNN reads per training step, of 6.
DRAWN = (None, 3, 2)
PRECISIONS = ("float32", "bfloat16")


def find_task(options: Options) -> NodeData | None:
    """Return what is trained on; None if a file does not exist."""
    if options.size == "tiny":
        return power_law_task(300, 4)
    return arxiv_task(options.data)


def lc_versions(options: Options) -> Iterator[Row]:
    """Yield the seconds per epoch of originals and their LC versions."""
    data = find_task(options)
    if data is None:
        return
    sizes = data.num_feats, HIDDEN, data.num_classes
    for name, (original, lc) in PAIRS.items():
        version = lc(*sizes, dropout=0.5)
        hops = version.precompute(data.graph, data.feat, progress=False)
        calls = {
            "original": original_epoch(original(*sizes, dropout=0.5), data),
            "LC": lc_epoch(version, hops, data),
        }
        for kind, seconds in by_turns(calls, options.runs).items():
            yield row(data.name, name, kind, seconds, "s", runs=options.runs)


def versions_table(rows: list[Row]) -> str:
    """Make a table of the seconds per epoch: original, then LC version."""
    cases = list(dict.fromkeys(r["case"] for r in rows))
    lines = [f"| | {' | '.join(cases)} |", "| --- |" + " --- |" * len(cases)]
    for name in dict.fromkeys(r["name"] for r in rows):
        cells = []
        for case in cases:
            old, new = (
                value(rows, case=case, name=name, what=what)
                for what in ("original", "LC")
            )
            cells.append(f"{old:.2f} → {new:.2f} ({format_ratio(old / new)})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def drawn_hops(options: Options) -> Iterator[Row]:
    """Yield the seconds per epoch of GPRGNN, and of drawn hops."""
    data = find_task(options)
    if data is None:
        return
    sizes = data.num_feats, HIDDEN, data.num_classes
    hops = LCGPRGNN(*sizes).precompute(data.graph, data.feat, progress=False)
    calls: dict[tuple[str, str], Callable] = {}
    for bits in PRECISIONS:
        model = originals.GPRGNN(*sizes, dropout=0.5)
        calls["GPRGNN", bits] = original_epoch(model, data, bits)
        for count in DRAWN:
            model = LCGPRGNN(*sizes, dropout=0.5, sampled_hops=count)
            name = f"LCGPRGNN, {count or 'all 6'} hops"
            calls[name, bits] = lc_epoch(model, hops, data, bits)
    for (name, bits), seconds in by_turns(calls, options.runs).items():
        yield row(data.name, name, bits, seconds, "s", runs=options.runs)


def hops_table(rows: list[Row]) -> str:
    """Make a table of the seconds, and how many times as fast as GPRGNN."""
    lines = ["| | float32 | bfloat16 (autocast) |", "| --- | --- | --- |"]
    for name in dict.fromkeys(r["name"] for r in rows):
        cells = []
        for bits in PRECISIONS:
            (found,) = select(rows, name=name, what=bits)
            base = value(rows, name="GPRGNN", what=bits)
            text = f"{found['value']:.2f}"
            if name != "GPRGNN":
                text += f" ({format_ratio(base / found['value'])})"
            cells.append(text)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


# Epochs


def precision_of(bits: str) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=bits == "bfloat16")


def original_epoch(
    model: nn.Module, data: NodeData, bits: str = "float32"
) -> Callable[[], None]:
    """Return a function that trains an original for one epoch."""
    graph = with_self_loops(data.graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)

    def epoch() -> None:
        model.train()
        with precision_of(bits):
            logits = model(graph, data.feat)[data.train].float()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, data.labels[data.train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad(), precision_of(bits):
            model(graph, data.feat)

    return epoch


def lc_epoch(
    model: nn.Module, hops: Any, data: NodeData, bits: str = "float32"
) -> Callable[[], None]:
    """Return a function that trains an LC version for one epoch."""
    train = HopLoader(hops, data.train, data.labels, 4096, shuffle=True)
    valid = HopLoader(hops, data.valid, data.labels, 16384)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)

    def epoch() -> None:
        model.train()
        for batch, labels in train:
            with precision_of(bits):
                logits = model(None, batch).float()
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(logits, labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad(), precision_of(bits):
            for batch, _ in valid:
                model(None, batch)

    return epoch


SECTIONS_OF_BENCH = {
    "epochs": Section(
        lc_versions, {"times": versions_table}, minutes=1.5, only_all=True
    ),
    "drawn_hops": Section(
        drawn_hops, {"hops": hops_table}, minutes=1.5, only_all=True
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    options = options_of(parser.parse_args())
    torch.set_num_threads(options.threads)
    print(versions_table(print_rows(lc_versions(options))))
    print(hops_table(print_rows(drawn_hops(options))))


if __name__ == "__main__":
    main()
