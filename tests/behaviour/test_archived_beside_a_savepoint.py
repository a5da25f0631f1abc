"""Commits with a savepoint stay active while later ones are archived: no record is lost, and none is invented."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

VERSIONS = ("6", "8", "9")
FEW = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.parquet.small.file.limit": "0",
}
BEYOND = FEW | {"hoodie.archive.beyond.savepoint": "true"}


def _created(path: Path, kind: str, version: str, metadata: str, options: Mapping[str, str]) -> pudi.Table:
    own = {**options, "hoodie.write.table.version": version, "hoodie.metadata.enable": metadata}
    return pudi.create(path, {"id": "int"}, record_key="id", table_type=kind, options=own)


def _insert(table: pudi.Table, number: int) -> str:
    done = table.insert(pa.table({"id": pa.array([number], pa.int32())}))
    assert done is not None
    return done.instant


def _ids(table: pudi.Table) -> list[Any]:
    return sorted(table.refresh().scan(["id"]).to_arrow()["id"].to_pylist())


def _commits(table: pudi.Table) -> list[str]:
    return [each.requested for each in table.refresh().timeline.commits]


def _archived_beside(path: Path, kind: str, version: str, metadata: str = "false") -> tuple[pudi.Table, str]:
    """A table with eight records, a savepoint of the second commit, and archived commits after that."""
    table = _created(path, kind, version, metadata, BEYOND)
    saved = ""
    for number in range(8):
        instant = _insert(table, number)
        if number == 1:
            table.savepoint(instant)
            saved = instant
        if kind == "mor":
            table.compact()
    table.archive()
    assert _commits(table)[0] == saved
    assert len(_commits(table)) < 6
    return table, saved


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_without_the_savepoint_nothing_is_missing(kind: str, version: str, metadata: str, tmp_path: Path) -> None:
    table, saved = _archived_beside(tmp_path / "t", kind, version, metadata)
    table.delete_savepoint(saved)
    assert table.savepoints() == []
    assert _ids(table) == list(range(8))
    assert sorted(table.scan(["id"], as_of=saved).to_arrow()["id"].to_pylist()) == [0, 1]
    table.upsert(pa.table({"id": pa.array([3, 50], pa.int32())}))
    assert _ids(table) == [*range(8), 50]
    assert table.check().ok


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replacing_commit_keeps_its_savepoint_until_a_clean(version: str, tmp_path: Path) -> None:
    table = _created(tmp_path / "t", "cow", version, "false", BEYOND | {"hoodie.clean.automatic": "false"})
    _insert(table, 100)
    done = table.insert_overwrite_table(pa.table({"id": pa.array([0], pa.int32())}))
    assert done is not None
    table.savepoint(done.instant)
    for number in range(1, 8):
        _insert(table, number)
    table.archive()
    with pytest.raises(pudi.InvalidArgumentError, match="clean the table first"):
        table.delete_savepoint(done.instant)
    assert _ids(table) == list(range(8))
    table.clean()
    table.delete_savepoint(done.instant)
    assert _ids(table) == list(range(8))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_rollback_of_the_last_commit_without_savepoint_is_refused(kind: str, version: str, tmp_path: Path) -> None:
    table, saved = _archived_beside(tmp_path / "t", kind, version)
    last = [each for each in _commits(table) if each != saved]
    for instant in last[:0:-1]:
        table.rollback(instant)
    before = _ids(table)
    with pytest.raises(pudi.InvalidArgumentError, match="without a savepoint"):
        table.rollback(last[0])
    assert _ids(table) == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("saved", ["the oldest commits", "all commits"])
def test_files_of_a_failed_write_stay_hidden(saved: str, version: str, tmp_path: Path) -> None:
    table = _created(tmp_path / "t", "cow", version, "false", FEW)
    for number in range(6):
        _insert(table, number)
    table.archive()
    for instant in _commits(table):
        table.savepoint(instant)
    failed = _insert(table, 99)
    [file] = (tmp_path / "t").glob(f"*_{failed}.parquet")
    shutil.copy(file, tmp_path / "left")
    table.rollback(failed)
    shutil.copy(tmp_path / "left", file)
    newest = _insert(table, 6)
    if saved == "all commits":
        table.savepoint(newest)
    assert _ids(table) == list(range(7))
    table.repair()
    assert not file.exists()
    assert _ids(table) == list(range(7))
    assert table.check().ok


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_repair_keeps_files_of_archived_commits(kind: str, version: str, tmp_path: Path) -> None:
    """Hudi deletes a savepoint and leaves its commit; the next archiving of either finds the records again."""
    table, saved = _archived_beside(tmp_path / "t", kind, version)
    files = sorted((tmp_path / "t").glob("*.parquet"))
    for each in (tmp_path / "t" / ".hoodie").rglob(f"{saved}*.savepoint*"):
        each.unlink()
    table.refresh().repair()
    assert sorted((tmp_path / "t").glob("*.parquet")) == files
    for number in range(8, 11):
        _insert(table, number)
    table.archive()
    assert _ids(table) == list(range(11))
