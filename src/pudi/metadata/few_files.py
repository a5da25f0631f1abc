"""Merge a small list of files (the partition `files`) as plain values, which takes fewer calls than Arrow columns.

The rules are those of `merge_files` (HoodieTableMetadataUtil.combineFileSystemMetadata), and of `merge` for deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pudi.errors import naming
from pudi.format.avro_values import BadAvro
from pudi.format.hfile_read import open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import block_schema
from pudi.format.log_deletes import decode_deletes
from pudi.metadata.decode import decode_entries, undecodable
from pudi.metadata.decoded import Kept
from pudi.metadata.plain_records import file_list_of
from pudi.metadata.records import RECORD_AVRO, columns_of

FileLists = dict[str, dict[str, "int | None"]]
"""Keys of records with the sizes of files by name, None for a deleted file."""

_kept: Kept[FileLists] = Kept()


def merged_lists(
    base: tuple[str, bytes] | None, blocks: Sequence[LogBlock], keys: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Return the existing files of some records, sizes in bytes by name.

    Args:
        base: path and content of the base file, if there is one.
        blocks: the log blocks, oldest first.
        keys: the records' keys.

    Raises:
        CorruptError: a file can't be decoded.
    """
    oldest = {} if base is None else _file_lists(base[1], None, base[0])
    newer = [_block(block) for block in blocks]
    return {key: _merged(oldest.get(key, {}), [each for each in newer if each is not None], key) for key in keys}


def keep_written(content: bytes, keys: Sequence[str], values: Sequence[bytes]) -> None:
    """Keep the lists that an HFile of this process has: its next read finds them by the file's bytes.

    Args:
        content: the bytes of the HFile.
        keys: keys of its records.
        values: the records.
    """
    lists = {key: file_list_of(value) for key, value in zip(keys, values, strict=True)}
    _kept.keep((content, RECORD_AVRO), lists)


def _merged(base: Mapping[str, int | None], blocks: Sequence[FileLists | frozenset[str]], key: str) -> dict[str, int]:
    logs: dict[str, int | None] = {}
    for block in blocks:
        if isinstance(block, frozenset):  # deletes
            if key in block:
                base, logs = {}, {}
        elif key in block:
            _apply(logs, block[key])
    whole: dict[str, int | None] = {}
    _apply(whole, base)
    _apply(whole, logs)
    return {name: size for name, size in whole.items() if size is not None}


def _apply(older: dict[str, int | None], newer: Mapping[str, int | None]) -> None:
    """Apply newer entries: a delete removes an existing entry, and stays as an entry if there is none."""
    for name, size in newer.items():
        if size is not None:
            older[name] = max(older.get(name) or 0, size)
        elif older.get(name) is not None:
            del older[name]
        else:
            older[name] = None


def _block(block: LogBlock) -> FileLists | frozenset[str]:
    if block.kind is BlockKind.HFILE:
        return _file_lists(bytes(block.content), block_schema(block), block.path or "")
    if block.kind is BlockKind.DELETE:
        return frozenset(decode_deletes(block).keys.to_pylist())
    raise block.corrupt("is in the metadata table, whose blocks hold HFiles")


def _file_lists(content: bytes, schema: str | None, path: str) -> FileLists:
    """Decode an HFile; None for a schema that the file says itself."""
    found = _kept.get((content, schema or ""))
    if found is not None:
        return found
    file = open_bytes(content, path=path)
    entries, schema_json = file.scan(), file.avro_schema if schema is None else schema
    if schema_json == RECORD_AVRO:
        try:
            with naming(path):
                pairs = zip(entries["key"].to_pylist(), entries["value"].to_pylist(), strict=True)
                found = {key.decode(): file_list_of(value) for key, value in pairs}
        except (BadAvro, UnicodeDecodeError) as error:
            raise undecodable(error, path) from error
    else:
        rows = decode_entries(entries, schema_json, columns_of("files"), path=path) if entries.num_rows else None
        found = {} if rows is None else {row["key"]: _plain(row["filesystemMetadata"]) for row in rows.to_pylist()}
    _kept.keep((content, schema or ""), found)
    return found


def _plain(entries: Sequence[tuple[str, Mapping[str, int]]] | None) -> dict[str, int | None]:
    return {name: None if info["isDeleted"] else info["size"] for name, info in entries or ()}
