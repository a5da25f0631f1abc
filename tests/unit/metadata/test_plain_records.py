"""Records that are encoded one by one: the same bytes as Arrow's encoder gives, and the same merge as Arrow's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.context import RecentValues
from pudi.errors import CorruptError
from pudi.format.avro_values import BadAvro
from pudi.format.delete_encode import encode_deletes
from pudi.format.hfile_write import encode_hfile
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.varints import BadVarint
from pudi.metadata import RECORD_AVRO, RECORD_SCHEMA, RecordType, column_stats_records, deleted_stats, plain_records
from pudi.metadata.changes import encode_changes, files_changes
from pudi.metadata.decode import decoded_base, decoded_blocks
from pudi.metadata.merge import entries_of, merged
from pudi.metadata.plain_records import (
    FileLists,
    file_list_of,
    file_list_record,
    keep_written,
    merged_lists,
    stats_tombstone,
)

_NAMES = st.sampled_from(["a.parquet", "b.parquet", "ü", "x" * 200, ""])
_LISTS = st.dictionaries(_NAMES, st.none() | st.integers(0, 2**62), max_size=4)
_COLUMNS = ("key", "type", "filesystemMetadata")


def arrows(kind: RecordType, files: dict[str, int | None]) -> bytes:
    infos = [(name, {"size": size or 0, "isDeleted": size is None}) for name, size in files.items()]
    row = {"key": "k", "type": int(kind), "filesystemMetadata": infos}
    found: bytes = encode_changes(pa.Table.from_pylist([row], RECORD_SCHEMA)).values[0].as_py()
    return found


@given(st.sampled_from([RecordType.FILES, RecordType.ALL_PARTITIONS]), _LISTS)
def test_a_list_of_files_has_the_same_bytes(kind: RecordType, files: dict[str, int | None]) -> None:
    record = file_list_record(kind, files)
    assert record == arrows(kind, files)
    assert file_list_of(record) == files


@pytest.mark.parametrize("version", [1, 2])
def test_a_tombstone_has_the_same_bytes(version: int) -> None:
    files = [("p", "a.parquet"), ("", "ü" * 100)]
    expected = encode_changes(column_stats_records(deleted_stats(files, ["id", "x.y"]), version)).values.to_pylist()
    assert [stats_tombstone(file, name, version) for _, file in files for name in ("id", "x.y")] == expected


@given(_LISTS.filter(bool), st.data())
def test_what_is_cut_off_is_refused(files: dict[str, int | None], data: st.DataObject) -> None:
    record = file_list_record(RecordType.FILES, files)
    with pytest.raises((BadAvro, BadVarint)):
        file_list_of(record[: data.draw(st.integers(0, len(record) - 6))])


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["p", "q"]), _LISTS.filter(bool), min_size=1, max_size=2)
        | st.sets(st.sampled_from(["p", "q"]), min_size=1),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from(["p", "q"]), _LISTS, min_size=1),
)
def test_few_files_are_merged_as_many_are(
    log: list[dict[str, dict[str, int | None]] | set[str]], base: dict[str, dict[str, int | None]]
) -> None:
    stored = hfile(base)
    blocks = [deletes(each) if isinstance(each, set) else block(each) for each in log]
    found = merged_lists(("base", stored), blocks, ["p", "q"])
    rows = merged("files", decoded_base(stored, _COLUMNS, path="base"), decoded_blocks(blocks, _COLUMNS))
    entries = entries_of(rows["filesystemMetadata"])
    expected: dict[str, dict[str, int]] = {"p": {}, "q": {}}
    keys = rows["key"].to_pylist()
    for owner, name, size in zip(
        entries.owner.tolist(), entries.names.to_pylist(), entries.sizes.tolist(), strict=True
    ):
        expected[keys[owner]][name] = size
    assert found == expected


def hfile(lists: dict[str, dict[str, int | None]]) -> bytes:
    changes = files_changes(lists)
    here = pa.array([key in lists for key in changes.keys.to_pylist()])
    own = changes.part(here, pa.array([], pa.bool_())).sorted()
    return encode_hfile(own.keys, own.values, avro_schema=RECORD_AVRO)


def block(lists: dict[str, dict[str, int | None]]) -> LogBlock:
    return logged(BlockKind.HFILE, hfile(lists))


def deletes(keys: set[str]) -> LogBlock:
    return logged(BlockKind.DELETE, encode_deletes(pa.array(sorted(keys)), pa.nulls(len(keys), pa.string())))


def logged(kind: BlockKind, content: bytes) -> LogBlock:
    headers = {Header.INSTANT_TIME: "1", Header.SCHEMA: RECORD_AVRO}
    return LogBlock(kind, headers, memoryview(content), padded=memoryview(content + bytes(16)), path="log", offset=0)


@pytest.mark.parametrize("spare", [0, -1])
def test_lists_above_the_bound_are_not_kept(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    read, content = hfile({"p": {"a.parquet": 1}}), hfile({"p": {"b.parquet": 2}})
    kept: RecentValues[tuple[bytes, str], FileLists] = RecentValues(len(content) + spare)
    monkeypatch.setattr(plain_records, "_kept", kept)
    assert merged_lists(("base", read), [], ["p"]) == {"p": {"a.parquet": 1}}
    keep_written(content, ["p"], [file_list_record(RecordType.FILES, {"b.parquet": 2})])
    found = [kept.get(key) is not None for key in ((read, ""), (content, RECORD_AVRO))]
    assert found == ([False, True] if spare == 0 else [False, False])


def test_another_record_in_a_list_of_files_is_refused() -> None:
    content = encode_hfile(pa.array(["p"]), pa.array([b"\1\2"]), avro_schema=RECORD_AVRO)
    with pytest.raises(CorruptError, match="can't be decoded"):
        merged_lists(None, [logged(BlockKind.HFILE, content)], ["p"])
