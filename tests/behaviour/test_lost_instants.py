"""A completed file that somebody deleted: told where a later instant was built on it, else it's a crash like others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import commits

EAGER = {"hoodie.clean.failed.writes.policy": "EAGER"}
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])


def rows(value: str, *keys: int) -> pa.Table:
    data = [{"k": k, "p": "pq"[k % 2], "ts": 1, "v": value} for k in keys]
    return pa.Table.from_pylist(data, schema=SCHEMA)


def make(path: Path, kind: str, version: int) -> tuple[Any, list[str]]:
    """A table of three commits, of which the third was built on part of the second; their requested times."""
    options = {"hoodie.write.table.version": str(version)}
    table = pudi.create(path, SCHEMA, record_key="k", partition_by="p", ordering="ts", table_type=kind, options=options)
    done = [table.bulk_insert(rows("first", 0, 1)), table.bulk_insert(rows("second", 2, 3))]
    done.append(table.upsert(rows("third", 0, 1, 2)))
    return table, [result.instant for result in done]


def files_of(path: Path, instant: str) -> list[Path]:
    found = [file for file in (path / ".hoodie").rglob(f"{instant}*") if "metadata" not in file.parts]
    return sorted(file for file in found if file.is_file())


def lose(path: Path, instant: str, *, everything: bool) -> None:
    completed = [f for f in files_of(path, instant) if f.suffix in {".commit", ".deltacommit"}]
    assert len(completed) == 1
    for file in files_of(path, instant) if everything else completed:
        file.unlink()


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("version", [6, 9])
def test_told_and_never_undone(tmp_path: Path, version: int, everything: bool) -> None:
    table, (first, second, third) = make(tmp_path / "t", "cow", version)
    lose(tmp_path / "t", second, everything=everything)
    before = sorted(file for file in (tmp_path / "t").rglob("*.parquet"))
    found = [each for each in table.check().differences if each.index == "timeline"]
    assert [each.path for each in found] == [second]
    assert f"commit {third} was built on it" in found[0].what
    since = dict(commits(tmp_path / "t"))[first]
    for read in (table.changes(), table.changes(since), table.changes(since, dict(commits(tmp_path / "t"))[third])):
        with pytest.raises(pudi.CorruptError, match=second):
            read.to_arrow()
    with pytest.raises(pudi.CorruptError, match=second):
        table.scan().to_arrow()
    assert table.scan(as_of=first).to_arrow().num_rows == 2, "what was before isn't concerned"
    if not everything:
        table = pudi.Table(table.path, options=EAGER)
        for verb in (table.upsert, table.delete, table.insert):
            with pytest.raises(pudi.CorruptError, match=second):
                verb(rows("fourth", 3))
        assert sorted(file for file in (tmp_path / "t").rglob("*.parquet")) == before
    else:
        assert not [path for path in table.repair(confirm=lambda plan: False).plan.orphans.data_files if second in path]


def test_changes_before_and_after_are_not_concerned(tmp_path: Path) -> None:
    table, (first, second, _) = make(tmp_path / "t", "cow", 9)
    times = dict(commits(tmp_path / "t"))
    fourth = table.upsert(rows("fourth", 0))
    lose(tmp_path / "t", second, everything=False)
    assert table.changes(None, times[first]).to_arrow().num_rows == 2
    assert table.changes(max(times.values()), fourth.completion_time).to_arrow().num_rows == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_without_proof_it_is_a_crash(tmp_path: Path, kind: str) -> None:
    table, (_, _, third) = make(tmp_path / "t", kind, 9)
    lose(tmp_path / "t", third, everything=False)
    assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {"first", "second"}
    assert not [each for each in table.check().differences if each.index == "timeline"]
    table.upsert(rows("fourth", 0), options=EAGER)
    assert not files_of(tmp_path / "t", third), "rolled back"
    assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {"first", "second", "fourth"}


def test_a_compaction_proves_log_files(tmp_path: Path) -> None:
    table, (_, _, third) = make(tmp_path / "t", "mor", 9)
    table.compact()
    lose(tmp_path / "t", third, everything=False)
    assert [each.path for each in table.check().differences if each.index == "timeline"] == [third]
    with pytest.raises(pudi.CorruptError, match=third):
        table.changes().to_arrow()
    with pytest.raises(pudi.CorruptError, match=third):
        table.upsert(rows("fourth", 1))


@pytest.mark.parametrize("everything", [False, True])
def test_log_blocks_say_what_they_lie_over(tmp_path: Path, everything: bool) -> None:
    """In versions 8 and 9 no statistic of a log file tells of its base file, but its blocks do."""
    table, (first, second, _) = make(tmp_path / "t", "mor", 9)
    before = dict(commits(tmp_path / "t"))
    lose(tmp_path / "t", second, everything=everything)
    assert [each.path for each in table.check().differences if each.index == "timeline"] == [second]
    for read in (table.scan(), table.changes(), table.changes(before[first])):
        with pytest.raises(pudi.CorruptError, match=second):
            read.to_arrow()
    with pytest.raises(pudi.CorruptError, match=second):
        table.compact(options=EAGER)
    if not everything:
        with pytest.raises(pudi.CorruptError, match=second):
            table.upsert(rows("fourth", 3), options=EAGER)
    assert table.scan(as_of=first).to_arrow().num_rows == 2


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_replacecommit_that_is_empty(tmp_path: Path, version: int, kind: str) -> None:
    options = {"hoodie.write.table.version": str(version)}
    path = tmp_path / "t"
    table = pudi.create(path, SCHEMA, record_key="k", partition_by="p", ordering="ts", table_type=kind, options=options)
    table.insert(rows("first", 0, 1, 2, 3))
    replaced = table.insert_overwrite(rows("second", 0, 1))
    assert replaced is not None
    (completed,) = [f for f in files_of(path, replaced.instant) if f.suffix == ".replacecommit"]
    content = completed.read_bytes()
    completed.write_bytes(b"")
    damaged = pudi.Table(path)
    for act in (lambda: damaged.scan().to_arrow(), lambda: damaged.upsert(rows("third", 0)), damaged.compact):
        if act == damaged.compact and kind == "cow":
            continue
        with pytest.raises(pudi.CorruptError, match=f"{replaced.instant}.*is empty|is empty.*{replaced.instant}"):
            act()
    completed.write_bytes(content)
    assert sorted(pudi.Table(path).scan(columns=["k", "v"]).to_arrow()["v"].to_pylist()) == ["second", "second"]


@pytest.mark.parametrize("metadata", [True, False], ids=["mdt", "folders"])
def test_a_compaction_proves_log_blocks_of_version_6(tmp_path: Path, metadata: bool) -> None:
    """Its base files have rows of the instant, which it takes of completed ones alone."""
    path = tmp_path / "t"
    options = {"hoodie.write.table.version": "6", "hoodie.metadata.enable": str(metadata).lower()}
    layout = {"record_key": "k", "partition_by": "p", "ordering": "ts", "table_type": "mor"}
    pudi.create(path, SCHEMA, **layout, options=options)
    table = pudi.Table(path, options={"hoodie.metadata.enable": str(metadata).lower()})
    first = table.bulk_insert(rows("first", 0, 1))
    second, third = table.upsert(rows("second", 0)), table.upsert(rows("third", 1))
    table.compact()
    lose(path, second.instant, everything=False)
    table = pudi.Table(path, options={**EAGER, "hoodie.metadata.enable": str(metadata).lower()})
    for moment in (second.instant, third.instant):
        with pytest.raises(pudi.CorruptError, match=second.instant):
            table.scan(as_of=moment).to_arrow()
    with pytest.raises(pudi.CorruptError, match=second.instant):
        table.changes(first.instant).to_arrow()
    with pytest.raises(pudi.CorruptError, match=second.instant):
        table.upsert(rows("fourth", 1))
    assert [each.path for each in table.check().differences if each.index == "timeline"] == [second.instant]
    assert table.scan(as_of=first.instant).to_arrow().num_rows == 2
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == ["second", "third"], "it's all in the base files"


def test_a_write_that_died_before_a_compaction_is_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table, _ = make(path, "mor", 6)
    lose(path, table.timeline.commits[-1].requested, everything=False)
    table = pudi.Table(path)
    died = table.timeline.instants[-1].requested
    assert not [each for each in table.check().differences if each.index == "timeline"]
    done = table.upsert(rows("fourth", 0), options=EAGER)
    table.compact()
    assert not files_of(path, died)
    assert sorted(table.scan(as_of=done.instant).to_arrow()["v"].to_pylist()) == ["first", "fourth", "second", "second"]
