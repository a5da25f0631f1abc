"""Upserts of 10% into a local table with a record, a secondary and an expression index: seconds and CPU seconds.

python bench/indexed_upsert.py --rows 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import pudi

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}


def trips(numbers: np.ndarray, moment: int) -> pa.Table:
    """Trips of four cities, by 50,000 riders."""
    return pa.table(
        {
            "uuid": pa.array([f"k{number:09}" for number in numbers.tolist()]),
            "ts": pa.array(np.full(len(numbers), moment), pa.int64()),
            "rider": pa.array([f"rider-{rider}" for rider in ((numbers * 7919 + moment) % 50_000).tolist()]),
            "fare": pa.array(numbers * 1.0),
            "city": pa.array(np.take(["nyc", "sf", "rio", "goa"], numbers % 4)),
        }
    )


def main() -> None:
    """Print each upsert, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    numbers, took = np.arange(given.rows), []
    with tempfile.TemporaryDirectory() as folder:
        first = trips(numbers, 1)
        path = Path(folder) / "trips"
        pudi.create(path, first.schema, record_key="uuid", partition_by="city", ordering="ts", options=OPTIONS)
        table = pudi.Table(path, options=OPTIONS)
        table.bulk_insert(first)
        table.create_index("secondary_index", "rider")
        table.create_index("column_stats", "rider", name="upper_rider", expr="upper")
        for turn in range(given.rounds):
            batch = trips(numbers[turn % 10 :: 10], 2 + turn)
            began, used = time.perf_counter(), time.process_time()
            table.upsert(batch)
            took.append((time.perf_counter() - began, time.process_time() - used))
            print(f"{took[-1][0]:.2f} s, {took[-1][1]:.2f} s of CPU time")
    print(
        f"medians: {statistics.median(t for t, _ in took):.2f} s, {statistics.median(c for _, c in took):.2f} s of CPU"
    )


if __name__ == "__main__":
    main()
