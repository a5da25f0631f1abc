"""Locks that Hudi's writers share: what stands in their files, what is refused, and what a dead holder leaves."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filelock import FileLock, Timeout

import pudi
from pudi.context import Context, ManualClock, Storage
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotSupportedError, UnavailableError
from pudi.locks.file_locks import FileSystemLock, LocalFileLock
from pudi.locks.locks import open_lock
from pudi.locks.storage_lock import STORAGE_LOCK, StorageBasedLock
from pudi.locks.table_lock import InProcessLock, SingleWriterLock
from pudi.storage import open_storage
from pudi.testing import FaultStorage
from pudi.timeline import TimelineStore

_numbers = itertools.count()
HUDI = "org.apache.hudi.client.transaction.lock."
KEY = "hoodie.write.lock."


@pytest.fixture
def memory() -> Storage:
    return open_storage(f"memory://lock-protocols-{next(_numbers)}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


def test_the_default_goes_by_the_storage(tmp_path: Path, memory: Storage) -> None:
    context = Context()
    assert isinstance(open_lock(open_storage(tmp_path), None, {}, context), LocalFileLock)
    assert isinstance(open_lock(memory, None, {}, context), InProcessLock)
    s3 = open_storage("s3://bucket/t", {"region": "x"})
    assert isinstance(open_lock(s3, None, {}, context), StorageBasedLock)
    assert isinstance(open_lock(FaultStorage(s3), "", {}, context), StorageBasedLock)


def test_every_provider_takes_the_file_lock_on_a_local_disk(tmp_path: Path) -> None:
    storage, impatient = open_storage(tmp_path), {f"{KEY}wait_time_ms": "50"}
    for held in (None, "InProcessLockProvider", f"{HUDI}FileSystemBasedLockProvider"):
        with open_lock(storage, held, {}, Context()):
            outside = FileLock(tmp_path / ".hoodie/.locks/pudi.lock")
            with pytest.raises(Timeout):
                outside.acquire(timeout=0)
        with FileLock(tmp_path / ".hoodie/.locks/pudi.lock"), pytest.raises(UnavailableError, match="another process"):
            open_lock(storage, held, impatient, Context()).__enter__()
        with open_lock(storage, held, impatient, Context()):
            pass


def test_a_file_lock_is_freed_when_the_lock_file_beside_it_is_another_s(tmp_path: Path) -> None:
    storage, impatient = open_storage(tmp_path), {f"{KEY}wait_time_ms": "50"}
    storage.create(".hoodie/lock", b"another's")
    with pytest.raises(UnavailableError, match="another's"):
        open_lock(storage, "FileSystemBasedLockProvider", impatient, Context()).__enter__()
    with open_lock(storage, None, impatient, Context()):
        pass


def test_an_object_store_needs_a_lock_that_processes_share() -> None:
    s3, name = open_storage("s3://bucket/t", {"region": "x"}), f"{HUDI}InProcessLockProvider"
    for mode in ({}, {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}):
        with pytest.raises(NotSupportedError, match=r"lose each other's updates.*mode=single_writer"):
            open_lock(s3, name, mode, Context())
    for mode in ("single_writer", "SINGLE_WRITER"):
        assert isinstance(open_lock(s3, name, {"hoodie.write.concurrency.mode": mode}, Context()), SingleWriterLock)


@pytest.mark.parametrize("package", ["", HUDI])
def test_hudis_names(memory: Storage, package: str) -> None:
    kinds = {
        "InProcessLockProvider": InProcessLock,
        "FileSystemBasedLockProvider": FileSystemLock,
        "StorageBasedLockProvider": StorageBasedLock,
    }
    for name, kind in kinds.items():
        assert isinstance(open_lock(memory, package + name, {}, Context()), kind)


@pytest.mark.parametrize(
    "name",
    [
        f"{HUDI}ZookeeperBasedOtherLockProvider",
        "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedOtherLockProvider",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedOtherLockProvider",
        f"{HUDI}NoopLockProvider",
        "os.system",
    ],
)
def test_other_providers_are_refused_by_name(memory: Storage, name: str) -> None:
    with pytest.raises(NotSupportedError, match=name):
        open_lock(memory, name, {}, Context())


def test_a_lock_that_cant_work_here_is_refused(tmp_path: Path, memory: Storage) -> None:
    with pytest.raises(NotSupportedError, match="conditional"):
        open_lock(open_storage(tmp_path), "StorageBasedLockProvider", {}, Context())
    with pytest.raises(NotSupportedError, match="local"):
        open_lock(memory, "LocalFileLock", {}, Context())


@pytest.mark.parametrize(
    "options",
    [
        {f"{KEY}wait_time_ms": "soon"},
        {f"{KEY}wait_time_ms": "-1"},
        {f"{KEY}filesystem.expire": "1.5"},
        {f"{KEY}storage.validity.timeout.secs": "9"},
        {f"{KEY}storage.validity.timeout.secs": "299"},
        {f"{KEY}storage.renew.interval.secs": "31"},
        {f"{KEY}storage.heartbeat.poll.secs": "31"},
        {f"{KEY}storage.renew.interval.secs": "0"},
    ],
)
def test_wrong_options_are_refused_by_name(memory: Storage, options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match=KEY):
        open_lock(memory, None, options, Context())


class TestLocalFileLock:
    HOLDER = """
