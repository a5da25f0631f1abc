"""Column statistics of one file, from a Parquet footer or from the records of a log file, as a small Arrow table.

As in Hudi: statistics of a base file come from its footer (ParquetUtils.readColumnStatsFromMetadata), those of a log
file from the records in its data blocks (HoodieTableMetadataUtil.collectColumnRangeMetadata).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from pudi.format import column_statistics
from pudi.metadata.value_types import StatsSpec, ValueType, leaf_type, value_type

COLUMN: Final = pa.field("column", pa.string(), nullable=False)

FILE_STATS: Final = pa.schema(
    [
        COLUMN,
        pa.field("type", pa.int8(), nullable=False),
        pa.field("info", pa.string()),
        pa.field("min", pa.binary()),
        pa.field("max", pa.binary()),
        pa.field("null_count", pa.int64(), nullable=False),
        pa.field("value_count", pa.int64(), nullable=False),
        pa.field("total_size", pa.int64(), nullable=False),
        pa.field("total_uncompressed_size", pa.int64(), nullable=False),
    ]
)
"""Statistics of the columns of one file.

`type` is a `ValueType`, `info` its parameters (a decimal's "precision,scale"). `min` and `max` are null if unknown.
Otherwise integers, booleans, dates and times are 8 bytes of a little-endian integer, floating-point numbers 8 bytes of
a little-endian double, texts UTF-8, and decimals the fewest bytes of a big-endian integer.
"""

Values = Callable[[str], pa.Array | pa.ChunkedArray | None]
"""Returns the values of a column of a file by its name; None if the file lacks it."""

_LITTLE = {ValueType.FLOAT, ValueType.DOUBLE}
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class _Stats:
    """One column's statistics, with bounds as plain Python values: int, float or bytes."""

    column: str
    type: ValueType
    info: str | None
    least: int | float | bytes | None
    greatest: int | float | bytes | None
    nulls: int
    values: int
    size: int = 0
    uncompressed: int = 0


def base_file_stats(metadata: pq.FileMetaData, spec: StatsSpec, values: Values | None = None) -> pa.Table:
    """Return the statistics of a base file's columns from its footer.

    A footer omits bounds of long texts and NaN. Hudi's readers treat a column without bounds as all null, so this
    function then reads the values.

    Args:
        metadata: the footer.
        spec: the columns; those that the file lacks get no row.
        values: reads a column of the file; None if only the footer may be read: columns without bounds then get no row.

    Returns:
        A table of `FILE_STATS`.
    """
    schema = metadata.schema.to_arrow_schema()
    leaves = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    return _table(_base_columns(metadata, spec, values, schema, leaves))


def log_file_stats(rows: pa.Table, spec: StatsSpec) -> pa.Table:
    """Return the statistics of a log file from the records in its data blocks; sizes are 0, as in Hudi.

    Args:
        rows: the records in order, unmerged; empty if the file has only deletes.
        spec: the columns; those that the records lack get no row.

    Returns:
        A table of `FILE_STATS`.
    """
    found = []
    for name in spec.columns:
        kind = leaf_type(rows.schema, name)
        known = None if kind is None else value_type(kind)
        if kind is None or known is None:
            continue
        if not rows.num_rows:  # HoodieColumnRangeMetadata.createEmpty
            found.append(_Stats(name, ValueType.NULL, None, None, None, 0, 0))
            continue
        values = leaf_values(rows, name)
        least, greatest = _extremes(values, kind)
        found.append(_Stats(name, *known, least, greatest, values.null_count, len(values)))
    return _table(iter(found))


def leaf_values(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the values of a column, or of a struct's field (with dots); null if the struct is null."""
    if name in rows.column_names:
        return rows[name]
    first, *rest = name.split(".")
    column = rows[first]
    for part in rest:
        column = pc.struct_field(column, part)
    return column


def _base_columns(
    metadata: pq.FileMetaData, spec: StatsSpec, values: Values | None, schema: pa.Schema, leaves: dict[str, int]
) -> Iterator[_Stats]:
    for name in spec.columns:
        place, kind = leaves.get(name), leaf_type(schema, name)
        known = None if kind is None else value_type(kind)
        if place is None or kind is None or known is None:
            continue
        chunks = [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]
        stats = _of_chunks(chunks, name, known, kind)
        if stats is None or (pt.is_floating(kind) and _may_hold_nan(metadata, name)):
            read = None if values is None else values(name)
            if read is None:
                continue
            stats = _of_values(chunks, name, known, kind, read)
        yield stats


def _of_chunks(chunks: list[Any], name: str, known: tuple[ValueType, str | None], kind: pa.DataType) -> _Stats | None:
    """Return the statistics from the footer; None if the footer is incomplete."""
    least: list[Any] = []
    greatest: list[Any] = []
    nulls = 0
    for chunk in chunks:
        said = chunk.statistics
        if said is None or not said.has_null_count:
            return None
        nulls += said.null_count
        if said.has_min_max:
            least.append(_zero(_physical(said.min_raw, known[0]), -0.0))
            greatest.append(_zero(_physical(said.max_raw, known[0]), 0.0))
        elif said.null_count < chunk.num_values:
            return None
    count = sum(chunk.num_values for chunk in chunks)
    low, high = (min(least), max(greatest)) if least else (None, None)
    return _Stats(name, *known, low, high, nulls, count, *_sizes(chunks))


def _of_values(
    chunks: list[Any], name: str, known: tuple[ValueType, str | None], kind: pa.DataType, values: Any
) -> _Stats:
    least, greatest = _extremes(values, kind)
    low, high = (None, None) if least is None else (_zero(least, -0.0), _zero(greatest, 0.0))
    return _Stats(name, *known, low, high, values.null_count, len(values), *_sizes(chunks))


def _sizes(chunks: list[Any]) -> tuple[int, int]:
    return sum(c.total_compressed_size for c in chunks), sum(c.total_uncompressed_size for c in chunks)


def _may_hold_nan(metadata: pq.FileMetaData, name: str) -> bool:
    """Return whether bounds may ignore NaN; parquet-mr writes no bounds if there is one."""
    said = column_statistics(metadata, name)
    return not said or any(group is None or group.has_nan is not False for group in said)


def _physical(raw: Any, kind: ValueType) -> int | float | bytes:
    """Convert a bound of the footer."""
    if kind is ValueType.DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if isinstance(raw, (bytes, float)):
        return raw
    return int(raw)


def _zero(bound: int | float | bytes, zero: float) -> int | float | bytes:
    """Return a zero bound with the sign that covers both zeros, as parquet-mr does; a footer's sign may be either."""
    return zero if isinstance(bound, float) and bound == 0.0 else bound


def _extremes(values: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Return minimum and maximum, with NaN as the greatest value; None if all values are null."""
    if pt.is_dictionary(values.type):
        whole = values.unify_dictionaries() if isinstance(values, pa.ChunkedArray) else values
        values = pc.unique(whole).cast(values.type.value_type)
        kind = values.type
    found = pc.min_max(values)
    least, greatest = found["min"], found["max"]
    if pt.is_floating(kind):
        return _floats(values, least.as_py(), greatest.as_py())
    if not least.is_valid:
        return None, None
    return _plain(least, kind), _plain(greatest, kind)


def _floats(values: Any, least: float | None, greatest: float | None) -> tuple[float | None, float | None]:
    """Return the minimum and maximum without NaN, from the result of `pc.min_max`."""
    if not pc.any(pc.is_nan(values)).as_py():
        return least, greatest
    numbers = pc.min_max(pc.filter(values, pc.fill_null(pc.invert(pc.is_nan(values)), False)))["min"].as_py()
    least = math.nan if numbers is None else numbers
    return least, math.nan


def _plain(value: pa.Scalar, kind: pa.DataType) -> int | bytes:
    if pt.is_decimal(kind):
        return _unscaled(value.as_py(), kind.scale)
    if pt.is_temporal(kind):
        return int(value.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).as_py())
    stored = value.as_py()
    return stored.encode() if isinstance(stored, str) else stored if isinstance(stored, bytes) else int(stored)


def _unscaled(value: Decimal, scale: int) -> int:
    return int(value.scaleb(scale, _EXACT))


def _table(found: Iterator[_Stats]) -> pa.Table:
    rows = list(found)
    columns = [
        [each.column for each in rows],
        [int(each.type) for each in rows],
        [each.info for each in rows],
        [_stored(each.least, each.type) for each in rows],
        [_stored(each.greatest, each.type) for each in rows],
        [each.nulls for each in rows],
        [each.values for each in rows],
        [each.size for each in rows],
        [each.uncompressed for each in rows],
    ]
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, FILE_STATS, strict=True)], schema=FILE_STATS
    )


def _stored(value: int | float | bytes | None, kind: ValueType) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if kind in _LITTLE:
        return struct.pack("<d", value)
    if kind is ValueType.DECIMAL:
        bits = (value if value >= 0 else ~int(value)).bit_length()  # type: ignore[union-attr]
        return int(value).to_bytes(bits // 8 + 1, "big", signed=True)
    return struct.pack("<q", value)
