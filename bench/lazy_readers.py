"""One row, and all rows, of a table through polars, DuckDB and DataFusion, beside pudi's scans and deltalake.

Contestants take turns in one process; what is compared are ratios of medians.

python bench/lazy_readers.py --rows 5000000 --turns 7
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import DeltaTable, write_deltalake

import pudi

try:
    from datafusion import SessionContext
except ImportError:
    SessionContext = None

PART = 500_000
"""Rows of a commit."""


def rows(start: int, count: int) -> pa.Table:
    """Trips by number: keys ascend with the time."""
    rng = np.random.default_rng(start)
    numbers = np.arange(start, start + count)
    cities = pa.array(["bergen", "lyon", "oslo", "rome"])
    return pa.table(
        {
            "id": pa.array([f"trip-{number:010d}" for number in numbers.tolist()]),
            "at": pa.array(numbers * 1_000_000, pa.timestamp("us", tz="UTC")),
            "city": cities.take(pa.array(rng.integers(0, 4, count))),
            "fare": np.round(rng.random(count) * 100, 2),
            "miles": rng.integers(0, 500, count).astype(np.int32),
            "number": numbers,
        }
    )


def made(folder: Path, count: int) -> tuple[Path, Path]:
    """The table as pudi's and as deltalake's, of the same batches."""
    own, other = folder / "pudi", folder / "delta"
    table = pudi.create(own, rows(0, 1).schema, record_key="id")
    for start in range(0, count, PART):
        batch = rows(start, min(PART, count - start))
        table.bulk_insert(batch)
        write_deltalake(other, batch, mode="append")
    return own, other


def one_row(own: Path, other: Path, number: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to one row, each from the path on."""
    key = f"trip-{number:010d}"
    sql = f"SELECT * FROM t WHERE id = '{key}'"

    def scan() -> pudi.Scan:
        return pudi.Table(own).scan(meta_fields=False)

    yield "scan(where=)", lambda: pudi.Table(own).scan(meta_fields=False, where=f"id = '{key}'").to_arrow()
    yield "polars", lambda: scan().to_polars(lazy=True).filter(pl.col("id") == key).collect()
    yield "duckdb", lambda: in_duckdb(scan().to_dataset(), sql)
    if SessionContext is not None:
        yield "datafusion", lambda: in_datafusion(scan().to_dataset(), sql)
    yield (
        "deltalake dataset",
        lambda: DeltaTable(other).to_pyarrow_dataset().to_table(filter=pads.field("id") == key),
    )
    yield "deltalake polars", lambda: pl.scan_delta(str(other)).filter(pl.col("id") == key).collect()
    yield "deltalake duckdb", lambda: in_duckdb(DeltaTable(other).to_pyarrow_dataset(), sql)


def all_rows(own: Path, other: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to all rows: read whole, or summed up by the engine."""
    sql = "SELECT city, count(*) AS n, sum(fare) AS fares, max(id) AS last FROM t GROUP BY city"

    def scan() -> pudi.Scan:
        return pudi.Table(own).scan(meta_fields=False)

    def summed(frame: pl.LazyFrame) -> pl.DataFrame:
        return frame.group_by("city").agg(pl.len(), pl.col("fare").sum(), pl.col("id").max()).collect()

    columns = ["city", "fare", "id"]
    yield "scan().to_arrow()", lambda: scan().to_arrow()
    yield "scan().to_polars()", lambda: scan().to_polars()
    yield "polars", lambda: scan().to_polars(lazy=True).collect()
    yield "dataset", lambda: scan().to_dataset().to_table()
    yield "polars sums of a frame", lambda: summed(pudi.Table(own).scan(columns).to_polars().lazy())
    yield "polars sums", lambda: summed(scan().to_polars(lazy=True))
    yield "duckdb sums of a table", lambda: in_duckdb(pudi.Table(own).scan(columns).to_arrow(), sql)
    yield "duckdb sums", lambda: in_duckdb(scan().to_dataset(), sql)
    if SessionContext is not None:
        yield "datafusion sums", lambda: in_datafusion(scan().to_dataset(), sql)
    yield "deltalake dataset", lambda: DeltaTable(other).to_pyarrow_dataset().to_table()
    yield "deltalake duckdb sums", lambda: in_duckdb(DeltaTable(other).to_pyarrow_dataset(), sql)


def in_duckdb(data: Any, sql: str) -> pa.Table:
    """A query in a database of its own."""
    with duckdb.connect() as connection:
        connection.register("t", data)
        return connection.sql(sql).to_arrow_table()


def in_datafusion(data: Any, sql: str) -> pa.Table:
    """A query in a session of its own."""
    context = SessionContext()
    context.register_dataset("t", data)
    return context.sql(sql).to_arrow_table()


def main() -> None:
    """Measure in turns; print medians in seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", help="where the tables are made: on the disk to be measured")
    given = parser.parse_args()
    taken: dict[str, dict[str, list[float]]] = {"one row": {}, "all rows": {}}
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        own, other = made(Path(folder), given.rows)
        for turn in range(given.turns + 1):
            number = int(rng.integers(0, given.rows))
            for kind, ways in (("one row", one_row(own, other, number)), ("all rows", all_rows(own, other))):
                for name, way in ways:
                    if kind == "all rows" and turn > 3:
                        continue
                    began = time.perf_counter()
                    found = way()
                    spent = time.perf_counter() - began
                    assert len(found) == (1 if kind == "one row" else 4 if "sums" in name else given.rows), name
                    if turn:
                        taken[kind].setdefault(name, []).append(spent)
                    del found
    medians = {k: {n: round(statistics.median(v), 4) for n, v in each.items()} for k, each in taken.items()}
    print(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
