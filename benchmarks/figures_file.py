"""The file with all figures, and what its figures depend on."""

import hashlib
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import psutil
from section import SIZES, Options, Row, row

from dgl_lc._common.file_access import replace_file, write_all
from dgl_lc._common.json_files import read_json

ROOT = Path(__file__).parents[1]
FORMAT = 1
#: Packages whose versions change figures.
PACKAGES = (
    "torch", "dgl", "numpy", "numba", "scipy", "torch_geometric",
)  # fmt: skip
#: What a collected section has.
KEYS = {"rows", "date", "commit", "code", "machine", "options", "seconds",
        "others"}  # fmt: skip


def read_figures(path: Path) -> dict[str, dict[str, Any]]:
    """Return the collected sections; none if the file does not exist."""
    if not path.exists():
        return {}
    found = read_json(path)
    if found.get("format") != FORMAT or not isinstance(
        found.get("sections"), dict
    ):
        raise ValueError(f"{path} is not a file of figures, format {FORMAT}")
    for name, section in found["sections"].items():
        if not isinstance(section, dict) or section.keys() != KEYS:
            raise ValueError(f"{path}: section '{name}' has not {sorted(KEYS)}")
        section["rows"] = [row(**r) for r in section["rows"]]
    return found["sections"]


def merge_section(path: Path, name: str, section: dict[str, Any]) -> None:
    """Put a section into the file, in place of an older one."""
    sections = {**read_figures(path), name: section}
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [f"{json.dumps(k)}: {_dump(sections[k])}" for k in sorted(sections)]
    text = ",\n".join(texts)
    text = f'{{"format": {FORMAT}, "sections": {{\n{text}\n}}}}\n'

    def write(file: BinaryIO) -> None:
        write_all(file, text.encode())

    replace_file(path, write)


def _dump(section: dict[str, Any]) -> str:
    """Write a section as JSON, with one line per row."""
    head = [
        f" {json.dumps(key)}: {json.dumps(section[key])}"
        for key in sorted(section) if key != "rows"
    ]  # fmt: skip
    rows = ",\n".join(f"  {json.dumps(r)}" for r in section["rows"])
    return ",\n".join(["{\n" + head[0], *head[1:], f' "rows": [\n{rows}\n ]}}'])


def describe_run(
    rows: list[Row], options: Options, seconds: float, others: float
) -> dict[str, Any]:
    """Make a section: the rows, and what they depend on.

    ``others`` is the share of the cores that other processes used, in percent.
    """
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": _commit(),
        "code": source_digest(),
        "machine": machine(options.threads),
        "options": {"size": options.size, "runs": options.runs},
        "seconds": round(seconds),
        "others": round(others, 1),
        "rows": rows,
    }


def is_current(section: dict[str, Any], options: Options) -> bool:
    """Tell whether a section was collected with this code, and as much."""
    known = section["options"]
    return (
        section["code"] == source_digest()
        and section["machine"] == machine(options.threads)
        and SIZES.index(known["size"]) >= SIZES.index(options.size)
        and known["runs"] >= options.runs
    )


def source_digest() -> str:
    """Return a digest of everything that a figure may depend on here."""
    digest = hashlib.sha256()
    for folder in ("dgl_lc", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def rows_digest(rows: list[Row]) -> str:
    """Return a digest of rows: a chart says by it what it shows."""
    text = json.dumps(rows, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine(threads: int) -> dict[str, Any]:
    """Describe the machine and the versions."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def _processor() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Return the commit; "changed" if the code is not that of the commit."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True,
            check=True, timeout=20,
        ).stdout.strip()  # fmt: skip

    try:
        commit = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", "--", "dgl_lc", "benchmarks")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}, changed" if changed else commit


# What pages say of it


def machine_text(sections: dict[str, dict[str, Any]]) -> str:
    """Write the machines and versions, a line for each that differs."""
    lines: dict[str, list[str]] = {}
    for section in sections.values():
        found = section["machine"]
        versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
        lines.setdefault(
            f"{found['processor']}, {found['cores']} cores, "
            f"{found['threads']} threads, {found['memory']} of memory, "
            f"{found['system']}; {versions}", []
        ).append(section["date"])  # fmt: skip
    return " | ".join(
        f"{text}; {_range(dates)}" for text, dates in lines.items()
    )


def _range(dates: list[str]) -> str:
    first, last = min(dates), max(dates)
    return first if first == last else f"{first} to {last}"


def runs_text(sections: dict[str, dict[str, Any]]) -> str:
    """Write a table of the sections: when, how, and for how long."""
    lines = [
        "| section | date | commit | size | minimum of | took | other "
        "processes |",
        "| --- " * 7 + "|",
    ]
    for name, section in sections.items():
        options = section["options"]
        lines.append(
            f"| `{name}` | {section['date']} | {section['commit']} | "
            f"{options['size']} | {options['runs']} runs | "
            f"{section['seconds'] / 60:.1f} min | {section['others']:.0f} % |"
        )
    return "\n".join(lines)
