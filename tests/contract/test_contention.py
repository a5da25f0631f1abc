"""Processes that change the same records at the same time: all that they were told fits one order."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.testing.race import START_TIMEOUT, Barrier, race
from support.hive import serve_hive
from support.s3 import S3Server, serve_s3
from support.simulated.histories import Step, contradictions
from support.zookeeper import serve_zookeeper

IN_PROCESS = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
FILE_SYSTEM = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
STORAGE_BASED = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
PROVIDER, MODE = "hoodie.write.lock.provider", "hoodie.write.concurrency.mode"

OPTIONS: dict[str, list[dict[str, str]]] = {
    "none": [{}],
    "in process": [{PROVIDER: IN_PROCESS}],
    "file system": [{PROVIDER: FILE_SYSTEM}],
    "storage based": [{PROVIDER: STORAGE_BASED}],
    "single writer": [{PROVIDER: IN_PROCESS, MODE: "single_writer"}],
    "all": [{}, {PROVIDER: IN_PROCESS}, {PROVIDER: FILE_SYSTEM}],
}
"""Options of writers by name of the case; where there are several, each process takes the next ones."""

LOCAL = ["none", "in process", "file system", "all"]
ON_S3 = ["none", "storage based", "file system", "single writer"]


def add_by_update(table: pudi.Table) -> bool:
    """Add 1 by a statement, which is planned again when another process wins."""
    return table.update({"v": "v + 1"}) is not None


def add_by_upsert(table: pudi.Table) -> bool:
    """Read, add 1, and write that back if nothing has changed."""
    scan = table.scan(meta_fields=False)
    read = scan.to_arrow()
    raised = read.set_column(read.schema.get_field_index("v"), "v", pc.add(read["v"], 1))
    return table.upsert(raised, if_unchanged_since=scan.instant) is not None


ADDERS = {"update": add_by_update, "upsert": add_by_upsert}


def add_up(
    barrier: Barrier,
    number: int,
    path: str,
    storage_options: dict[str, str] | None,
    options: list[dict[str, str]],
    adder: str,
    seconds: float,
) -> tuple[int, int]:
    """Add 1 again and again; how often that was said to be done, and how often that another process won."""
    table = pudi.Table(path, options=options[number % len(options)], storage_options=storage_options)
    barrier.wait(START_TIMEOUT)
    end, done, lost = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        try:
            done += ADDERS[adder](table)
        except pudi.ChangedSinceError:
            lost += 1  # the table is read again
        except (pudi.ConflictError, pudi.UnavailableError) as error:
            assert error.retryable, error
            lost += 1
    return done, lost


def count(
    path: str, storage_options: dict[str, str] | None, case: str, kind: str, adder: str, seconds: float, racers: int = 8
) -> int:
    """Let processes add to the number of a new table; how often they did."""
    return count_with(path, storage_options, OPTIONS[case], kind, adder, seconds, racers, case != "single writer")


def count_with(
    path: str,
    storage_options: dict[str, str] | None,
    writers: list[dict[str, str]],
    kind: str,
    adder: str,
    seconds: float,
    racers: int,
    retries: bool = True,
) -> int:
    """Let processes with these options add to the number of a new table."""
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    options = writers[0]
    table = pudi.create(
        path, schema, record_key="id", table_type=kind, options=options, storage_options=storage_options
    )
    table.insert(pa.table({"id": ["a", "b"], "v": [0, 100]}, schema=schema))
    answers = race(add_up, (path, storage_options, writers, adder, seconds), racers=racers)
    told, lost = (sum(numbers) for numbers in zip(*answers, strict=True))
    opened = pudi.Table(path, options=options, storage_options=storage_options)
    found = dict(zip(*opened.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    assert found == {"a": told, "b": 100 + told}
    assert opened.check().ok
    if adder == "update" and seconds >= 60 and retries:
        assert lost <= told / 4, "further attempts leave few conflicts to tell of"
    return told


def cases(names: list[str], every_run: set[tuple[str, str, str]]) -> list[Any]:
    """The product of cases, table types and ways to add; those that aren't for every run are slow."""
    product = [(case, kind, adder) for case in names for kind in ("cow", "mor") for adder in ADDERS]
    return [pytest.param(*each, marks=() if each in every_run else pytest.mark.slow) for each in product]


@pytest.mark.parametrize(
    ("case", "kind", "adder"), cases(LOCAL, {("all", "cow", "update"), ("in process", "mor", "upsert")})
)
def test_no_update_is_lost_on_a_local_disk(tmp_path: Path, case: str, kind: str, adder: str) -> None:
    assert count(str(tmp_path / "t"), None, case, kind, adder, 3) > 0


@pytest.mark.parametrize(("case", "kind", "adder"), cases(ON_S3, {("none", "cow", "upsert")}))
def test_no_update_is_lost_in_an_object_store(s3_server: S3Server, case: str, kind: str, adder: str) -> None:
    told = count(s3_server.new_root(), s3_server.options(), case, kind, adder, 3)
    assert told > 0 or case == "single writer", "who breaks that promise may stand in each other's way for ever"


