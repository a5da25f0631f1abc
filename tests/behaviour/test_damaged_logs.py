"""Damaged log files, through the verbs: the right rows or a `CorruptError` that names the file, never older rows."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.archiving import archive

BEGIN = struct.Struct(">6sqii")


def rows(number: int, value: int, *keys: int) -> pa.Table:
    return pa.table({"id": [f"k{key}" for key in keys], "ts": [number] * len(keys), "v": [value] * len(keys)})


def made(path: Path, version: int, *, metadata: bool) -> pudi.Table:
    """Four rows in a base file; updates and a delete in log files, which have two blocks."""
    options = {"hoodie.write.table.version": str(version), "hoodie.metadata.enable": str(metadata).lower()}
    schema = rows(1, 1, 1).schema
    table = pudi.create(str(path), schema, record_key="id", ordering="ts", table_type="mor", options=options)
    table = pudi.Table(str(path), options={"hoodie.metadata.enable": str(metadata).lower()})
    table.insert(rows(1, 1, 1, 2, 3, 4))
    table.upsert(rows(2, 20, 1, 2))
    table.delete(rows(2, 0, 4).select(["id"]))
    table.upsert(rows(3, 30, 1))
    return table


def logs_of(path: Path) -> list[Path]:
    return sorted(file for file in path.glob(".*.log.*") if not file.name.endswith(".cdc"))


def found(table: pudi.Table, **asked: object) -> dict[str, int]:
    got = table.scan(**asked).to_arrow()  # type: ignore[arg-type]
    return dict(zip(got["id"].to_pylist(), got["v"].to_pylist(), strict=True))


EXPECTED = {"k1": 30, "k2": 20, "k3": 1}

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "one byte less": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "nothing": lambda data: b"",
    "fifteen bytes more": lambda data: data + b"\0" * 15,
    "a block more": lambda data: data + data,
    "magic": lambda data: b"\x22" + data[1:],
    "length": lambda data: data[:13] + bytes([data[13] ^ 1]) + data[14:],
    "length at the end": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.parametrize("metadata", [True, False], ids=["mdt", "folders"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_no_verb_takes_a_damaged_log_for_whole(tmp_path: Path, version: int, metadata: bool) -> None:
    whole = tmp_path / "whole"
    options = {"hoodie.metadata.enable": str(metadata).lower()}
    made(whole, version, metadata=metadata)
    assert found(pudi.Table(str(whole), options=options)) == EXPECTED
    names = [file.name for file in logs_of(whole)]
    assert len(names) == 3
    for number, name in enumerate(names):
        for what, damage in DAMAGE.items():
            path = tmp_path / f"{number}{what}"
            shutil.copytree(whole, path)
            file = path / name
            file.write_bytes(damage(file.read_bytes()))
            refuse_or_be_right(path, name, options, longer=what == "a block more")


def refuse_or_be_right(path: Path, name: str, options: dict[str, str], *, longer: bool) -> None:
    """What lies behind all that commits state may be passed over in layout 1 only."""
    layout_1 = "hoodie.table.version=6" in (path / ".hoodie" / "hoodie.properties").read_text()
    table = pudi.Table(str(path), options=options)
    newest = table.timeline.instants[-1].requested
    before = table.timeline.instants[-1].requested
    verbs: dict[str, Callable[[], object]] = {
        "scan": lambda: found(table),
        "time travel": lambda: found(table, as_of=newest),
        "changes": lambda: table.changes().to_arrow(),
    }
    if not layout_1:
        each = {"hoodie.log.compaction.blocks.threshold": "1"}
        verbs["log compaction"] = lambda: table.compact(log_compaction=True, options=each)
        verbs["update"] = lambda: table.update({"v": "v + 1"}, where="id = 'k1'")
    verbs["compact"] = table.compact
    for verb, run in verbs.items():
        if longer and layout_1:
            run()
            continue
        with pytest.raises(pudi.CorruptError) as caught:
            run()
        assert name in str(caught.value), verb
        assert caught.value.offset is not None, verb
    if longer and layout_1:
        assert found(table) == EXPECTED
    else:
        assert not [i for i in table.timeline.commits if i.requested > before], "nothing was made of it"


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_cut_at_the_end_of_a_block_is_missed(tmp_path: Path, version: int) -> None:
    for metadata in (True, False):
        path = tmp_path / str(metadata)
        options = {"hoodie.metadata.enable": str(metadata).lower()}
        made(path, version, metadata=metadata)
        table = pudi.Table(str(path), options=options)
        merge = table.merge(rows(9, 90, 1, 2)).when_matched_update({"v": "source.v"}, condition="target.id = 'k1'")
        merge.when_matched_delete(condition="target.id = 'k2'").execute()
        newest = max(logs_of(path), key=lambda file: file.stat().st_mtime_ns)
        data = newest.read_bytes()
        first = 14 + BEGIN.unpack_from(data)[1]
        assert first < len(data), "two blocks"
        newest.write_bytes(data[:first])
        with pytest.raises(
            pudi.CorruptError, match=f"cut off: it has {first} bytes, but its commit states {len(data)}"
        ):
            table.scan().to_arrow()
        with pytest.raises(pudi.CorruptError, match="cut off"):
            table.compact()


@pytest.mark.parametrize("version", [6, 9])
def test_what_archived_commits_wrote_must_be_there_too(tmp_path: Path, version: int) -> None:
    options = {"hoodie.metadata.enable": "false"}
    made(tmp_path / "t", version, metadata=False)
    archive(tmp_path / "t", 3)
    table = pudi.Table(str(tmp_path / "t"), options=options)
    assert len(table.timeline.commits) == 1
    assert found(table) == EXPECTED
    for log in logs_of(tmp_path / "t")[:2]:
        whole = log.read_bytes()
        for data in (b"", whole[:-1]):
            log.write_bytes(data)
            with pytest.raises(pudi.CorruptError) as caught:
                found(pudi.Table(str(tmp_path / "t"), options=options))
            assert log.name in str(caught.value)
        log.write_bytes(whole)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_log_replaced_by_another_of_the_same_size(tmp_path: Path, version: int) -> None:
    """Two deletes of one key each: their log files differ in the key and the instant."""
    table = made(tmp_path / "t", version, metadata=False)
    table.delete(rows(2, 0, 3).select(["id"]))
    _, older, _, newer = logs_of(tmp_path / "t")
    assert b"k4" in older.read_bytes()
    assert b"k3" in newer.read_bytes()
    assert older.stat().st_size == newer.stat().st_size
    newer.write_bytes(older.read_bytes())
    for run in (lambda: found(table), table.compact, lambda: found(table, where="id = 'k3'")):
        with pytest.raises(pudi.CorruptError, match=newer.name):
            run()


def test_a_writer_of_version_6_may_go_on_to_a_new_log_file(tmp_path: Path) -> None:
    """A commit that wrote to two files of one slice, as where the first was full (HoodieLogFormatWriter.rollOver)."""
    made(tmp_path / "t", 6, metadata=False)
    path = tmp_path / "t"
    last = max(logs_of(path), key=lambda file: file.stat().st_mtime_ns)
    other = last.with_name(re.sub(r"\.log\.(\d+)", lambda m: f".log.{int(m[1]) + 1}", last.name))
    other.write_bytes(last.read_bytes())
    commit = max((path / ".hoodie").glob("*.deltacommit"))
    said = json.loads(commit.read_bytes())
    (stats,) = said["partitionToWriteStats"].values()
    stats.append(dict(stats[0], path=other.name))
    commit.write_text(json.dumps(said))
    table = pudi.Table(str(path), options={"hoodie.metadata.enable": "false"})
    assert found(table) == EXPECTED
    table.compact()
    assert found(table) == EXPECTED
