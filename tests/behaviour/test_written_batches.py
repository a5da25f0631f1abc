"""Batches of streaming queries are written once: what commits state of them, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.errors import ConflictError, CorruptError, TableNotFoundError
from pudi.spark.streaming.sink import CHECKPOINT_KEY, BatchWriter, make_writer

IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
INSERT = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.operation": "insert"}
ARCHIVES = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}


def _writer(path: Path, **options: str) -> BatchWriter:
    return make_writer(path, {**INSERT, **options}, None)


def _write(writer: BatchWriter, batch: int, query: str | None = "first") -> bool:
    """Write one row that names the batch; whether it was written."""
    rows = pa.table({"id": pa.array([batch], pa.int64())})
    return writer.write_rows(lambda: rows, batch, query) is not None


def _ids(path: Path) -> list[int]:
    return sorted(pudi.Table(path).scan(["id"]).to_arrow()["id"].to_pylist())


def test_a_batch_is_written_once_by_any_process(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert [_write(_writer(path), batch) for batch in (0, 0, 1, 1)] == [True, False, True, False]
    writer = _writer(path)
    assert [_write(writer, batch) for batch in (1, 2, 2, 3)] == [False, True, False, True]
    assert _ids(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("first", [0, 1])
def test_a_batch_that_two_runs_of_a_query_write_at_a_time(tmp_path: Path, first: int) -> None:
    """A server that stops a run starts the next one while the process that writes its batch still lives."""
    path = tmp_path / "t"
    for batch in range(first):
        _write(_writer(path), batch)

    def beside() -> pa.Table:
        assert _write(_writer(path), first)
        return pa.table({"id": pa.array([first], pa.int64())})

    later = _writer(path)
    assert later.write_rows(beside, first, "first") is None
    assert _write(later, first + 1)
    assert _ids(path) == list(range(first + 2))
    assert [each.state for each in pudi.Table(path).history()] == ["completed"] * (first + 2)


def test_another_query_is_refused_whatever_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for batch in range(3):
        assert _write(_writer(path), batch)
    for batch in (0, 2, 3, 9):
        with pytest.raises(ConflictError, match="new checkpoint"):
            _write(_writer(path), batch, "second")
    assert _write(_writer(path, **{IDENTIFIER: "two"}), 0, "second")
    assert _write(_writer(path), 3)
    assert _ids(path) == [0, 0, 1, 2, 3]


def test_a_writer_that_states_no_query_is_followed_by_its_last_batch_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for batch in range(3):  # as Hudi's sink writes them
        assert _write(_writer(path), batch, None)
    assert not _write(_writer(path), 2)
    with pytest.raises(ConflictError, match="another query"):
        _write(_writer(path), 1)
    assert _write(_writer(path), 3)
    with pytest.raises(ConflictError, match="query first"):
        _write(_writer(path), 4, "second")


def test_other_writers_commits_come_between(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = _writer(path)
    for batch in range(3):
        assert _write(writer, batch)
        pudi.Table(path).insert(pa.table({"id": pa.array([100 + batch], pa.int64())}))
        assert not _write(writer, batch)


def test_a_batch_whose_commit_was_archived_or_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = _writer(path)
    for batch in range(2):
        assert _write(writer, batch)
    table = pudi.Table(path, options=ARCHIVES)
    table.rollback(table.timeline.commits[-1].requested)
    assert not _write(writer, 0)
    assert _write(writer, 1)
    for number in range(8):
        table.upsert(pa.table({"id": pa.array([100 + number % 2], pa.int64())}))
    table.clean()
    table.archive()
    stated = [entry for entry in table.history() if CHECKPOINT_KEY in entry.extra_metadata]
    assert stated == []
    assert not _write(writer, 1)
    assert not _write(_writer(path), 1)
    with pytest.raises(ConflictError):
        _write(_writer(path), 1, "second")


@pytest.mark.parametrize("same_process", [True, False])
def test_a_query_whose_table_was_deleted_makes_no_table_without_its_former_rows(
    tmp_path: Path, same_process: bool
) -> None:
    path = tmp_path / "t"
    writer = _writer(path)
    for batch in range(2):
        assert _write(writer, batch)
    shutil.rmtree(path)
    writer = writer if same_process else _writer(path)
    for batch in (1, 2):
        with pytest.raises(TableNotFoundError, match=f"batch {batch} of query first.*new checkpoint") as caught:
            _write(writer, batch)
        assert caught.value.table == str(path)
        assert not path.exists()
    assert _write(_writer(path), 0, "second")  # a new checkpoint
    assert _ids(path) == [0]


def test_a_batch_0_that_crashed_makes_the_table_when_it_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = _writer(path)

    def crash() -> pa.Table:
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        writer.write_rows(crash, 0, "first")
    assert writer.write_rows(lambda: pa.table({"id": pa.array([], pa.int64())}), 0, "first") is None
    assert _write(_writer(path), 1)  # the empty batch made the table
    assert _write(_writer(path), 2)
    assert _ids(path) == [1, 2]


def test_a_first_batch_that_fails_says_that_it_left_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    bad = pa.table({"id": pa.array([None], pa.int64())})
    for said in (True, False):  # the second time it isn't this write's
        with pytest.raises(pudi.PudiError, match="record key") as caught:
            _writer(path).write_rows(lambda: bad, 0, "first")
        assert (f"{path} was created for this write and is empty" in str(caught.value)) == said
    assert pudi.Table(path).timeline.commits == ()
    assert _write(_writer(path), 0)
    assert _ids(path) == [0]


def test_a_table_that_its_owner_creates_begins_with_any_batch(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pudi.create(path, pa.schema([("id", pa.int64())]), record_key="id")
    assert _write(_writer(path), 5)
    assert _write(_writer(tmp_path / "by_hand"), 5, None)  # outside of a query numbers are the caller's
    assert _ids(path) == [5]


@pytest.mark.parametrize("text", ["[1]", "{", '{"default_single_writer": "x"}', '"text"'])
def test_a_commit_that_states_no_numbers(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    writer = _writer(path)
    assert _write(writer, 0)
    writer.job.append(pa.table({"id": pa.array([7], pa.int64())}), {CHECKPOINT_KEY: text})
    with pytest.raises(CorruptError, match="no JSON map"):
        _write(_writer(path), 1)
