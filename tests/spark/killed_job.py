"""One action of a table on Spark, in a process that is killed: python killed_job.py PATH ACTION TO."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

import pudi
from pudi.engine.spark import engine as engine_module
from support import spark as spark_support

OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.clean.commits.retained": "1"}


def main(path: str, action: str, to: str) -> None:
    """Begin when told, after a query that starts Spark's workers."""
    spark = spark_support.start(Path(path).parent / "session", {})
    engine_module._DRIVER_RECORDS = engine_module._DRIVER_JOBS = 0  # all is done by jobs
    spark.range(4).mapInPandas(lambda frames: frames, "id long").collect()
    mine = pudi.Table(path, options=OPTIONS)
    print("begun", flush=True)
    if action == "upsert":
        rows = pa.table({"id": range(0, 400, 2), "ts": [99] * 200, "part": [f"p{n % 4}" for n in range(0, 400, 2)]})
        mine.upsert(spark.createDataFrame(rows.to_pylist(), "id long, ts long, part string"))
    elif action == "restore":
        mine.restore(to, spark=spark)
    else:
        getattr(mine, action)(spark=spark)
    print("done", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
