"""The lock in a Hive Metastore: the contract on a real one, locks that it takes away, and Hudi's own beside it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs.thrift_client import Metastores
from pudi.context import Context
from pudi.locks.hive_lock import HiveClient
from pudi.locks.lock_provider import ProvidedLock
from pudi.locks.locks import open_lock
from pudi.locks.table_lock import TableLock
from pudi.storage import open_storage
from pudi.testing import LockTests
from support.hive import LOCK_SECONDS
from support.hudi_lock import hudi_bundle, hudi_lock

pytest.importorskip("thrift")

__all__ = ["hudi_bundle"]

_numbers = itertools.count()
NAME = "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"
KEY = "hoodie.write.lock."


@pytest.fixture
def uri(metastore: str) -> str:
    return metastore


@pytest.fixture
def options(uri: str) -> dict[str, str]:
    return {
        f"{KEY}provider": NAME,
        f"{KEY}hivemetastore.uris": uri,
        f"{KEY}hivemetastore.database": "lake",
        f"{KEY}hivemetastore.table": f"table{next(_numbers)}",
        f"{KEY}heartbeat_interval_ms": "1000",
    }


@pytest.fixture
def steal(options: dict[str, str], uri: str) -> Callable[[], None]:
    """Frees the lock of a table, as the metastore does with one that has expired; ids count up."""
    host, port = uri.removeprefix("thrift://").split(":")
    client = HiveClient(Metastores(((host, int(port)),)), "test", 60)

    def free() -> None:
        later, _ = client.lock("lake", options[f"{KEY}hivemetastore.table"], "test", "test")
        for lock in range(later, 0, -1):
            client.unlock(lock)

    return free


def lock_of(options: Mapping[str, str], **changed: str) -> TableLock:
    given = {**options, **{f"{KEY}{key}": value for key, value in changed.items()}}
    return open_lock(open_storage("memory://hive"), NAME, given, Context(), "t")


class TestContract(LockTests):
    name = "HiveMetastoreBasedLockProvider"

    @pytest.fixture
    def lock_options(self, options: dict[str, str]) -> Mapping[str, str]:
        return options

    @pytest.fixture
    def steal(self, steal: Callable[[], None]) -> Callable[[], None]:
        return steal


@pytest.mark.parametrize(("beat", "kept"), [("500", True), ("3600000", False)])
def test_the_metastore_keeps_it_as_long_as_there_are_heartbeats(options: dict[str, str], beat: str, kept: bool) -> None:
    wait_ms = 1000 * LOCK_SECONDS + 1500 if kept else 120_000
    given = {**options, f"{KEY}wait_time_ms": str(wait_ms)}
    other = open_lock(open_storage("memory://hive-2"), NAME, given, Context())
    lock = lock_of(options, heartbeat_interval_ms=beat)
    with lock:
        if kept:
            with pytest.raises(pudi.UnavailableError):
                other.__enter__()
            lock.verify()
        else:
            with other, pytest.raises(pudi.ConflictError, match="lost"):
                lock.verify()


def test_a_paused_writer_publishes_nothing(
    options: dict[str, str], steal: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [1]})
    pudi.create(tmp_path / "t", rows.schema, record_key="id", options=options)
    verify, calls = ProvidedLock.verify, itertools.count()

    def paused(self: ProvidedLock) -> None:
        if next(calls) == 1:  # about to commit
            steal()
        verify(self)

    monkeypatch.setattr(ProvidedLock, "verify", paused)
    with pytest.raises(pudi.ConflictError, match="lock was lost"):
        pudi.Table(tmp_path / "t", options=options).upsert(rows)
    assert pudi.Table(tmp_path / "t").scan().to_arrow().num_rows == 0


def test_a_metastore_that_isnt_there_is_passed_over(options: dict[str, str], uri: str) -> None:
    with lock_of(options, **{"hivemetastore.uris": f"thrift://127.0.0.1:1,{uri}"}):
        pass
    with pytest.raises(pudi.UnavailableError, match=r"127.0.0.1:1 doesn't answer 'lock'"):
        lock_of(options, **{"hivemetastore.uris": "thrift://127.0.0.1:1"}).__enter__()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hivemetastore.uris": ""}, "must be set"),
        ({"hivemetastore.table": ""}, "must be set"),
        ({"hivemetastore.uris": "http://h:1"}, "thrift://host:port"),
        ({"hivemetastore.uris": "thrift://h:x"}, "thrift://host:port"),
    ],
)
def test_what_cant_be_is_refused_when_the_table_is_opened(changed: dict[str, str], message: str) -> None:
    given = {f"{KEY}hivemetastore.{k}": v for k, v in (("uris", "thrift://h:1"), ("database", "d"), ("table", "t"))}
    with pytest.raises(pudi.InvalidArgumentError, match=message):
        lock_of(given, **changed)


@pytest.mark.interop
def test_hudis_provider_and_pudi_exclude_each_other(options: dict[str, str], hudi_bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "number"
    file.write_text("0")
    theirs = {**options, f"{KEY}num_retries": "3", f"{KEY}wait_time_ms_between_retry": "100"}
    with hudi_lock(hudi_bundle, NAME, theirs, tmp_path / "log") as hudi:
        assert hudi.lock(60)
        with pytest.raises(pudi.UnavailableError, match="lock was not free"):
            lock_of(options, wait_time_ms="300").__enter__()
        hudi.unlock()
        with lock_of(options):
            assert not hudi.lock(5)
        ended, done = hudi.start_counting(file, 2), 0
        end = time.monotonic() + 1
        while time.monotonic() < end or not done:
            with lock_of(options, wait_time_ms_between_retry="10"):
                file.write_text(str(int(file.read_text()) + 1))
            done += 1
            time.sleep(0.02)
        counted = ended()
    assert min(done, counted) > 0
    assert int(file.read_text()) == done + counted
