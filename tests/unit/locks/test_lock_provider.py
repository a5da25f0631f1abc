"""Locks of the user's: what may be registered, and what their errors become."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from filelock import FileLock, Timeout

import pudi
from pudi.context import Context
from pudi.locks.lock_provider import LockProvider, ProvidedLock
from pudi.locks.locks import open_lock
from pudi.storage import open_storage

PROVIDER = "hoodie.write.lock.provider"


class Nothing(LockProvider):
    """Always free."""

    failing: str | None = None
    lost = False

    def _fail(self, step: str) -> None:
        if self.failing == step:
            raise OSError(f"no {step}")

    def try_lock(self, seconds: float) -> bool:
        self._fail("try_lock")
        return True

    def unlock(self) -> None:
        self._fail("unlock")

    def holds(self) -> bool:
        self._fail("holds")
        return not self.lost


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.locks.lock_provider._REGISTERED", {})


@pytest.fixture
def rows() -> pa.Table:
    return pa.table({"id": [1]})


@pytest.mark.parametrize("name", ["", "a,b", "org.apache.hudi.client.transaction.lock.InProcessLockProvider"])
def test_names_that_cant_be_registered(name: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="can't name a lock provider"):
        pudi.register_lock_provider(name, Nothing)


@pytest.mark.parametrize("provider", [object, lambda *_: Nothing, "os.system"])
def test_what_is_no_provider_cant_be_registered(provider: object) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="lock provider 'mine'"):
        pudi.register_lock_provider("mine", provider)  # type: ignore[arg-type]


def test_a_name_that_wasnt_registered_imports_nothing() -> None:
    with pytest.raises(pudi.NotSupportedError, match="register_lock_provider"):
        open_lock(open_storage("memory://own-lock"), f"{__name__}.Nothing", {}, Context())


def test_the_name_is_looked_up(rows: pa.Table) -> None:
    pudi.register_lock_provider("mine", Nothing)
    lock = open_lock(open_storage("memory://own-lock"), "mine", {}, Context())
    assert isinstance(lock, ProvidedLock)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ("try_lock", pudi.UnavailableError, "lock provider mine failed: .*no try_lock"),
        ("holds", pudi.UnavailableError, "lock provider mine failed: .*no holds"),
        ("lost", pudi.ConflictError, "lock was lost"),
    ],
)
def test_what_fails_publishes_nothing(
    rows: pa.Table, step: str, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pudi.create(f"memory://own-lock-{step}", rows.schema, record_key="id")
    made.upsert(rows)
    pudi.register_lock_provider("mine", Nothing)
    table = pudi.Table(made.path, options={PROVIDER: "mine"})
    monkeypatch.setattr(Nothing, "failing", step)
    monkeypatch.setattr(Nothing, "lost", step == "lost")
    with pytest.raises(error, match=message):
        table.upsert(pa.table({"id": [2]}))
    monkeypatch.undo()
    assert pudi.Table(made.path).scan(meta_fields=False).to_arrow() == rows


def test_on_a_local_disk_writers_without_the_provider_are_kept_out(tmp_path: Path) -> None:
    pudi.register_lock_provider("mine", Nothing)
    storage, impatient = open_storage(tmp_path), {"hoodie.write.lock.wait_time_ms": "50"}
    file = FileLock(tmp_path / ".hoodie/.locks/pudi.lock")
    for each in (None, "mine"):
        with open_lock(storage, each, {}, Context()), pytest.raises(Timeout):
            file.acquire(timeout=0)
    with file, pytest.raises(pudi.UnavailableError, match="another process"):
        open_lock(storage, "mine", impatient, Context()).__enter__()
    with open_lock(storage, "mine", impatient, Context()):
        pass


def test_a_lock_that_cant_be_given_back_is_logged(rows: pa.Table, caplog: pytest.LogCaptureFixture) -> None:
    pudi.register_lock_provider("mine", Nothing)
    lock = open_lock(open_storage("memory://own-lock"), "mine", {}, Context())
    Nothing.failing = "unlock"
    try:
        with lock:
            pass
    finally:
        Nothing.failing = None
    assert "no unlock" in caplog.text
