"""Encode column statistics as records of the metadata table (`STATS` to `RECORD_SCHEMA`), and decode them.

The index version determines how values are wrapped: in version 1 by their logical type and without a value type, from
version 2 on by their plain storage type together with a value type (HoodieAvroWrapperUtils, ValueType).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.format.avro_encode import decimal_cells, sized_decimals
from pudi.format.avro_values import Records, decimals
from pudi.metadata.file_stats import FILE_STATS
from pudi.metadata.keys import column_stats_keys, expression_partition_keys, partition_stats_keys
from pudi.metadata.record_schema import RECORD_SCHEMA, RecordType, all_columns
from pudi.metadata.value_types import V1_DECIMAL, ValueType, arrow_type
from pudi.schema.arrays import content_of, joined_arrays, mask_of, one_array


def integers_of(stored: pa.Array) -> npt.NDArray[np.int64]:
    """Decode integers from bytes; no nulls."""
    return np.frombuffer(content_of(stored), dtype="<i8").astype(np.int64)


def floats_of(stored: pa.Array) -> npt.NDArray[np.float64]:
    """Decode floating-point numbers from bytes; no nulls."""
    return np.frombuffer(content_of(stored), dtype="<f8").astype(np.float64)


def decimals_of(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode decimals from bytes; null stays null. A value with too many digits for the type raises `BadAvro`."""
    whole = pc.fill_null(stored, b"\0")
    data = np.frombuffer(content_of(whole), dtype=np.uint8)
    ends = np.cumsum(np.asarray(pc.binary_length(whole)).astype(np.int64))
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    values = decimals(Records.of(data.tobytes()), begins, ends, kind)
    return values if not stored.null_count else pc.if_else(stored.is_valid(), values, pa.scalar(None, kind))


