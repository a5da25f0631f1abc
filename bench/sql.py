"""SQL beside Apache Hudi: the time to read a statement, MERGE INTO of a tenth of a table, and an aggregate.

python bench/sql.py --rows 1000000

Seconds by the clock, and of CPU time in brackets: of this process, the JVM and Python workers.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import pudi
from pudi.statement.parse.statement import parse_statement
from pudi.statement.table_uses import uses_of
from pudi.statement.tree import Query, Text
from spark import Hudi

STATEMENTS = (
    "MERGE INTO trips t USING (SELECT * FROM news) s ON t.id = s.id WHEN MATCHED AND s.fare > 1 THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "SELECT city, sum(fare), count(*) FROM trips JOIN riders ON trips.rider = riders.id WHERE fare > 1 GROUP BY city",
    "UPDATE trips SET fare = fare * 2 WHERE city = 'rome'",
    "CALL run_compaction(op => 'run', table => 'trips')",
)
MERGE = (
    "MERGE INTO {} AS t USING news AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--aggregate-rows", type=int, default=10_000_000, help="rows of the table of the aggregate")
    parser.add_argument("--memory", default="3g")
    given = parser.parse_args()
    for text in STATEMENTS:
        print(f"read {text[:40]!r}: {1000 * _median(lambda text=text: _read(text), 50)[0]:.2f} ms", flush=True)
    spark = Hudi(given.memory).session
    with tempfile.TemporaryDirectory() as folder:
        if given.rows:
            _merges(spark, Path(folder), given.rows, given.repeats)
        if given.aggregate_rows:
            _aggregates(spark, Path(folder), given.aggregate_rows, given.repeats)


def _read(text: str) -> None:
    statement = parse_statement(text)
    if isinstance(statement, Query):
        uses_of(Text(text, 0), [])


def _used() -> float:
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in (process.cpu_times() for process in tree))


def _median(run: Callable[[], object], times: int) -> tuple[float, float]:
    found = []
    for _ in range(times):
        begin, used = time.perf_counter(), _used()
        run()
        found.append((time.perf_counter() - begin, _used() - used))
    return statistics.median(clock for clock, _ in found), statistics.median(cpu for _, cpu in found)


def _said(taken: tuple[float, float]) -> str:
    return f"{taken[0]:.2f} s ({taken[1]:.2f})"


def _merges(spark, folder: Path, rows: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    ids = np.arange(rows)
    trips = pa.table({"id": ids, "rider": rng.integers(0, 1000, rows), "fare": rng.random(rows), "city": ids % 4})
    pq.write_table(trips, folder / "trips.parquet")
    news = trips.take(pa.array(rng.choice(rows, rows // 10, replace=False)))
    pq.write_table(news, folder / "news.parquet")
    spark.read.parquet(str(folder / "trips.parquet")).createOrReplaceTempView("old")
    spark.read.parquet(str(folder / "news.parquet")).createOrReplaceTempView("news")
    create = "CREATE TABLE {} USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (city) LOCATION '{}' "
    create += "AS SELECT * FROM old"
    spark.sql("SET hoodie.parquet.compression.codec=zstd")
    spark.sql(create.format("bench_hudi", folder / "hudi"))
    spark.sql("RESET hoodie.parquet.compression.codec")
    pudi.spark.sql(spark, create.format("bench_pudi", folder / "pudi"))
    for number in range(repeats):
        spark.sql("SET hoodie.parquet.compression.codec=zstd")
        hudi = _median(lambda: spark.sql(MERGE.format("bench_hudi")), 1)
        spark.sql("RESET hoodie.parquet.compression.codec")
        ours = _median(lambda: pudi.spark.sql(spark, MERGE.format("bench_pudi")), 1)
        print(f"MERGE INTO of 10% of {rows:,} rows, round {number}: Hudi {_said(hudi)}, pudi {_said(ours)}", flush=True)


def _aggregates(spark, folder: Path, rows: int, repeats: int) -> None:
    columns = "id", "id * 7 % 1000 AS rider", "id * 0.5D AS fare", "id % 4 AS city"
    spark.range(0, rows, 1, 4).selectExpr(*columns).createOrReplaceTempView("many")
    create = f"CREATE TABLE bench_many USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{folder / 'many'}' "
    pudi.spark.sql(spark, create + "AS SELECT * FROM many")
    query = "SELECT city, sum(fare) AS s, count(*) AS n, max(rider) AS m FROM bench_many GROUP BY city"
    files = [each.base_file for each in pudi.Table(folder / "many").files()]
    spark.read.parquet(*(str(folder / "many" / str(name)) for name in files)).createOrReplaceTempView("plain")
    for number in range(repeats):
        plain = _median(lambda: spark.sql(query.replace("bench_many", "plain")).collect(), 3)
        ours = _median(lambda: pudi.spark.sql(spark, query).collect(), 3)
        said = f"spark.read.parquet {_said(plain)}, pudi.spark.sql {_said(ours)}"
        print(f"aggregate of {rows:,} rows, round {number}: {said}", flush=True)


if __name__ == "__main__":
    main()
