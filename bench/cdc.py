"""What logging changes costs a write, and how fast a CDC query is, beside Hudi in the same run.

    python bench/cdc.py                     # 300k rows, upserts of a tenth, on the local engine, and Hudi's (zstd)
    python bench/cdc.py --rows 1000000 --no-hudi

Plain upserts and upserts with `data_before_after` alternate. Medians, by the clock and in CPU time of the process.
Hudi's table is queried by Hudi and by pudi in turns, on one Spark session; CPU time is that of the JVM and of Python
workers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from logs import UPSERTS, write_data
from trips import SCHEMA

import pudi

ROUNDS = 3
MODE = "data_before_after"
LOGGING = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": MODE}
HUDI_JOB = """
import json, statistics, sys, time
import psutil
import pudi
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from spark import Hudi
from operations import Setting
data, folder, rounds, options = Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
hudi = Hudi("3g", **{"hoodie.parquet.compression.codec": "zstd"})
took = {"plain": [], "logged": []}
for number in range(rounds):
    for name in took:
        setting = Setting(name, "", (), options=options if name == "logged" else {})
        hudi.open(data, folder / name, setting)
        if number == 0:
            hudi.bulk_insert()
        took[name].append(hudi.upsert(f"upsert{number}").seconds)
path = folder / "logged"
files = [p.name for p in (path / ".hoodie" / "timeline").iterdir() if p.name.endswith(".commit")]
since = sorted(name.split("_")[1].split(".")[0] for name in files)[-2]
def by_hudi():
    return hudi.session.read.format("hudi").options(**{
        "hoodie.datasource.query.type": "incremental", "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": since}).load(str(path))
def by_pudi():
    return pudi.Table(path).changes(since, format="cdc").to_spark(hudi.session)
def used():
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(t.user + t.system for t in (each.cpu_times() for each in tree))
query = {"query by Hudi": [], "query by pudi": []}
for _ in range(1 + 12):
    for name, ask in zip(query, (by_hudi, by_pudi)):
        began, cpu = time.perf_counter(), used()
        ask().write.format("noop").mode("overwrite").save()
        query[name].append((time.perf_counter() - began, used() - cpu))
answer = {name: round(statistics.median(times[1:]), 2) for name, times in took.items()}
for name, times in query.items():
    answer[name] = {"s": round(statistics.median(t for t, _ in times[1:]), 3),
                    "cpu": round(statistics.median(c for _, c in times[1:]), 2)}
print(json.dumps({**answer, "changes": by_pudi().count()}))
hudi.close()
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - cpu


def by_pudi(data: Path, folder: Path) -> dict[str, object]:
    took: dict[str, list[tuple[float, float]]] = {"plain": [], "logged": []}
    trips = pq.read_table(data / "trips")
    for name in took:
        options = LOGGING if name == "logged" else {}
        pudi.create(folder / name, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", options=options)
        pudi.Table(folder / name).bulk_insert(trips)
    for number in range(ROUNDS):
        batch = pq.read_table(data / f"upsert{number}")
        for name, times in took.items():
            table = pudi.Table(folder / name)
            times.append(timed(lambda table=table, batch=batch: table.upsert(batch)))
    found: dict[str, object] = {name: medians(times) for name, times in took.items()}
    plain, logged = (statistics.median(cpu for _, cpu in took[name]) for name in ("plain", "logged"))
    found["logged / plain, CPU"] = round(logged / plain, 2)
    for name in took:
        table = pudi.Table(folder / name)
        since = [instant.completion for instant in table.timeline.commits][-2]
        for images in ("json", "struct"):
            times, rows = [], 0
            for _ in range(ROUNDS):
                feed = table.changes(since, format="cdc", images=images)
                times.append(timed(lambda feed=feed: feed.to_arrow()))
                rows = feed.to_arrow().num_rows
            found[f"query of {rows} changes, {name}, {images}"] = medians(times)
    return found


def medians(times: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "s": round(statistics.median(clock for clock, _ in times), 2),
        "cpu": round(statistics.median(cpu for _, cpu in times), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--no-hudi", action="store_true")
    args = parser.parse_args()
    assert ROUNDS <= UPSERTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data", args.rows)
        print(json.dumps({"pudi": by_pudi(folder / "data", folder / "pudi")}, indent=2), flush=True)
        shutil.rmtree(folder / "pudi")
        if not args.no_hudi:
            job = [sys.executable, "-c", HUDI_JOB, str(Path(__file__).parent), str(folder / "data")]
            job += [str(folder / "hudi"), "2", json.dumps(LOGGING)]
            subprocess.run(job, check=True)


if __name__ == "__main__":
    main()