import sys
from pudi.locks.locks import open_lock
from pudi.context import Context
from pudi.storage import open_storage
with open_lock(open_storage(sys.argv[1]), None, {}, Context()):
    print("held", flush=True)
    sys.stdin.read()
"""

    def test_it_is_free_when_its_holder_is_killed(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", self.HOLDER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            storage = open_storage(tmp_path)
            with pytest.raises(UnavailableError, match="another process"):
                open_lock(storage, None, {f"{KEY}wait_time_ms": "50"}, Context()).__enter__()
            holder.kill()
            holder.wait()
            with open_lock(storage, None, {f"{KEY}wait_time_ms": "50"}, Context()) as lock:
                assert isinstance(lock, LocalFileLock)

    def test_two_names_of_a_table_are_one_lock(self, tmp_path: Path) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "alias").symlink_to("t")
        here = open_lock(open_storage(tmp_path / "t"), None, {}, Context())
        there = open_lock(open_storage(f"file://{tmp_path}/alias"), None, {}, Context())
        with here, there:  # reentrant: one thread, one table
            pass
        assert [found.name for found in (tmp_path / "t").iterdir()] == [".hoodie"]


class TestFileSystemLock:
    def _open(self, storage: Storage, clock: ManualClock, **options: str) -> FileSystemLock:
        spelled = {f"{KEY}{key}": value for key, value in options.items()}
        lock = open_lock(storage, "FileSystemBasedLockProvider", spelled, Context(clock))
        assert isinstance(lock, FileSystemLock)
        return lock

    def test_existence_is_the_lock(self, memory: Storage, clock: ManualClock) -> None:
        with self._open(memory, clock):
            assert set(json.loads(memory.read(".hoodie/lock"))) == {
                "lockCreateTime",
                "lockThreadName",
                "lockStacksInfo",
            }
        assert list(memory.list()) == []

    def test_hudis_empty_lock_is_respected(self, memory: Storage, clock: ManualClock) -> None:
        memory.create(".hoodie/lock", b"")
        with pytest.raises(UnavailableError, match="lock"):
            self._open(memory, clock).__enter__()
        assert memory.read(".hoodie/lock") == b""

    def test_it_waits_as_long_as_told(self, memory: Storage, clock: ManualClock) -> None:
        memory.create(".hoodie/lock", b"")
        before = clock.monotonic()
        with pytest.raises(UnavailableError, match="5 s"):
            self._open(memory, clock, wait_time_ms="5000").__enter__()
        assert clock.monotonic() - before == pytest.approx(5, abs=0.01)

    def test_an_expired_lock_is_taken(self, memory: Storage) -> None:
        memory.create(".hoodie/lock", b"")
        made = memory.head(".hoodie/lock").modified_ms
        for age, free in ((2 * 60_000, False), (2 * 60_000 + 5, True)):
            lock = self._open(memory, ManualClock(made + age), **{"filesystem.expire": "2", "wait_time_ms": "0"})
            if free:
                with lock:
                    pass
            else:
                with pytest.raises(UnavailableError):
                    lock.__enter__()
        assert list(memory.list()) == []

    def test_a_lost_lock_is_noticed_and_not_freed(self, memory: Storage, clock: ManualClock) -> None:
        lock = self._open(memory, clock)
        with lock:
            lock.verify()
            memory.put(".hoodie/lock", b"another's, who found ours expired")
            with pytest.raises(ConflictError):
                lock.verify()
        assert memory.read(".hoodie/lock") == b"another's, who found ours expired"

    @pytest.mark.parametrize("folder", ["{root}/.hoodie/.aux", ".hoodie/.aux/"])
    def test_another_folder(self, memory: Storage, clock: ManualClock, folder: str) -> None:
        with self._open(memory, clock, **{"filesystem.path": folder.format(root=memory.root)}):
            assert [info.path for info in memory.list()] == [".hoodie/.aux/lock"]

    @pytest.mark.parametrize(
        "folder", ["file:{root}/locks", "file://{root}/locks/", "FILE:{root}/locks", "{alias}/locks"]
    )
    def test_another_folder_by_any_name(self, tmp_path: Path, clock: ManualClock, folder: str) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "alias").symlink_to("t")
        named = folder.format(root=tmp_path / "t", alias=tmp_path / "alias")
        with self._open(open_storage(tmp_path / "t"), clock, **{"filesystem.path": named}):
            assert (tmp_path / "t" / "locks" / "lock").is_file()

    @pytest.mark.parametrize(
        "folder", ["/elsewhere", "file:/elsewhere", "hdfs://n/t", "s3://bucket/locks", "memory://x"]
    )
    def test_a_folder_elsewhere_is_refused(self, memory: Storage, clock: ManualClock, folder: str) -> None:
        with pytest.raises(NotSupportedError, match=folder):
            self._open(memory, clock, **{"filesystem.path": folder})

    def test_a_lock_made_without_an_answer_is_held(self, memory: Storage, clock: ManualClock) -> None:
        lossy = FaultStorage(memory, fail_at=1, mode="lost_answer")
        with self._open(lossy, clock):
            assert [info.path for info in memory.list()] == [".hoodie/lock"]
        assert list(memory.list()) == []


class TestStorageBasedLock:
    def _open(self, storage: Storage, clock: ManualClock, **options: str) -> StorageBasedLock:
        spelled = {f"{KEY}{key}": value for key, value in options.items()}
        lock = open_lock(storage, "StorageBasedLockProvider", spelled, Context(clock, seed=7))
        assert isinstance(lock, StorageBasedLock)
        return lock

    def _content(self, storage: Storage) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(storage.read(STORAGE_LOCK))
        return found

    def test_the_file_is_hudis(self, memory: Storage, clock: ManualClock) -> None:
        with self._open(memory, clock):
            held = memory.read(STORAGE_LOCK)
            owner = json.loads(held)["owner"]
            assert held == b'{"expired":false,"validUntil":1800000300000,"owner":"%s"}' % owner.encode()
        assert memory.read(STORAGE_LOCK) == held.replace(b"false", b"true")
        assert [info.path for info in memory.list()] == [".hoodie/.locks/table_lock.json"]

    def test_hudis_lock_is_respected_until_it_runs_out(self, memory: Storage, clock: ManualClock) -> None:
        until = clock.now_ms() + 10_000
        text = f'{{"expired":false,"validUntil":{until},"owner":"hudi","later":[1]}}'
        memory.create(STORAGE_LOCK, text.encode())
        with pytest.raises(UnavailableError, match="hudi"):
            self._open(memory, clock, wait_time_ms="0").__enter__()
        clock.advance(10.5)  # validity, and the half second by which clocks may differ
        with pytest.raises(UnavailableError):
            self._open(memory, clock, wait_time_ms="0").__enter__()
        clock.advance(0.001)
        with self._open(memory, clock, wait_time_ms="0"):
            assert self._content(memory)["owner"] != "hudi"

    def test_it_waits_until_it_is_free(self, memory: Storage, clock: ManualClock) -> None:
        until = clock.now_ms() + 10_000
        memory.create(STORAGE_LOCK, f'{{"expired":false,"validUntil":{until},"owner":"hudi"}}'.encode())
        with self._open(memory, clock):
            assert 10.5 <= clock.now_ms() / 1000 - (until / 1000 - 10) <= 11

    def test_a_lock_given_back_is_free(self, memory: Storage, clock: ManualClock) -> None:
        until = clock.now_ms() + 10_000
        memory.create(STORAGE_LOCK, f'{{"expired":true,"validUntil":{until},"owner":"hudi"}}'.encode())
        with self._open(memory, clock, wait_time_ms="0"):
            assert not self._content(memory)["expired"]

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"[]", b"{}", b'{"expired":0,"validUntil":1,"owner":"x"}',
         b'{"expired":true,"validUntil":"1","owner":"x"}',
         b'{"expired":true,"validUntil":1,"owner":null}', b'{"expired":true,"validUntil":1}', b"[" * 100_000],
    )  # fmt: skip
    def test_a_strange_lock_file_is_corrupt(self, memory: Storage, clock: ManualClock, content: bytes) -> None:
        memory.create(STORAGE_LOCK, content)
        with pytest.raises(CorruptError, match="lock") as raised:
            self._open(memory, clock).__enter__()
        assert raised.value.path == STORAGE_LOCK

    def test_renewing_prolongs_it(self, memory: Storage, clock: ManualClock) -> None:
        with self._open(memory, clock) as lock:
            assert isinstance(lock, StorageBasedLock)
            clock.advance(200)
            assert lock.renew()
            clock.advance(200)
            lock.verify()
            assert self._content(memory)["validUntil"] == clock.now_ms() + 100_000
        assert not lock.renew()

    def test_a_lock_that_ran_out_is_noticed(self, memory: Storage, clock: ManualClock) -> None:
        with self._open(memory, clock) as lock:
            clock.advance(299)
            lock.verify()
            clock.advance(1)
            with pytest.raises(ConflictError):
                lock.verify()

    def test_a_lock_that_another_took_is_left_to_it(self, memory: Storage, clock: ManualClock) -> None:
        theirs = b'{"expired":false,"validUntil":1900000000000,"owner":"hudi"}'
        with self._open(memory, clock) as lock:
            assert isinstance(lock, StorageBasedLock)
            memory.put(STORAGE_LOCK, theirs)
            assert not lock.renew()
            with pytest.raises(ConflictError):
                lock.verify()
        assert memory.read(STORAGE_LOCK) == theirs

    def test_renewal_goes_on_after_a_lost_answer(self, memory: Storage, clock: ManualClock) -> None:
        storage = FaultStorage(memory, mode="lost_answer")
        with self._open(storage, clock) as lock:
            assert isinstance(lock, StorageBasedLock)
            storage.fail_at = storage.calls + 1
            assert lock.renew()
            clock.advance(100)
            assert lock.renew()
            assert self._content(memory)["validUntil"] == clock.now_ms() + 300_000
        assert self._content(memory)["expired"]

    def test_the_thread_renews(self, s3: Any) -> None:
        storage = open_storage(s3.new_root(), s3.options())
        options = {f"{KEY}storage.renew.interval.secs": "1"}
        context = Context()
        with open_lock(storage, None, options, context):
            first = self._content(storage)["validUntil"]
            deadline = context.clock.monotonic() + 120
            while self._content(storage)["validUntil"] == first:
                assert context.clock.monotonic() < deadline
        assert self._content(storage)["expired"]


@pytest.mark.parametrize(
    ("provider", "path", "theirs"),
    [
        ("FileSystemBasedLockProvider", ".hoodie/lock", b"another's"),
        ("StorageBasedLockProvider", STORAGE_LOCK, b'{"expired":false,"validUntil":1900000000000,"owner":"hudi"}'),
        ("StorageBasedLockProvider", STORAGE_LOCK, b'{"expired":true,"validUntil":1900000000000,"owner":"hudi"}'),
    ],
)
def test_a_writer_that_was_paused_for_too_long_publishes_nothing(
    provider: str, path: str, theirs: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it held the lock another one took it; its own clock says that the lock is still valid."""
    root = f"memory://paused-{next(_numbers)}"
    options = {f"{KEY}provider": provider, f"{KEY}wait_time_ms": "200"}
    rows = pa.table({"id": [1]})
    storage = pudi.create(root, rows.schema, record_key="id", options=options)._meta.storage
    load, pauses = TimelineStore.load, []

    def paused(self: TimelineStore) -> Any:
        found = load(self)
        if self.lock._slot.depth and found.instants and not pauses:  # type: ignore[attr-defined]  # about to commit
            pauses.append(storage.put(path, theirs))
        return found

    monkeypatch.setattr(TimelineStore, "load", paused)
    with pytest.raises(ConflictError, match="lock was lost"):
        pudi.Table(root, options=options).upsert(rows)
    monkeypatch.undo()
    assert pauses
    storage.delete([path])
    assert pudi.Table(root).scan().to_arrow().num_rows == 0
