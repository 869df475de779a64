"""``dgl-lc prepare``: turn files of your own into a task on disk."""

import argparse
from functools import partial
from typing import Any

from .flags import (
    Commands,
    add_reverse_flag,
    check_output_folder,
    given_path,
    refuse,
    seed,
)

#: Data types in which features are stored. A test compares them with those
#: of the storage, which imports torch.
STORED = ("float32", "float16", "bfloat16")
#: The columns that flags name, and what they hold.
_COLUMNS = {
    "source": "sources of the edges",
    "target": "targets of the edges",
    "weight": "weights of the edges",
    "id": "ids of the nodes",
    "label": "labels",
    "split": "words train, valid and test",
}


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "prepare",
        epilog="Files are csv, tsv or txt (also .gz and .zst), parquet, npy "
        "or npz, or folders of csv or parquet files. Columns have usual names "
        "by default, such as src, dst, id and label; otherwise the first ones "
        "are used, and printed. Features need a column of ids, or "
        "--id-column '' if the ids are the numbers of the rows. Columns "
        "of files without a header are called 0, 1 and so "
        "on. An empty name means that there is no such column.",
    )
    add = parser.add_argument
    add("--edges", required=True,
        help="table with a source and a target in each row, or array "
        "(2, m) or (m, 2)")  # fmt: skip
    add("--features", required=True,
        help="table with an id and features in each row, or array (n, d); "
        "nodes are numbered in the order of its rows")  # fmt: skip
    add("--out", type=given_path, required=True, help="folder of the task")
    add("--labels",
        help="table with an id and a label in each row, or one label for "
        "each row of the features (default: column 'label' of the features "
        "or nodes)")  # fmt: skip
    add("--split", nargs="+", metavar="SPLIT",
        help="three fractions such as 0.6,0.2,0.2; or train=FILE valid=FILE "
        "test=FILE with ids or masks; or a table of ids and words, an npz "
        "file or a folder of these (default: column 'split' of the features "
        "or nodes)")  # fmt: skip
    add("--nodes",
        help="ids of the rows of the features, if the features have no "
        "ids")  # fmt: skip
    for role, text in _COLUMNS.items():
        add(f"--{role}-column", metavar="NAME",
            help=f"column of the {text}")  # fmt: skip
    add("--feature-columns", metavar="NAMES",
        help="names of the feature columns, separated by commas (default: "
        "all other columns of numbers)")  # fmt: skip
    add("--id-type", choices=["int", "text"],
        help="type of the ids in text files (default: int if all ids of the "
        "first block are integers)")  # fmt: skip
    add("--header", action=argparse.BooleanOptionalAction,
        help="whether the first row of text files has names (default: as "
        "the first rows suggest)")  # fmt: skip
    add("--delimiter",
        help="character that separates values in text files (default: as "
        "the name or the first row suggests)")  # fmt: skip
    add_reverse_flag(parser)
    add("--drop-loops", action="store_true", help="omit self-loops")
    add("--dtype", choices=STORED, default=STORED[0],
        help="data type of the stored features (default: %(default)s)"
        )  # fmt: skip
    add("--seed", type=seed, default=0,
        help="random seed of a split by fractions (default: %(default)s)"
        )  # fmt: skip
    add("--memory", default="4GiB",
        help="memory budget (default: %(default)s)")  # fmt: skip
    add("--no-resume", action="store_true",
        help="write the folder again, instead of resuming or opening "
        "it")  # fmt: skip
    parser.set_defaults(
        run=_run,
        kept="what was finished is kept: call it again to resume",
    )


def _run(args: argparse.Namespace) -> int:
    import torch

    from ..data import prepare

    check_output_folder(args.out, "--out")
    given = vars(args)
    columns: dict[str, Any] = {
        role: given[f"{role}_column"]
        for role in _COLUMNS
        if given[f"{role}_column"] is not None
    }
    if args.feature_columns is not None:
        columns["features"] = args.feature_columns
    delimiter = args.delimiter
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1:
            refuse(
                f"--delimiter should be one character, or tab, got "
                f"{delimiter!r}."
            )
    data = prepare(
        args.edges, args.features, args.out, labels=args.labels,
        split=_split(args.split), nodes=args.nodes, columns=columns,
        id_type=args.id_type, header=args.header, delimiter=delimiter,
        add_reverse=args.add_reverse, drop_loops=args.drop_loops,
        dtype=getattr(torch, args.dtype), seed=args.seed, memory=args.memory,
        resume=not args.no_resume, report=partial(print, flush=True),
    )  # fmt: skip
    print(data)
    return 0


def _split(words: list[str] | None) -> Any:
    """Read ``--split``: one word, or a file for each part."""
    if words is None:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    parts = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not path or name in parts:
            refuse(
                f"--split {word!r}: write three fractions separated by "
                f"commas, one path, or train=FILE valid=FILE test=FILE."
            )
        parts[name] = path
    return parts
