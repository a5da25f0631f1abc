"""Streams on Spark: micro-batches into a table, the start of a streaming read, and `format("pudi")` beside `to_spark`.

python bench/streaming.py --batches 200 --rows 1000000
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import pudi

BATCH_ROWS = 1_000
KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.compact.inline": "true",
}


def session() -> Any:
    """Two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "3g")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def cpu_seconds() -> float:
    """CPU time of this process, the JVM and its workers, which wall time hides on a busy machine."""
    own = psutil.Process()
    total = 0.0
    for each in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def median_ms(seconds: list[float]) -> str:
    """Median and 90th percentile in milliseconds."""
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1000:.0f} ms (p90 {ordered[int(len(ordered) * 0.9)] * 1000:.0f})"


def batches(spark: Any, path: Path, table_type: str, count: int) -> None:
    """Micro-batches of 1,000 rows, half of them updates, services inline."""
    options = {**KEYS, "hoodie.datasource.write.table.type": table_type}
    write = pudi.spark.batch_writer(path, **options)
    taken, worked = [], []
    for number in range(count):
        start = number * BATCH_ROWS // 2
        frame = spark.range(start, start + BATCH_ROWS, 1, 2).selectExpr(
            "id", "concat('c', id % 7) AS city", "id * 1.5D AS fare", f"{number}L AS ts"
        )
        began, cpu = time.perf_counter(), cpu_seconds()
        write(frame, number)
        taken.append(time.perf_counter() - began)
        worked.append(cpu_seconds() - cpu)
    warm = taken[5:]
    quarter = max(1, len(warm) // 4)
    print(
        f"{table_type}: {count} batches of {BATCH_ROWS} rows: {median_ms(warm)}; first quarter "
        f"{median_ms(warm[:quarter])}, last quarter {median_ms(warm[-quarter:])}",
        flush=True,
    )
    print(
        f"{table_type}: CPU time {median_ms(worked[5:])}, last quarter {median_ms(worked[-quarter:])}",
        flush=True,
    )


def starts(spark: Any, path: Path, rounds: int) -> None:
    """From a commit that is there to the call of the function with its frame."""
    table, called = pudi.Table(path), []
    stream_folder = path.with_name("start-checkpoint")
    began = 0.0

    def function(frame: Any, number: int) -> None:
        called.append(time.perf_counter() - began)
        frame.count()
        counted.append(time.perf_counter() - began)

    counted: list[float] = []
    for number in range(rounds):
        ids = pa.array(range(100), pa.int64())
        table.upsert(
            pa.table(
                {
                    "id": ids,
                    "city": pa.array(["c1"] * 100),
                    "fare": pa.array([1.0] * 100),
                    "ts": pa.array([10_000 + number] * 100, pa.int64()),
                }
            )
        )
        began = time.perf_counter()
        pudi.spark.stream_changes(
            spark, path, function, checkpoint=stream_folder, since="latest" if number == 0 else "earliest",
            available_now=True,
        ).awaitTermination()  # fmt: skip
    print(f"stream_changes: function called after {median_ms(called)}, rows counted after {median_ms(counted)}")


def named(spark: Any, path: Path, rows: int, rounds: int) -> None:
    """An aggregate of two of twelve columns."""
    values = [f"id * {n} AS v{n}" for n in range(10)]
    frame = spark.range(0, rows, 1, 4).selectExpr("id", "id % 100 AS k", *values)
    pudi.create(path, frame.schema, record_key="id").bulk_insert(frame)
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, read in (
            ("to_spark", lambda: pudi.Table(path).scan(["k", "v1"]).to_spark(spark)),
            (
                "format('pudi') with columns",
                lambda: spark.read.format("pudi").option("columns", "k,v1").load(str(path)),
            ),
            ("format('pudi')", lambda: spark.read.format("pudi").load(str(path)).select("k", "v1")),
        ):
            began = time.perf_counter()
            read().groupBy("k").sum("v1").collect()
            taken.setdefault(name, []).append(time.perf_counter() - began)
    base = statistics.median(taken["to_spark"][1:])
    for name, seconds in taken.items():
        found = statistics.median(seconds[1:])
        print(f"{name}: aggregate of {rows} rows in {found:.2f} s, {found / base:.1f} times to_spark", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
            batches(spark, Path(folder) / table_type, table_type, arguments.batches)
        starts(spark, Path(folder) / "MERGE_ON_READ", arguments.rounds)
        if not spark.version.startswith("3."):
            named(spark, Path(folder) / "wide", arguments.rows, max(3, arguments.rounds // 2))
    spark.stop()


if __name__ == "__main__":
    main()
