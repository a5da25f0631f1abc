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


@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_metadata_table_needs_no_archived_instant(kind: str, version: str, tmp_path: Path) -> None:
    """Hudi passes over log blocks of the metadata table whose deltacommits aren't on its active timeline."""
    own = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    own |= {"hoodie.write.table.version": version, "hoodie.metadata.enable": "true"}
    path = tmp_path / "t"
    table = pudi.create(path, {"id": "int"}, record_key="id", table_type=kind, options=own)
    for number in range(4):
        done = table.insert(pa.table({"id": pa.array([number], pa.int32())}))
    assert done is not None
    table.savepoint(done.instant)
    for number in range(4, 9):
        table.insert(pa.table({"id": pa.array([number], pa.int32())}))
    table.archive()
    assert any((path / ".hoodie/metadata/.hoodie/timeline/history").glob("*.parquet")), "its deltacommits are archived"
    table.restore(done.instant)
    metadata = path / ".hoodie/metadata"
    active = {file.name.partition("_")[0] for file in (metadata / ".hoodie/timeline").glob("*.deltacommit")}
    logs = {file.name.split("_")[1].partition(".")[0] for file in metadata.glob("*/.*.log.*")}
    assert logs <= active
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