@contextmanager
def service(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """A service that keeps locks, the real one or moto's; the options of its provider."""
    key = "hoodie.write.lock."
    if name == "ZookeeperBasedLockProvider":
        with serve_zookeeper(folder) as server:
            place = {f"{key}zookeeper.url": server.hosts, f"{key}zookeeper.base_path": "/hudi"}
            patience = {f"{key}zookeeper.connection_timeout_ms": "120000"}  # of a machine with other work
            yield {PROVIDER: name, **place, **patience}
    elif name == "HiveMetastoreBasedLockProvider":
        with serve_hive(folder) as uri:
            place = {f"{key}hivemetastore.database": "lake", f"{key}hivemetastore.table": "t"}
            yield {PROVIDER: name, f"{key}hivemetastore.uris": uri, f"{key}heartbeat_interval_ms": "1000", **place}
    else:
        with serve_s3() as s3:
            keys = {"hoodie.aws.access.key": "test", "hoodie.aws.secret.key": "test"}
            place = {f"{key}dynamodb.table": "locks", f"{key}dynamodb.region": "us-east-1"}
            yield {PROVIDER: name, f"{key}dynamodb.endpoint_url": s3.url, **place, **keys}


@pytest.mark.parametrize(
    "name",
    [
        "ZookeeperBasedLockProvider",
        pytest.param("HiveMetastoreBasedLockProvider", marks=pytest.mark.slow),
        pytest.param("DynamoDBBasedLockProvider", marks=pytest.mark.slow),
    ],
)
def test_no_update_is_lost_with_a_lock_in_a_service(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    with service(name, folder) as options:
        assert count_with(str(tmp_path / "t"), None, [options], "cow", "update", 3, 4) > 0


@pytest.mark.slow
@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize(("on_s3", "case"), [*((False, case) for case in LOCAL), *((True, case) for case in ON_S3)])
def test_no_update_is_lost_in_a_minute(tmp_path: Path, s3_server: S3Server, on_s3: bool, case: str, adder: str) -> None:
    there: tuple[str, Any] = (s3_server.new_root(), s3_server.options()) if on_s3 else (str(tmp_path / "t"), None)
    told = count(*there, case, "mor" if on_s3 else "cow", adder, 60)
    assert told > 0 or case == "single writer"


LOGS = pa.schema([("id", pa.string()), ("log", pa.string())])
KEYS = ("a", "b", "c", "d", "e")


def keep_logs(barrier: Barrier, number: int, path: str, options: dict[str, str], rounds: int) -> list[Step]:
    """Read the table, and append to texts of some records by reading them and writing them back; what was done when."""
    table, chance = pudi.Table(path, options=options), random.Random(number)
    barrier.wait(START_TIMEOUT)
    name, steps = f"process {number}", []
    for _ in range(rounds):
        began = time.monotonic()
        scan = table.scan(columns=["id", "log"])
        found = dict(zip(*scan.to_arrow().to_pydict().values(), strict=True))
        steps.append(Step(name, began, time.monotonic(), seen={key: log.split() for key, log in found.items()}))
        keys, value = chance.sample(KEYS, 2), f"{number}.{len(steps)}"
        logs = pa.table({"id": keys, "log": [f"{found[key]} {value}" for key in keys]}, schema=LOGS)
        began, outcome = time.monotonic(), "done"
        try:
            table.upsert(logs, if_unchanged_since=scan.instant)
        except pudi.ConflictError:
            outcome = "not done"
        except pudi.UnavailableError:
            outcome = "unknown"
        steps.append(Step(name, began, time.monotonic(), appended=dict.fromkeys(keys, value), outcome=outcome))
    return steps


@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_what_processes_did_and_saw_fits_one_order(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": str(kind == "mor").lower()}
    table = pudi.create(tmp_path / "t", LOGS, record_key="id", table_type=kind, options=options)
    for key in KEYS:  # a file group each
        table.upsert(pa.table({"id": [key], "log": [""]}, schema=LOGS))
    steps = [step for each in race(keep_logs, (str(tmp_path / "t"), options, 6), racers=3) for step in each]
    assert sum(bool(step.appended) and step.outcome == "done" for step in steps) > 3
    assert contradictions(steps) == []
    assert table.check().ok


EVENTS = pa.schema([("id", pa.string()), ("at", pa.int64()), ("by", pa.int64())])
SHARED_BUCKET = {
    MODE: "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
}


def stream(barrier: Barrier, number: int, path: str, batches: int) -> dict[str, int]:
    """Upsert the same records in batches, or compact them if it's the first process; the newest event of each."""
    table, newest = pudi.Table(path, options=SHARED_BUCKET), dict[str, int]()
    barrier.wait(START_TIMEOUT)
    for batch in range(batches):
        if number == 0:
            table.compact()
            continue
        at = batch * 100 + number
        keys = [key for place, key in enumerate(KEYS) if (place + at) % 3]
        values = {"id": keys, "at": [at] * len(keys), "by": [number] * len(keys)}
        done = table.upsert(pa.table(values, schema=EVENTS))
        assert done is not None
        assert done.attempts == 1, "nobody writes anything again"
        newest |= dict.fromkeys(keys, at)
    return newest


def test_processes_add_to_one_bucket_without_conflicts(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pudi.create(path, EVENTS, record_key="id", ordering="at", table_type="mor", options=SHARED_BUCKET)
    told = race(stream, (path, 4), racers=4)
    expected = {key: max(each.get(key, 0) for each in told) for key in KEYS}
    table = pudi.Table(path)
    for _ in range(2):
        found = table.scan(columns=["id", "at"]).to_arrow()
        assert found.num_rows == len(KEYS)
        assert dict(zip(*found.to_pydict().values(), strict=True)) == expected
        assert len({each.file_id for each in table.files()}) == 1
        assert table.check().ok
        table.compact()
