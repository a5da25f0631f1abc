"""Processes that add to one number at the same time: what they were told is done adds up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.testing.race import START_TIMEOUT, Barrier, race
from support.s3 import S3Server

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
    """Add 1 by a statement."""
    return table.update({"v": "v + 1"}) is not None


ADDERS = {"update": add_by_update}


def add_up(
    barrier: Barrier,
    number: int,
    path: str,
    storage_options: dict[str, str] | None,
    options: list[dict[str, str]],
    adder: str,
    seconds: float,
) -> int:
    """Add 1 again and again; how often that was said to be done."""
    table = pudi.Table(path, options=options[number % len(options)], storage_options=storage_options)
    barrier.wait(START_TIMEOUT)
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            done += ADDERS[adder](table)
        except (pudi.ConflictError, pudi.UnavailableError) as error:
            assert error.retryable, error
    return done


def count(
    path: str, storage_options: dict[str, str] | None, case: str, kind: str, adder: str, seconds: float, racers: int = 8
) -> int:
    """Let processes add to the number of a new table; how often they did."""
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    options = OPTIONS[case][0]
    table = pudi.create(
        path, schema, record_key="id", table_type=kind, options=options, storage_options=storage_options
    )
    table.insert(pa.table({"id": ["a", "b"], "v": [0, 100]}, schema=schema))
    told = sum(race(add_up, (path, storage_options, OPTIONS[case], adder, seconds), racers=racers))
    opened = pudi.Table(path, options=options, storage_options=storage_options)
    found = dict(zip(*opened.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    assert found == {"a": told, "b": 100 + told}
    assert opened.check().ok
    return told


def cases(names: list[str], every_run: set[tuple[str, str, str]]) -> list[Any]:
    """The product of cases, table types and ways to add; those that aren't for every run are slow."""
    product = [(case, kind, adder) for case in names for kind in ("cow", "mor") for adder in ADDERS]
    return [pytest.param(*each, marks=() if each in every_run else pytest.mark.slow) for each in product]


@pytest.mark.parametrize(
    ("case", "kind", "adder"), cases(LOCAL, {("all", "cow", "update"), ("in process", "mor", "update")})
)
def test_no_update_is_lost_on_a_local_disk(tmp_path: Path, case: str, kind: str, adder: str) -> None:
    assert count(str(tmp_path / "t"), None, case, kind, adder, 3) > 0


@pytest.mark.parametrize(("case", "kind", "adder"), cases(ON_S3, {("none", "cow", "update")}))
def test_no_update_is_lost_in_an_object_store(s3_server: S3Server, case: str, kind: str, adder: str) -> None:
    told = count(s3_server.new_root(), s3_server.options(), case, kind, adder, 3)
    assert told > 0 or case == "single writer", "who breaks that promise may stand in each other's way for ever"


@pytest.mark.slow
@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize(("on_s3", "case"), [*((False, case) for case in LOCAL), *((True, case) for case in ON_S3)])
def test_no_update_is_lost_in_a_minute(tmp_path: Path, s3_server: S3Server, on_s3: bool, case: str, adder: str) -> None:
    there: tuple[str, Any] = (s3_server.new_root(), s3_server.options()) if on_s3 else (str(tmp_path / "t"), None)
    told = count(*there, case, "mor" if on_s3 else "cow", adder, 60)
    assert told > 0 or case == "single writer"
