"""The total order of ordering values, by column: which of two versions is the newer by event time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError
from pudi.schema import field_at, values_at
from pudi.schema.arrays import mask_of
from pudi.schema.types import is_java_integer


def greater_and_equal(older: pa.ChunkedArray, newer: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of `older > newer` and `older = newer` by the total order of ordering values, for comparable columns."""
    greater = mask_of(pc.greater(older, newer))
    equal = mask_of(pc.equal(older, newer))
    old_null, new_null = mask_of(older.is_null()), mask_of(newer.is_null())
    greater |= new_null & ~old_null
    equal |= old_null & new_null
    return greater, equal


def comparable_columns(rows: pa.Table, fields: Sequence[str], *, binlog: bool = False) -> list[pa.ChunkedArray]:
    """Return columns that sort like the rows' ordering values when compared one after the other; null is lowest.

    Args:
        rows: records; a field that they lack is null, as one in a struct that is null.
        fields: the ordering fields, with dots inside of structs.
        binlog: they are texts `file.position` of MySQL's log, which are compared as two numbers
            (MySqlDebeziumAvroPayload.isCurrentSeqLatest).

    Raises:
        InvalidArgumentError: with `binlog`, a text is not a `file.position` pair.
    """
    if not binlog:
        return [_comparable(ordering_column(rows, name)) for name in fields]
    return [half for name in fields for half in _file_and_position(ordering_column(rows, name), name)]


def is_default(values: pa.ChunkedArray) -> np.ndarray:
    """Return a mask of Hudi's default ordering values, which stand for a missing one (OrderingValues.isDefault)."""
    mask = mask_of(values.is_null())
    if is_java_integer(values.type):
        mask |= mask_of(pc.equal(values.cast(pa.int32()), 0))
    return mask


def sort_by(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """Row numbers by comparable columns, ascending; equal ones in order of arrival."""
    made: dict[str, pa.ChunkedArray | pa.Array] = {}
    for number, values in enumerate(columns):
        made[f"rank{number}"] = pc.cast(values.is_valid(), pa.int8())
        made[f"value{number}"] = values
    made["position"] = pa.array(np.arange(len(columns[0])))
    order: np.ndarray = np.asarray(pc.sort_indices(pa.table(made), [(name, "ascending") for name in made]))
    return order


def unordered(fields: Iterable[str], schema: pa.Schema, *, new: bool = True) -> Iterator[str]:
    """Yield for each ordering field that can't order records its name and why.

    Args:
        fields: the ordering fields.
        schema: the table's columns.
        new: whether the table is yet to be made; others may order by bytes, or by a field that no record has.
    """
    for path in fields:
        field = field_at(schema, path)
        if field is not None:
            if pa.types.is_nested(field.type) or (new and pa.types.is_binary(field.type)):
                yield (
                    f"{path!r}, of type {field.type}: Hudi has no order for it; take a number, text, date, timestamp, "
                    "decimal or boolean"
                )
            continue
        parts = path.split(".")
        outer = (field_at(schema, ".".join(parts[:count])) for count in range(len(parts) - 1, 0, -1))
        around = next((each for each in outer if each is not None), None)
        if around is not None and not pa.types.is_struct(around.type):
            yield f"{path!r}, but {around.name!r} is of type {around.type}: only fields of structs order records"
        elif new:
            known = schema.names if around is None else [each.name for each in around.type]
            yield f"{path!r}, which is not among {', '.join(known)}"


def ordering_column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the values of an ordering field; null where a struct around it is, and in rows that lack it.

    Hudi orders a null in a struct, and a null struct, as it does a null column (RecordContext.getOrderingValue).
    """
    values = values_at(rows, name)
    return pa.chunked_array([pa.nulls(rows.num_rows)]) if values is None else values


def column_of(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of some rows, null where they lack it."""
    return rows[name] if rows.schema.get_field_index(name) >= 0 else pa.chunked_array([pa.nulls(rows.num_rows)])


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that sort like ordering values, except for null."""
    kind = values.type
    if is_java_integer(kind):
        return pc.fill_null(values.cast(pa.int32()), 0)
    if pa.types.is_null(kind):
        return values.cast(pa.int8())
    if not pa.types.is_floating(kind):
        return values
    present = mask_of(values.is_valid())
    numbers = np.asarray(pc.fill_null(pc.cast(values, pa.float64()), 0.0), dtype=np.float64)
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)  # all NaNs are one
    ranks = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.chunked_array([pa.array(ranks, mask=~present)])


def _file_and_position(values: pa.ChunkedArray, name: str) -> list[pa.ChunkedArray]:
    texts = values.cast(pa.string())
    pairs = pc.extract_regex(texts, r"^(?P<file>\d+)\.(?P<position>\d+)")
    if mask_of(pc.and_(texts.is_valid(), pairs.is_null())).any():
        raise InvalidArgumentError(
            f"column {name} must hold a file's number and a position, as in 000003.154, to order records by"
        )
    return [pc.struct_field(pairs, part).cast(pa.int64()) for part in ("file", "position")]
