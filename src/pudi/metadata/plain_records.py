"""Encode and decode records of the metadata table one by one, for commits that change few of them.

For a handful of lists of files, statistics and tombstones the calls of Arrow and numpy take longer than the bytes.
`encode_changes` gives the same bytes (tests/unit/metadata/test_plain_records.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from pudi.format.avro_values import BadAvro
from pudi.metadata.few_stats import Stat
from pudi.metadata.records import RecordType
from pudi.metadata.value_types import ValueType
from pudi.schema import META_FIELDS

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
    parts = [_HEAD, _long(kind), _SOME]
    if files:
        parts.append(_long(len(files)))
        for name, size in files.items():
            parts += [_text(name), _long(size or 0), _TRUE if size is None else _FALSE]
    parts.append(b"\0" + _NULL * 4)  # the end of the map, and the other kinds of content
    return b"".join(parts)


def file_list_of(record: bytes) -> dict[str, int | None]:
    """Decode a record of the partition `files`: sizes in bytes by file name, None for a deleted file.

    Raises:
        BadAvro: it isn't one of the schema `RECORD_AVRO`.
    """
    at = 0
    for _ in META_FIELDS:
        branch, at = _read_long(record, at)
        if branch:
            _, at = _read_text(record, at)
    _, at = _read_text(record, at)
    _, at = _read_long(record, at)
    branch, at = _read_long(record, at)
    files: dict[str, int | None] = {}
    while branch:
        count, at = _read_long(record, at)
        if count < 0:  # followed by the block's size
            _, at = _read_long(record, at)
        if not count:
            break
        for _ in range(abs(count)):
            name, at = _read_text(record, at)
            size, at = _read_long(record, at)
            deleted, at = _read_long(record, at)
            files[name] = None if deleted else size
    return files


def stats_tombstone(file: str, column: str, version: int) -> bytes:
    """Encode the record of the statistics of a column of a deleted file (`deleted_stats`).

    Args:
        file: the file's name.
        column: the column's name.
        version: version of the index's values, see `StatsSpec`.
    """
    unknown = (_SOME + _long(-1)) * 4
    kind = _NULL if version == 1 else _SOME + _long(ValueType.NULL) + _NULL
    stats = _SOME + _text(file) + _SOME + _text(column) + _NULL * 2 + unknown + _TRUE + _FALSE + kind
    return _HEAD + _long(RecordType.COLUMN_STATS) + _NULL * 2 + _SOME + stats + _NULL * 2


def stats_record(stat: Stat, kind: RecordType) -> bytes:
    """Encode the record of the statistics of one column, from version 2 of the index's values on (`StatsSpec`).

    Args:
        stat: the statistics.
        kind: the type of the record.
    """
    parts = [_HEAD, _long(kind), _NULL * 2, _SOME, _SOME, _text(stat.file), _SOME, _text(stat.column)]
    parts += [_value(stat.min, stat.type), _value(stat.max, stat.type)]
    for number in (stat.value_count, stat.null_count, stat.total_size, stat.total_uncompressed_size):
        parts += [_SOME, _long(number)]
    parts += [_TRUE if stat.deleted else _FALSE, _TRUE if stat.tight else _FALSE]
    parts += [_SOME, _long(stat.type), _NULL if stat.info is None else _SOME + _text(stat.info), _NULL * 2]
    return b"".join(parts)


def _value(stored: bytes | None, kind: int) -> bytes:
    """Encode a minimum or maximum as a union; see `stat_values` for the stored bytes."""
    if stored is None or kind in (ValueType.V1, ValueType.NULL):
        return _NULL
    if kind in (ValueType.STRING, ValueType.UUID):
        return _STRING_BRANCH + _long(len(stored)) + stored
    if kind in _BINARY:
        return _BYTES_BRANCH + _long(len(stored)) + stored
    if kind == ValueType.DOUBLE:
        return _DOUBLE_BRANCH + stored
    if kind == ValueType.FLOAT:
        return _FLOAT_BRANCH + _FLOAT.pack(_DOUBLE.unpack(stored)[0])
    number = int.from_bytes(stored, "little", signed=True)
    if kind == ValueType.BOOLEAN:
        return _BOOLEAN_BRANCH + (_TRUE if number else _FALSE)
    return (_INT_BRANCH if kind in _INTS else _LONG_BRANCH) + _long(number)


def _long(number: int) -> bytes:
    word = (number << 1) ^ (number >> 63)
    out = bytearray()
    while word > 0x7F:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    out.append(word)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return _long(len(data)) + data


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    word, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadAvro("a number has no end")
        byte = data[at]
        word |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (word >> 1) ^ -(word & 1), at


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read_long(data, at)
    if size < 0 or at + size > len(data):
        raise BadAvro(f"a text has {size} bytes, which the record hasn't")
    try:
        return data[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise BadAvro("a text isn't UTF-8") from error
