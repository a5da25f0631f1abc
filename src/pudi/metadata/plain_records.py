"""Records of the metadata table one by one, as plain values, for commits that change few: encode, decode, merge.

For a handful of lists of files, statistics and tombstones the calls of Arrow and numpy take longer than the bytes.
`encode_changes` gives the same bytes (tests/unit/metadata/test_plain_records.py). Statistics merge by the rules of
`stat_merging.partition_stats` (tests/unit/metadata/test_few_stats.py compares them), lists of files by those of
`merged_files` (HoodieTableMetadataUtil.combineFileSystemMetadata), and of `merge` for deletes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

import pyarrow as pa

from pudi.context import RecentValues
from pudi.errors import naming
from pudi.format.avro_values import BadAvro
from pudi.format.hfile_read import open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import block_schema
from pudi.format.log_deletes import decode_deletes
from pudi.format.varints import BadVarint, encode_zigzag, read_zigzag
from pudi.metadata.decode import MOST_KEPT, decode_entries, undecodable
from pudi.metadata.record_schema import RECORD_AVRO, RecordType, columns_of
from pudi.metadata.stat_records import STATS
from pudi.metadata.value_types import ValueType, arrow_type, leaf_type, value_type
from pudi.schema import META_FIELDS

FEW: Final = 500
"""Number of rows up to which plain values take less time than Arrow's calls."""

_FLOAT_TYPES = frozenset({ValueType.FLOAT, ValueType.DOUBLE})
_INTEGERS = frozenset({ValueType.BOOLEAN, ValueType.INT, ValueType.LONG, *range(ValueType.DATE, max(ValueType) + 1)})
_TEXTS = frozenset({ValueType.STRING, ValueType.BYTES})
_DOUBLE_BYTES = Struct("<d")
_NOT_LEAST = re.compile("[\U00010000-\U0010ffff]")
_NOT_GREATEST = re.compile("[\ue000-\uffff]")
"""Characters that Java orders otherwise, see `stat_merging`."""


class Stat(NamedTuple):
    """A row of `STATS`."""

    partition: str
    file: str
    column: str
    type: int
    info: str | None
    min: bytes | None
    max: bytes | None
    null_count: int
    value_count: int
    total_size: int
    total_uncompressed_size: int
    deleted: bool
    tight: bool


assert Stat._fields == tuple(STATS.names)


def plain_stats(stats: pa.Table) -> list[Stat]:
    """Return the rows of a table of `STATS`."""
    return [Stat(*row) for row in zip(*(column.to_pylist() for column in stats.columns), strict=True)]


def few_partition_stats(
    stats: Iterable[Stat], files: Mapping[str, Collection[str]], schema: pa.Schema, columns: Sequence[str]
) -> list[Stat] | None:
    """Return the statistics of partitions over all their files.

    A column whose range is unknown, because a file has no statistics of it, gets a tombstone.

    Args:
        stats: the statistics of files; those of other files are ignored.
        files: the names of all files by partition.
        schema: the table's columns with meta fields.
        columns: the indexed columns.

    Returns:
        A row for each partition and column; None if a column's values can't be compared as they are stored.
    """
    groups: dict[tuple[str, str], list[Stat]] = {}
    for stat in stats:
        if stat.file in files.get(stat.partition, ()):
            groups.setdefault((stat.partition, stat.column), []).append(stat)
    found: dict[tuple[str, str], Stat] = {}
    for (partition, column), rows in groups.items():
        kind = leaf_type(schema, column)
        said = None if kind is None else value_type(kind)
        if said is None or len(rows) != len(files[partition]):
            continue
        if arrow_type(*said) != kind or said[0] not in _FLOAT_TYPES | _INTEGERS | _TEXTS:
            return None
        merged = _merged_stats(partition, column, said, rows)
        if merged is None:
            return None
        found[partition, column] = merged
    wanted = dict.fromkeys([*found, *((partition, column) for partition in files for column in columns)])
    return [found.get(each) or _tombstone(*each) for each in wanted]


