"""Non-blocking concurrency control: writers of the same buckets at once, without conflicts and without repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine

MODE = "hoodie.write.concurrency.mode"
NBCC = {MODE: "NON_BLOCKING_CONCURRENCY_CONTROL"}
OCC = {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("at", pa.int64()), ("tag", pa.string())])
FIRST = {"hoodie.precommit.validators": "meanwhile"}
SHARED = "00000000-0000-0000-0000-000000000000-0"

Meanwhile = Callable[[Callable[[], object]], None]


def rows(*values: tuple[str, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], SCHEMA)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meanwhile]:
    """Runs a function once, when the files of a write with the option `FIRST` are written and it hasn't committed."""
    monkeypatch.setattr("pudi.hooks.validators._REGISTERED", {})

    def register(other: Callable[[], object]) -> None:
        left = [other]
        pudi.register_validator("meanwhile", lambda _before, _after: left and left.pop()())

    yield register


def new_table(path: Path, options: dict[str, str] | None = None, **arguments: Any) -> pudi.Table:
    arguments = {"record_key": "id", "partition_by": "day", "ordering": ["at"], "table_type": "mor"} | arguments
    pudi.create(path / "t", SCHEMA, options=BUCKETS | (options or {}), **arguments)
    return pudi.Table(path / "t", options=BUCKETS | NBCC)


@pytest.fixture(params=["9", pytest.param("8", marks=pytest.mark.slow)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pudi.Table:
    """A table by event time with one bucket a partition."""
    return new_table(tmp_path, {"hoodie.write.table.version": request.param})


def tags(table: pudi.Table) -> dict[str, str]:
    found = pudi.Table(table.path).scan(columns=["id", "tag"]).to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"]), found
    return dict(zip(found["id"], found["tag"], strict=True))


def groups(table: pudi.Table) -> set[str]:
    return {each.file_id for each in table.files()}


def sound(table: pudi.Table) -> bool:
    return not pudi.Table(table.path).check().differences


def test_two_first_writes_begin_one_file_group(table: pudi.Table, meanwhile: Meanwhile) -> None:
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("a", "1", 1, "other"), ("b", "1", 2, "other"))))
    done = table.upsert(rows(("b", "1", 1, "own"), ("c", "1", 1, "own")), options=FIRST)
    assert done is not None
    assert done.attempts == 1
    assert tags(table) == {"a": "other", "b": "other", "c": "own"}, "the later event wins, whoever commits last"
    assert groups(table) == {SHARED}
    assert sound(table)


@pytest.mark.parametrize(
    "engine",
    [
        "local",
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("spread", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
    indirect=True,
)
def test_each_engine_shares_file_groups(engine: Engine, tmp_path: Path, meanwhile: Meanwhile) -> None:
    table = new_table(tmp_path)
    assert table.bulk_insert(engine.frame(rows(("z", "3", 1, "bulk")))) is not None
    assert groups(table) == {SHARED}, "a bulk insert into a new table too"
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("a", "1", 1, "other"), ("b", "1", 2, "other"), ("z", "3", 2, "other"))))
    done = table.upsert(engine.frame(rows(("b", "1", 1, "own"), ("c", "2", 1, "own"))), options=FIRST)
    assert done is not None
    assert done.attempts == 1
    assert tags(table) == {"a": "other", "b": "other", "c": "own", "z": "other"}
    assert groups(table) == {SHARED}
    meanwhile(lambda: other.insert(rows(("d", "4", 1, "new"), ("e", "4", 1, "new"))))
    table.delete(rows(("d", "4", 1, ""), ("a", "1", 1, "")), options=FIRST)
    assert tags(table) == {"b": "other", "c": "own", "e": "new", "z": "other"}
    assert sound(table)


def test_a_record_that_a_writer_deletes_another_one_upserts(table: pudi.Table, meanwhile: Meanwhile) -> None:
    table.insert(rows(("a", "1", 1, "old"), ("b", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("a", "1", 2, "new"))))
    table.delete(rows(("a", "1", 1, ""), ("b", "1", 1, "")), options=FIRST)
    assert tags(table) == {"a": "new"}
    assert sound(table)


