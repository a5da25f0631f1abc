"""A restore to a savepoint keeps the records of archived commits, though no commit without a savepoint is left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_nothing_is_missing(kind: str, version: str, metadata: str, tmp_path: Path) -> None:
    own = {"hoodie.metadata.enable": metadata, "hoodie.parquet.small.file.limit": "0"}
    own |= {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    table = pudi.create(
        tmp_path / "t",
        {"id": "int"},
        record_key="id",
        table_type=kind,
        options={**own, "hoodie.write.table.version": version},
    )
    for number in range(4):
        done = table.insert(pa.table({"id": pa.array([number], pa.int32())}))
    assert done is not None
    table.savepoint(done.instant)
    for number in range(4, 9):
        table.insert(pa.table({"id": pa.array([number], pa.int32())}))
    table.archive()
    assert next(each.requested for each in table.refresh().timeline.commits) == done.instant
    table.restore(done.instant)
    assert [each.requested for each in table.refresh().timeline.commits] == [done.instant]
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    table.upsert(pa.table({"id": pa.array([1, 50], pa.int32())}))
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 50]
    assert table.check().ok
