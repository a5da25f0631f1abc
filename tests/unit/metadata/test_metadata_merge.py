"""Versions of the metadata table's records merged, against the rules step by step in plain dicts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pudi.errors import CorruptError
from pudi.format.metadata_partitions import COLUMN_STATS, FILES, RECORD_INDEX
from pudi.metadata import RECORD_SCHEMA, RecordType, columns_of
from pudi.metadata.merge import Block, entries_of, folded, merged

KEYS = ["a", "b", "c"]


def rows(partition: str, found: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns_of(partition)])
    return pa.Table.from_pylist(found, schema)


def file_list(key: str, files: dict[str, tuple[int, bool]]) -> dict[str, Any]:
    infos = [(name, {"size": size, "isDeleted": deleted}) for name, (size, deleted) in files.items()]
    return {"key": key, "type": int(RecordType.FILES), "filesystemMetadata": infos}


Listed = dict[str, tuple[int, bool]]


def combined(older: Listed | None, newer: Listed) -> Listed:
    """HoodieTableMetadataUtil.combineFileSystemMetadata."""
    found = dict(older or {})
    for name, (size, deleted) in newer.items():
        before = found.get(name)
        if before is None:
            found[name] = (size, deleted)
        elif not deleted:
            found[name] = (max(size, before[0]), False)
        elif before[1]:
            found[name] = (size, True)
        else:
            del found[name]
    return found


_FILES = st.dictionaries(
    st.sampled_from("fgh"), st.one_of(st.tuples(st.integers(1, 9), st.just(False)), st.just((0, True))), max_size=3
)
_BLOCK = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), _FILES, max_size=3).map(lambda found: ("rows", found)),
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(lambda keys: ("deletes", keys)),
)


@given(st.dictionaries(st.sampled_from(KEYS), _FILES, max_size=3), st.lists(_BLOCK, max_size=5))
def test_lists_of_files_are_merged_as_hudi_merges_them(base: dict[str, Listed], blocks: list[tuple[str, Any]]) -> None:
    logs: dict[str, Listed | None] = {}
    for kind, content in blocks:
        for key in content:
            if kind == "deletes":
                logs[key] = None
            else:
                logs[key] = combined(logs.get(key), content[key])
    expected = dict(base)
    deleted_once: set[str] = {key for kind, keys in blocks if kind == "deletes" for key in keys}
    for key, newer in logs.items():
        if newer is None:
            expected.pop(key, None)
        elif key in deleted_once:  # what was before the delete doesn't count
            expected[key] = newer
        else:
            expected[key] = combined(base.get(key), newer)
    found = merged(
        FILES,
        rows(FILES, [file_list(key, files) for key, files in base.items()]),
        [
            Block(rows=rows(FILES, [file_list(key, files) for key, files in content.items()]))
            if kind == "rows"
            else Block(deleted=pa.array(content, pa.string()))
            for kind, content in blocks
        ],
    )
    assert {
        row["key"]: {n: (i["size"], i["isDeleted"]) for n, i in row["filesystemMetadata"]} for row in found.to_pylist()
    } == {key: {name: info for name, info in files.items() if not info[1]} for key, files in expected.items()}
    assert not entries_of(found["filesystemMetadata"]).deleted.any()


def assert_folding_changes_nothing(partition: str, base: pa.Table, blocks: list[Block], count: int) -> None:
    """A log file in the place of the first ones says the same as they do, whatever comes after it."""
    kept, gone = folded(partition, blocks[:count])
    instead = [Block(deleted=gone), Block(rows=kept), *blocks[count:]]
    whole, parted = (merged(partition, base, each).to_pylist() for each in (blocks, instead))
    assert sorted(map(_said, parted)) == sorted(map(_said, whole))


def _said(row: dict[str, Any]) -> str:
    """A record as text; a map says the same in any order of its entries."""
    return str({name: sorted(value, key=str) if isinstance(value, list) else value for name, value in row.items()})


@example(
    base={},
    blocks=[
        ("rows", {"a": {"f": (0, True)}, "c": {"h": (0, True)}}),
        ("rows", {"a": {}, "c": {"f": (0, True)}}),
        ("deletes", ["a"]),
        ("rows", {"a": {"f": (1, False), "h": (1, False)}}),
    ],
    count=2,
)
@given(st.dictionaries(st.sampled_from(KEYS), _FILES, max_size=3), st.lists(_BLOCK, max_size=6), st.integers(0, 6))
def test_lists_of_files_can_be_folded(base: dict[str, Listed], blocks: list[tuple[str, Any]], count: int) -> None:
    made = [
        Block(rows=rows(FILES, [file_list(key, dict(sorted(files.items()))) for key, files in content.items()]))
        if kind == "rows"
        else Block(deleted=pa.array(content, pa.string()))
        for kind, content in blocks
    ]
    assert_folding_changes_nothing(FILES, rows(FILES, [file_list(key, f) for key, f in base.items()]), made, count)


def location(key: str, file_id: str) -> dict[str, Any]:
    info = {"partitionName": "p", "fileId": file_id, "fileIdEncoding": 1}
    return {"key": key, "type": int(RecordType.RECORD_INDEX), "recordIndexMetadata": info}


_CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from("xyz")), max_size=8)


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from("xyz")), _CHANGES)
def test_of_other_records_the_newest_counts(base: dict[str, str], changes: list[tuple[str, str | None]]) -> None:
    expected = dict(base)
    blocks = []
    for key, file_id in changes:
        if file_id is None:
            expected.pop(key, None)
            blocks.append(Block(deleted=pa.array([key])))
        else:
            expected[key] = file_id
            blocks.append(Block(rows=rows(RECORD_INDEX, [location(key, file_id)])))
    found = merged(RECORD_INDEX, rows(RECORD_INDEX, [location(*each) for each in base.items()]), blocks)
    assert {row["key"]: row["recordIndexMetadata"]["fileId"] for row in found.to_pylist()} == expected


@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from("xyz")), _CHANGES, st.integers(0, 8))
def test_other_records_can_be_folded(base: dict[str, str], changes: list[tuple[str, str | None]], count: int) -> None:
    blocks = [
        Block(deleted=pa.array([key])) if file_id is None else Block(rows=rows(RECORD_INDEX, [location(key, file_id)]))
        for key, file_id in changes
    ]
    before = rows(RECORD_INDEX, [location(*each) for each in base.items()])
    assert_folding_changes_nothing(RECORD_INDEX, before, blocks, count)


def stats(least: int | str | None, greatest: int | str | None, **also: Any) -> dict[str, Any]:
    wrapper = "StringWrapper" if isinstance(least, str) else "IntWrapper"
    kind = 7 if isinstance(least, str) else 3
    held = {
        "fileName": "p",
        "columnName": "c",
        "minValue": None if least is None else {wrapper: {"value": least}},
        "maxValue": None if greatest is None else {wrapper: {"value": greatest}},
        "valueCount": 5,
        "nullCount": 1,
        "totalSize": 10,
        "totalUncompressedSize": 20,
        "isDeleted": False,
        "isTightBound": False,
        "valueType": {"typeOrdinal": kind if least is not None else 1, "additionalInfo": None},
    }
    return {"key": "k", "type": int(RecordType.PARTITION_STATS), "ColumnStatsMetadata": {**held, **also}}


def merged_stats(*versions: dict[str, Any], base: bool = True) -> dict[str, Any] | None:
    first = [versions[0]] if base else []
    blocks = [Block(rows=rows(COLUMN_STATS, [each])) for each in versions[len(first) :]]
    found = merged(COLUMN_STATS, rows(COLUMN_STATS, first), blocks).to_pylist()
    return found[0]["ColumnStatsMetadata"] if found else None


@pytest.mark.parametrize("base", [True, False])
def test_statistics_that_are_not_tight_widen(base: bool) -> None:
    found = merged_stats(stats(3, 7), stats(5, 9), stats(None, None), stats(2, 4), base=base)
    assert found is not None
    assert (found["minValue"]["IntWrapper"], found["maxValue"]["IntWrapper"]) == ({"value": 2}, {"value": 9})
    assert (found["valueCount"], found["nullCount"], found["totalSize"]) == (20, 4, 40)


@pytest.mark.parametrize("base", [True, False])
def test_tight_statistics_take_the_place_of_older_ones(base: bool) -> None:
    found = merged_stats(stats(3, 7), stats(5, 6, isTightBound=True), base=base)
    assert found is not None
    assert (found["minValue"]["IntWrapper"], found["valueCount"]) == ({"value": 5}, 5)


def test_a_tombstone_takes_statistics_away_and_later_ones_stand_alone() -> None:
    gone = stats(None, None, isDeleted=True)
    assert merged_stats(stats(3, 7), gone) is None
    again = merged_stats(stats(3, 7), gone, stats(5, 6), base=False)
    assert again is not None
    assert again["minValue"]["IntWrapper"] == {"value": 5}


def test_nothing_is_known_of_values_of_two_types() -> None:
    assert merged_stats(stats(3, 7), stats("a", "b")) is None


def test_versions_of_different_types_are_refused() -> None:
    other = {**stats(1, 2), "type": int(RecordType.COLUMN_STATS)}
    with pytest.raises(CorruptError, match="different types"):
        merged_stats(stats(1, 2), other)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_statistics_can_be_folded(count: int) -> None:
    gone = stats(None, None, isDeleted=True)
    for versions in ((stats(3, 7), gone, stats(5, 6)), (stats(3, 7), stats(1, 2, isTightBound=True), gone)):
        blocks = [Block(rows=rows(COLUMN_STATS, [each])) for each in versions]
        for base in ([], [stats(1, 9)]):
            assert_folding_changes_nothing(COLUMN_STATS, rows(COLUMN_STATS, base), blocks, count)
