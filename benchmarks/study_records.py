"""Keep the records of ``dgl-lc reproduce today`` as one text file per data set.

    python benchmarks/study_records.py pack results docs/results/today
    python benchmarks/study_records.py unpack docs/results/today results

A line of such a file is the record of one training, as JSON: its parameters,
seed, validation and test metric. Unpacked into a folder of results, the same
``dgl-lc reproduce today --out results`` resumes the study, or prints its
tables.
"""

import argparse
import json
from pathlib import Path

from dgl_lc.experiments.results_folder import ResultsFolder, slug


def pack(results: Path, folder: Path) -> None:
    """Write the records of each data set to one file."""
    found: dict[str, list[dict]] = {}
    for record in ResultsFolder(results).all_runs():
        if "smooth" in record["key"]:
            found.setdefault(record["data"], []).append(record)
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in found.items():
        records.sort(key=lambda own: (own["model"], own["seed"]))
        lines = []
        for own in records:
            # They are in the key as well.
            del own["params"]
            lines.append(json.dumps(own, sort_keys=True))
        path = folder / f"{slug(name)}.jsonl"
        path.write_text("\n".join([*lines, ""]))
        print(f"{path}: {len(lines)} records")


def unpack(folder: Path, results: Path) -> None:
    """Put the records of all files into a folder of results."""
    target = ResultsFolder(results)
    for path in sorted(folder.glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for record in records:
            key = record.pop("key")
            target.save_run({**record, "params": key["params"]}, key)
        print(f"{path}: {len(records)} records")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    action = pack if args.action == "pack" else unpack
    action(args.source, args.target)


if __name__ == "__main__":
    main()
