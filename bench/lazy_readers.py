"""One row, and all rows, of a table through polars, DuckDB and DataFusion, beside pudi's scans and deltalake.

Contestants take turns in one process; what is compared are ratios of medians.

python bench/lazy_readers.py --rows 5000000 --turns 7
"""

from __future__ import annotations

import argparse
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


CONNECTION = duckdb.connect()
SQL = "SELECT city, count(*) AS n, sum(fare) AS fares, max(id) AS last FROM t GROUP BY city"


def one_row(own: Path, other: Path, number: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to one row, each from the path on."""
    key = f"trip-{number:010d}"
    sql = f"SELECT * FROM t WHERE id = '{key}'"
    yield "scan(where=)", lambda: pudi.Table(own).scan(meta_fields=False, where=f"id = '{key}'").to_arrow()
    yield "polars", lambda: pudi.scan_polars(own).filter(pl.col("id") == key).collect()
    yield "duckdb", lambda: in_duckdb(scan(own).to_dataset(), sql)
    if SessionContext is not None:
        yield "datafusion", lambda: in_datafusion(scan(own).to_dataset(), sql)
    yield "deltalake, dataset", lambda: delta(other).to_table(filter=pads.field("id") == key)
    yield "deltalake, polars", lambda: pl.scan_delta(str(other)).filter(pl.col("id") == key).collect()
    yield "deltalake, duckdb", lambda: in_duckdb(delta(other), sql)


def all_rows(own: Path, other: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to all rows."""
    yield "scan().to_arrow()", lambda: scan(own).to_arrow()
    yield "scan().to_polars()", lambda: scan(own).to_polars()
    yield "polars", lambda: pudi.scan_polars(own).collect()
    yield "dataset", lambda: scan(own).to_dataset().to_table()
    yield "deltalake, dataset", lambda: delta(other).to_table()
    yield "deltalake, polars", lambda: pl.scan_delta(str(other)).collect()


def sums(own: Path, other: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to sums over three columns of all rows."""
    columns = ["city", "fare", "id"]
    yield "polars, of scan(columns=)", lambda: summed(scan(own, columns).to_polars().lazy())
    yield "polars", lambda: summed(pudi.scan_polars(own))
    yield "duckdb, of scan(columns=)", lambda: in_duckdb(scan(own, columns).to_arrow(), SQL)
    yield "duckdb", lambda: in_duckdb(scan(own).to_dataset(), SQL)
    if SessionContext is not None:
        yield "datafusion", lambda: in_datafusion(scan(own).to_dataset(), SQL)
    yield "deltalake, polars", lambda: summed(pl.scan_delta(str(other)))
    yield "deltalake, duckdb", lambda: in_duckdb(delta(other), SQL)


def scan(own: Path, columns: list[str] | None = None) -> pudi.Scan:
    """A scan of all rows."""
    return pudi.Table(own).scan(columns, meta_fields=False)


def delta(other: Path) -> pads.Dataset:
    """The dataset that deltalake makes."""
    return DeltaTable(other).to_pyarrow_dataset()


def summed(frame: pl.LazyFrame) -> pl.DataFrame:
    """The sums by polars."""
    return frame.group_by("city").agg(pl.len(), pl.col("fare").sum(), pl.col("id").max()).collect()


def in_duckdb(data: Any, sql: str) -> pa.Table:
    """A query in DuckDB."""
    CONNECTION.register("t", data)
    try:
        return CONNECTION.sql(sql).to_arrow_table()
    finally:
        CONNECTION.unregister("t")


def in_datafusion(data: Any, sql: str) -> pa.Table:
    """A query in DataFusion."""
    context = SessionContext()
    context.register_dataset("t", data)
    return context.sql(sql).to_arrow_table()


def main() -> None:
    """Measure in turns; print medians of seconds and of CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", help="where the tables are made: on the disk to be measured")
    given = parser.parse_args()
    taken: dict[str, dict[str, list[tuple[float, float]]]] = {}
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        own, other = made(Path(folder), given.rows)
        for turn in range(given.turns + 1):
            number = int(rng.integers(0, given.rows))
            kinds = {"one row": (one_row(own, other, number), 1)}
            if turn < 5:
                kinds |= {"all rows": (all_rows(own, other), given.rows), "sums": (sums(own, other), 4)}
            for kind, (ways, count) in kinds.items():
                for name, way in ways:
                    began, worked = time.perf_counter(), time.process_time()
                    found = way()
                    spent = time.perf_counter() - began, time.process_time() - worked
                    assert len(found) == count, name
                    if turn:
                        taken.setdefault(kind, {}).setdefault(name, []).append(spent)
                    del found
    for kind, names in taken.items():
        print(f"{kind:28}{'seconds':>10}{'CPU':>10}")
        for name, spent in names.items():
            wall, cpu = (statistics.median(each) for each in zip(*spent, strict=True))
            print(f"  {name:26}{wall:10.3f}{cpu:10.3f}")


if __name__ == "__main__":
    main()
