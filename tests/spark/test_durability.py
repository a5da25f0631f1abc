"""What tasks on Spark write is brought to the disk by the driver, before the commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import LocalStorage

pytestmark = [pytest.mark.spark, pytest.mark.metadata_by_default]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_file_of_a_commit_is_flushed(tmp_path: Path, spark: Any, kind: str) -> None:
    rows = spark.range(90).selectExpr("id", "concat('p', id % 3) as place", "id as ts")
    pudi.create(
        tmp_path / "t", rows.schema, record_key="id", partition_by="place", ordering="ts", table_type=kind
    ).bulk_insert(rows)
    flushed: set[int] = set()

    def flush(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)

    storage = LocalStorage(str(tmp_path / "t"), flush=flush)
    table = pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {})
    before = {path.stat().st_ino for path in (tmp_path / "t").rglob("*")}
    table.upsert(rows.where("id < 50").selectExpr("id", "place", "ts + 1 as ts"))
    added = {str(p.relative_to(tmp_path)): p.stat().st_ino for p in (tmp_path / "t").rglob("*") if p.is_file()}
    new = {path: inode for path, inode in added.items() if inode not in before and "inflight" not in path}
    assert {path.split("/")[1] for path in new if path.startswith("t/p")} == {"p0", "p1", "p2"}
    assert any("/metadata/files/" in path for path in new)
    empty = {path for path in new if (tmp_path / path).stat().st_size == 0}
    assert all(path.endswith(".requested") for path in empty)
    assert [path for path, inode in new.items() if inode not in flushed and path not in empty] == []
    assert (tmp_path / "t" / "p0").stat().st_ino in flushed
