"""The record index: its rows, their file groups, and the look-up of keys; also the rows of secondary indexes.

A row of the record index has the location of a key, a row of a secondary index a record's value of a column. All keys
that one commit adds to a file group have the same value, so values are encoded and decoded once per file group, not
once per key.

Source: HoodieBackedTableMetadata.readRecordIndex, HoodieTableMetadataUtil.getFileIDForFileGroup,
HoodieMetadataPayload.createRecordIndexUpdate, HoodieTableMetadataUtil.getLocationFromRecordIndexInfo,
SecondaryIndexRecordGenerationUtils, HoodieIndexUtils.isSecondaryIndexSupportedType,
HoodieMetadataPayload.createSecondaryIndexRecord.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.config import MetadataOptions
from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError, naming
from pudi.filegroup import FileSlice, LogScope, read_log_blocks
from pudi.filegroup.hfilebase import open_hfile
from pudi.format.avro_encode import encode_records
from pudi.format.avro_file import RecordSchema, encode_avro
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records, Run
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_deletes import decode_deletes
from pudi.format.metadata_partitions import RECORD_INDEX, group_id
from pudi.metadata.keys import Shards, secondary_keys, shard_of
from pudi.metadata.record_schema import RECORD_AVRO, RECORD_SCHEMA, RecordType
from pudi.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import offsets_of, one_array
from pudi.schema.java_numbers import java_float_text

_UUID, _TEXT = 0, 1
"""The encodings of a file id: the halves of a UUID and a number, or the text itself."""

_NO_INDEX = -1
"""The number for a file id that is only a UUID (RECORD_INDEX_MISSING_FILEINDEX_FALLBACK)."""

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-(0|[1-9][0-9]{0,8}))?")
_COLUMN = "recordIndexMetadata"


@cache
def _record() -> RecordSchema:
    return RecordSchema.own(RECORD_AVRO)


def encode_location(partition: str, file_id: str, millis: int) -> bytes:
    """Encode the value of all keys in a file group as Avro, with an empty key.

    Args:
        partition: partition path, empty for none.
        file_id: the file group.
        millis: time of the instant that added them.
    """
    # a hundred times as fast as `encode_records` for a single value; a table has many file groups
    row = {"key": "", "type": int(RecordType.RECORD_INDEX), _COLUMN: _info(partition, file_id, millis)}
    return encode_avro(_record(), dict.fromkeys(RECORD_SCHEMA.names) | row)


def _info(partition: str, file_id: str, millis: int) -> dict[str, object]:
    shape = _SHAPE.fullmatch(file_id)
    info: dict[str, object] = {"partitionName": partition, "instantTime": millis, "position": None}
    if shape is None:  # it would not decode to the same text
        return {
            **info,
            "fileIdHighBits": -1,
            "fileIdLowBits": -1,
            "fileIndex": _NO_INDEX,
            "fileId": file_id,
            "fileIdEncoding": _TEXT,
        }
    high, low = np.frombuffer(UUID(file_id[:36]).bytes, ">i8").tolist()
    return {
        **info,
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": _NO_INDEX if shape[1] is None else int(shape[1]),
        "fileId": "",
        "fileIdEncoding": _UUID,
    }


def decode_locations(values: pa.Array, schema_json: str, *, path: str) -> tuple[pa.Array, pa.Array]:
    """Decode partition paths and file ids from values of the record index.

    Args:
        values: binary, as `encode_location` makes them.
        schema_json: Avro schema of the values.
        path: the file of the values, for messages.

    Returns:
        Two dictionary-encoded string arrays of the length of `values`.

    Raises:
        CorruptError: a value is not a row of the record index.
    """
    coded = pc.dictionary_encode(values)
    known = coded.dictionary.cast(pa.binary())
    offsets = offsets_of(known)
    data = known.buffers()[2] if len(known) else None
    try:
        records = Records.of(b"" if data is None else memoryview(data)[: int(offsets[-1])])
        with naming(path):
            rows = read_records(schema_json, Run(records, offsets[:-1], offsets[1:]), {_COLUMN}, unions=True)
    except BadAvro as error:
        raise CorruptError(f"a row of the record index can't be decoded: {error}", path=path) from error
    infos = rows[_COLUMN].to_pylist()  # file groups, not records
    places = [_place(info, path) for info in infos]
    partitions, files = (pa.array([place[n] for place in places], pa.string()) for n in (0, 1))
    return (
        pa.DictionaryArray.from_arrays(coded.indices, partitions),
        pa.DictionaryArray.from_arrays(coded.indices, files),
    )


def _place(info: dict[str, object] | None, path: str) -> tuple[str, str]:
    """Return partition path and file id of a row."""
    if info is None or info["partitionName"] is None:
        raise CorruptError(f"partition {RECORD_INDEX} of the metadata table has a record without location", path=path)
    partition = str(info["partitionName"])
    if info["fileIdEncoding"] != _UUID:
        return partition, str(info["fileId"] or "")
    halves, number = (info["fileIdHighBits"], info["fileIdLowBits"]), info["fileIndex"]
    if not all(isinstance(half, int) for half in halves):
        raise CorruptError("a row of the record index has no file id", path=path)
    file_id = str(UUID(bytes=np.array(halves, dtype=">i8").tobytes()))
    return partition, file_id if number in {None, _NO_INDEX} else f"{file_id}-{number}"


def may_be_secondary(kind: pa.DataType) -> bool:
    """Return whether Hudi supports secondary indexes on columns of a type."""
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_signed_integer(kind)
        or pt.is_floating(kind)
        or pt.is_date32(kind)
        or (pt.is_timestamp(kind) and kind.tz is not None)
    )


def secondary_texts(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column's values as texts of a secondary index: Java's texts of the values in a Spark row.

    For example, a date is its number of days, and a timestamp its microseconds.

    Raises:
        NotSupportedError: the type has no secondary index.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pt.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    kind = whole.type
    if not may_be_secondary(kind):
        raise NotSupportedError(f"a secondary index over a column of type {kind}")
    if pt.is_floating(kind):
        return java_float_text(whole) if len(whole) > whole.null_count else pa.nulls(len(whole), pa.string())
    if pt.is_date32(kind):
        whole = whole.view(pa.int32())
    elif pt.is_timestamp(kind):
        whole = whole.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    return pc.cast(whole, pa.string())


def may_be_looked_up(kind: pa.DataType) -> bool:
    """Return whether reads may use an index on columns of a type, which requires known texts for its values.

    Timestamps in milliseconds are excluded: Hudi's releases disagree on whether they are microseconds.
    """
    return may_be_secondary(kind) and not (pt.is_timestamp(kind) and kind.unit != "us")


def certain_texts(values: Collection[object], kind: pa.DataType) -> list[str] | None:
    """Return all texts that any writer may have used in a secondary index for some values of a column.

    Args:
        values: values of the column, without null and NaN.
        kind: the column's type; `may_be_looked_up` is true.

    Returns:
        None if the texts are uncertain: Java before 19 prints some floating-point numbers with more digits than needed.
        Numbers of moderate size with few enough digits have the same text in all versions.
    """
    if not pt.is_floating(kind):
        return sorted(secondary_texts(pa.array(list(values), kind)).to_pylist())
    texts: set[str] = set()
    for value in values:
        found = _float_texts(np.float64(cast(float, value)), kind)
        if found is None:
            return None
        texts |= found
    return sorted(texts)


_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Range of numbers that Java prints without an exponent."""


