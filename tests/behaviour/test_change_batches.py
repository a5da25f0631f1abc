"""A stream of changes on the local engine: each batch once, the same rows when it comes again, and what ends it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient, TableSnapshot
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotFoundError
from pudi.scan import Scan
from pudi.scan.cdc_feed import ChangeFeed
from pudi.scan.change_batches import EARLIEST, BatchLimits, newest_offset, next_batch
from pudi.spark.streaming.runner import stream_changes

SPARK: Any = SimpleNamespace(version="3.5.8")
Rows = dict[int, int]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches come as Arrow tables: what a stream does is the same, whoever reads the rows."""
    for rows in (Scan, ChangeFeed):
        monkeypatch.setattr(rows, "to_spark", lambda self, spark: self.to_arrow())


def _table(path: Path, table_type: str = "cow", **options: str) -> pudi.Table:
    schema = pa.schema([("id", pa.int64()), ("value", pa.int64())])
    return pudi.create(path, schema, record_key="id", table_type=table_type, options=options)


def _rows(values: Rows) -> pa.Table:
    return pa.table(
        {"id": list(values), "value": list(values.values())}, pa.schema([("id", "int64"), ("value", "int64")])
    )


def _found(batch: pa.Table) -> Rows:
    return dict(zip(batch["id"].to_pylist(), batch["value"].to_pylist(), strict=True))


class Sink:
    """Notes what each batch brought; a batch that comes again must bring the same."""

    def __init__(self) -> None:
        self.batches: dict[int, Rows] = {}
        self.fails_at: int | None = None

    def __call__(self, batch: pa.Table, number: int) -> None:
        rows = _found(batch)
        assert self.batches.setdefault(number, rows) == rows
        if self.fails_at == number:
            raise RuntimeError("the sink is down")

    @property
    def state(self) -> Rows:
        whole: Rows = {}
        for number in sorted(self.batches):
            whole.update(self.batches[number])
        return whole


def _run(table: pudi.Table, sink: Callable[[Any, int], object], checkpoint: Path, **more: Any) -> None:
    stream_changes(SPARK, table.path, sink, checkpoint=checkpoint, available_now=True, **more).awaitTermination()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_batches_bring_each_change_once_and_the_whole_table_first(
    tmp_path: Path, table_type: str, version: str
) -> None:
    table = _table(tmp_path / "t", table_type, **{"hoodie.write.table.version": version})
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    _run(table, sink, checkpoint)
    assert sink.batches == {}
    table.upsert(_rows({1: 1, 2: 1}))
    table.upsert(_rows({2: 2, 3: 2}))
    _run(table, sink, checkpoint)
    _run(table, sink, checkpoint)
    assert sink.batches == {0: {1: 1, 2: 2, 3: 2}}
    table.upsert(_rows({3: 3}))
    table.upsert(_rows({4: 4}))
    _run(table, sink, checkpoint, max_commits=1)
    assert sink.batches == {0: {1: 1, 2: 2, 3: 2}, 1: {3: 3}, 2: {4: 4}}


def test_a_batch_that_failed_comes_again_with_the_same_rows(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "mor")
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    table.upsert(_rows({1: 1, 2: 1}))
    for number in range(3):
        sink.fails_at = number
        with pytest.raises(RuntimeError, match="down"):
            _run(table, sink, checkpoint)
        table.upsert(_rows({1: number + 2, 5 + number: 1}))  # is no part of the batch that failed
        if number:
            table.compact()
    sink.fails_at = None
    _run(table, sink, checkpoint)
    assert sink.batches[0] == {1: 1, 2: 1}
    assert sink.batches[1] == {1: 2, 5: 1}
    assert sink.state == _found(table.scan().to_arrow())


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_change_data_brings_deletes_and_the_records_before(tmp_path: Path, table_type: str) -> None:
    table = _table(tmp_path / "t", table_type)
    seen: list[list[tuple[str, str | None, str | None]]] = []

    def sink(batch: pa.Table, number: int) -> None:
        values = [None if text is None else json.loads(text)["value"] for text in batch["before"].to_pylist()]
        after = [None if text is None else json.loads(text)["value"] for text in batch["after"].to_pylist()]
        seen.append(sorted(zip(batch["op"].to_pylist(), values, after, strict=True), key=str))

    table.upsert(_rows({1: 1, 2: 1}))
    for change in (
        lambda: None,
        lambda: table.upsert(_rows({2: 5, 3: 6})),
        lambda: table.delete(where="id = 1"),
    ):
        change()
        _run(table, sink, tmp_path / "checkpoint", format="cdc")
    assert seen == [
        [("i", None, 1), ("i", None, 1)],
        [("i", None, 6), ("u", 1, 5)],
        [("d", 1, None)],
    ]
    with pytest.raises(InvalidArgumentError, match="format 'cdc'"):
        _run(table, sink, tmp_path / "checkpoint")


