"""How much more memory the driver needs for a large upsert by the record index than for a small one.

python bench/driver_memory.py --rows 10000000
python bench/driver_memory.py --rows 1000000 --groups    # for an upsert into 1,000 file groups than into 12

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
from trips import CITIES, SCHEMA, write_groups, write_trips

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
        watched(pudi.Table(path, options=OPTIONS), rows)
    spark.stop()


def upsert_file(path: Path, batch: Path, memory: str) -> None:
    """One driver's work: upsert what is in a folder of Parquet files."""
    import pudi

    spark = session(memory)
    watched(pudi.Table(path), spark.read.parquet(str(batch)))
    spark.stop()


def watched(table, rows) -> None:
    """Upsert, and say what it took."""
    watch = DriverWatch()
    before = watch._watched[0].memory_info().rss + watch._watched[1].memory_info().rss
    watch.start()
    start = time.perf_counter()
    table.upsert(rows)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": watch.peak, "before": before}))


def run(memory: str, *work: object) -> str:
    """A driver's work in a process of its own; the last line that it said."""
    command = [sys.executable, __file__, *map(str, work), "--memory", memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().rpartition("\n")[2]


def by_size(folder: Path, rows: int, memory: str) -> dict[int, dict[str, float]]:
    """Upserts of a thousandth and of a tenth of the rows by the record index, half of them with new keys."""
    found = {}
    made = folder / "made"
    run(memory, "--act", made, 0, rows)
    for size in (rows // 1000, rows // 10):
        path = Path(shutil.copytree(made, folder / "table"))
        found[size] = json.loads(run(memory, "--act", path, rows - size // 2, rows + size - size // 2))
        shutil.rmtree(path)
    return found


def by_groups(folder: Path, rows: int, memory: str) -> dict[int, dict[str, float]]:
    """Upserts of a hundredth of the rows, spread over all of 12 and of 1,000 file groups."""
    found = {}
    write_trips(folder / "data", rows)
    for groups in (12, 1000):
        write_groups(folder / str(groups), folder / "data", {}, groups)
        found[groups] = json.loads(run(memory, "--upsert", folder / str(groups), folder / "data" / "random_1"))
    return found


def main() -> None:
    """Measure a small and a large upsert."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", action="store_true", help="by the number of file groups")
    parser.add_argument("--memory", default="1g", help="for Spark's driver; much of it makes the JVM generous")
    parser.add_argument("--act", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--upsert", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.act:
        act(Path(given.act[0]), int(given.act[1]), int(given.act[2]), given.memory)
        return
    if given.upsert:
        upsert_file(Path(given.upsert[0]), Path(given.upsert[1]), given.memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = (by_groups if given.groups else by_size)(Path(folder), given.rows, given.memory)
    small, large = (found[size]["peak"] for size in sorted(found))
    print(json.dumps({"rows": given.rows, "upserts": found, "more_mib": (large - small) / 2**20}, indent=2))


if __name__ == "__main__":
    main()
