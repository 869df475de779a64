"""One task in every format that ``prepare`` reads."""

import csv
import gzip
import io
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@dataclass
class Content:
    """What the files of a task hold."""

    ids: list
    edges: np.ndarray
    feat: np.ndarray
    labels: list = field(default_factory=list)
    split: list = field(default_factory=list)
    weights: np.ndarray | None = None

    @property
    def id_type(self) -> str:
        return "text" if isinstance(self.ids[0], str) else "int"

    @property
    def ends(self) -> tuple[list, list]:
        source, target = self.edges.tolist()
        return [self.ids[s] for s in source], [self.ids[t] for t in target]


def make_content(
    n: int = 60,
    m: int = 300,
    d: int = 5,
    text: bool = True,
    weighted: bool = False,
    seed: int = 0,
) -> Content:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(3 * n)[:n]
    ids: list[Any] = (numbers - n).tolist()
    if text:
        ids = [f"u{number:03d}, \"x'" for number in numbers]
    classes = rng.choice(
        ["red", "blue", "green", ""], n, p=[0.3, 0.3, 0.3, 0.1]
    )
    words = rng.choice(["train", "val", "test", ""], n)
    words[classes == ""] = ""
    weights = rng.random(m).astype(np.float32) if weighted else None
    return Content(
        ids,
        rng.integers(0, n, (2, m)),
        rng.standard_normal((n, d)).astype(np.float32),
        classes.tolist(),
        words.tolist(),
        weights,
    )


def edge_columns(content: Content) -> dict[str, list]:
    source, target = content.ends
    columns = {"src": source, "dst": target}
    if content.weights is not None:
        columns["weight"] = content.weights.tolist()
    return columns


def node_columns(content: Content) -> dict[str, list]:
    columns: dict[str, list] = {"id": content.ids}
    for place, column in enumerate(content.feat.T):
        columns[f"f{place}"] = column.tolist()
    if content.labels:
        columns["label"] = content.labels
    if content.split:
        columns["split"] = content.split
    return columns


def csv_text(
    columns: dict[str, list], header: bool = True, delimiter: str = ","
) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL)
    if header:
        writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([repr(v) if type(v) is float else v for v in row])
    return text.getvalue().encode()


def write_csv(path: Path, columns: dict[str, list], **options: Any) -> Path:
    data = csv_text(columns, **options)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        # As programs write it: without the length of the content.
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(data)
        return path
    path.write_bytes(data)
    return path


def parts(columns: dict[str, list], count: int = 3) -> list[dict[str, list]]:
    rows = len(next(iter(columns.values())))
    bounds = np.linspace(0, rows, count + 1).astype(int)
    return [
        {name: values[low:high] for name, values in columns.items()}
        for low, high in itertools.pairwise(bounds)
    ]


def write_folder(path: Path, columns: dict[str, list], end: str) -> Path:
    path.mkdir()
    (path / "_SUCCESS").write_bytes(b"")
    for number, part in enumerate(parts(columns)):
        file = path / f"part-{number}.{end}"
        if end == "parquet":
            pq.write_table(pa.table(part), file, row_group_size=7)
        else:
            write_csv(file, part)
    return path


def arguments(folder: Path, content: Content, form: str) -> dict[str, Any]:
    """Write a task in a format; the arguments of ``prepare`` for it."""
    edges, nodes = edge_columns(content), node_columns(content)
    options: dict[str, Any] = {"id_type": content.id_type}
    folder.mkdir()
    if form == "csv without header":
        names = list(nodes)
        places = {
            n: str(names.index(n)) for n in ("label", "split") if n in names
        }
        if "weight" in edges:
            places["weight"] = "2"
        return options | {
            "edges": write_csv(folder / "e.csv", edges, header=False),
            "features": write_csv(folder / "x.csv", nodes, header=False),
            "columns": places,
            "header": False,
        }
    if form in ("csv", "csv.gz", "csv.zst"):
        return options | {
            "edges": write_csv(folder / f"e.{form}", edges),
            "features": write_csv(folder / f"x.{form}", nodes),
        }
    if form == "tsv":
        return options | {
            "edges": write_csv(folder / "e.tsv", edges, delimiter="\t"),
            "features": write_csv(folder / "x.tsv", nodes, delimiter="\t"),
        }
    if form == "parquet":
        for name, columns in (("e", edges), ("x", nodes)):
            size = max(9, len(next(iter(columns.values()))) // 10)
            path = folder / f"{name}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=size)
        return options | {
            "edges": folder / "e.parquet",
            "features": folder / "x.parquet",
        }
    if form in ("folder of parquet", "folder of csv"):
        end = form.split()[-1]
        return options | {
            "edges": write_folder(folder / "e", edges, end),
            "features": write_folder(folder / "x", nodes, end),
        }
    if form == "list column":
        d = content.feat.shape[1]
        flat = pa.array(content.feat.reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, d)
        table = {n: v for n, v in nodes.items() if not n.startswith("f")}
        pq.write_table(
            pa.table(table | {"vector": lists}), folder / "x.parquet"
        )
        return options | {
            "edges": write_csv(folder / "e.csv", edges),
            "features": folder / "x.parquet",
        }
    assert form == "arrays and files of ids"
    np.savez(folder / "x.npz", feat=content.feat, ids=np.array(content.ids))
    options["split"] = {
        name: write_csv(
            folder / f"{name}.csv",
            {
                "id": [
                    i
                    for i, word in zip(content.ids, content.split, strict=True)
                    if word == name
                ]
            },
        )
        for name in ("train", "val", "test")
    }
    labels = {"id": content.ids[::-1], "label": content.labels[::-1]}
    return options | {
        "edges": _edge_arrays(folder, content),
        "features": folder / "x.npz",
        "labels": write_csv(folder / "labels.csv", labels),
    }


def _edge_arrays(folder: Path, content: Content) -> Path:
    """An npz file where ids are integers, otherwise parquet."""
    edges = edge_columns(content)
    if content.id_type == "text":
        pq.write_table(pa.table(edges), folder / "e.parquet")
        return folder / "e.parquet"
    arrays = {"edge_index": np.array(content.ends)}
    if content.weights is not None:
        arrays["edge_weight"] = content.weights.astype(np.float64)
    np.savez(folder / "e.npz", **arrays)
    return folder / "e.npz"


FORMATS = [
    "csv",
    "csv without header",
    "csv.gz",
    "csv.zst",
    "tsv",
    "parquet",
    "folder of parquet",
    "folder of csv",
    "list column",
    "arrays and files of ids",
]