def test_services_bring_no_batches(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "mor")
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    for value in range(2):
        table.upsert(_rows({1: value, 2: value}))
    _run(table, sink, checkpoint)
    table.compact()
    table.cluster()
    table.clean()
    _run(table, sink, checkpoint)
    assert list(sink.batches) == [0]
    table.upsert(_rows({1: 7}))
    _run(table, sink, checkpoint)
    assert sink.batches[1] == {1: 7}


def test_offsets_survive_archiving_and_cleaning(tmp_path: Path) -> None:
    keep = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    table = _table(tmp_path / "t", **keep)
    table = pudi.Table(table.path, options=keep)
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    table.upsert(_rows({0: 0, 1: 0}))
    _run(table, sink, checkpoint)
    for value in range(1, 13):
        table.upsert(_rows({value % 3: value, 100 + value: value}))
    table.clean()
    table.archive()
    assert len(table.timeline.commits) < 12
    _run(table, sink, checkpoint, max_commits=2)  # the slices between are gone: the newest ones hold all changes
    assert sink.state == _found(table.scan().to_arrow())


def test_a_replay_whose_files_were_cleaned_says_so(tmp_path: Path) -> None:
    keep = {"hoodie.clean.commits.retained": "1"}
    table = pudi.Table(_table(tmp_path / "t").path, options=keep)
    sink, checkpoint = Sink(), tmp_path / "checkpoint"
    table.upsert(_rows({0: 0}))
    _run(table, sink, checkpoint)
    table.upsert(_rows({0: 1}))
    sink.fails_at = 1
    with pytest.raises(RuntimeError):
        _run(table, sink, checkpoint)
    sink.fails_at = None
    for value in range(2, 6):
        table.upsert(_rows({0: value}))
    table.clean()
    with pytest.raises(NotFoundError, match="fail_on_data_loss"):
        _run(table, sink, checkpoint)
    del sink.batches[1]
    _run(table, sink, checkpoint, fail_on_data_loss=False)
    assert sink.batches == {0: {0: 0}, 1: {0: 5}}


@pytest.mark.parametrize(("since", "rows"), [("latest", {3: 1}), ("earliest", {1: 1, 2: 1, 3: 1})])
def test_where_a_stream_begins(tmp_path: Path, since: str, rows: Rows) -> None:
    table = _table(tmp_path / "t")
    first = table.upsert(_rows({1: 1}))
    table.upsert(_rows({2: 1}))
    sink = Sink()
    _run(table, sink, tmp_path / "checkpoint", since=since)
    table.upsert(_rows({3: 1}))
    _run(table, sink, tmp_path / "checkpoint", since="earliest")  # the checkpoint knows better
    assert sink.state == rows
    from_instant = Sink()
    assert first is not None
    _run(table, from_instant, tmp_path / "other", since=first.completion_time, where="id > 2", columns=["id", "value"])
    assert from_instant.state == {3: 1}


def test_a_checkpoint_of_another_table_or_stream(tmp_path: Path) -> None:
    table, other = _table(tmp_path / "t"), _table(tmp_path / "other")
    for each in (table, other):
        each.upsert(_rows({1: 1}))
    _run(table, Sink(), tmp_path / "checkpoint")
    with pytest.raises(InvalidArgumentError, match="belongs to a stream with table"):
        _run(other, Sink(), tmp_path / "checkpoint")
    with pytest.raises(InvalidArgumentError, match="max_commits"):
        _run(other, Sink(), tmp_path / "two", max_commits=0)
    with pytest.raises(InvalidArgumentError, match="since"):
        _run(other, Sink(), tmp_path / "two", since="yesterday")


def test_a_table_that_was_created_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows({1: 1}))
    checkpoint = tmp_path / "checkpoint"
    _run(table, Sink(), checkpoint)
    last = checkpoint / "offsets" / "0"
    last.write_text(json.dumps({"since": EARLIEST, "until": "29991231235959999"}))
    with pytest.raises(InvalidArgumentError, match="created again"):
        _run(table, Sink(), checkpoint)


def test_a_table_that_was_created_again_later_than_the_stream_had_read(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows({1: 1}))
    _run(table, Sink(), tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "t")
    table = _table(tmp_path / "t")
    table.upsert(_rows({2: 1}))
    with pytest.raises(InvalidArgumentError, match=r"first commit is .* created again"):
        _run(table, Sink(), tmp_path / "checkpoint")


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_savepoint_of_the_first_commit_is_no_new_table(tmp_path: Path, version: str) -> None:
    table, sink = _table(tmp_path / "t", **{"hoodie.write.table.version": version}), Sink()
    first = table.upsert(_rows({1: 1}))
    assert first is not None
    table.savepoint(first.instant)
    _run(table, sink, tmp_path / "checkpoint")
    for value in range(2, 4):
        table.upsert(_rows({value: 1}))
        _run(table, sink, tmp_path / "checkpoint")
    assert sink.state == {1: 1, 2: 1, 3: 1}