def _merged_stats(partition: str, column: str, said: tuple[ValueType, str | None], rows: Sequence[Stat]) -> Stat | None:
    known, bounds = True, list[tuple[bytes, bytes]]()
    for row in rows:
        if row.min is not None and row.max is not None:
            if (row.type, row.info) != said:
                return None
            known = known and not row.deleted and _is_sound(said[0], row.min, row.max)
            bounds.append((row.min, row.max))
        else:
            only_nulls = row.min is None and row.max is None and row.null_count >= row.value_count >= 0
            known = known and not row.deleted and ".log." in row.file and only_nulls
    least = greatest = None
    if known and bounds:
        order = _order(said[0])
        least = min((low for low, _ in bounds), key=order)
        greatest = max(reversed([high for _, high in bounds]), key=order)
    nulls, values = (
        sum(counts) if min(counts) >= 0 else -1
        for counts in ([row.null_count for row in rows], [row.value_count for row in rows])
    )
    sizes = sum(row.total_size for row in rows), sum(row.total_uncompressed_size for row in rows)
    return Stat(partition, partition, column, *said, least, greatest, nulls, values, *sizes, not known, True)


def _tombstone(partition: str, column: str) -> Stat:
    """Return a partition's row of `stat_records.deleted_stats`."""
    return Stat(partition, "", column, ValueType.NULL, None, None, None, -1, -1, -1, -1, True, True)


def _is_sound(kind: ValueType, least: bytes, greatest: bytes) -> bool:
    """Return whether bounds are valid in pudi's order, see `stat_merging`."""
    if kind != ValueType.STRING or (least.isascii() and greatest.isascii()):
        return True
    return not _NOT_LEAST.search(least.decode()) and not _NOT_GREATEST.search(greatest.decode())


def _order(kind: ValueType) -> Callable[[bytes], tuple[bool, bytes | float]]:
    """Return the sort key of stored values; NaN is the greatest number."""
    if kind in _TEXTS:
        return lambda stored: (False, stored)
    if kind in _FLOAT_TYPES:
        return lambda stored: _float_order(_DOUBLE_BYTES.unpack(stored)[0])
    return lambda stored: (False, int.from_bytes(stored, "little", signed=True))


