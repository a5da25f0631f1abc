"""One of several Spark applications at one table, run by test_several_sessions.py.

    python session_job.py PATH ROLE COUNT

ROLE `count` increments a number COUNT times; `stream` writes COUNT rows, a few in each batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

import pudi
from pudi.engine.spark import engine as engine_module
from support import spark as spark_support

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])
ROWS_A_BATCH = 10
PATIENCE = {"hoodie.write.num.retries.on.conflict.failures": "50"}


def increment(spark: Any, path: Path, times: int) -> None:
    """Add 1 to the number of record 0; a line is printed for each that was acknowledged."""
    mine = pudi.Table(path, options=PATIENCE)
    for _ in range(times):
        assert mine.update({"n": "n + 1"}, where="id = 0", spark=spark) is not None
        print("incremented", flush=True)


def stream(spark: Any, path: Path, rows: int) -> None:
    """Rows 1 to `rows`, streamed into both partitions."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    incoming = rate.filter(f"value < {rows}").selectExpr(
        "value + 1 AS id", "concat('p', value % 2) AS part", "value AS n"
    )
    writer = pudi.spark.stream_writer(incoming).options(**PATIENCE).trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", f"{path}-checkpoint").start(path)
    while pudi.Table(path).scan(["id"]).to_arrow().num_rows <= rows:
        assert not query.awaitTermination(1)
    query.stop()


def main(path: str, role: str, count: str) -> None:
    spark = spark_support.start(Path(path).parent / f"session-{role}", {})
    engine_module._DRIVER_RECORDS = engine_module._DRIVER_JOBS = 0  # all is done by jobs
    {"count": increment, "stream": stream}[role](spark, Path(path), int(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