def _float_texts(value: np.float64, kind: pa.DataType) -> set[str] | None:
    """Return the texts of a number in the column's type and in its possible old types: FLOAT, or an integer."""
    if value == 0:
        return {"0.0", "-0.0", "0"}
    if not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return None
    if value.is_integer():
        return {f"{value:.1f}", f"{value:.0f}"}
    narrow = np.float32(value)
    candidates: list[tuple[np.floating[Any], int]] = [(narrow, _FLOAT_DIGITS)] if narrow == value else []
    candidates += [(value, _DOUBLE_DIGITS)] if pt.is_float64(kind) else []
    texts = [np.format_float_positional(number) for number, _ in candidates]
    digits = [len(text.lstrip("-0.").replace(".", "")) for text in texts]
    return set(texts) if all(has <= most for has, (_, most) in zip(digits, candidates, strict=True)) else None


_FLOAT_DIGITS, _DOUBLE_DIGITS = 6, 15
"""Number of digits that every decimal number keeps (FLT_DIG and DBL_DIG)."""


def keys_of_rows(values: pa.Array | pa.ChunkedArray, record_keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the keys of an index for records.

    Args:
        values: the column's values.
        record_keys: the records' keys.
    """
    keys = record_keys.combine_chunks() if isinstance(record_keys, pa.ChunkedArray) else record_keys
    return secondary_keys(secondary_texts(values), keys.cast(pa.string()))


@cache
def secondary_value() -> bytes:
    """Return the value of every key, in Avro, with an empty key."""
    row = {"key": "", "type": int(RecordType.SECONDARY_INDEX), "SecondaryIndexMetadata": {"isDeleted": False}}
    rows = pa.Table.from_pylist([row], RECORD_SCHEMA)
    metas = [pa.field(name, pa.string()) for name in META_FIELDS]
    arrays = [*(pa.nulls(1, pa.string()) for _ in metas), *rows.columns]
    whole = pa.Table.from_arrays(arrays, schema=pa.schema([*metas, *RECORD_SCHEMA]))
    value: bytes = encode_records(RECORD_AVRO, whole, unions=True)[0].as_py()
    return value


FILE_ID = "_pudi_file_id"
LOCATIONS = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string()), (FILE_ID, pa.string())])
"""Locations of record keys: key, partition path and file group."""

WHOLE_TABLE = None
"""Stands for the data table's partition in an index over the whole table."""

_ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^_-]")