def _float_order(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


_HEAD = b"\0" * (len(META_FIELDS) + 1)
"""Null meta fields, and an empty key."""
_NULL, _SOME = b"\0", b"\2"
_FALSE, _TRUE = b"\0", b"\1"
_INT_BRANCH, _LONG_BRANCH, _BOOLEAN_BRANCH = b"\4", b"\6", b"\2"
_FLOAT_BRANCH, _DOUBLE_BRANCH, _BYTES_BRANCH, _STRING_BRANCH = b"\x08", b"\x0a", b"\x0c", b"\x0e"
"""Branches of the union of minimum and maximum, in the order of the schema."""
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_INTS = frozenset({ValueType.INT, ValueType.DATE, ValueType.TIME_MILLIS})
_BINARY = frozenset({ValueType.BYTES, ValueType.FIXED, ValueType.DECIMAL})


def file_list_record(kind: RecordType, files: Mapping[str, int | None]) -> bytes:
    """Encode a record of the partition `files`.

    Args:
        kind: the type of the record.
        files: sizes in bytes by file name, None for a deleted file; or partitions.
    """
    parts = [_HEAD, encode_zigzag(kind), _SOME]
    if files:
        parts.append(encode_zigzag(len(files)))
        for name, size in files.items():
            parts += [_text(name), encode_zigzag(size or 0), _TRUE if size is None else _FALSE]
    parts.append(b"\0" + _NULL * 4)  # the end of the map, and the other kinds of content
    return b"".join(parts)


def file_list_of(record: bytes) -> dict[str, int | None]:
    """Decode a record of the partition `files`: sizes in bytes by file name, None for a deleted file.

    Raises:
        BadAvro, BadVarint: it isn't one of the schema `RECORD_AVRO`.
    """
    at = 0
    for _ in META_FIELDS:
        branch, at = read_zigzag(record, at)
        if branch:
            _, at = _read_text(record, at)
    _, at = _read_text(record, at)
    _, at = read_zigzag(record, at)
    branch, at = read_zigzag(record, at)
    files: dict[str, int | None] = {}
    while branch:
        count, at = read_zigzag(record, at)
        if count < 0:  # followed by the block's size
            _, at = read_zigzag(record, at)
        if not count:
            break
        for _ in range(abs(count)):
            name, at = _read_text(record, at)
            size, at = read_zigzag(record, at)
            deleted, at = read_zigzag(record, at)
            files[name] = None if deleted else size
    return files


def stats_tombstone(file: str, column: str, version: int) -> bytes:
    """Encode the record of the statistics of a column of a deleted file (`deleted_stats`).

    Args:
        file: the file's name.
        column: the column's name.
        version: version of the index's values, see `StatsSpec`.
    """
    unknown = (_SOME + encode_zigzag(-1)) * 4
    kind = _NULL if version == 1 else _SOME + encode_zigzag(ValueType.NULL) + _NULL
    stats = _SOME + _text(file) + _SOME + _text(column) + _NULL * 2 + unknown + _TRUE + _FALSE + kind
    return _HEAD + encode_zigzag(RecordType.COLUMN_STATS) + _NULL * 2 + _SOME + stats + _NULL * 2


def stats_record(stat: Stat, kind: RecordType) -> bytes:
    """Encode the record of the statistics of one column, from version 2 of the index's values on (`StatsSpec`).

    Args:
        stat: the statistics.
        kind: the type of the record.
    """
    parts = [_HEAD, encode_zigzag(kind), _NULL * 2, _SOME, _SOME, _text(stat.file), _SOME, _text(stat.column)]
    parts += [_value(stat.min, stat.type), _value(stat.max, stat.type)]
    for number in (stat.value_count, stat.null_count, stat.total_size, stat.total_uncompressed_size):
        parts += [_SOME, encode_zigzag(number)]
    parts += [_TRUE if stat.deleted else _FALSE, _TRUE if stat.tight else _FALSE]
    parts += [_SOME, encode_zigzag(stat.type), _NULL if stat.info is None else _SOME + _text(stat.info), _NULL * 2]
    return b"".join(parts)


def _value(stored: bytes | None, kind: int) -> bytes:
    """Encode a minimum or maximum as a union; see `stat_values` for the stored bytes."""
    if stored is None or kind in (ValueType.V1, ValueType.NULL):
        return _NULL
    if kind in (ValueType.STRING, ValueType.UUID):
        return _STRING_BRANCH + encode_zigzag(len(stored)) + stored
    if kind in _BINARY:
        return _BYTES_BRANCH + encode_zigzag(len(stored)) + stored
    if kind == ValueType.DOUBLE:
        return _DOUBLE_BRANCH + stored
    if kind == ValueType.FLOAT:
        return _FLOAT_BRANCH + _FLOAT.pack(_DOUBLE.unpack(stored)[0])
    number = int.from_bytes(stored, "little", signed=True)
    if kind == ValueType.BOOLEAN:
        return _BOOLEAN_BRANCH + (_TRUE if number else _FALSE)
    return (_INT_BRANCH if kind in _INTS else _LONG_BRANCH) + encode_zigzag(number)


def _text(text: str) -> bytes:
    data = text.encode()
    return encode_zigzag(len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = read_zigzag(data, at)
    if size < 0 or at + size > len(data):
        raise BadAvro(f"a text has {size} bytes, which the record hasn't")
    try:
        return data[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise BadAvro("a text isn't UTF-8") from error


FileLists = dict[str, dict[str, "int | None"]]
"""Keys of records with the sizes of files by name, None for a deleted file."""

_kept: RecentValues[tuple[bytes, str], FileLists] = RecentValues(MOST_KEPT)
"""Lists of files, by the bytes and the schema that they were decoded from."""


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
    return {key: _merged_files(oldest.get(key, {}), [each for each in newer if each is not None], key) for key in keys}


def keep_written(content: bytes, keys: Sequence[str], values: Sequence[bytes]) -> None:
    """Keep the lists that an HFile of this process has: its next read finds them by the file's bytes.

    Args:
        content: the bytes of the HFile.
        keys: keys of its records.
        values: the records.
    """
    lists = {key: file_list_of(value) for key, value in zip(keys, values, strict=True)}
    _keep(content, RECORD_AVRO, lists)


def _merged_files(
    base: Mapping[str, int | None], blocks: Sequence[FileLists | frozenset[str]], key: str
) -> dict[str, int]:
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
        except (BadAvro, BadVarint, UnicodeDecodeError) as error:
            raise undecodable(error, path) from error
    else:
        rows = decode_entries(entries, schema_json, columns_of("files"), path=path) if entries.num_rows else None
        found = {} if rows is None else {row["key"]: _plain(row["filesystemMetadata"]) for row in rows.to_pylist()}
    _keep(content, schema or "", found)
    return found


def _keep(content: bytes, schema: str, lists: FileLists) -> None:
    if len(content) <= _kept.most:  # a larger one would push out all others, and stay
        _kept.keep((content, schema), lists, len(content))


def _plain(entries: Sequence[tuple[str, Mapping[str, int]]] | None) -> dict[str, int | None]:
    return {name: None if info["isDeleted"] else info["size"] for name, info in entries or ()}
