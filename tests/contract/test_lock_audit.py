"""Audit files of the storage-based lock: what is in them, and that no write depends on them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

import pudi
from pudi.context import Context, ManualClock, Storage
from pudi.errors import InvalidArgumentError, UnavailableError
from pudi.locks.locks import open_lock
from pudi.locks.storage_lock import StorageBasedLock
from pudi.storage import open_storage
from support.trips import SCHEMA, table, trip

SWITCH, FOLDER = ".hoodie/.locks/audit_enabled.json", ".hoodie/.locks/audit"
STORAGE = {"hoodie.write.lock.provider": "StorageBasedLockProvider"}
START_MS = 1_800_000_000_000
_numbers = itertools.count()


@pytest.fixture
def root() -> str:
    return f"memory://lock-audit/{next(_numbers)}"


def lock_of(storage: Storage, clock: ManualClock) -> StorageBasedLock:
    found = open_lock(storage, "StorageBasedLockProvider", {}, Context(clock=clock))
    assert isinstance(found, StorageBasedLock)
    return found


def lines_of(storage: Storage) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for info in storage.list(FOLDER):
        text = bytes(storage.read(info.path)).decode()
        found[info.path.rpartition("/")[2]] = [json.loads(line) for line in text.splitlines()]
    return found


def test_a_holder_writes_hudis_lines(root: str) -> None:
    storage, clock = open_storage(root), ManualClock(START_MS)
    storage.put(SWITCH, b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}')
    lock = lock_of(storage, clock)
    with lock:
        clock.advance(30)
        assert lock.renew()
        clock.advance(5)
    (name, lines), *others = lines_of(storage).items()
    assert not others
    owner = lines[0]["ownerId"]
    assert name == f"{START_MS}_{owner}.jsonl"
    assert lines == [
        {
            "ownerId": owner,
            "transactionStartTime": START_MS,
            "timestamp": START_MS + after,
            "state": state,
            "lockExpiration": START_MS + after + 300_000,
            "lockHeld": True,
        }
        for state, after in (("START", 0), ("RENEW", 30_000), ("END", 35_000))
    ]
    clock.advance(1)
    with lock:
        pass
    assert len(lines_of(storage)) == 2


@pytest.mark.parametrize("switch", [None, b"", b"[]", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":false}', b"\xff{"])
def test_without_a_switch_nothing_is_written(root: str, switch: bytes | None) -> None:
    storage = open_storage(root)
    if switch is not None:
        storage.put(SWITCH, switch)
    with lock_of(storage, ManualClock(START_MS)):
        pass
    assert lines_of(storage) == {}


def test_a_commit_does_not_depend_on_its_audit(root: str) -> None:
    made = pudi.create(root, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", options=STORAGE)
    pudi.sql(f"CALL set_audit_lock(path => '{root}', state => 'enabled')")
    put = type(made._meta.storage).put

    def refuses(self: Any, path: str, data: Any, **named: Any) -> None:
        if path.startswith(FOLDER):
            raise UnavailableError("no answer", path=path)
        put(self, path, data, **named)

    with patch.object(type(made._meta.storage), "put", refuses):
        assert pudi.Table(root, options=STORAGE).upsert(table([trip(0, 1)])) is not None
    assert lines_of(open_storage(root)) == {}


def call(text: str) -> tuple[Any, ...]:
    return tuple(pudi.sql(text).to_pylist()[0].values())


@contextmanager
def _aged(days: int) -> Iterator[None]:
    now = Context().clock.now_ms() + days * 24 * 3_600_000
    with patch("pudi.context.clock.SystemClock.now_ms", lambda _: now):
        yield


def test_procedures_switch_show_validate_and_clean_up(root: str) -> None:
    made = pudi.create(root, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", options=STORAGE)
    made.upsert(table([trip(0, 1)]))
    folder = f"{made.path}/{FOLDER}"
    status = f"CALL show_audit_lock_status(path => '{root}')"
    validate = f"CALL validate_audit_lock(path => '{root}')"
    assert call(status) == (root, False, f"{made.path}/{SWITCH}", folder)
    assert call(validate)[1:4] == ("PASSED", 0, 0)
    assert call(f"CALL set_audit_lock(path => '{root}', state => 'ENABLED')")[1] == "enabled"
    assert call(status)[1]
    pudi.Table(root, options=STORAGE).upsert(table([trip(0, 2)]))
    storage = open_storage(root)
    count = len(lines_of(storage))
    assert count >= 2
    assert call(validate)[1:4] == ("PASSED", count, 0)
    later = max(line["timestamp"] for lines in lines_of(storage).values() for line in lines) + 1000
    for owner, states in {"x": {"START": later}, "y": {"START": later + 5, "END": later + 6}}.items():
        told = {"ownerId": owner, "transactionStartTime": states["START"], "lockExpiration": later + 9}
        lines = [json.dumps(told | {"state": state, "timestamp": at}) for state, at in states.items()]
        storage.put(f"{FOLDER}/{states['START']}_{owner}.jsonl", "\n".join(lines).encode())
    _, result, read, issues, details = call(validate)
    assert (result, read, issues) == ("FAILED", count + 2, 2)
    assert "overlaps" in details
    assert "did not end gracefully" in details
    clean_up = f"CALL cleanup_audit_lock(path => '{root}', age_days => 3"
    assert call(f"{clean_up})")[1] == 0
    with _aged(4):
        assert call(f"{clean_up}, dry_run => true)")[1:4] == (count + 2, True, 3)
        assert call(f"{clean_up})")[1:4] == (count + 2, False, 3)
    assert lines_of(storage) == {}
    with pytest.raises(InvalidArgumentError, match="positive"):
        call(f"CALL cleanup_audit_lock(path => '{root}', age_days => 0)")
    with pytest.raises(InvalidArgumentError, match="enabled"):
        call(f"CALL set_audit_lock(path => '{root}', state => 'on')")
    call(f"CALL set_audit_lock(path => '{root}', state => 'disabled')")
    assert not call(status)[1]
