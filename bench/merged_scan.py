"""An aggregate over base files with Avro logs over them, by pudi and by Hudi in turns in one session, at any size.

    python bench/merged_scan.py --rows 20000000 --percent 1
    python bench/merged_scan.py --rows 20000000 --percent 10

The table is pudi's. Base only is the same table read by pudi without its logs (read-optimized).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from operations import Setting, Stopwatch, stopwatch
from trips import SCHEMA, again, make

import pudi
from spark import Hudi, aggregate

START = np.datetime64("2026-01-01T00:00:00", "us")
STEP = 2_000_000
"""Rows that are made at once."""


def write_table(path: Path, rows: int, percent: int) -> None:
    """Rows in four partitions, and one upsert of so many of a hundred of them as Avro logs."""
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor")
    table = pudi.Table(path, options={"hoodie.logfile.data.block.format": "avro"})
    rng = np.random.default_rng(rows)
    updates = []
    for begin in range(0, rows, STEP):
        count = min(STEP, rows - begin)
        trips = make(rng, count, START)
        table.bulk_insert(trips)
        chosen = rng.choice(count, count * percent // 100, replace=False)
        updates.append(again(rng, trips, chosen, START + np.timedelta64(40, "D")))
    table.upsert(pa.concat_tables(updates))


def watched(frame: Callable[[], object]) -> Stopwatch:
    """Time an aggregate, from the question to the answer."""
    with stopwatch() as watch:
        watch.answer = aggregate(frame())
    return watch


def main() -> None:
    """Take turns; the first round is for warming up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--percent", type=int, default=1, help="of the rows are in logs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="6g")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "table"
        write_table(path, given.rows, given.percent)
        hudi = Hudi(given.memory)
        hudi.open(folder, path, Setting("merged", "", (), table_type="mor"))
        table = pudi.Table(path)
        asked = {
            "pudi": lambda: table.scan().to_spark(hudi.session),
            "hudi": hudi.frame,
            "base only": lambda: table.scan(read_optimized=True).to_spark(hudi.session),
        }
        seconds: dict[str, list[float]] = {name: [] for name in asked}
        for number in range(given.repeats + 1):
            answers = {}
            for name, frame in asked.items():
                watch = watched(frame)
                answers[name] = watch.answer
                if number:
                    seconds[name].append(watch.seconds)
            if answers["pudi"] != answers["hudi"]:
                raise RuntimeError(f"other answers: {answers}")
        hudi.close()
    finally:
        shutil.rmtree(folder)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    ratios = {
        "times as fast as Hudi": found["hudi"] / found["pudi"],
        "of base only": found["pudi"] / found["base only"],
    }
    print(json.dumps({"rows": given.rows, "percent": given.percent, "seconds": found} | ratios, indent=2))


if __name__ == "__main__":
    main()
