r"""Measure each stage of a task of ogbn-papers100M's shape, on disk.

    python benchmarks/papers100m.py --scale 0.025 --memory 1GiB
    python benchmarks/papers100m.py --scale 0.025 --memory 1GiB \
        --folder papers-like-peers --only write prepare precompute peers
    python benchmarks/papers100m.py --scale 1 --feat-dim 32 --dtype float16 \
        --consume-raw --memory 16GiB --again 8GiB --columns 8 16

The stages lead from raw files to a trained model. Each stage runs in a process
of its own. Printed are its seconds, the seconds per million raw edges, the peak
of anonymous memory (what was allocated, without the page cache), the bytes that
it read from the disk and wrote to it, and how long the disk alone would take
for these, at the rates that the stage "disk" measured. "again" is the
precomputation with other budgets, "columns" the same with fewer columns, from
which the time of 128 columns is extrapolated. "peers" does everything in
memory, as OGB's sgc.py and as users of DGL do it, from the same raw files to
the same hop features.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import torch

sys.path.insert(0, str(Path(__file__).parent))
from disk_rate import drop_from_cache, measure_disk
from papers_peers import PEERS, labelled
from section import Section, row, table

from dgl_lc._common.bytes import format_bytes, parse_bytes
from dgl_lc.data import DiskData, prepare_ogb, write_papers_like
from dgl_lc.nn import LCGCN
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.storage.made_columns import MadeColumns
from dgl_lc.training import fit

STAGES = ("disk", "write", "prepare", "precompute", "again", "columns", "train")
#: The stages that do the work of the peers, and their folders.
COMPARED = {"prepare": "prepared", "precompute": "hops"}
#: Options that a stage's own process is not given.
NOT_PASSED_ON = ("only", "again", "columns", "cold", "disk_size", "json",
                 "run_one")  # fmt: skip
#: The columns of papers100M, and its raw edges.
ALL_COLUMNS = 128
RAW_EDGES = 1_615_685_872


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scale", type=float, default=0.025,
        help="size of the generated data set, as a multiple of papers100M's "
        "(default: %(default)s)")  # fmt: skip
    add("--feat-dim", type=int, default=ALL_COLUMNS,
        help="columns of the features (default: %(default)s)")  # fmt: skip
    add("--dtype", choices=("float32", "float16", "bfloat16"),
        default="float32", help="type in which prepared features and hop "
        "features are stored (default: %(default)s)")  # fmt: skip
    add("--hops", type=int, default=3,
        help="last hop, K (default: %(default)s)")  # fmt: skip
    add("--memory", default="4GiB",
        help="memory budget of each stage (default: %(default)s)")  # fmt: skip
    add("--again", nargs="+", default=[], metavar="MEMORY",
        help="budgets with which to run the precomputation "
        "again")  # fmt: skip
    add("--columns", nargs="+", type=int, default=[], metavar="COLUMNS",
        help="run the precomputation with only so many columns as "
        "well")  # fmt: skip
    add(
        "--folder",
        type=Path,
        help="folder for all files (default: papers-like-SCALE-COLUMNS)",
    )
    add("--only", nargs="+", choices=[*STAGES, "peers"],
        default=list(STAGES), help="stages to run (default: all stages, "
        "without the peers)")  # fmt: skip
    add("--consume-raw", action="store_true",
        help="delete the raw files once they are converted")  # fmt: skip
    add("--cold", action="store_true",
        help="drop all files from the page cache before each "
        "stage")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--disk-size", default="2GiB",
        help="bytes with which to measure the disk "
        "(default: %(default)s)")  # fmt: skip
    add("--json", type=Path, help="file for the figures, as JSON")
    # What a stage's own process is told.
    add("--run-one", help=argparse.SUPPRESS)
    add("--store", default="hops", help=argparse.SUPPRESS)
    add("--take", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.folder is None:
        args.folder = Path(f"papers-like-{args.scale:g}-{args.feat_dim}")
    for columns in args.columns:
        if not 1 <= columns < args.feat_dim:
            parser.error(
                f"--columns {columns}: should be from 1 to "
                f"{args.feat_dim - 1}, fewer than --feat-dim"
            )
    return args


# Stages


def write(args):
    write_papers_like(
        args.folder / "raw", args.scale, feat_dim=args.feat_dim,
        memory=args.memory,
    )  # fmt: skip


def prepare(args):
    begin = time.time()
    out = args.folder / "prepared"
    prepare_ogb(
        args.folder / "raw", out, memory=args.memory,
        dtype=getattr(torch, args.dtype), consume_raw=args.consume_raw,
    )  # fmt: skip
    # A folder is finished when its manifest is written.
    parts = {}
    for name, part in (("graph", "graph"), ("features", "feat"), ("rest", "")):
        end = (out / part / "manifest.json").stat().st_mtime
        parts[name] = max(0.0, end - begin)
        begin = max(begin, end)
    return {"parts": parts}


def precompute(args):
    data = DiskData(args.folder / "prepared")
    feat = data.feat if args.take is None else FewColumns(data.feat, args.take)
    hops = block_aggregate(
        data.graph, feat, args.hops, nodes=labelled(data),
        memory=args.memory, out=args.folder / args.store,
    )  # fmt: skip
    print(hops)


def train(args):
    data = DiskData(args.folder / "prepared")
    hops = open_store(args.folder / "hops")
    torch.manual_seed(0)
    model = LCGCN(data.num_feats, 256, data.num_classes, num_layers=2)
    result = fit(model, hops, data.labels, data.train, data.valid, epochs=10)
    print(result)


class FewColumns(MadeColumns):
    """The first columns of features on disk."""

    def __init__(self, feat, columns):
        self._feat = feat
        self.shape = (feat.shape[0], columns)
        self.dtype = feat.dtype

    @property
    def key(self):
        return f"the first {self.shape[1]} columns of {self._feat.key}"

    def copy_columns(self, first, last, rows, target):
        self._feat.copy_columns(first, last, rows, target)


RUNS = {
    "write": write, "prepare": prepare, "precompute": precompute,
    "train": train, **PEERS,
}  # fmt: skip


# Measuring


def measure(name, args, **changed):
    """Run a stage in a process of its own; return its figures.

    ``changed`` are options that differ from those of the command.
    """
    options = {
        name: value
        for name, value in vars(args).items()
        if name not in NOT_PASSED_ON
    }
    command = [sys.executable, __file__, "--run-one", name]
    for option, value in (options | changed).items():
        flag = f"--{option.replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif value not in (None, False):
            command += [flag, str(value)]
    if args.cold:
        for path in args.folder.rglob("*"):
            if path.is_file():
                drop_from_cache(path)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        peak = max(peak, anonymous(watched))
        time.sleep(0.02)
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} failed:\n{errors}")
    figures = json.loads(out.strip().splitlines()[-1])
    figures["peak"] = max(0, peak - figures["before"])
    return {"stage": name, "memory": args.memory, **changed} | figures


def anonymous(process):
    """Read how many bytes a process has allocated."""
    try:
        with open(f"/proc/{process.pid}/status") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def disk_bytes():
    """Read how many bytes this process read from the disk, and wrote to it.

    Those that the page cache had are not read from the disk. Written bytes
    count as soon as they are in the page cache.
    """
    try:
        found = dict(
            line.split(": ")
            for line in Path("/proc/self/io").read_text().splitlines()
        )
    except OSError:
        return {"read": 0, "written": 0}
    return {
        "read": int(found["read_bytes"]),
        "written": int(found["write_bytes"]),
    }


def run_one(args):
    """Run one stage in this process, and print its figures as JSON."""
    # Torch's threads start before the clock does. Compiling is a part of the
    # stage, so nothing is compiled here.
    torch.set_num_threads(args.threads)
    torch.ones(1 << 20).sum()
    before, disk = anonymous(psutil.Process()), disk_bytes()
    start = time.perf_counter()
    more = RUNS[args.run_one](args) or {}
    seconds = time.perf_counter() - start
    moved = {name: size - disk[name] for name, size in disk_bytes().items()}
    print(json.dumps({"seconds": seconds, "before": before} | moved | more))


def run_stages(args):
    """Run the stages that were asked for; yield the figures of each."""
    # Peers are compared with our stages of the same run.
    needed = COMPARED if "peers" in args.only else ()
    for stage in STAGES:
        if stage not in args.only and stage not in needed:
            continue
        if stage == "disk":
            rates = measure_disk(args.folder, parse_bytes(args.disk_size))
            yield {"stage": "disk"} | rates
        elif stage == "again":
            for memory in args.again:
                yield other_precompute(args, memory=memory)
        elif stage == "columns":
            for columns in args.columns:
                yield other_precompute(args, take=columns)
        else:
            yield measure(stage, args)


def other_precompute(args, **changed):
    """Run the precomputation with another budget or with fewer columns."""
    store = "hops-" + "-".join(str(value) for value in changed.values())
    shutil.rmtree(args.folder / store, ignore_errors=True)
    found = measure("precompute", args, store=store, **changed)
    shutil.rmtree(args.folder / store)
    return found


# Printing


def show(found, rates, scale):
    """Print the figures of a stage."""
    if found["stage"] == "disk":
        print(
            f"the disk writes {found['write_rate'] / 1e9:.2f} GB/s and reads "
            f"{found['read_rate'] / 1e9:.2f} GB/s",
            flush=True,
        )
        return
    name = found["stage"]
    if "store" in found:
        name += f" {found['take']} col" if "take" in found else " again"
    text = (
        f"{name:18}{found['memory']:>7}{found['seconds']:9.1f} s"
        f"{found['seconds'] / (RAW_EDGES / 1e6 * scale):8.3f} s/M edges, peak "
        f"{format_bytes(found['peak']):>9} beyond the "
        f"{format_bytes(found['before'])} of Python and torch, read "
        f"{found['read'] / 1e9:.2f} GB, wrote {found['written'] / 1e9:.2f} GB"
    )
    if rates:
        text += f" (the disk alone: {disk_seconds(found, rates):.1f} s)"
    if "parts" in found:
        parts = found["parts"].items()
        text += "; " + ", ".join(f"{part} {s:.1f} s" for part, s in parts)
    print(text, flush=True)


def disk_seconds(found, rates):
    """How long the disk alone takes for the bytes of a stage."""
    return (
        found["read"] / rates["read_rate"]
        + found["written"] / rates["write_rate"]
    )


def extrapolate(found, args):
    """Extrapolate all stages from raw files to hop features of 128 columns.

    A line is laid through the times of the precomputation by columns. As it
    may hide that few columns cost less, a time in proportion to the columns,
    from the largest number of them, is given as well. Sorting the edges does
    not depend on the columns.
    """
    runs = {
        each.get("take", args.feat_dim): each["seconds"]
        for each in found
        if each["stage"] == "precompute" and each["memory"] == args.memory
    }
    prepared = [each for each in found if each["stage"] == "prepare"]
    if len(runs) < 2 or not prepared or not prepared[0]["parts"]["graph"]:
        return None
    columns, seconds = (np.array(each, float) for each in zip(*runs.items()))  # noqa: B905
    slope, fixed = np.polyfit(columns, seconds, 1)
    most = int(columns.max())
    parts = prepared[0]["parts"]
    once = parts["graph"] + parts["rest"]
    feat = parts["features"] * ALL_COLUMNS / args.feat_dim
    line = fixed + slope * ALL_COLUMNS
    share = runs[most] * ALL_COLUMNS / most
    far = np.abs(fixed + slope * columns - seconds) / seconds
    return {
        "stage": "extrapolated",
        "measured": {str(int(c)): float(s) for c, s in runs.items()},
        "per_column": float(slope),
        "fixed": float(fixed),
        "farthest": float(far.max()),
        "prepare": once + feat,
        "precompute_line": float(line),
        "precompute_share": float(share),
    }


def show_extrapolated(found):
    measured = ", ".join(
        f"{columns} columns {seconds:.1f} s"
        for columns, seconds in sorted(
            found["measured"].items(), key=lambda each: int(each[0])
        )
    )
    low, high = sorted((found["precompute_line"], found["precompute_share"]))
    print(
        f"measured: {measured}; a line of {found['fixed']:.1f} s and "
        f"{found['per_column']:.2f} s per column is at most "
        f"{100 * found['farthest']:.0f} % away\n"
        f"extrapolated, not measured: {ALL_COLUMNS} columns take "
        f"{found['prepare']:.0f} s to prepare and {low:.0f} to {high:.0f} s to "
        f"precompute, {(found['prepare'] + low) / 60:.1f} to "
        f"{(found['prepare'] + high) / 60:.1f} minutes in all"
    )


def compare_peers(found, args):
    """Run the peers, and yield their figures."""
    ours = [each for each in found if each["stage"] in COMPARED]
    seconds = sum(each["seconds"] for each in ours)
    peak = max(each["peak"] for each in ours)
    for name in PEERS:
        peer = measure(name, args)
        yield peer
        print(
            f"{name}: {peer['seconds'] / seconds:.2f}x our time, "
            f"{peer['peak'] / peak:.1f}x our memory"
        )


def check_new(args):
    """Refuse to compare peers with stages that only open what exists."""
    for name, part in COMPARED.items():
        if (args.folder / part / "manifest.json").exists():
            raise SystemExit(
                f"{args.folder / part} exists, so that {name} would take no "
                f"time: give a new --folder to compare it with peers."
            )


def papers(options):
    """Yield the rows of a run of make bench, in files that it deletes."""
    scale = {"tiny": "1e-5", "default": "0.025", "all": "0.25"}[options.size]
    memory = "4GiB" if options.size == "all" else "1GiB"
    args = parse_args([
        "--scale", scale, "--memory", memory,
        "--folder", str(options.scratch / "papers"),
        "--threads", str(options.threads), "--disk-size",
        "4MiB" if options.size == "tiny" else "2GiB",
    ])  # fmt: skip
    args.folder.mkdir(parents=True)
    try:
        for found in run_stages(args):
            if found["stage"] == "disk":
                continue
            case, name = f"papers100M's shape, scale {scale}", found["stage"]
            yield row(case, name, "time", found["seconds"], "s")
            yield row(case, name, "peak memory", found["peak"], "B")
            yield row(case, name, "read", found["read"], "B")
            yield row(case, name, "written", found["written"], "B")
    finally:
        shutil.rmtree(args.folder)


def papers_table(rows):
    """Make a table of the stages."""
    return table(rows, across="what", ratio_to=None)


SECTIONS_OF_BENCH = {
    "papers": Section(papers, {"papers": papers_table}, minutes=8,
                      only_all=True)
}  # fmt: skip


def main():
    args = parse_args()
    if args.run_one:
        run_one(args)
        return
    if "peers" in args.only:
        check_new(args)
    print(
        f"scale {args.scale:g}, {args.feat_dim} columns, {args.dtype}, "
        f"K={args.hops}, memory {args.memory}, {args.threads} threads",
        flush=True,
    )
    args.folder.mkdir(parents=True, exist_ok=True)
    found, rates = [], None
    for each in run_stages(args):
        found.append(each)
        if each["stage"] == "disk":
            rates = each
        show(each, rates, args.scale)
    if "peers" in args.only:
        for each in compare_peers(found, args):
            found.append(each)
            show(each, rates, args.scale)
    more = extrapolate(found, args)
    if more is not None:
        found.append(more)
        show_extrapolated(more)
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
