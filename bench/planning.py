"""Opening a table and planning a snapshot of many files, beside a bare parallel listing of the same folders.

    python bench/planning.py --files 100000 --partitions 1000

The files are empty but for their names: planning reads none. Also: planning a read of one partition, pruning of the
paths of many partitions alone, and opening a table of many archived instants beside one of few.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import pudi
from pudi.format import BaseFileName, new_file_id, write_token
from pudi.plan import ReadableTable, Selection, plan_read
from pudi.record import KeyGenerator

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = pa.schema([("key", pa.string()), ("day", pa.string()), ("value", pa.int64())])


def make_table(path: Path, files: int, partitions: int) -> None:
    """A table of one real file in each partition, and empty files named as others that the same commit wrote."""
    table = pudi.create(path, SCHEMA, record_key="key", partition_by="day", options={"hoodie.metadata.enable": "false"})
    days = [f"d{n:04}" for n in range(partitions)]
    rows = pa.table({"key": days, "day": days, "value": list(range(partitions))}, schema=SCHEMA)
    instant = table.bulk_insert(rows).instant
    for number in range(files - partitions):
        name = BaseFileName(
            new_file_id("00000000-0000-0000-0000-000000000000", number), write_token(0, 0, number), instant
        )
        (path / days[number % partitions] / name.name).touch()


def make_history(path: Path, commits: int, archived: int) -> None:
    """A table of so many one-row commits, the oldest in an archive as Hudi writes it, their files cleaned."""
    sys.path.append(str(ROOT / "tests"))
    from support.archiving import archive

    table = pudi.create(path, SCHEMA, record_key="key", partition_by="day", options={"hoodie.metadata.enable": "false"})
    for number in range(commits):
        table.upsert(pa.table({"key": ["k"], "day": ["d"], "value": [number]}, schema=SCHEMA))
    if archived:
        archive(path, archived, per_file=100)
        files = sorted((path / "d").glob("*.parquet"), key=lambda file: file.stem.split("_")[-1])
        for file in files[:archived]:
            file.unlink()


def plan(path: Path) -> int:
    return len(pudi.Table(path).scan().plan.slices)


def plan_one_partition(path: Path) -> int:
    found = pudi.Table(path).scan(where="day = 'd0007'").plan
    assert len(found.partitions) == 1
    return len(found.slices)


def prune(count: int) -> Callable[[], object]:
    """Pruning of so many partitions, by a text, a number and a column that is none of theirs."""
    schema = SCHEMA.append(pa.field("hour", pa.int32()))
    keys = KeyGenerator("COMPLEX", ("key",), ("day", "hour"), hive_style=True)
    paths = [f"day=d{number // 24:05}/hour={number % 24}" for number in range(count)]
    where = "day = 'd00003' AND hour > 5 AND value > 7"
    plan = plan_read(
        ReadableTable("bench", schema, populated=True, history=None), Selection(where=where, meta_fields=False)
    )
    return lambda: plan.prune_partitions(paths, keys)


def bare_listing(path: Path) -> int:
    """Names and sizes of all files below the table's folders, listed by 16 threads."""

    def one(folder: str) -> int:
        with os.scandir(folder) as entries:
            return sum(1 for entry in entries if entry.stat().st_size >= 0)

    with os.scandir(path) as entries:
        folders = [e.path for e in entries if e.is_dir() and e.name != ".hoodie"]
    with ThreadPoolExecutor(16) as pool:
        return sum(pool.map(one, folders))


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--instants", type=int, default=1_000)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "planning")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    path = arguments.work / "table"
    make_table(path, arguments.files, arguments.partitions)
    found, listed = plan(path), bare_listing(path)
    planned, bare = seconds(lambda: plan(path)), seconds(lambda: bare_listing(path))
    print(f"{found} file slices of {listed} files: planned {planned:.2f} s, listed {bare:.2f} s: {planned / bare:.2f}")
    one = seconds(lambda: plan_one_partition(path))
    print(f"one of {arguments.partitions} partitions planned in {one:.3f} s")
    for count in (1_000, 100_000):
        print(f"{count} partitions pruned in {seconds(prune(count)):.4f} s")
    few, many = arguments.work / "few", arguments.work / "many"
    make_history(few, 30, 0)
    make_history(many, arguments.instants, arguments.instants - 30)
    opened = [seconds(lambda path=path: plan(path)) for path in (few, many)]
    print(
        f"a table of 30 instants planned in {opened[0] * 1000:.0f} ms, one of {arguments.instants}, all but 30 of them "
        f"archived, in {opened[1] * 1000:.0f} ms: {opened[1] / opened[0]:.2f}"
    )
    shutil.rmtree(arguments.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