def stored_integers(values: pa.Array) -> pa.Array:
    """Encode integers, booleans, dates and times as bytes; no nulls."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif not pa.types.is_integer(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return _eights(np.asarray(values).astype("<i8"))


def stored_floats(values: pa.Array) -> pa.Array:
    """Encode floating-point numbers as bytes; no nulls."""
    return _eights(np.asarray(values).astype("<f8"))


def decimal_bytes(values: pa.Array) -> pa.Array:
    """Encode decimals as the fewest bytes of a big-endian integer (BigInteger.toByteArray); no nulls."""
    sized = sized_decimals(decimal_cells(values), np.ones(len(values), dtype=bool))
    offsets = np.frombuffer(sized.buffers()[1], dtype=np.int32)[: len(sized) + 1]
    data = np.delete(np.frombuffer(content_of(sized), dtype=np.uint8), offsets[:-1])  # without the lengths
    ends = pa.py_buffer(offsets - np.arange(len(offsets), dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(sized), [None, ends, pa.py_buffer(data)])


def typed(stored: pa.Array, kind: ValueType, info: str | None) -> pa.Array | None:
    """Decode bytes of one value type; None for an invalid type."""
    target = arrow_type(kind, info)
    if target is None:
        return None
    valid = stored.is_valid()
    if kind == ValueType.DECIMAL:
        return decimals_of(stored, target)
    if kind in (ValueType.STRING, ValueType.UUID, ValueType.BYTES, ValueType.FIXED):
        return stored.cast(target)
    known = stored.filter(valid)
    if kind in (ValueType.FLOAT, ValueType.DOUBLE):
        values = pa.array(floats_of(known)).cast(target)
    elif kind in (ValueType.BOOLEAN, ValueType.INT):
        values = pa.array(integers_of(known)).cast(target, safe=False)
    else:
        width = np.int32 if target.bit_width == 32 else np.int64
        values = pa.array(integers_of(known).astype(width)).view(target)
    if len(known) == len(stored):
        return values
    return pc.replace_with_mask(pa.nulls(len(stored), target), valid, values)


def untyped(values: pa.Array) -> pa.Array:
    """Encode values as bytes; null stays null."""
    valid, kind = values.is_valid(), values.type
    known = values if not values.null_count else values.filter(valid)
    if pa.types.is_decimal(kind):
        stored = decimal_bytes(known)
    elif pa.types.is_floating(kind):
        stored = stored_floats(known)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        stored = known.cast(pa.binary())
    else:
        stored = stored_integers(known)
    return stored if not values.null_count else pc.replace_with_mask(pa.nulls(len(values), pa.binary()), valid, stored)


def _eights(values: np.ndarray) -> pa.Array:
    whole = np.ascontiguousarray(values)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(whole), [None, pa.py_buffer(whole)]).cast(pa.binary())


STATS: Final = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        *FILE_STATS,
        pa.field("deleted", pa.bool_(), nullable=False),
        pa.field("tight", pa.bool_(), nullable=False),
    ]
)
"""Statistics of columns in files or, if `file` is the partition path, in partitions; see `FILE_STATS`."""

_STRUCT: Final = RECORD_SCHEMA.field("ColumnStatsMetadata").type
_RANGE: Final = _STRUCT.field("minValue").type
_VALUE_TYPE: Final = _STRUCT.field("valueType").type

_INTEGERS: Final = {
    "BooleanWrapper": (ValueType.BOOLEAN,),
    "IntWrapper": (ValueType.INT, ValueType.DATE, ValueType.TIME_MILLIS),
    "LongWrapper": (
        ValueType.LONG,
        ValueType.TIME_MICROS,
        *range(ValueType.TIMESTAMP_MILLIS, ValueType.LOCAL_TIMESTAMP_NANOS + 1),
    ),
}
_FLOATS: Final = {"FloatWrapper": (ValueType.FLOAT,), "DoubleWrapper": (ValueType.DOUBLE,)}
_BYTES: Final = {
    "StringWrapper": (ValueType.STRING, ValueType.UUID),
    "BytesWrapper": (ValueType.BYTES, ValueType.FIXED, ValueType.DECIMAL),
}
_V1_TYPES: Final = {
    "BooleanWrapper": ValueType.BOOLEAN,
    "IntWrapper": ValueType.INT,
    "LongWrapper": ValueType.LONG,
    "FloatWrapper": ValueType.FLOAT,
    "DoubleWrapper": ValueType.DOUBLE,
    "BytesWrapper": ValueType.BYTES,
    "StringWrapper": ValueType.STRING,
    "DateWrapper": ValueType.DATE,
    "DecimalWrapper": ValueType.DECIMAL,
    "TimeMicrosWrapper": ValueType.TIME_MICROS,
    "TimestampMicrosWrapper": ValueType.TIMESTAMP_MICROS,
    "LocalDateWrapper": ValueType.DATE,
}
"""The value type of a wrapper without a value type; a long may also be a timestamp in any unit."""


def stats_of_files(files: Iterable[tuple[str, str, pa.Table]]) -> pa.Table:
    """Return the statistics of several files as one table.

    Args:
        files: partition path, name and `FILE_STATS` of each.
    """
    stored = list(files)
    if not stored:
        return STATS.empty_table()
    whole = pa.concat_tables([stats for _, _, stats in stored]).combine_chunks()
    of = pa.array(np.repeat(np.arange(len(stored)), [stats.num_rows for _, _, stats in stored]))
    texts = [pa.array([each[place] for each in stored], pa.string()).take(of) for place in (0, 1)]
    no = pa.array(np.zeros(len(of), dtype=bool))
    return pa.Table.from_arrays([*texts, *whole.columns, no, no], schema=STATS)


def deleted_stats(files: Iterable[tuple[str, str]], columns: Iterable[str], *, partitions: bool = False) -> pa.Table:
    """Return tombstones for deleted files or partitions (HoodieColumnRangeMetadata.stub).

    Args:
        files: partition path and name of each; the name is ignored for partitions.
        columns: names of the indexed columns.
        partitions: whether these are partitions.
    """
    names = list(columns)
    pairs = [(partition, file, name) for partition, file in files for name in names]
    count = len(pairs)
    less = pa.array(np.full(count, -1, dtype=np.int64))
    return pa.Table.from_arrays(
        [
            pa.array([partition for partition, _, _ in pairs], pa.string()),
            pa.array(["" if partitions else file for _, file, _ in pairs], pa.string()),
            pa.array([name for _, _, name in pairs], pa.string()),
            pa.array(np.full(count, ValueType.NULL, dtype=np.int8)),
            *(pa.nulls(count, FILE_STATS.field(name).type) for name in ("info", "min", "max")),
            *([less] * 4),
            pa.array(np.ones(count, dtype=bool)),
            pa.array(np.full(count, partitions)),
        ],
        schema=STATS,
    )


def column_stats_records(stats: pa.Table, version: int) -> pa.Table:
    """Encode records of the partition `column_stats`.

    Args:
        stats: a table of `STATS`.
        version: version of the index's values, see `StatsSpec`.

    Returns:
        A table of `RECORD_SCHEMA` with one record per row.
    """
    return _records(*_keyed_files(stats), version)


def partition_stats_records(stats: pa.Table, version: int, *, of_expression: bool = False) -> pa.Table:
    """Encode records about partitions, for `partition_stats` or an expression index.

    Args:
        stats: a table of `STATS`.
        version: version of the index's values, see `StatsSpec`.
        of_expression: whether they are for an expression index, which also has statistics of files.
    """
    return _records(*_keyed_partitions(stats, of_expression), version)


def stats_records(files: pa.Table, partitions: pa.Table, version: int, *, of_expression: bool = False) -> pa.Table:
    """Encode statistics of files (`column_stats_records`), followed by those of partitions (`partition_stats_records`).

    Args:
        files: a table of `STATS`.
        partitions: another table of `STATS`.
        version: version of the index's values, see `StatsSpec`.
        of_expression: see `partition_stats_records`.
    """
    both = zip(_keyed_files(files), _keyed_partitions(partitions, of_expression), strict=True)
    keys, kinds, stats = both
    return _records(joined_arrays(keys), np.concatenate(kinds), pa.concat_tables(stats).combine_chunks(), version)


def _keyed_files(stats: pa.Table) -> tuple[pa.Array, np.ndarray, pa.Table]:
    """Return statistics of files with keys and record types."""
    stats = stats.combine_chunks()
    keys = column_stats_keys(*(one_array(stats[name]) for name in ("column", "partition", "file")))
    return keys, np.full(len(keys), RecordType.COLUMN_STATS, dtype=np.int32), stats


def _keyed_partitions(stats: pa.Table, of_expression: bool) -> tuple[pa.Array, np.ndarray, pa.Table]:
    """Return statistics of partitions with keys and record types."""
    stats = stats.combine_chunks()
    make = expression_partition_keys if of_expression else partition_stats_keys
    keys = make(*(one_array(stats[name]) for name in ("column", "partition")))
    return keys, np.full(len(keys), RecordType.PARTITION_STATS, dtype=np.int32), stats


def stats_of_records(records: pa.Table, partitions: pa.Array | None = None) -> pa.Table:
    """Decode the statistics in records of `column_stats` and so on.

    Args:
        records: a table of `RECORD_SCHEMA`; records without statistics are skipped.
        partitions: the partition path of each record, which the records lack; None leaves it empty.

    Returns:
        A table of `STATS`. Values of an invalid type become null, which means unknown.
    """
    stored = one_array(records["ColumnStatsMetadata"])
    known = stored.is_valid()
    of = pa.repeat("", len(stored)) if partitions is None else partitions
    if not pc.all(known).as_py():
        stored, of = stored.filter(known), of.filter(known)
    said = pc.struct_field(stored, "valueType")
    kinds = np.array(pc.fill_null(pc.struct_field(said, "typeOrdinal"), 0), dtype=np.int64)
    kinds[(kinds < 0) | (kinds > max(ValueType))] = ValueType.NULL
    ranges = [pc.struct_field(stored, name) for name in ("minValue", "maxValue")]
    types, info = _types(kinds, pc.struct_field(said, "additionalInfo"), ranges)
    text = {name: pc.fill_null(pc.struct_field(stored, name), "") for name in ("fileName", "columnName")}
    counts = ("nullCount", "valueCount", "totalSize", "totalUncompressedSize")
    return pa.Table.from_arrays(
        [
            of,
            text["fileName"],
            text["columnName"],
            pa.array(types.astype(np.int8)),
            info,
            *(_unwrapped(side, types) for side in ranges),
            *(pc.fill_null(pc.struct_field(stored, name), -1) for name in counts),
            *(pc.struct_field(stored, name) for name in ("isDeleted", "isTightBound")),
        ],
        schema=STATS,
    )


def _records(keys: pa.Array, kinds: np.ndarray, stats: pa.Table, version: int) -> pa.Table:
    count = stats.num_rows
    members = {
        "fileName": one_array(stats["file"]),
        "columnName": one_array(stats["column"]),
        "minValue": _wrapped(stats, "min", version),
        "maxValue": _wrapped(stats, "max", version),
        "valueCount": one_array(stats["value_count"]),
        "nullCount": one_array(stats["null_count"]),
        "totalSize": one_array(stats["total_size"]),
        "totalUncompressedSize": one_array(stats["total_uncompressed_size"]),
        "isDeleted": one_array(stats["deleted"]),
        "isTightBound": one_array(stats["tight"]),
        "valueType": pa.nulls(count, _VALUE_TYPE) if version == 1 else _value_types(stats),
    }
    stored = pa.StructArray.from_arrays([members[field.name] for field in _STRUCT], fields=list(_STRUCT))
    columns = {"key": keys, "type": pa.array(kinds), "ColumnStatsMetadata": stored}
    return all_columns(pa.table(columns))


def _value_types(stats: pa.Table) -> pa.Array:
    parts = [one_array(stats["type"]).cast(pa.int32()), one_array(stats["info"])]
    return pa.StructArray.from_arrays(parts, fields=list(_VALUE_TYPE))


def _wrapped(stats: pa.Table, side: str, version: int) -> pa.Array:
    """Encode minimum or maximum as a union."""
    stored, kinds = one_array(stats[side]), np.asarray(stats["type"])
    valid = np.asarray(stored.is_valid())
    branches: dict[str, tuple[np.ndarray, pa.Array]] = {}
    taken = np.zeros(len(stored), dtype=bool)
    if version == 1:
        dates, decimals = (valid & (kinds == kind) for kind in (ValueType.DATE, ValueType.DECIMAL))
        branches["DateWrapper"] = dates, _scattered(integers_of(stored.filter(pa.array(dates))), dates, pa.int32())
        branches["DecimalWrapper"] = decimals, _v1_decimals(stored, one_array(stats["info"]), decimals)
        taken = dates | decimals
    for name, of in _INTEGERS.items():
        here = valid & np.isin(kinds, of) & ~taken
        branches[name] = here, _scattered(integers_of(stored.filter(pa.array(here))), here, _branch(name))
    for name, of in _FLOATS.items():
        here = valid & np.isin(kinds, of)
        branches[name] = here, _scattered(floats_of(stored.filter(pa.array(here))), here, _branch(name))
    for name, of in _BYTES.items():
        here = valid & np.isin(kinds, of) & ~taken
        branches[name] = here, pc.if_else(pa.array(here), stored, pa.scalar(b"", pa.binary())).cast(_branch(name))
    children, some = [], np.zeros(len(stored), dtype=bool)
    for field in _RANGE:
        if field.name not in branches:
            children.append(pa.nulls(len(stored), field.type))
            continue
        here, values = branches[field.name]
        children.append(pa.StructArray.from_arrays([values], fields=list(field.type), mask=pa.array(~here)))
        some |= here
    return pa.StructArray.from_arrays(children, fields=list(_RANGE), mask=pa.array(~some))


def _branch(name: str) -> pa.DataType:
    return _RANGE.field(name).type.field("value").type


def _scattered(values: np.ndarray, here: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Spread values over the marked rows, with 0 in the others."""
    every = np.zeros(len(here), dtype=values.dtype)
    every[here] = values
    return pa.array(every).cast(kind, safe=False)


