"""Cleaning, archiving, savepoints, rollback and restore beside Apache Hudi's procedures.

python bench/table_services.py --commits 12 100
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import pudi
from spark import Hudi

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("part", pa.string())])
NAME = "bench_services"
LEFT_ALONE = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
CLEAN = {"hoodie.clean.commits.retained": "3"}
ARCHIVE = {"hoodie.keep.min.commits": "5", "hoodie.keep.max.commits": "6", "hoodie.clean.commits.retained": "3"}


def main() -> None:
    """Let the contestants work on copies of the same table in turns; print the medians of the clock in seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, nargs="+", default=[12, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--verbs", nargs="+", help="some of the five; all by default")
    given = parser.parse_args()
    spark = Hudi(given.memory).session
    told: dict[str, Any] = {}
    for commits in given.commits:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made"
            instants = _write(made, commits)
            told[f"{commits} commits"] = _compare(spark, made, instants, Path(folder) / "copy" / "made", given)
    print(json.dumps(told, indent=2))


def _write(path: Path, commits: int) -> list[str]:
    """Write a table of 1,000 rows in four partitions by so many commits; return their instants."""
    pudi.create(path, SCHEMA, record_key="id", ordering="ts", partition_by="part")
    table = pudi.Table(path, LEFT_ALONE)
    done = [table.bulk_insert(_rows(range(1000), 0))]
    done += [table.upsert(_rows(range(n % 50, 1000, 50), n)) for n in range(1, commits)]
    return [each.instant for each in done if each is not None]


def _rows(ids: range, ts: int) -> pa.Table:
    values = [{"id": each, "ts": ts, "name": f"name {each}", "part": f"p{each % 4}"} for each in ids]
    return pa.Table.from_pylist(values, SCHEMA)


def _compare(spark: Any, made: Path, instants: list[str], path: Path, given: Any) -> dict[str, Any]:
    last, back = instants[-1], instants[-6]
    call = f"table => '{NAME}'"
    verbs: dict[str, dict[str, Callable[[], object]]] = {
        "clean": {
            "Arrow": lambda: pudi.Table(path).clean(options=CLEAN),
            "Spark": lambda: pudi.Table(path).clean(options=CLEAN, spark=spark),
            "Hudi": lambda: _sql(spark, f"run_clean({call}, retain_commits => 3)"),
        },
        "archive": {
            "Arrow": lambda: pudi.Table(path, LEFT_ALONE | ARCHIVE).archive(),
            "Hudi": lambda: _sql(
                spark,
                f"archive_commits({call}, min_commits => 5, max_commits => 6, retain_commits => 3, "
                "enable_metadata => true)",
            ),
        },
        "savepoint": {
            "Arrow": lambda: pudi.Table(path).savepoint(back),
            "Hudi": lambda: _sql(spark, f"create_savepoint({call}, commit_time => '{back}')"),
        },
        "rollback": {
            "Arrow": lambda: pudi.Table(path).rollback(last),
            "Spark": lambda: pudi.Table(path).rollback(last, spark=spark),
            "Hudi": lambda: _sql(spark, f"rollback_to_instant({call}, instant_time => '{last}')"),
        },
        "restore": {
            "Arrow": lambda: pudi.Table(path).restore(back),
            "Spark": lambda: pudi.Table(path).restore(back, spark=spark),
            "Hudi": lambda: _sql(spark, f"rollback_to_savepoint({call}, instant_time => '{back}')"),
        },
    }
    told: dict[str, Any] = {}
    for verb, contestants in verbs.items():
        if verb not in (given.verbs or verbs):
            continue
        taken: dict[str, list[float]] = {}
        for number in range(given.repeats + 1):
            for name, run in contestants.items():
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(made, path)
                if name == "Hudi":
                    spark.sql(f"DROP TABLE IF EXISTS {NAME}")
                    spark.sql(f"CREATE TABLE {NAME} USING hudi LOCATION '{path}'")
                if verb == "restore":
                    pudi.Table(path).savepoint(back)
                began = time.perf_counter()
                run()
                if number:  # the first round is for warming up
                    taken.setdefault(name, []).append(time.perf_counter() - began)
        medians = {name: statistics.median(each) for name, each in taken.items()}
        told[verb] = {name: round(seconds, 3) for name, seconds in medians.items()}
        told[verb] |= {f"Hudi/{n}": round(medians["Hudi"] / s, 1) for n, s in medians.items() if n != "Hudi"}
        print(verb, told[verb], flush=True)
    return told


def _sql(spark: Any, procedure: str) -> object:
    return spark.sql(f"CALL {procedure}").collect()


if __name__ == "__main__":
    main()
