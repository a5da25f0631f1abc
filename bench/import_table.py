"""Import a folder of Parquet files: by copies of column chunks, by rewriting, and beside them a plain bulk insert.

python bench/import_table.py [ROWS] [MORE_COLUMNS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import pudi

TURNS = 5
FILES = 8
CITIES = 4


def make(folder: Path, rows: int, more: int = 0) -> None:
    """Write snappy files as Spark and pandas do: 7 columns and some more, 4 partitions, 8 files."""
    chance = np.random.default_rng(1)
    for number in range(FILES):
        count = rows // FILES
        ids = np.arange(count) + number * count
        table = pa.table(
            {
                "uuid": [f"{each:012x}" for each in ids],
                "ts": ids,
                "rider": pa.array([f"rider-{each}" for each in chance.integers(0, 5000, count)]),
                "lat": chance.random(count),
                "lon": chance.random(count),
                "fare": chance.random(count) * 100,
            }
        )
        for column in range(more):
            values = chance.integers(0, 10**9, count) if column % 2 else chance.random(count)
            table = table.append_column(f"more{column}", pa.array(values))
        path = folder / f"city=c{number % CITIES}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="snappy", row_group_size=131_072)


def by_bulk_insert(source: Path, target: Path) -> None:
    """What a user did before: read everything, write everything, keys unchecked."""
    rows = pq.read_table(source, partitioning="hive")
    rows = rows.set_column(rows.column_names.index("city"), "city", rows["city"].cast(pa.string()))
    options = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    made = pudi.create(target, rows.schema, record_key="uuid", ordering="ts", partition_by="city", options=options)
    made.bulk_insert(rows)


def main() -> None:
    """Print medians of turns: seconds, CPU seconds, peak of resident memory grown."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    ways: dict[str, Callable[[Path, Path], object]] = {
        "copies": lambda source, target: pudi.import_table(source, target, record_key="uuid", ordering="ts"),
        "rewriting": lambda source, target: pudi.import_table(
            source, target, record_key="uuid", ordering="ts", copy=False
        ),
        "bulk insert": by_bulk_insert,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        make(source, rows, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
        for turn in range(TURNS):
            for name, way in ways.items():
                cpu = sum(psutil.Process().cpu_times()[:2])
                began = time.perf_counter()
                way(source, Path(folder) / f"{name}{turn}")
                took = time.perf_counter() - began
                found[name].append((took, sum(psutil.Process().cpu_times()[:2]) - cpu))
                assert pudi.Table(Path(folder) / f"{name}{turn}").scan(["ts"]).to_arrow().num_rows == rows
    for name, times in found.items():
        wall, cpu = (statistics.median(each[at] for each in times[1:]) for at in (0, 1))
        print(f"{name:12} {wall:6.2f} s {cpu:6.2f} s CPU")


if __name__ == "__main__":
    main()
