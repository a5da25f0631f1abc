"""Audit files of the storage-based lock: Hudi's procedures read and switch what pudi writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.storage import open_storage
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

STORAGE = {"hoodie.write.lock.provider": "StorageBasedLockProvider"}


def test_hudi_validates_what_pudi_writes(tmp_path: Path, spark: Any) -> None:
    root = "memory://lock-audit/hudi"
    pudi.create(root, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", options=STORAGE)
    pudi.sql(f"CALL set_audit_lock(path => '{root}', state => 'enabled')")
    for ts in range(1, 4):
        pudi.Table(root, options=STORAGE).upsert(table([trip(0, ts)]))
    storage, copy = open_storage(root), tmp_path / "trips"
    for info in storage.list():
        path = copy / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.read(info.path))
    audits = len(list((copy / ".hoodie/.locks/audit").iterdir()))
    assert audits >= 3

    def call(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text).collect()]

    def ours(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pudi.sql(text).to_pylist()]

    def parts(rows: list[tuple[Any, ...]]) -> list[Any]:
        ((*values, details),) = rows
        return [*values, sorted(re.split(r", |\. (?=\[)", details))]

    status = f"CALL show_audit_lock_status(path => '{copy}')"
    validate = f"CALL validate_audit_lock(path => '{copy}')"
    assert call(validate) == ours(validate)
    assert call(validate)[0][1:4] == ("PASSED", audits, 0)
    assert call(status) == ours(status)
    assert call(status)[0][1]
    one, *_ = (copy / ".hoodie/.locks/audit").iterdir()
    begun = one.name.partition("_")[0]
    later = one.read_text().replace(f'"timestamp":{begun}', f'"timestamp":{int(begun) + 1}')
    one.with_name(f"1_{one.name}").write_text(later)
    one.write_text(one.read_text().splitlines()[0] + "\n")  # it never gave the lock back
    assert call(validate)[0][1] == "FAILED"
    assert parts(call(validate)) == parts(ours(validate))
    (copy / ".hoodie/.locks/audit/broken.jsonl").write_text("{")
    assert parts(call(validate)) == parts(ours(validate))
    switch = f"CALL set_audit_lock(path => '{copy}', state => 'disabled')"
    assert call(switch) == ours(switch)
    assert not call(status)[0][1]
    assert call(status) == ours(status)
    clean_up = f"CALL cleanup_audit_lock(path => '{copy}', dry_run => true)"
    assert call(clean_up) == ours(clean_up)
