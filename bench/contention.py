"""Processes that increment numbers of one row each in one file group, by each lock provider against the real thing.

python bench/contention.py --processes 8 --seconds 60 --hudi

The acknowledged increments must add up exactly, and `check()` must be clean. With --hudi a JVM with Apache Hudi's
writer is one of the processes where both sides have the provider. Its number is in another partition, since it would
never win against writes that take a tenth of the time. The table goes to docs/concurrency.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pudi
from pudi.locks.table_lock import TableLock
from pudi.testing.race import START_TIMEOUT, Barrier, race
from support.hive import serve_hive
from support.s3 import serve_s3
from support.zookeeper import serve_zookeeper

KEY = "hoodie.write.lock."
LOCKS = "org.apache.hudi.client.transaction.lock."
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
HUDI = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.upsert.shuffle.parallelism": "1",
}
"""Options of Apache Hudi's writer beside others."""


@dataclass(frozen=True)
class Case:
    """Options of the writers, and whether Hudi's writer can be one of them."""

    options: Mapping[str, str]
    root: str
    storage_options: Mapping[str, str] | None = None
    hudi: bool = False
    timed: bool = True


@dataclass
class Told:
    """What one process did: increments, conflicts, and seconds that it waited for the lock, or held it, each time."""

    done: int = 0
    conflicts: int = 0
    waited: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)


@contextmanager
def cases(names: list[str], folder: Path) -> Iterator[Iterator[tuple[str, Case]]]:
    """Each provider with its server, one after the other."""

    def each() -> Iterator[tuple[str, Case]]:
        for name in names:
            root = folder / name.replace(" ", "-")
            root.mkdir()
            if name == "file lock of the system":
                yield name, Case({}, str(root / "t"))
            elif name == "file system":
                options = {f"{KEY}provider": f"{LOCKS}FileSystemBasedLockProvider"}
                yield name, Case(options, str(root / "t"), hudi=True)
            elif name == "zookeeper":
                with serve_zookeeper(root) as server:
                    options = {
                        f"{KEY}provider": f"{LOCKS}ZookeeperBasedLockProvider",
                        f"{KEY}zookeeper.url": server.hosts,
                        f"{KEY}zookeeper.base_path": "/hudi",
                        f"{KEY}zookeeper.lock_key": "t",
                    }
                    yield name, Case(options, str(root / "t"), hudi=True)
            elif name == "hive metastore":
                with serve_hive(root) as uri:
                    options = {
                        f"{KEY}provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
                        f"{KEY}hivemetastore.uris": uri,
                        f"{KEY}hivemetastore.database": "lake",
                        f"{KEY}hivemetastore.table": "t",
                        f"{KEY}heartbeat_interval_ms": "1000",
                    }
                    yield name, Case(options, str(root / "t"), hudi=True)
            else:
                with serve_s3() as s3:
                    if name == "storage (moto)":
                        yield name, Case({}, s3.new_root(), s3.options(), timed=False)
                    else:
                        options = {
                            f"{KEY}provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
                            f"{KEY}dynamodb.table": "locks",
                            f"{KEY}dynamodb.endpoint_url": s3.url,
                            f"{KEY}dynamodb.region": "us-east-1",
                            "hoodie.aws.access.key": "test",
                            "hoodie.aws.secret.key": "test",
                        }
                        yield name, Case(options, str(root / "t"), timed=False)

    yield each()


NAMES = ["file lock of the system", "file system", "zookeeper", "hive metastore", "storage (moto)", "dynamodb (moto)"]


def run_one(barrier: Barrier, number: int, case: Case, hudi: bool, seconds: float) -> Told:
    """Increment the number of one row again and again; the first process may be Hudi's."""
    if hudi and number == 0:
        return _run_hudi(barrier, case, seconds)
    told = Told()
    watch_lock(told)
    table = pudi.Table(case.root, options=case.options, storage_options=case.storage_options)
    barrier.wait(START_TIMEOUT)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            result = table.update({"v": "v + 1"}, where=f"id = 'r{number}' AND part = 'pudi'")
        except (pudi.ConflictError, pudi.UnavailableError) as error:
            assert error.retryable, error
            told.conflicts += 1
        else:
            assert result is not None
            told.done += 1
            told.conflicts += result.attempts - 1
    return told


