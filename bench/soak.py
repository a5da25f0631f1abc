"""A table left alone with the default options: files, instants and CPU time a commit over many commits.

python bench/soak.py --commits 2000 --type mor
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Report

import pudi

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string())])
KEYS = 1000
EVERY = 100


def main() -> int:
    """Write, and print a line for each hundred commits."""
    arguments = parse()
    report = Report("commits", "CPU ms a commit", "wall ms", "scan ms", "files", "MiB", "timeline", "archive files")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soak"
        options = {"hoodie.compact.inline": "true"} if arguments.type == "mor" else {}
        pudi.create(path, SCHEMA, record_key="id", ordering="ts", table_type=arguments.type)
        mine = pudi.Table(path, options=options)
        cpu, wall = [], []
        for number in range(1, arguments.commits + 1):
            data = batch(number, arguments.rows)
            began, began_cpu = time.perf_counter(), time.process_time()
            mine.upsert(data)
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - began_cpu)
            if number % EVERY == 0:
                began = time.perf_counter()
                rows = pudi.Table(path).scan().to_arrow().num_rows
                scan = time.perf_counter() - began
                assert rows == min(number * arguments.rows, KEYS)
                report.add_row(str(number), *(f"{1000 * statistics.median(each):.0f}" for each in (cpu, wall)),
                               f"{1000 * scan:.0f}", *sizes(path))  # fmt: skip
                cpu, wall = [], []
        assert mine.check().ok
    Console().print(report)
    return 0


def batch(number: int, rows: int) -> pa.Table:
    """Rows of keys that come back."""
    ids = [(number * rows + each) % KEYS for each in range(rows)]
    return pa.table([ids, [number] * rows, [f"name {number}"] * rows], schema=SCHEMA)


def sizes(path: Path) -> tuple[str, ...]:
    """Files in all, their size, files of the active timeline, and files of the archive."""
    files = [each for each in path.rglob("*") if each.is_file()]
    timeline = path / ".hoodie" / "timeline"
    active = sum(each.is_file() for each in timeline.iterdir())
    archive = sum(1 for _ in (timeline / "history").iterdir()) if (timeline / "history").exists() else 0
    return str(len(files)), f"{sum(each.stat().st_size for each in files) / (1 << 20):.1f}", str(active), str(archive)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--type", choices=("cow", "mor"), default="cow")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