def _v1_decimals(stored: pa.Array, info: pa.Array, here: np.ndarray) -> pa.Array:
    whole = pa.nulls(len(stored), V1_DECIMAL)
    for said in pc.unique(info.filter(pa.array(here))).to_pylist():
        rows = here & mask_of(pc.equal(info, said))
        kind = arrow_type(ValueType.DECIMAL, said)
        if kind is not None:
            values = decimals_of(stored.filter(pa.array(rows)), kind).cast(V1_DECIMAL)
            whole = pc.replace_with_mask(whole, pa.array(rows), values)
    return pc.fill_null(whole, pa.scalar(0, V1_DECIMAL))


def _types(kinds: np.ndarray, info: pa.Array, ranges: list[pa.Array]) -> tuple[np.ndarray, pa.Array]:
    """Return value types, including those that version 1 doesn't show in its wrappers."""
    plain = kinds == ValueType.V1
    types = np.where(plain, ValueType.NULL, kinds)
    for side in ranges:
        for name, kind in _V1_TYPES.items():
            types[plain & np.asarray(pc.struct_field(side, name).is_valid())] = kind
    decimals = pa.array(plain & (types == ValueType.DECIMAL))
    return types, pc.if_else(decimals, f"{V1_DECIMAL.precision},{V1_DECIMAL.scale}", info)


def _unwrapped(side: pa.Array, types: np.ndarray) -> pa.Array:
    """Return minimum or maximum as bytes; null if the wrapper doesn't fit the value type."""
    whole = pa.nulls(len(side), pa.binary())
    for name, plain in _V1_TYPES.items():
        branch = pc.struct_field(side, name)
        fits = {plain, *_INTEGERS.get(name, ()), *_FLOATS.get(name, ()), *_BYTES.get(name, ())}
        here = np.asarray(branch.is_valid()) & np.isin(types, sorted(fits))
        if not here.any():
            continue
        values = pc.struct_field(branch, "value").filter(pa.array(here))
        if name in _FLOATS:
            stored = stored_floats(values)
        elif name == "DecimalWrapper":
            stored = decimal_bytes(values)
        else:
            stored = values.cast(pa.binary()) if name in _BYTES else stored_integers(values)
        whole = pc.replace_with_mask(whole, pa.array(here), stored)
    return whole
