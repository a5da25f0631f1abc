"""How much more memory the driver needs for a large upsert by the record index than for a small one.

python bench/driver_memory.py --rows 10000000

Executors are processes of their own (`local-cluster`). Counted are the Python driver and its JVM, each size of upsert
in a driver of its own, on a copy of the same table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from trips import CITIES, SCHEMA

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}


class DriverWatch(threading.Thread):
    """The most memory resident in this process and in its JVM, without what that one started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        own = psutil.Process()
        self._watched = [own, *(child for child in own.children() if "java" in child.name())]
        if len(self._watched) != 2:
            raise RuntimeError(f"one JVM was expected: {self._watched}")

    def run(self) -> None:
        """Look ten times a second."""
        while True:
            self.peak = max(self.peak, sum(process.memory_info().rss for process in self._watched))
            time.sleep(0.1)


def session(memory: str):
    """A session whose executor is another process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = os.pathsep.join([str(Path(__file__).resolve().parent.parent / "src"), str(Path(__file__).resolve().parent)])
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": paths,
    }
    return SparkSession.builder.master("local-cluster[1,2,2048]").config(map=settings).getOrCreate()


def trips(spark, begin: int, end: int):
    """Trips whose keys are those of their numbers, made by executors."""
    city = f"element_at(array({', '.join(repr(city) for city in CITIES)}), CAST(id % {len(CITIES)} AS INT) + 1)"
    columns = {"uuid": "md5(CAST(id AS STRING))", "city": city, "ts": "timestamp_micros(id)"}
    exprs = [
        f"{columns.get(f.name, 'CAST(rand() AS STRING)' if str(f.type) == 'string' else 'rand()')} AS {f.name}"
        for f in SCHEMA
    ]
    return spark.range(begin, end, 1, 16).selectExpr(*exprs)


def act(path: Path, begin: int, end: int, memory: str) -> None:
    """One driver's work: insert all rows into a new table, or upsert some."""
    import pudi

    spark = session(memory)
    rows = trips(spark, begin, end)
    if not path.exists():
        pudi.create(path, rows.schema, record_key="uuid", partition_by="city", ordering="ts")
        pudi.Table(path, options=OPTIONS).bulk_insert(rows)
    else:
        watch = DriverWatch()
        before = watch._watched[0].memory_info().rss + watch._watched[1].memory_info().rss
        watch.start()
        start = time.perf_counter()
        pudi.Table(path, options=OPTIONS).upsert(rows)
        print(json.dumps({"seconds": time.perf_counter() - start, "peak": watch.peak, "before": before}))
    spark.stop()


def run(path: Path, begin: int, end: int, memory: str) -> str:
    """`act` in a process of its own; the last line that it said."""
    command = [sys.executable, __file__, "--act", str(path), str(begin), str(end), "--memory", memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().rpartition("\n")[2]


def main() -> None:
    """Upsert a tenth, and a thousandth, of the rows; half of them with new keys."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory", default="1g", help="for Spark's driver; much of it makes the JVM generous")
    parser.add_argument("--act", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.act:
        act(Path(given.act[0]), int(given.act[1]), int(given.act[2]), given.memory)
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        run(made, 0, given.rows, given.memory)
        for size in (given.rows // 1000, given.rows // 10):
            path = Path(shutil.copytree(made, Path(folder) / "table"))
            found[size] = json.loads(run(path, given.rows - size // 2, given.rows + size - size // 2, given.memory))
            shutil.rmtree(path)
    small, large = (found[size]["peak"] for size in sorted(found))
    print(json.dumps({"rows": given.rows, "upserts": found, "more_mib": (large - small) / 2**20}, indent=2))


if __name__ == "__main__":
    main()