def test_a_table_that_is_created_again_while_a_stream_runs(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows({1: 1}))

    def create_again(batch: pa.Table, number: int) -> None:
        assert number == 0
        shutil.rmtree(tmp_path / "t")
        _table(tmp_path / "t").upsert(_rows({2: 1}))

    stream = stream_changes(SPARK, table.path, create_again, checkpoint=tmp_path / "checkpoint", interval=0.01)
    with pytest.raises(InvalidArgumentError, match=r"first commit is .* created again"):
        stream.awaitTermination(60)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metadata", "{"),
        ("metadata", '{"id": "8b6d82d7"}'),
        ("metadata", None),
        ("offsets/1", '{"since": "0"'),
        ("offsets/1", '{"since": "0", "until": "../x"}'),
        ("offsets/1", None),
        ("commits/9", "{}"),
    ],
)
def test_a_damaged_checkpoint(tmp_path: Path, name: str, content: str | None) -> None:
    table, checkpoint = _table(tmp_path / "t"), tmp_path / "checkpoint"
    for value in range(2):
        table.upsert(_rows({1: value}))
        _run(table, Sink(), checkpoint)
    if content is None:
        (checkpoint / name).unlink()
    else:
        (checkpoint / name).write_text(content)
    with pytest.raises(CorruptError, match=r"metadata|offsets"):
        _run(table, Sink(), checkpoint)


def test_two_runners_on_one_checkpoint(tmp_path: Path) -> None:
    table, checkpoint = _table(tmp_path / "t"), tmp_path / "checkpoint"
    table.upsert(_rows({1: 1}))
    inner: list[pa.Table] = []

    def intruded(batch: pa.Table, number: int) -> None:
        _run(table, lambda rows, number: inner.append(rows), checkpoint)

    with pytest.raises(ConflictError, match="another stream"):
        _run(table, intruded, checkpoint)
    assert len(inner) == 1


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("print", {}, "takes a function.*not str"),
        (print, {"max_commits": 0}, "1 or more"),
        (print, {"interval": 0}, "0"),
    ],
)
def test_arguments_that_are_wrong_are_refused_with_the_table(
    tmp_path: Path, function: Any, more: dict[str, Any], message: str
) -> None:
    table = _table(tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match=rf"{message}.*\[table .*t\]"):
        stream_changes(SPARK, table.path, function, checkpoint=tmp_path / "checkpoint", **more)
    assert not (tmp_path / "checkpoint").exists()


def test_a_stream_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    table, sink = _table(tmp_path / "t"), Sink()
    stream = stream_changes(SPARK, table.path, sink, checkpoint=tmp_path / "checkpoint", interval=0.01)
    for value in range(3):
        table.upsert(_rows({1: value}))
        while sink.state != {1: value}:
            assert not stream.awaitTermination(0.01)
    assert stream.isActive
    stream.stop()
    assert not stream.isActive
    assert stream.exception() is None
    assert stream.lastProgress is not None
    assert stream.lastProgress["batchId"] == max(sink.batches)


def test_old_files_of_a_checkpoint_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pudi.spark.streaming.runner._KEPT", 2)
    table, checkpoint = _table(tmp_path / "t"), tmp_path / "checkpoint"
    for value in range(4):
        table.upsert(_rows({1: value}))
        _run(table, Sink(), checkpoint)
    assert {each.name for each in (checkpoint / "commits").iterdir()} == {"2", "3"}


def test_limits_take_one_commit_at_least(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.upsert(_rows({0: 0}))
    meta = MetaClient.open(table.path, None, {})
    since = newest_offset(TableSnapshot.load(meta))
    for value in range(3):
        table.upsert(_rows({10 * value + n: value for n in range(5)}))
    ends = [meta.store.load().order(each) for each in meta.store.load().commits]
    for limits, end in [
        (BatchLimits(records=1), ends[1]),
        (BatchLimits(records=10), ends[2]),
        (BatchLimits(files=3), ends[3]),
        (BatchLimits(size=1), ends[1]),
        (BatchLimits(commits=2, records=5), ends[1]),
        (BatchLimits(), ends[3]),
    ]:
        batch = next_batch(TableSnapshot.load(meta), since, limits)
        assert batch is not None
        assert batch.until == end
    assert next_batch(TableSnapshot.load(meta), since, until=since) is None


def test_below_version_8_a_pending_write_holds_later_commits_back(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"hoodie.write.table.version": "6"})
    table.upsert(_rows({1: 1}))
    first = table.timeline.commits[0].requested
    table.upsert(_rows({2: 1}))
    meta = MetaClient.open(table.path, None, {})
    assert newest_offset(TableSnapshot.load(meta)) > first
    pending = f"{int(first) + 1}.commit.requested"  # of a writer that began before the second commit, and goes on
    (tmp_path / "t" / ".hoodie" / pending).touch()
    assert newest_offset(TableSnapshot.load(meta)) == first
    assert next_batch(TableSnapshot.load(meta), first) is None
