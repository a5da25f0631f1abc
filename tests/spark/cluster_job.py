"""Writes on a cluster of two executors, during those named one is killed or stops; run by test_cluster.py.

    python cluster_job.py FOLDER [bulk_insert] [upsert] [spread] [random] [buckets] [random_buckets] [random_sorted] \
        [speculation]

The cluster is `local-cluster[2,1,1024]`, or the one that the environment's PUDI_TEST_MASTER names.

Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pudi
from pudi.engine.spark import engine

FOLDER = Path(sys.argv[1])
KILLED = frozenset(sys.argv[2:])
ORDER = FOLDER / "kill"
ROWS = 4000
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
}


def session() -> SparkSession:
    paths = os.pathsep.join([str(Path(pudi.__file__).parent.parent), str(Path(__file__).parent)])
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "killing_daemon",
        "spark.executorEnv.PYTHONPATH": paths,
        "spark.executorEnv.PUDI_KILL_ORDER": str(ORDER),
        "spark.executor.instances": "2",
        "spark.local.dir": str(FOLDER / "local"),
        # short work, and executors that are started anew: the optimising compiler costs more than it brings
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
    }
    if "speculation" in KILLED:
        settings |= SPECULATION
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(os.environ.get("PUDI_TEST_MASTER", "local-cluster[2,1,1024]")).appName(
        "pudi-cluster"
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def state(table: pudi.Table) -> dict[str, Any]:
    """Rows that are seen, and data files that no slice names."""
    rows = table.scan(["id", "note"]).to_arrow()
    known = {s.base.path for s in table.file_slices()}
    found = {str(p.relative_to(table.path)) for p in Path(table.path).rglob("*.parquet")}
    newest = max(i.requested for i in table.timeline.commits)
    return {
        "rows": rows.num_rows,
        "keys": len(set(rows["id"].to_pylist())),
        "notes": {n: rows["note"].to_pylist().count(n) for n in set(rows["note"].to_pylist())},
        "strays": sorted(path for path in found - known if f"_{newest}." in path),
        "killed": not ORDER.exists(),
    }


def kill_during(case: str) -> None:
    """Order that an executor dies in a write, if it's one of those that were named."""
    if case in KILLED:
        ORDER.touch()


def first_bulk_insert(case: str, data: Any, options: dict[str, str]) -> dict[str, Any]:
    """A bulk insert into a table of its own, and what becomes of it."""
    table = pudi.create(FOLDER / case, data.schema, record_key="id", partition_by="place", name=case, options=options)
    kill_during(case)
    try:
        table.bulk_insert(data, options=options)
    except pudi.UnavailableError as unavailable:
        return {"error": str(unavailable), "killed": not ORDER.exists(), "rows": table.scan().to_arrow().num_rows}
    return {**state(table), "error": None}


def second_attempts(data: Any) -> dict[str, Any]:
    """Writes in which a task's first attempt doesn't end before the write does: Spark starts another one."""
    table = pudi.create(FOLDER / "speculation", data.schema, record_key="id", partition_by="place", name="speculation")
    over, taken = Path(f"{ORDER}-over"), []
    for when, write in (("before", table.bulk_insert), ("after", table.upsert)):
        over.unlink(missing_ok=True)
        order = Path(f"{ORDER}-{when}")
        order.touch()
        write(data)
        over.touch()
        taken.append(not order.exists())
        time.sleep(1)  # what was given up may try to go on
    return {**state(table), "stopped": taken, "check": str(table.check().ok or table.check())}


def main() -> None:
    spark = session()
    answers = {}
    frame = spark.range(0, ROWS, 1, 6).selectExpr("id", "concat('p', id % 4) as place", "'a' as note")
    table = pudi.create(FOLDER / "t", frame.schema, record_key="id", partition_by="place", name="t")

    engine._DRIVER_RECORDS = engine._DRIVER_JOBS = 0  # all is done by jobs
    kill_during("bulk_insert")
    table.bulk_insert(frame)
    answers["bulk_insert"] = state(table)

    kill_during("upsert")
    table.upsert(frame.filter("id % 2 = 0").selectExpr("id", "place", "'b' as note"))
    answers["upsert"] = state(table)

    kill_during("spread")
    engine._WHOLE = None  # as large partitions are written: keys found first, records spread over files
    table.upsert(frame.filter("id % 4 = 0").selectExpr("id", "place", "'d' as note"))
    answers["spread"] = state(table)

    kill_during("random")
    # rand() has a seed, and says the same when it's evaluated again
    random = spark.range(0, ROWS, 1, 6).selectExpr(
        "10000 + pmod(xxhash64(reflect('java.util.UUID', 'randomUUID')), 1000000000000000) as id",
        "concat('p', id % 4) as place",
        "'c' as note",
    )
    try:
        table.upsert(random)
        error = None
    except pudi.UnavailableError as unavailable:
        error = str(unavailable)
    answers["random"] = {**state(table), "error": error}

    # some are done before the executor dies, some begin after it
    tasks = {"hoodie.bulkinsert.shuffle.parallelism": "8"}
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4", **tasks}
    for case, data, options in (
        ("buckets", frame, buckets),
        ("random_buckets", random, buckets),
        ("random_sorted", random, {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT", **tasks}),
    ):
        if case in KILLED:
            answers[case] = first_bulk_insert(case, data, options)
    if "speculation" in KILLED:
        answers["speculation"] = second_attempts(frame)
    spark.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
