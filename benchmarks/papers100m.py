r"""Measure each stage of a task of ogbn-papers100M's shape, on disk.

    python benchmarks/papers100m.py --scale 0.025 --memory 1GiB
    python benchmarks/papers100m.py --scale 0.025 --memory 1GiB \
        --folder papers-like-peers --only write prepare precompute peers

The stages lead from raw files to a trained model. Each stage runs in a process
of its own. Printed are its seconds, the seconds per million raw edges, and the
peak of anonymous memory (what was allocated, without the page cache). "peers"
does everything in memory, as OGB's sgc.py and as users of DGL do it, from the
same raw files to the same hop features.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import dgl
import numpy as np
import psutil
import torch

from dgl_lc._common.bytes import format_bytes
from dgl_lc.data import DiskData, prepare_ogb, write_papers_like
from dgl_lc.nn import LCGCN
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.training import fit

STAGES = ("write", "prepare", "precompute", "train")
#: The stages that do the work of the peers, and their folders.
COMPARED = {"prepare": "prepared", "precompute": "hops"}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scale", type=float, default=0.025,
        help="size of the generated data set, as a multiple of papers100M's "
        "(default: %(default)s)")  # fmt: skip
    add("--feat-dim", type=int, default=128,
        help="columns of the features (default: %(default)s)")  # fmt: skip
    add("--hops", type=int, default=3,
        help="last hop, K (default: %(default)s)")  # fmt: skip
    add("--memory", default="4GiB",
        help="memory budget of each stage (default: %(default)s)")  # fmt: skip
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
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--run-one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder is None:
        args.folder = Path(f"papers-like-{args.scale:g}-{args.feat_dim}")
    return args


# Stages


def write(args):
    write_papers_like(
        args.folder / "raw", args.scale, feat_dim=args.feat_dim,
        memory=args.memory,
    )  # fmt: skip


def prepare(args):
    data = prepare_ogb(
        args.folder / "raw", args.folder / "prepared", memory=args.memory,
        consume_raw=args.consume_raw,
    )  # fmt: skip
    print(data)


def precompute(args):
    data = DiskData(args.folder / "prepared")
    hops = block_aggregate(
        data.graph, data.feat, args.hops, nodes=labelled(data),
        memory=args.memory, out=args.folder / "hops",
    )  # fmt: skip
    print(hops)


def train(args):
    data = DiskData(args.folder / "prepared")
    hops = open_store(args.folder / "hops")
    torch.manual_seed(0)
    model = LCGCN(data.num_feats, 256, data.num_classes, num_layers=2)
    print(fit(
        model, hops, data.labels, data.train, data.valid, epochs=10,
    ))  # fmt: skip


def labelled(data):
    return torch.cat([data.train, data.valid, data.test])


# Peers: from the raw files to hop features of the labelled nodes, in memory


def raw_arrays(args):
    home = next((args.folder / "raw").rglob("data.npz")).parent
    with np.load(home / "data.npz") as raw:
        return raw["edge_index"], raw["node_feat"]


def scipy_way(args):
    """Multiply X by a normalised sparse matrix, as OGB's sgc.py does."""
    import scipy.sparse as sp

    (source, target), x = raw_arrays(args)
    n = len(x)
    ones = np.ones(len(source), np.float32)
    a = sp.csr_matrix((ones, (target, source)), (n, n))
    a = a + a.T
    a.data[:] = 1
    a.setdiag(1)
    degree = np.asarray(a.sum(1)).ravel() ** -0.5
    s = sp.diags_array(degree.astype(np.float32)) @ a
    s = (s @ sp.diags_array(degree.astype(np.float32))).tocsr()
    nodes = labelled(DiskData(args.folder / "prepared")).numpy()
    kept = [x[nodes]]
    for _ in range(args.hops):
        x = s @ x
        kept.append(x[nodes])
    compare(args, np.stack(kept, 1))


