"""Commit metadata of layout 1: Hudi's own files come back byte for byte; what is damaged is said to be."""

from __future__ import annotations

import zipfile

import pytest

from pudi.errors import CorruptError
from pudi.format import CommitMetadata, WriteStat, decode_commit_metadata, encode_commit_metadata
from support.golden import FOLDER, tables

TABLES = [table.name for table in tables("cow_v6_")]


def files(name: str) -> dict[str, bytes]:
    """Every JSON file of a table's active timeline."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        entries = (e for e in archive.namelist() if e.count("/") == 2 and "/.hoodie/2" in e)
        contents = {entry: archive.read(entry) for entry in entries}
    return {entry: content for entry, content in contents.items() if content.startswith(b"{")}


@pytest.mark.parametrize("name", TABLES)
def test_hudis_files_come_back_byte_for_byte(name: str) -> None:
    found = files(name)
    assert len(found) >= 4
    for entry, content in found.items():
        metadata = decode_commit_metadata(content, path=entry)
        assert encode_commit_metadata(metadata, layout=1) == content, entry


def test_what_a_replacecommit_holds() -> None:
    entry = "cow_v6_replace/.hoodie/20261121092121763.replacecommit"
    metadata = decode_commit_metadata(files("cow_v6_replace")[entry])
    assert metadata.operation_type == "INSERT_OVERWRITE"
    assert metadata.partition_to_replace_file_ids == {"nyc": ("f7e6b4a9-890e-47a9-bc7a-a004bb0ec190-2",)}
    assert [s.num_inserts for s in metadata.partition_to_write_stats["nyc"]] == [4]


def test_both_forms_hold_the_same() -> None:
    stat = WriteStat(file_id="a-0", path='x/"é\n.parquet', prev_commit="null", num_writes=3, cdc_stats={"x/c": 1})
    metadata = CommitMetadata({"x": (stat,), "": ()}, extra_metadata={"schema": "{}"}, operation_type="UPSERT")
    for layout in (1, 2):
        assert decode_commit_metadata(encode_commit_metadata(metadata, layout)) == metadata  # type: ignore[arg-type]


def test_what_hudi_does_not_know_or_leaves_out_is_no_error() -> None:
    text = b'{"partitionToWriteStats": {"x": [{"fileId": "a", "later": 1}]}, "extraMetadata": {"a": null}, "more": []}'
    metadata = decode_commit_metadata(text)
    assert metadata.partition_to_write_stats["x"] == (WriteStat(file_id="a"),)
    assert (metadata.extra_metadata, metadata.operation_type) == ({}, None)


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"partitionToWriteStats": []}',
        b'{"partitionToWriteStats": {"x": {}}}',
        b'{"partitionToWriteStats": {"x": [1]}}',
        b'{"partitionToWriteStats": {"x": [{"numWrites": "many"}]}}',
        b'{"partitionToWriteStats": {"x": [{"path": 1}]}}',
        b'{"compacted": 1}',
        b'{"extraMetadata": {"a": 1}}',
        b'{"partitionToReplaceFileIds": {"x": "a"}}',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": "\xff"}',
    ],
)
def test_damaged_text_is_an_error_that_names_the_file(text: bytes) -> None:
    with pytest.raises(CorruptError) as raised:
        decode_commit_metadata(text, path=".hoodie/1.commit")
    assert raised.value.path == ".hoodie/1.commit"
