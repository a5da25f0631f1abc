"""Registering a table's partitions for the first time: pudi beside Hudi's HiveSyncTool, in the same Hive Metastore.

python bench/catalog_sync.py --partitions 5000 --rounds 2

The metastore is a real one, on Derby, by the jars of PySpark 3.5. Each side registers the same table under a name of
its own, in turns; the ratio is that of the best rounds. `metastore_ms` is the metastore's CPU time for a partition,
which neither side can do without. Needs `pudi[hive]` and Spark 3.5.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import pudi
from pudi.catalogs import TableName, open_catalog
from support.hive import serve_hive
from support.hive_sync import SYNC, sync_by_hudi
from support.hudi import SESSION
from support.spark import start

EXTRACTOR = {f"{SYNC}partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor"}


WARM = 200
"""Partitions that both register before anything counts."""


def make(path: Path, partitions: int) -> pudi.Table:
    """A table with one record in each partition."""
    names = pa.array([f"d{number:06}" for number in range(partitions)])
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("fare", pa.float64())])
    table = pudi.create(str(path), schema, record_key="id", partition_by="day")
    table.bulk_insert(pa.table({"id": range(partitions), "day": names, "fare": [1.5] * partitions}, schema=schema))
    return table


def metastore_cpu() -> float:
    """CPU seconds of the metastore until now, of Linux."""
    for each in Path("/proc/self/task").glob("*/children"):  # by the thread that started them
        for child in each.read_text().split():
            if b"HiveServer" in Path("/proc", child, "cmdline").read_bytes():
                times = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
                return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("the metastore runs")


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(spark: Any, uri: str, table: pudi.Table, partitions: int, rounds: int) -> dict[str, Any]:
    """Both sides, in turns; the partitions in the metastore are counted after each."""
    took: dict[str, list[float]] = {"pudi": [], "hudi": []}
    idle: dict[str, list[float]] = {"pudi": [], "hudi": []}
    cpu: dict[str, list[float]] = {"pudi": [], "hudi": []}
    with open_catalog("hive", uri.removeprefix("thrift://")) as catalog:
        for number in range(rounds):
            for side in ("pudi", "hudi") if number % 2 == 0 else ("hudi", "pudi"):
                name = f"{side}_{partitions}_{number}"
                options = {
                    f"{SYNC}database": "bench", f"{SYNC}table": name, f"{SYNC}partition_fields": "day", **EXTRACTOR,
                }  # fmt: skip

                def sync(side: str = side, name: str = name, options: dict[str, str] = options) -> None:
                    if side == "hudi":
                        sync_by_hudi(spark, uri, Path(table.path), options)
                    else:
                        table.sync(catalog, f"bench.{name}")

                before = metastore_cpu()
                took[side].append(seconds(sync))
                cpu[side].append((metastore_cpu() - before) * 1000 / partitions)
                idle[side].append(seconds(sync))
                entry = catalog.table(TableName("bench", name))
                assert entry is not None
                assert len(catalog.partition_values(entry)) == partitions, name
                figures = {"first": took[side][-1], "again": idle[side][-1], "metastore_ms": cpu[side][-1]}
                print(json.dumps({"side": side} | {key: round(value, 3) for key, value in figures.items()}), flush=True)
    best = {side: min(found) for side, found in took.items()}
    return {
        "partitions": partitions,
        "first": {side: round(found, 2) for side, found in best.items()},
        "partitions_a_second": {side: round(partitions / found) for side, found in best.items()},
        "ratio": round(best["hudi"] / best["pudi"], 1),
        "metastore_ms": {side: round(min(found), 2) for side, found in cpu.items()},
        "again": {side: round(min(found), 3) for side, found in idle.items()},
        "load": [round(each, 1) for each in os.getloadavg()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "metastore").mkdir()
        table = make(root / "t", arguments.partitions)
        with serve_hive(root / "metastore") as uri:
            spark = start(root, SESSION)
            compare(spark, uri, make(root / "small", WARM), WARM, 1)  # the metastore makes its schema, and compiles
            print(json.dumps(compare(spark, uri, table, arguments.partitions, arguments.rounds)))
            spark.stop()


if __name__ == "__main__":
    main()