def test_a_delete_sees_the_bucket_that_another_writer_begins(table: pudi.Table, meanwhile: Meanwhile) -> None:
    table.insert(rows(("b", "2", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.insert(rows(("a", "1", 1, "new"), ("c", "1", 1, "new"))))
    table.delete(rows(("a", "1", 1, ""), ("b", "2", 1, "")), options=FIRST)
    assert tags(table) == {"c": "new"}, "it commits after the insert, so it deletes both"


def test_a_compaction_is_planned_and_run_beside_a_write(table: pudi.Table, meanwhile: Meanwhile) -> None:
    table.insert(rows(("a", "1", 1, "old"), ("b", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)

    def both() -> None:
        other.upsert(rows(("a", "1", 3, "other"), ("b", "1", 2, "other")))
        assert other.compact() is not None

    meanwhile(both)
    done = table.upsert(rows(("a", "1", 2, "own"), ("b", "1", 3, "own"), ("c", "1", 1, "own")), options=FIRST)
    assert done is not None
    assert done.attempts == 1
    assert tags(table) == {"a": "other", "b": "own", "c": "own"}
    assert table.compact() is not None
    assert tags(table) == {"a": "other", "b": "own", "c": "own"}
    assert sound(table)


def test_a_write_requested_before_a_compaction_of_another_one_commits_into_a_pending_one(
    table: pudi.Table, meanwhile: Meanwhile
) -> None:
    table.insert(rows(("a", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.schedule("compaction"))
    table.upsert(rows(("a", "1", 2, "own")), options=FIRST)
    assert tags(table) == {"a": "own"}
    other.run_pending()
    assert tags(table) == {"a": "own"}
    assert sound(table)


def test_an_update_beside_other_writers_is_serializable(table: pudi.Table, meanwhile: Meanwhile) -> None:
    """It reads: whoever of the two commits second is planned again."""
    table.insert(rows(("a", "1", 1, "old"), ("b", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("b", "1", 1, "new"))))
    done = table.update({"tag": "upper(tag)"}, where="day = '1'", options=FIRST)
    assert tags(table) == {"a": "OLD", "b": "NEW"}
    assert done is not None
    assert done.attempts == 2


def test_an_upsert_doesnt_vanish_below_an_update_that_did_not_see_it(table: pudi.Table, meanwhile: Meanwhile) -> None:
    """The update is requested after the upsert and commits before it, so its log file would be merged on top."""
    table.insert(rows(("a", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS)
    meanwhile(lambda: other.update({"tag": "upper(tag)"}))
    done = table.upsert(rows(("a", "1", 1, "new")), options=FIRST)
    assert done is not None
    assert tags(table) == {"a": "new"}


def test_an_upsert_is_written_again_where_its_partition_was_deleted(table: pudi.Table, meanwhile: Meanwhile) -> None:
    table.insert(rows(("a", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS)
    meanwhile(lambda: other.delete_partitions(["1"]))
    table.upsert(rows(("b", "1", 1, "new")), options=FIRST)
    assert tags(table) == {"b": "new"}
    assert groups(table) == {SHARED[:-1] + "1"}, "the id of a replaced file group would be hidden"
    assert sound(table)


def test_an_overwrite_conflicts_with_what_was_written_meanwhile(table: pudi.Table, meanwhile: Meanwhile) -> None:
    table.insert(rows(("a", "1", 1, "old")))
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("b", "1", 1, "new"))))
    with pytest.raises(pudi.ConflictError):
        table.insert_overwrite(rows(("c", "1", 1, "over")), options=OCC | FIRST)
    assert tags(table) == {"a": "old", "b": "new"}


def test_a_bulk_insert_conflicts_with_what_began_its_bucket(table: pudi.Table, meanwhile: Meanwhile) -> None:
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("b", "1", 1, "new"))))
    done = table.bulk_insert(rows(("a", "1", 1, "bulk")), options=FIRST)
    assert done is not None
    assert done.attempts == 2
    assert tags(table) == {"a": "bulk", "b": "new"}
    assert groups(table) == {SHARED}


def test_a_bulk_insert_and_a_write_begun_before_it_share_a_file_group(table: pudi.Table, meanwhile: Meanwhile) -> None:
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.bulk_insert(rows(("a", "1", 1, "bulk"))))
    table.upsert(rows(("b", "1", 1, "new")), options=FIRST)
    assert tags(table) == {"a": "bulk", "b": "new"}
    assert groups(table) == {SHARED}
    assert sound(table)


def test_by_commit_time_the_later_request_wins_as_in_hudi(tmp_path: Path, meanwhile: Meanwhile) -> None:
    table = new_table(tmp_path, ordering=[])
    other = pudi.Table(table.path, options=BUCKETS | NBCC)
    meanwhile(lambda: other.upsert(rows(("a", "1", 1, "requested later"))))
    table.upsert(rows(("a", "1", 1, "requested first"), ("b", "1", 1, "requested first")), options=FIRST)
    assert tags(table) == {"a": "requested later", "b": "requested first"}
    table.compact()
    assert tags(table) == {"a": "requested later", "b": "requested first"}


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
def test_what_replaces_is_refused_by_name(table: pudi.Table, verb: str) -> None:
    table.insert(rows(("a", "1", 1, "old")))
    argument: Any = ["1"] if verb == "delete_partitions" else rows(("c", "1", 1, "over"))
    with pytest.raises(pudi.NotSupportedError, match="OPTIMISTIC_CONCURRENCY_CONTROL"):
        getattr(table, verb)(argument)
    assert tags(table) == {"a": "old"}


@pytest.mark.parametrize(
    ("options", "arguments", "said"),
    [
        ({}, {"table_type": "cow"}, "merge-on-read table with a simple bucket index"),
        ({"hoodie.write.table.version": "6"}, {}, "table of version 6"),
        ({"hoodie.index.type": "SIMPLE"}, {}, "merge-on-read table with a simple bucket index"),
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, {}, "merge-on-read table with a simple bucket index"),
        ({"hoodie.table.cdc.enabled": "true"}, {}, "a table that logs changes"),
        ({"hoodie.metadata.record.index.enable": "true"}, {}, "the index record_index"),
    ],
)
def test_other_tables_are_refused_by_name(
    tmp_path: Path, options: dict[str, str], arguments: dict[str, Any], said: str
) -> None:
    table = pudi.Table(new_table(tmp_path, options, **arguments).path, options=BUCKETS | options | NBCC)
    with pytest.raises(pudi.NotSupportedError, match=said):
        table.insert(rows(("a", "1", 1, "new")))


@pytest.mark.parametrize(
    "wrong",
    [
        {"hoodie.clean.failed.writes.policy": "EAGER"},
        {"hoodie.write.concurrency.early.conflict.detection.enable": "true"},
    ],
)
def test_options_that_contradict_it_are_refused(table: pudi.Table, wrong: dict[str, str]) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=next(iter(wrong))):
        table.insert(rows(("a", "1", 1, "new")), options=wrong)


@pytest.mark.parametrize("of_values", [False, True])
def test_an_index_that_is_created_meanwhile_misses_no_records(
    tmp_path: Path, meanwhile: Meanwhile, of_values: bool
) -> None:
    table = new_table(tmp_path, {"hoodie.metadata.enable": "true"})
    table.upsert(rows(("a", "1", 1, "first")))
    other = pudi.Table(table.path, options=BUCKETS | OCC)

    def create() -> None:
        other.create_index("record_index")
        if of_values:
            other.create_index("secondary_index", "tag")

    meanwhile(create)
    table.upsert(rows(("a", "1", 2, "own"), ("b", "1", 2, "own")), options=FIRST)
    opened = pudi.Table(table.path)
    assert len(opened.indexes()) > of_values
    assert opened.scan(where="tag = 'own'").to_arrow().num_rows == 2
    assert sound(table), "the index has the write's keys and values"
    with pytest.raises(pudi.NotSupportedError, match="index"):
        table.upsert(rows(("c", "1", 3, "own")))
