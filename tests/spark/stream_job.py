"""Numbers from a rate source into a table, and its changes into another one; run and killed by test_killed_queries.py.

Both steps insert without looking for keys, so that a batch that counts twice shows. With the address of a Spark Connect
server as the last argument it is a client of this server.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pudi
from support import spark as spark_support

FOLDER, ROWS_A_BATCH, MOST = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
REMOTE = next(iter(sys.argv[4:]), "")
INSERT = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.clean.commits.retained": "1000",
    "hoodie.keep.min.commits": "1010",
    "hoodie.keep.max.commits": "1020",
}


def main() -> None:
    spark = _session()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    rows = rate.filter(f"value < {MOST}").selectExpr("value AS id", "value % 7 AS part")
    writer = pudi.spark.stream_writer(rows).options(**INSERT).trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", str(FOLDER / "rate-checkpoint")).start(FOLDER / "one")
    while not (FOLDER / "one" / ".hoodie" / "hoodie.properties").exists():
        assert not query.awaitTermination(1)
    write = pudi.spark.batch_writer(FOLDER / "two", **INSERT)

    def copy(changes: Any, number: int) -> None:
        write(changes.select("id", "part"), number)

    options = {"checkpoint": FOLDER / "changes-checkpoint", "interval": 0.1, "max_commits": 3}
    stream = pudi.spark.stream_changes(spark, FOLDER / "one", copy, **options)
    print("ready", flush=True)
    while not query.awaitTermination(1):
        done = [_count(name) for name in ("one", "two")]
        print(*done, flush=True)
        if min(done) >= MOST or not stream.isActive:
            break
    query.stop()
    stream.stop()
    stream.awaitTermination()


def _session() -> Any:
    if not REMOTE:
        return spark_support.start(FOLDER / "session", {})
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(REMOTE).getOrCreate()


def _count(name: str) -> int:
    if not (FOLDER / name / ".hoodie" / "hoodie.properties").exists():
        return 0
    return sum(commit.records_inserted or 0 for commit in pudi.Table(FOLDER / name).history(limit=10_000))


if __name__ == "__main__":
    main()
