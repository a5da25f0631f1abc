"""An attempt at a lock that fails or is interrupted leaves nothing taken, and nothing that renews it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from pudi.catalogs.thrift_client import Metastores
from pudi.config import LockSettings, Options
from pudi.context import Context, Executor, Storage
from pudi.errors import ConflictError, NotFoundError, PudiError, UnavailableError
from pudi.locks.dynamodb_lock import DynamoDBLock
from pudi.locks.hive_lock import ACQUIRED, HiveLock, HivePlace
from pudi.locks.lock_provider import LockProvider
from pudi.locks.locks import open_lock
from pudi.storage import StorageWrapper, open_storage
from pudi.testing import InlineExecutor, TimerClock

T = TypeVar("T")
_numbers = itertools.count()
FILE, STORAGE = "FileSystemBasedLockProvider", "StorageBasedLockProvider"


class Interrupted(StorageWrapper):
    """A storage that is interrupted at one call, before or after it did it."""

    def __init__(self, inner: Storage, at: int, after: bool) -> None:
        super().__init__(inner)
        self.at, self.after, self.calls = at, after, 0

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls != self.at:
            return do()
        if self.after:
            with suppress(PudiError):
                do()
        raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("provider", "calls"), [(FILE, 1), (STORAGE, 4)])
def test_an_interrupted_attempt_leaves_nothing_that_lasts(provider: str, calls: int, after: bool) -> None:
    for at in range(1, calls + 1):
        clock = TimerClock()
        context = Context(clock, executor=InlineExecutor(clock))
        inner = open_storage(f"memory://interrupted-{next(_numbers)}")
        interrupted = Interrupted(inner, at, after)
        lock = open_lock(interrupted, provider, {}, context)
        with pytest.raises(KeyboardInterrupt):
            lock.__enter__()
        if provider == STORAGE:
            clock.advance(LockSettings.validity_s.default + 1)  # in which the lock runs out unless it's renewed
        with open_lock(inner, provider, {LockSettings.wait_ms.key: "0"}, context):
            pass
    whole = Interrupted(open_storage(f"memory://interrupted-{next(_numbers)}"), 0, after)
    with open_lock(whole, provider, {}, Context()):
        assert whole.calls == calls, "no call of an attempt was left out"


class NoTimers(InlineExecutor):
    """Starts no timer."""

    def every(self, seconds: float, function: Callable[[], object], name: str) -> Any:
        raise UnavailableError("no more threads")


def _hive(executor: Executor, changes: list[str], monkeypatch: pytest.MonkeyPatch) -> LockProvider:
    class Client:
        def lock(self, *_: str) -> tuple[int, int]:
            changes.append("taken")
            return 7, ACQUIRED

        def unlock(self, lock: int) -> bool:
            changes.append("given back")
            return lock == 7

        def close(self) -> None:
            pass

    place = HivePlace(Metastores((("host", 9083),)), "lake", "trips")
    lock = HiveLock("memory://t", place, LockSettings.of(Options()), Context(executor=executor))
    monkeypatch.setattr(lock, "_client", Client())
    return lock


def _dynamodb(executor: Executor, changes: list[str], monkeypatch: pytest.MonkeyPatch) -> LockProvider:
    def conditional(call: str, *_: object) -> bool:
        changes.append({"put_item": "taken", "update_item": "given back"}[call])
        return True

    settings = LockSettings.of(Options({LockSettings.dynamodb_table.key: "locks"}))
    lock = DynamoDBLock("memory://t", "key", settings, Context(executor=executor))
    monkeypatch.setattr(lock, "_read", lambda: None)
    monkeypatch.setattr(lock, "_conditional", conditional)
    return lock


@pytest.mark.parametrize("make", [_hive, _dynamodb])
def test_a_lock_that_cant_be_kept_alive_is_given_back(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[str] = []
    lock = make(NoTimers(TimerClock()), changes, monkeypatch)
    with pytest.raises(UnavailableError, match="no more threads"):
        lock.try_lock(0)
    assert changes == ["taken", "given back"]


def test_a_storage_based_lock_that_cant_be_kept_alive_is_given_back() -> None:
    storage = open_storage(f"memory://interrupted-{next(_numbers)}")
    with pytest.raises(UnavailableError, match="no more threads"):
        open_lock(storage, STORAGE, {}, Context(executor=NoTimers(TimerClock()))).__enter__()
    with open_lock(storage, STORAGE, {LockSettings.wait_ms.key: "0"}, Context()):
        pass


def test_writers_of_one_seed_dont_take_each_others_item_for_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find no item, and one is a moment earlier."""
    items: dict[str, Any] = {}

    def conditional(call: str, request: dict[str, Any], *_: object) -> bool:
        if items:
            return False
        items.update(request["Item"])
        return True

    settings = LockSettings.of(Options({LockSettings.dynamodb_table.key: "locks"}))
    locks = [DynamoDBLock("memory://t", "key", settings, Context(seed=7)) for _ in range(2)]
    for lock in locks:
        monkeypatch.setattr(lock, "_conditional", conditional)
        monkeypatch.setattr(lock, "_call", lambda *_: {"Item": items} if items else {})
    assert [lock._take(None) for lock in locks] == [True, False]


@pytest.mark.parametrize(
    ("verified", "raised"), [(ConflictError("lost"), ConflictError), (UnavailableError("no answer"), NotFoundError)]
)
def test_an_error_under_a_lock_stays_unless_the_lock_was_lost(
    verified: Exception, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = open_lock(open_storage(f"memory://interrupted-{next(_numbers)}"), STORAGE, {}, Context())

    def verify() -> None:
        raise verified

    monkeypatch.setattr(lock, "verify", verify)
    with pytest.raises(raised), lock:
        raise NotFoundError("gone")


@pytest.mark.parametrize("provider", [None, FILE, STORAGE])
def test_a_lock_is_waited_for_as_long_as_an_option_takes(provider: str | None) -> None:
    storage = open_storage(f"memory://interrupted-{next(_numbers)}")
    longest = {LockSettings.wait_ms.key: str((1 << 63) - 1)}
    with open_lock(storage, provider, longest, Context()) as lock:
        lock.verify()
