"""The small side of a read that is joined by columns: rows in; which rows match, and what prunes files, out."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr.tree import And, Column, Compare, Expr, In, Literal, Or, conjunction
from pudi.schema.arrays import one_array

MOST_KEYS = 1_000_000
"""Distinct rows that the small side has at most: they are held by the driver and by each task."""
_MOST_LISTED = 200
"""Values of a column that are compared with statistics one by one."""
_DIGITS = 38
"""Digits in which numbers of several types are compared."""
_INTERVALS = 64
"""Intervals that more values are compared in."""


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """The rows that a read is joined with: a row of the table matches if all these columns are equal; picklable.

    Attributes:
        rows: distinct, without nulls, in the table's types.
        implied: a bound predicate that is true for all rows that match, by which files are pruned.
        exact: whether it's true for no others.
    """

    rows: pa.Table
    implied: Expr
    exact: bool

    @classmethod
    def of(cls, rows: pa.Table, schema: pa.Schema, table: str) -> WantedKeys:
        """Fit rows to a table's columns, as a comparison by `=` does.

        Args:
            rows: the rows; null equals nothing, and neither does a value that the table's type doesn't have.
            schema: the table's columns, meta fields among them.
            table: location of the table, for errors.

        Raises:
            InvalidArgumentError: an unknown column, no column, a type that can't be compared with the table's, or too
                many rows.
            NotSupportedError: columns of floating-point numbers, lists, maps or structs.
        """
        names = rows.column_names
        unknown = [name for name in names if name not in schema.names]
        if unknown or not names or len(set(names)) != len(names):
            what = f"column {unknown[0]!r}, which the table doesn't have" if unknown else "no columns, or one twice"
            raise InvalidArgumentError(
                f"keys has {what}: give the columns to join by, of {', '.join(schema.names)}", table=table
            )
        columns = [_fitted(rows[name], schema.field(name), table) for name in names]
        fitted = pa.table(columns, names=names).drop_null().group_by(names).aggregate([]).select(names)
        if fitted.num_rows > MOST_KEYS:
            raise InvalidArgumentError(
                f"keys has {fitted.num_rows:,} distinct rows, and {MOST_KEYS:,} at most prune a scan: scan without "
                "keys, and join what comes",
                table=table,
            )
        parts = [_implied(Column((name,), schema.field(name).type), fitted[name]) for name in names]
        implied = conjunction(parts)
        assert implied is not None
        return cls(fitted, implied, len(names) == 1 and fitted.num_rows <= _MOST_LISTED)

    def matches(self, data: pa.Table) -> pa.Array:
        """Return which rows match, without nulls.

        Args:
            data: rows with at least these columns.
        """
        columns = [(one_array(self.rows[name]), one_array(data[name])) for name in self.rows.column_names]
        known, found = _codes(*columns[0])
        for one, other in columns[1:]:
            more, also = _codes(one, other)
            width = len(more) + 1
            known, found = known * width + more, np.where((found < 0) | (also < 0), -1, found * width + also)
            known, found = _codes(pa.array(known), pa.array(found))
        return pa.array(found >= 0)


def _codes(known: pa.Array, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of distinct values: of the known ones, and of others, -1 for those that aren't known."""
    distinct = known.unique()
    own = pc.index_in(known, value_set=distinct).to_numpy(zero_copy_only=False).astype(np.int64)
    found = pc.fill_null(pc.index_in(values, value_set=distinct), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return own, found


def _implied(column: Column, values: pa.ChunkedArray) -> Expr:
    assert column.type is not None
    kind, distinct = column.type, values.unique()
    if len(distinct) <= _MOST_LISTED:
        return In(column, tuple(Literal(value, kind) for value in distinct.to_pylist()))
    ordered = distinct.take(pc.array_sort_indices(distinct))
    edges = np.linspace(0, len(ordered), _INTERVALS + 1).astype(np.int64)
    spans = [(ordered[int(start)], ordered[int(end) - 1]) for start, end in pairwise(edges)]
    return Or(
        tuple(
            And((Compare(">=", column, Literal(low.as_py(), kind)), Compare("<=", column, Literal(high.as_py(), kind))))
            for low, high in spans
        )
    )


def _fitted(values: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    """Return values in the type of a column, null for those that it can't have."""
    kind, given = field.type, values.type
    if pa.types.is_dictionary(given):
        values = values.cast(given.value_type)
        given = values.type
    if pa.types.is_null(given):
        return pa.chunked_array([pa.nulls(len(values), kind)])
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        raise NotSupportedError(
            f"keys has column {field.name!r}, of type {kind}: rows are joined by numbers without fractions, text, "
            "dates, timestamps, booleans and binary",
            table=table,
        )
    if given == kind:
        return values
    if _class(given) != _class(kind):
        raise InvalidArgumentError(
            f"keys has column {field.name!r} of type {given}, and the table {kind}: they can't be compared; cast it",
            table=table,
        )
    try:
        if _class(kind) == "number":
            return _exact_numbers(values, kind)
        made = values.cast(kind, safe=False)
        return _where(pc.equal(made.cast(given, safe=False), values), made)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"keys has column {field.name!r} of type {given}, not all of it {kind} ({error}): cast it", table=table
        ) from error


def _exact_numbers(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return numbers in another type, null for those that it can't have."""
    if pa.types.is_floating(values.type):
        values = _where(pc.and_(pc.less(pc.abs(values), 2.0**63), pc.equal(pc.floor(values), values)), values)
        values = values.cast(pa.int64(), safe=False)
    if values.type == pa.uint64():
        values = _where(pc.less_equal(values, pa.scalar(2**63 - 1, values.type)), values)
    scale = max((each.scale for each in (values.type, kind) if pa.types.is_decimal(each)), default=0)
    wide = pa.decimal128(_DIGITS, scale)
    values = values.cast(wide)
    if pa.types.is_integer(kind):
        whole = values.cast(pa.int64(), safe=False)
        values = _where(pc.equal(whole.cast(wide), values), whole)
        low, high = (
            pa.scalar(each, pa.int64()) for each in (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
        )
        return _where(pc.and_(pc.less_equal(values, high), pc.greater_equal(values, low)), values).cast(kind)
    if kind.precision < _DIGITS:
        most = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide)
        values = _where(pc.less(pc.abs(values), most), values)
    made = values.cast(kind, safe=False)
    return _where(pc.equal(made.cast(wide), values), made)


def _where(right: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values where something is true, else null."""
    return pc.if_else(pc.fill_null(right, False), values, pa.scalar(None, values.type))


def _class(kind: pa.DataType) -> str:
    """Return what types have values that can be equal."""
    types = pa.types
    if types.is_integer(kind) or types.is_decimal(kind) or types.is_floating(kind):
        return "number"
    if types.is_timestamp(kind):
        return "moment" if kind.tz is not None else "local time"
    if types.is_date(kind):
        return "date"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    return str(kind)
