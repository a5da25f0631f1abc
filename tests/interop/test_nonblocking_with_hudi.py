"""Non-blocking concurrency control with Apache Hudi as the other writer of the same buckets, and as reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import HudiTable, table_options

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.metadata_by_default]

SHARED = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("at", pa.int64()), ("tag", pa.string())])
FIRST = {"hoodie.precommit.validators": "meanwhile"}


def rows(*values: tuple[str, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], SCHEMA)


def tags_by_pudi(path: Path) -> dict[str, str]:
    found = pudi.Table(path).scan(columns=["id", "tag"]).to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"]), found
    return dict(zip(found["id"], found["tag"], strict=True))


def tags_by_hudi(hudi: HudiTable) -> dict[str, str]:
    found = hudi.frame(**{"hoodie.metadata.enable": "true"}).select("id", "tag").collect()
    assert len({row.id for row in found}) == len(found), found
    return {row.id: row.tag for row in found}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("ordering", ["at", None], ids=["event-time", "commit-time"])
def test_both_write_one_bucket_at_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordering: str | None
) -> None:
    """Hudi writes and completes while a write of pudi is at work; then they take turns, and each compacts."""
    path = tmp_path / "t"
    pudi.create(
        path, SCHEMA, record_key="id", partition_by="day", ordering=[ordering] if ordering else [], table_type="mor",
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}, name="t",
    )  # fmt: skip
    table = pudi.Table(path, options=SHARED)
    merge_on_read = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.metadata.enable": "true"}
    hudi = HudiTable(spark, path, table_options("t", "id", "day", ordering) | merge_on_read | SHARED)
    monkeypatch.setattr("pudi.hooks.validators._REGISTERED", {})
    theirs: list[Any] = []
    pudi.register_validator("meanwhile", lambda _before, _after: theirs and theirs.pop()())

    theirs.append(lambda: hudi.write("upsert", rows(("a", "1", 1, "Hudi"), ("b", "1", 2, "Hudi"))))
    done = table.upsert(rows(("b", "1", 1, "pudi"), ("c", "1", 1, "pudi")), options=FIRST)
    assert done is not None
    assert done.attempts == 1
    expected = {"a": "Hudi", "b": "Hudi", "c": "pudi"}
    assert {each.file_id for each in table.files()} == {"00000000-0000-0000-0000-000000000000-0"}
    assert tags_by_pudi(path) == tags_by_hudi(hudi) == expected

    hudi.write("upsert", rows(("c", "1", 3, "Hudi"), ("d", "1", 3, "Hudi")))
    table.delete(rows(("a", "1", 1, "")))
    expected = {"b": "Hudi", "c": "Hudi", "d": "Hudi"}
    assert tags_by_pudi(path) == tags_by_hudi(hudi) == expected

    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    theirs.append(lambda: hudi.write("upsert", rows(("c", "1", 5, "late"), ("e", "1", 1, "Hudi")), inline=inline))
    table.upsert(rows(("d", "1", 4, "pudi"), ("f", "1", 1, "pudi")), options=FIRST)
    expected = {"b": "Hudi", "c": "late", "d": "pudi", "e": "Hudi", "f": "pudi"}
    assert tags_by_pudi(path) == tags_by_hudi(hudi) == expected
    assert table.compact() is not None
    assert tags_by_pudi(path) == tags_by_hudi(hudi) == expected
    assert not table.check().differences