def dgl_way(args):
    """Pass messages hop by hop on a DGLGraph that has both directions."""
    (source, target), x = raw_arrays(args)
    g = dgl.graph((torch.from_numpy(source), torch.from_numpy(target)),
                  num_nodes=len(x))  # fmt: skip
    g = dgl.to_bidirected(g)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    norm = g.in_degrees().float().pow(-0.5).unsqueeze(1)
    h = torch.from_numpy(x)
    nodes = labelled(DiskData(args.folder / "prepared"))
    kept = [h[nodes]]
    for _ in range(args.hops):
        h = dgl.ops.copy_u_sum(g, h * norm) * norm
        kept.append(h[nodes])
    compare(args, torch.stack(kept, 1).numpy())


def compare(args, rows):
    """Check that a peer's hop features are equal to ours."""
    ours = np.load(args.folder / "hops" / "rows.npy", mmap_mode="r")
    np.testing.assert_allclose(rows, ours, rtol=2e-3, atol=2e-4)
    print("the same hop features")


RUNS = {
    "write": write, "prepare": prepare, "precompute": precompute,
    "train": train, "scipy": scipy_way, "DGL": dgl_way,
}  # fmt: skip


# Measuring


def measure(name, args):
    """Run a stage in a process of its own; return seconds and peak bytes."""
    command = [
        sys.executable, __file__, "--run-one", name, "--scale",
        str(args.scale), "--feat-dim", str(args.feat_dim), "--hops",
        str(args.hops), "--memory", args.memory, "--folder",
        str(args.folder), "--threads", str(args.threads),
    ]  # fmt: skip
    if args.consume_raw:
        command.append("--consume-raw")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak = base = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        peak = max(peak, anonymous(watched))
        time.sleep(0.02)
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} failed:\n{errors}")
    lines = out.strip().splitlines()
    figures = json.loads(lines[-1])
    base = figures["before"]
    print(
        f"{name:11}{figures['seconds']:9.1f} s"
        f"{figures['seconds'] / (1615.69 * args.scale):9.3f} s/M edges, peak "
        f"{format_bytes(max(0, peak - base)):>9} beyond the "
        f"{format_bytes(base)} of Python and torch   "
        f"{' '.join(lines[:-1])}",
        flush=True,
    )
    return figures["seconds"], peak - base


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


def run_one(args):
    """Run one stage in this process, and print its figures as JSON."""
    # Torch's threads start before the clock does. Compiling is a part of the
    # stage, so nothing is compiled here.
    torch.set_num_threads(args.threads)
    torch.ones(1 << 20).sum()
    before = anonymous(psutil.Process())
    start = time.perf_counter()
    RUNS[args.run_one](args)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "before": before}))


def check_new(args):
    """Refuse to compare peers with stages that only open what exists."""
    for name, part in COMPARED.items():
        if (args.folder / part / "manifest.json").exists():
            raise SystemExit(
                f"{args.folder / part} exists, so that {name} would take no "
                f"time: give a new --folder to compare it with peers."
            )


def main():
    args = parse_args()
    if args.run_one:
        run_one(args)
        return
    if "peers" in args.only:
        check_new(args)
    print(
        f"scale {args.scale:g}, {args.feat_dim} columns, K={args.hops}, "
        f"memory {args.memory}, {args.threads} threads",
        flush=True,
    )
    args.folder.mkdir(parents=True, exist_ok=True)
    # Peers are compared with our stages of the same run.
    needed = COMPARED if "peers" in args.only else ()
    ours = {
        name: measure(name, args)
        for name in STAGES
        if name in args.only or name in needed
    }
    if "peers" in args.only:
        both = [ours[name] for name in COMPARED]
        mine = sum(s for s, _ in both), max(p for _, p in both)
        for name in ("DGL", "scipy"):
            seconds, peak = measure(name, args)
            print(
                f"{name}: {seconds / mine[0]:.2f}x our time, "
                f"{peak / mine[1]:.1f}x our memory"
            )


if __name__ == "__main__":
    main()
