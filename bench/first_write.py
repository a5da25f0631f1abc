"""The first write of a new Spark session, of five rows, and the ones after it.

python bench/first_write.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

import pudi

WRITES = 5


def main() -> None:
    """Say how long each write takes, by phase; the session's own start isn't counted."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    rows = [(str(number), 1, "x", f"p{number % 2}") for number in range(5)]
    frame = spark.createDataFrame(rows, "id string, ts long, text string, part string")
    with tempfile.TemporaryDirectory() as folder:
        table = pudi.create(Path(folder) / "t", frame.schema, record_key="id", ordering="ts", partition_by="part")
        for number in range(WRITES):
            began = time.perf_counter()
            done = table.upsert(frame)
            assert done is not None
            phases = {name: round(seconds, 2) for name, seconds in done.phases.items() if seconds >= 0.01}
            print(f"write {number + 1}: {time.perf_counter() - began:.2f} s {phases}")
    spark.stop()


if __name__ == "__main__":
    main()
