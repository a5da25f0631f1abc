"""Entries of indexes come out of the tasks that write files: no job reads the files again, and they are equal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import pudi
from pudi.engine.local import LocalEngine as Local
from pudi.engine.spark.engine import SparkEngine
from pudi.format import TEMP_DIR
from pudi.indexes.expression_index import ExpressionIndexes
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, WrittenEntries
from pudi.indexes.record_index import RecordIndex
from pudi.indexes.secondary_index import SecondaryIndexes
from pudi.storage import open_storage
from pudi.task.expression_values import ExpressionTask, IndexedValues
from pudi.task.index_keys import KeyTask
from pudi.task.portions import read_portions
from pudi.task.staged_keys import StagedRows, portions_by_shard
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.trips import SCHEMA, steps, table, trip

INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.record.index.update.partition.path.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
READS_FILES = (ExpressionTask, KeyTask)


def with_indexes(engine: Engine, path: Path, layout: Layout, **options: str) -> PudiTable:
    """A table with an index of each kind, and some trips."""
    made = PudiTable.create(engine, path, SCHEMA, layout, {**INDEXES, **options})
    made.write("upsert", table(trip(number, 10) for number in range(12)))
    made.table.create_index("secondary_index", "rider")
    made.table.create_index("column_stats", "rider", name="upper_rider", expr="upper")
    made.table.create_index("bloom_filters", "rider", name="lower_rider", expr="lower")
    made.table.create_index("column_stats", "ts", name="day", expr="from_unixtime", options={"format": "yyyy-MM-dd"})
    return made


@pytest.mark.parametrize(("engine", "kind"), per_engine(["cow", "mor"], [], ["mor"], ["cow"]), indirect=["engine"])
def test_no_job_reads_written_files(engine: Engine, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_indexes(engine, tmp_path / "trips", Layout(kind=kind))
    run: list[Any] = []
    runner = SparkEngine if engine.name == "spark" else Local
    jobs = runner.run_jobs

    def watched(self: Any, storage: Any, instant: str, tasks: Any) -> Any:
        run.extend(each for each in tasks if isinstance(each, READS_FILES))
        return jobs(self, storage, instant, tasks)

    monkeypatch.setattr(runner, "run_jobs", watched)
    made.write("upsert", table(trip(number, 11, "Eve") for number in range(6, 18)))
    made.write("insert", table(trip(number, 12, "Zoe") for number in range(20, 24)))
    made.write("delete", table([trip(3, 13)]))
    made.table.update({"rider": "'Max'"}, where="uuid = 'k0007'")
    assert run == []
    assert made.table.check().ok


def _values(found: Sequence[IndexedValues]) -> list[tuple[Any, ...]]:
    return [
        (
            each.partition,
            each.file,
            each.instant,
            None if each.stats is None else each.stats.to_pylist(),
            None if each.bloom is None else each.bloom.to_bytes(),
        )
        for each in found
    ]


def _expressions(commit: IndexedCommit, changes: Any) -> dict[str, Any]:
    return {each.index.partition: _values(each.kept) for each in changes.staged}


def _keys(commit: IndexedCommit, changes: Any) -> dict[str, Any]:
    storage, found = commit.meta.storage, {}
    for each in changes.keys:
        merged = {
            group: StagedRows.of(read_portions(storage, portions)).changes().sorted()
            for group, portions in portions_by_shard(each.keys).items()
        }
        found[each.partition] = {
            group: (part.keys.to_pylist(), part.values.to_pylist(), sorted(part.gone.to_pylist()))
            for group, part in merged.items()
        }
    return found


COMPARED: dict[type, Callable[[IndexedCommit, Any], dict[str, Any]]] = {
    ExpressionIndexes: _expressions,
    SecondaryIndexes: _keys,
    RecordIndex: _keys,
}
"""What a kind prepares for a commit, so that two preparations compare."""


@contextmanager
def prepared_twice() -> Iterator[list[str]]:
    """Prepare each commit twice, by what its tasks staged and by jobs that read its files, and compare both."""
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for kind, comparable in COMPARED.items():
            _compare(patch, kind, comparable, seen)
        yield seen


def _compare(patch: pytest.MonkeyPatch, kind: Any, comparable: Callable[..., dict[str, Any]], seen: list[str]) -> None:
    prepare = kind.prepare

    def twice(self: Any, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        if commit.staging is None or not commit.staging.entries.stagings:
            return cast("CommitChanges", prepare(self, commit, partitions))
        plain = replace(commit, staging=replace(commit.staging, entries=WrittenEntries()))
        expected = comparable(commit, prepare(self, plain, partitions))
        found: CommitChanges = prepare(self, commit, partitions)
        assert comparable(commit, found) == expected
        seen.extend(expected)
        return found

    patch.setattr(kind, "prepare", twice)


LAYOUTS = [
    Layout(),
    Layout(folders="flat", merging="commit"),
    Layout(kind="mor"),
    Layout(key="complex", kind="mor", merging="commit", version=8),
]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
"""New records go to log files."""


@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])
@example(seed=3, layout=LAYOUTS[2], small=False, buckets=True)
@given(seed=st.integers(0, 10**6), layout=st.sampled_from(LAYOUTS), small=st.booleans(), buckets=st.booleans())
def test_staged_entries_equal_those_of_the_files(seed: int, layout: Layout, small: bool, buckets: bool) -> None:
    with prepared_twice() as compared, tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if small:  # files are rewritten by row groups that are copied
            patch.setattr("pudi.task.rewrite.LEAST_ROWS", 0)
        made = with_indexes(LocalEngine(), Path(folder) / "trips", layout, **(BUCKETS if buckets else {}))
        for step in steps(seed, 5, ("insert", "upsert", "upsert", "delete")):
            made.table.upsert(step.data) if step.verb == "bulk_insert" else made.write(step.verb, step.data)
        made.table.update({"rider": "upper(rider)"}, where="leg = 1")
        made.table.delete(where="leg = 2")
        made.write("insert_overwrite_table", table(trip(number, 20) for number in range(3, 9)))
        assert made.table.check().ok
    assert {name.rpartition("_")[2] for name in set(compared)} == {"index", "rider", "day"}
    assert "secondary_index_rider" in compared


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_that_evolve(tmp_path: Path, kind: str) -> None:
    made = with_indexes(LocalEngine(), tmp_path / "trips", Layout(kind=kind))
    made.table.create_index("column_stats", "leg", name="far", expr="identity")
    wide = table(trip(number, 11, "Eve") for number in range(6, 18))
    wide = wide.set_column(1, "leg", wide["leg"].cast(pa.int64())).append_column("tip", wide["fare"])
    with prepared_twice() as compared:
        made.table.upsert(wide)
        made.table.upsert(wide.slice(3, 5))
    assert "expr_index_far" in compared
    assert pudi.Table(made.path).check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_in_a_store_without_folders_no_staged_file_outlives_its_commit(kind: str) -> None:
    """Files of keys that jobs stage after the markers were listed go with the markers."""
    root = f"memory://staged-{kind}"
    columns = {"record_key": "uuid", "partition_by": "city", "ordering": "ts"}
    made = pudi.create(root, SCHEMA, table_type=kind, options=INDEXES, **columns)
    made.upsert(table(trip(number, 10) for number in range(12)))
    made.create_index("secondary_index", "rider")
    for write in (made.insert_overwrite, made.insert_overwrite_table, made.upsert):
        write(table(trip(number, 20) for number in range(3)))
        assert [info.path for info in open_storage(root).list(TEMP_DIR)] == []
