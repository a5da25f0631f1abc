"""Measure pudi beside Apache Hudi, delta-rs and Delta Lake on Spark, in one go on the same trips.

    python bench/run.py                                  # everything; results in bench/results, docs/benchmarks.md
    python bench/run.py --rows 100000 --repeats 1 --engines pudi-local --peers delta-rs --settings trips

Each contestant has a process of its own. All of a group are alive at once and take turns, operation by operation, so
that a slow moment of the machine is slow for all. The first round in a process is called cold, the median of the
others warm.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
from operations import SETTINGS, TRIPS, Setting
from process import Failed, Process, has, interpreters
from report import write_report
from rich.console import Console
from trips import write_groups, write_lineitem, write_logs, write_trips

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {"local": (["pudi-local"], ["delta-rs"]), "spark": (["pudi-spark"], ["hudi-gzip", "hudi-zstd", "delta-spark"])}
ENGINES = [name for engines, _ in GROUPS.values() for name in engines]
# Where a JVM is the peer of an engine without one.
GROUPS["keys"] = (["pudi-spark", "pudi-local"], ["hudi-gzip", "hudi-zstd"])
PEERS = list(dict.fromkeys(name for _, peers in GROUPS.values() for name in peers))
# On request only: Delta Lake has releases for some Sparks, and the second environment has the newest.
GROUPS["spark4"] = (["pudi-spark4"], ["delta-spark4"])
PREPARED = {"groups": write_groups, "logs": write_logs}
ACTIVE_COMMITS = (10, 100)
SMALL = 2_000_000  # up to so many rows: three warm rounds and the many-commits test; above: one warm round

console = Console(highlight=False)


def main() -> int:
    arguments = parse()
    failures: list[str] = []
    chosen = [replace(TRIPS, rows=rows) for rows in arguments.rows] if "trips" in arguments.settings else []
    others = [s for s in SETTINGS if s.name in arguments.settings]
    if arguments.other_rows:
        others = [replace(s, rows=arguments.other_rows) if s.rows else s for s in others]
    for setting in chosen + others:
        failures += measure(setting, arguments)
    write_report(arguments.results, arguments.report)
    print(arguments.report.read_text())
    for failure in failures:
        console.print(f"[red]{failure}")
    return int(bool(failures))


def measure(setting: Setting, arguments: argparse.Namespace) -> list[str]:
    """Measure all groups of contestants in a setting and keep the figures; what failed."""
    failures: list[str] = []
    is_trips = setting.name == TRIPS.name
    name = str(setting.rows) if is_trips else setting.name
    work: Path = arguments.work / name
    result: dict[str, Any] = {"setting": setting.name, "rows": setting.rows, "machine": machine(), "contestants": {}}
    if setting.load == "lineitem":
        write_lineitem(work / "data")
        sizes = {}
    else:
        sizes = write_trips(work / "data", setting.rows)
    if setting.prepared:
        shutil.rmtree(work / "prepared", ignore_errors=True)
        PREPARED[setting.prepared](work / "prepared", work / "data", setting.options)
    for group, (engines, peers) in GROUPS.items():
        allowed = peers if setting.peers is None else setting.peers
        names = [n for n in engines + peers if n in arguments.engines + arguments.peers and n in {*engines, *allowed}]
        if not names or group not in setting.groups:
            continue
        console.rule(f"{setting.title}, {setting.rows:,} rows, {group}: {', '.join(names)}")
        small = setting.rows <= SMALL and setting.load == "trips"
        repeats = (3 if small else 1) if arguments.repeats is None else arguments.repeats
        bench = Bench(work, names, repeats, "3g" if small else "4g", setting)
        try:
            bench.rounds()
            if is_trips:
                bench.check(sizes)
            if group == "local" and small and is_trips:
                bench.many_commits()
        finally:
            bench.close()
        result["contestants"] |= bench.results
        failures += bench.failures
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    shutil.rmtree(work)
    return failures


class Bench:
    """The contestants of a group, and what they achieved.

    Args:
        work: folder for data and tables.
        names: the contestants.
        repeats: warm rounds after the cold one.
        memory: for Spark's driver.
        setting: what is measured.
    """

    def __init__(self, work: Path, names: list[str], repeats: int, memory: str, setting: Setting) -> None:
        self._work, self._repeats, self._setting = work, repeats, setting
        self.failures: list[str] = []
        self.results: dict[str, dict[str, Any]] = {}
        self._processes: list[Process] = []
        for name in names:
            log = work / f"{name}.log"
            try:
                process = Process(name, interpreter(name), memory, log)
            except Failed as failure:
                self._failed(name, failure)
                continue
            self._processes.append(process)
            self.results[name] = {
                "versions": process.hello["versions"],
                "start": round(process.hello["start"], 2),
                "rounds": [],
            }

    def rounds(self) -> None:
        """All rounds: in each, every contestant has a new table; operation by operation they take turns."""
        for number in range(1 + self._repeats):
            self._open(f"round{number}")
            for process in self._processes:
                self.results[process.name]["rounds"].append({})
            for operation in self._setting.operations:
                for process in self._in_turn(number):
                    measured = self._run(process, operation)
                    if measured is not None:
                        self.results[process.name]["rounds"][-1][operation] = measured.as_json()
                        console.print(f"round {number} {operation:13} {process.name:12} {measured.seconds:8.2f} s")

    def many_commits(self) -> None:
        """One-row upserts on one table until there are many commits: the median of five at each number of them."""
        self._open("many")
        for process in self._processes:
            self._run(process, "bulk_insert")
        times: dict[str, list[float]] = {process.name: [0.0] for process in self._processes}
        for _ in range(1, ACTIVE_COMMITS[-1]):
            for process in list(self._processes):
                measured = self._run(process, "one_row")
                if measured is not None:
                    times[process.name].append(measured.seconds)
        for name, seconds in times.items():
            found = {str(n): round(sorted(seconds[n - 5 : n])[2], 4) for n in ACTIVE_COMMITS if len(seconds) >= n}
            self.results[name]["one_row_at_commits"] = found

    def check(self, sizes: dict[str, int]) -> None:
        """All must have found the same in every round, and the numbers of rows that there have to be."""
        wanted = {
            "aggregate": sizes["trips"] + sizes["upsert_1_new"] - sizes["delete_1"],
            "incremental": sizes["upsert_10"] + sizes["upsert_1_new"],
        }
        found: dict[str, tuple[str, list[float]]] = {}
        for name, result in self.results.items():
            for number, operations in enumerate(result["rounds"]):
                for operation in ("aggregate", "filtered", "incremental"):
                    answer = operations.get(operation, {}).pop("answer", None)
                    if answer is None:
                        continue
                    other, first = found.setdefault(operation, (name, answer))
                    where = f"{name}, round {number}, {operation}: {answer}"
                    if answer[0] != wanted.get(operation, answer[0]):
                        self.failures.append(f"{where}, but there are {wanted[operation]} rows")
                    elif answer[0] != first[0] or abs(answer[1] - first[1]) > 0.5:
                        self.failures.append(f"{where}, but {other} found {first}")
                operations.get("plain_scan", {}).pop("answer", None)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()

    def _open(self, name: str) -> None:
        tables = self._work / "tables"
        shutil.rmtree(tables, ignore_errors=True)
        for process in list(self._processes):
            folder = tables / name / process.name
            folder.mkdir(parents=True)
            if self._setting.prepared:
                shutil.copytree(self._work / "prepared", folder / "trips")
            try:
                process.open(self._work / "data", folder / "trips", self._setting)
            except Failed as failure:
                self._failed(process.name, failure)

    def _run(self, process: Process, operation: str):
        try:
            return process.run(operation)
        except Failed as failure:
            self._failed(process.name, f"{operation}: {failure}")
            return None

    def _failed(self, name: str, failure: object) -> None:
        kept = self._work.parent / f"{name}.log"
        log = self._work / f"{name}.log"
        if log.exists():
            shutil.copy(log, kept)
        self.failures.append(f"{failure}, kept as {kept}")
        console.print(f"[red]{self.failures[-1]}")
        for process in self._processes:
            if process.name == name:
                process.close()
        self._processes = [process for process in self._processes if process.name != name]

    def _in_turn(self, number: int) -> list[Process]:
        """Another one begins each round."""
        if not self._processes:
            return []
        first = number % len(self._processes)
        return self._processes[first:] + self._processes[:first]


def interpreter(name: str) -> str:
    """The interpreter for a contestant: this one, but for what only the second environment has."""
    if name.endswith("spark4"):
        return interpreters()[-1]
    needed = {"delta-rs": "deltalake"}.get(name)
    found = [python for python in interpreters() if needed is None or has(python, needed)]
    return found[0] if found else sys.executable


def machine() -> dict[str, Any]:
    """What the figures were measured on; nothing that names the machine."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 1),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    parser.add_argument("--rows", type=lambda text: [int(n) for n in names(text)], default=[1_000_000, 10_000_000])
    parser.add_argument(
        "--engines", type=names, default=ENGINES, help=f"of {', '.join(ENGINES)}, pudi-spark4; empty for none"
    )
    parser.add_argument(
        "--peers", type=names, default=PEERS, help=f"of {', '.join(PEERS)}, delta-spark4; empty for none"
    )
    every = [setting.name for setting in [TRIPS, *SETTINGS]]
    parser.add_argument("--settings", type=names, default=every, help=f"of {', '.join(every)}")
    parser.add_argument("--other-rows", type=int, help="rows of the settings other than trips, to try them out")
    parser.add_argument("--repeats", type=int, help="warm rounds; by default 3, above 2,000,000 rows 1")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="folder for data and tables")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "benchmarks.md")
    arguments = parser.parse_args()
    unknown = set(arguments.engines + arguments.peers) - {n for e, p in GROUPS.values() for n in e + p}
    unknown |= set(arguments.settings) - set(every)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