Numbers = npt.NDArray[np.int64]


def shard_id(number: int, partition: str | None = WHOLE_TABLE) -> str:
    """Return the file id of a file group of the record index.

    Args:
        number: its number in the table or in the partition.
        partition: path of the data table's partition; None if the index is over the whole table.

    Raises:
        NotSupportedError: the path has a dot, which Hudi can't write either.
    """
    if partition is not None and "." in partition:
        raise NotSupportedError(
            f"partition {partition!r} has a dot: Hudi's names of log files have no place for it in a record index by "
            "partition; use a record index over the whole table, or another index"
        )
    part = "" if partition is None else f"{_escape(partition)}-"
    return group_id(RECORD_INDEX, number, part)


def _escape(partition: str) -> str:
    """Escape a partition path for a file id (PartitionPathEncodeUtils.escapeFileName)."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", partition)


@dataclass(frozen=True, slots=True)
class RecordShards:
    """The record index of a table at one moment; picklable.

    Attributes:
        storage: the metadata table's files.
        slices: its file groups, by their numbers in this object.
        ranges: first number and count of its file groups by partition path of the data table; one range under
            `WHOLE_TABLE` if the index is over the whole table.
        scope: the instants whose log blocks count.
    """

    storage: Storage
    slices: tuple[FileSlice, ...]
    ranges: Mapping[str | None, tuple[int, int]]
    scope: LogScope

    @classmethod
    def of(cls, storage: Storage, slices: Sequence[FileSlice], scope: LogScope, *, partitioned: bool) -> RecordShards:
        """Return the index that consists of some slices.

        Raises:
            CorruptError: the file groups are not numbered from 0 on, or belong to an index of the other kind.
        """
        known = Shards.of(RECORD_INDEX, slices).by_owner if slices else {}
        ordered: list[FileSlice] = []
        ranges: dict[str | None, tuple[int, int]] = {}
        for owner in sorted(known, key=lambda partition: partition or ""):
            if partitioned == (owner is WHOLE_TABLE):
                kind = "by partition" if partitioned else "over the whole table"
                raise CorruptError(
                    f"file group {known[owner][0].file_id!r} is none of a record index {kind}; write with "
                    f"{MetadataOptions.drop}=record_index, which drops it, and create it again",
                    table=storage.root,
                )
            ranges[owner] = (len(ordered), len(known[owner]))
            ordered += known[owner]
        return cls(storage, tuple(ordered), ranges, scope)

    @property
    def partitioned(self) -> bool:
        """Whether the index is divided by partition of the data table, or has no file groups yet."""
        return WHOLE_TABLE not in self.ranges

    def shards_of(self, keys: pa.Array, partition: str | None = WHOLE_TABLE) -> Numbers:
        """Return the numbers of the file groups of keys, in one partition for an index per partition; -1 for none."""
        first, count = self.ranges.get(partition if self.partitioned else WHOLE_TABLE, (-1, 0))
        if not count:
            return np.full(len(keys), -1, dtype=np.int64)
        return first + shard_of(keys, count)

    def find(self, number: int, keys: pa.Array) -> pa.Table:
        """Look up keys in one file group: rows of `LOCATIONS`, none for missing keys.

        Raises:
            CorruptError: the file group can't be read.
            NotFoundError: one of its files is gone.
        """
        return read_shard(self.storage, self.slices[number], self.scope, keys)

    def scan(self, number: int) -> pa.Table:
        """Return all keys of a file group; errors as of `find`."""
        return read_shard(self.storage, self.slices[number], self.scope)


def read_shard(storage: Storage, file_slice: FileSlice, scope: LogScope, keys: pa.Array | None = None) -> pa.Table:
    """Read one file group of the record index: merge base file and log blocks, the newest row of a key wins.

    Args:
        storage: the metadata table's files.
        file_slice: the file group.
        scope: the instants whose log blocks count.
        keys: record keys; None for all.

    Returns:
        Rows of `LOCATIONS`, partition paths and file ids as dictionaries.

    Raises:
        CorruptError: a file can't be read, or has other records.
        NotFoundError: a file is gone.
    """
    found: list[pa.Table] = []
    gone: list[pa.Table] = []
    order = 0
    if file_slice.base is not None:
        found.append(_located(open_hfile(storage, file_slice.base), keys, file_slice.base.path, order))
    for block in read_log_blocks(storage, file_slice.logs, scope):
        order += 1
        if block.kind is BlockKind.DELETE:
            gone.append(_deleted(block, keys, order))
        elif block.kind is BlockKind.HFILE:
            path = block.path or file_slice.path
            found.append(_located(open_bytes(block.content, path=path), keys, path, order))
        else:
            raise CorruptError(f"a log file of the record index has a block of kind {block.kind.name}", path=block.path)
    if not found:
        return LOCATIONS.empty_table()
    rows = found[0] if len(found) == 1 else pa.concat_tables(found).unify_dictionaries()
    return rows.drop_columns(_ORDER) if not order else _newest(rows, gone).drop_columns(_ORDER)


_ORDER = "order"


def _located(reader: HFileReader, keys: pa.Array | None, path: str, order: int) -> pa.Table:
    """Return the rows of one HFile."""
    entries = (reader.scan() if keys is None else reader.seek(keys)).combine_chunks()
    names, values = entries.columns
    names, values = (one_array(names), one_array(values))
    partitions, files = decode_locations(values, reader.avro_schema, path=path)
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptError("a key of the record index is no text", path=path) from error
    return pa.table(
        [texts, partitions, files, pa.array(np.full(len(texts), order, dtype=np.int32))],
        names=[*LOCATIONS.names, _ORDER],
    )


def _deleted(block: LogBlock, keys: pa.Array | None, order: int) -> pa.Table:
    """Return the keys that one block deletes."""
    texts = decode_deletes(block).keys
    if keys is not None:
        texts = texts.filter(pc.is_in(texts, value_set=keys.cast(pa.string())))
    return pa.table([texts, pa.array(np.full(len(texts), order, dtype=np.int32))], names=[RECORD_KEY, _ORDER])


def _newest(rows: pa.Table, gone: Sequence[pa.Table]) -> pa.Table:
    """Return the newest row of each key, unless a delete follows it."""
    count = rows.num_rows
    both = pa.concat_tables([rows.select([RECORD_KEY, _ORDER]), *gone])
    coded = pc.dictionary_encode(one_array(both[RECORD_KEY]))
    order = np.asarray(one_array(both[_ORDER])).astype(np.int64)
    codes = np.asarray(coded.indices)
    sequence = np.argsort(order, kind="stable")
    last = np.full(len(coded.dictionary), -1, dtype=np.int64)
    last[codes[sequence]] = sequence  # the last assignment to a position stays
    kept = np.sort(last[(last >= 0) & (last < count)])
    return rows if len(kept) == count else rows.take(pa.array(kept))