def watch_lock(told: Told) -> None:
    """Note how long the outermost locks of this process are waited for and held."""
    enter, leave = TableLock.__enter__, TableLock.__exit__
    since: list[float] = []

    def entered(self: TableLock) -> TableLock:
        began = time.perf_counter()
        enter(self)
        if self._slot.depth == 1:
            told.waited.append(time.perf_counter() - began)
            since.append(time.perf_counter())
        return self

    def left(self: TableLock, *error: object) -> None:
        if self._slot.depth == 1:
            told.held.append(time.perf_counter() - since.pop())
        leave(self, *error)  # type: ignore[arg-type]

    TableLock.__enter__, TableLock.__exit__ = entered, left  # type: ignore[method-assign, assignment]


def _run_hudi(barrier: Barrier, case: Case, seconds: float) -> Told:
    """Increment by upserts of Apache Hudi 1.2, whose number nobody else changes."""
    from support import hudi, spark

    told = Told()
    session = spark.start(Path(tempfile.mkdtemp()), hudi.SESSION)
    options = {
        **HUDI,
        f"{KEY}client.wait_time_ms_between_retry": "500",
        f"{KEY}wait_time_ms_between_retry": "100",
        **case.options,
    }
    frames = session.createDataFrame([("r0", "hudi", 0)], "id string, part string, v bigint")
    frames.count()
    barrier.wait(START_TIMEOUT)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rows = session.createDataFrame([("r0", "hudi", told.done + 1)], "id string, part string, v bigint")
        try:
            rows.write.format("hudi").options(**options).mode("append").save(case.root)
        except Exception as error:  # noqa: BLE001 - Py4J gives each error of the JVM one type
            text = str(error)
            if not any(sign in text for sign in ("onflict", "Lock", "concurrent")):
                raise RuntimeError(text[:2000]) from None
            told.conflicts += 1
            print(text[:600], file=sys.stderr)
        else:
            told.done += 1
    session.stop()
    return told


def measure(name: str, case: Case, processes: int, seconds: float, with_hudi: bool) -> str:
    """One row of the table; raises where numbers don't add up."""
    hudi = with_hudi and case.hudi
    table = pudi.create(
        case.root,
        SCHEMA,
        record_key="id",
        partition_by="part",
        name="t",
        options=case.options,
        storage_options=case.storage_options,
    )
    parts = ["hudi" if hudi and not n else "pudi" for n in range(processes)]
    ids = [f"r{n}" for n in range(processes)]
    table.insert(pa.table({"id": ids, "part": parts, "v": [0] * processes}, schema=SCHEMA))
    told = race(run_one, (case, hudi, seconds), racers=processes)
    opened = pudi.Table(case.root, options=case.options, storage_options=case.storage_options)
    found = dict(zip(*opened.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    expected = {f"r{n}": each.done for n, each in enumerate(told)}
    if hudi and found["r0"] == told[0].done + 1:  # Hudi may fail after a commit; the next attempt writes this number
        expected["r0"] += 1
    assert found == expected, (found, expected)
    assert opened.check().ok
    done, lost = sum(each.done for each in told), sum(each.conflicts for each in told[hudi:])
    counts = [each.done for each in told[1 if hudi else 0 :]]
    waited = [s for each in told for s in each.waited]
    held = [s for each in told for s in each.held]
    fair = f"{min(counts)}–{max(counts)}, median {statistics.median(counts):g}"
    hudis = f"{told[0].done}, {told[0].conflicts} conflicts" if hudi else "-"
    times = (f"{done / seconds:.1f}", f"{in_ms(waited)}", f"{in_ms(held)}") if case.timed else ("-", "-", "-")
    return f"| {name} | {done} | {times[0]} | {hudis} | {lost} | {fair} | {times[1]} | {times[2]} |"


def in_ms(seconds: list[float]) -> str:
    """Median and 95% of durations, in milliseconds."""
    ordered = sorted(seconds)
    return f"{1000 * statistics.median(ordered):.0f} / {1000 * ordered[int(len(ordered) * 0.95)]:.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hudi", action="store_true", help="let a JVM with Apache Hudi's writer take part")
    parser.add_argument("--only", nargs="*", default=NAMES, choices=NAMES)
    given = parser.parse_args()
    print("| lock | increments | a second | of them Hudi's | conflicts | of a process | waited, ms | held, ms |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, cases(given.only, Path(folder)) as all_cases:
        for name, case in all_cases:
            print(measure(name, case, given.processes, given.seconds, given.hudi), flush=True)


if __name__ == "__main__":
    main()
