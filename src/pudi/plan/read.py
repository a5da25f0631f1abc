"""The file slices of a read and the filters on their rows: a predicate, or rows that they are joined with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import compress, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import BoundsArrays, Expr, bind_where, columns, prune_many
from pudi.expr.tree import And, Column, Compare, In, Literal, Or, conjunction
from pudi.filegroup import FileSlice
from pudi.plan.log_files import Merging
from pudi.record import KeyGenerator, partition_bounds
from pudi.schema import META_FIELDS, FieldNames, with_meta_fields
from pudi.schema.arrays import one_array, places_among
from pudi.schema.internal import SchemaHistory
from pudi.timeline import TimelinePlace


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows and columns that a caller asks for.

    Attributes:
        columns: names of columns to return; empty for a row count alone; None for all.
        where: SQL predicate; None for all rows.
        meta_fields: whether all columns include the meta fields.
        limit: greatest number of rows that come back; None for all.
        keys: rows that wanted rows are joined with by all their columns; None for no join.
    """

    columns: Sequence[str] | None = None
    where: str | None = None
    meta_fields: bool = True
    limit: int | None = None
    keys: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table as the rows of its files are read.

    Attributes:
        root: its location, for errors.
        columns: its columns without meta fields.
        populated: whether its files have meta fields.
        history: the schemas of older files, in a table with schema on read.
        merging: how log files are merged over base files; None in a copy-on-write table, and to ignore log files.
    """

    root: str
    columns: pa.Schema
    populated: bool
    history: SchemaHistory | None
    merging: Merging | None = None

    @property
    def stored(self) -> pa.Schema:
        """All columns that rows have, with the meta fields first where there are any."""
        return with_meta_fields(self.columns) if self.populated else self.columns


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A read: the slices to read, and the filters and columns to apply; picklable.

    Attributes:
        table: location of the table.
        schema: every column that the rows have, meta fields first where the table has them.
        columns: the columns that come back, in order.
        where: bound predicate; None keeps all rows.
        commit_times: keep rows whose `_hoodie_commit_time` is in this set; None keeps all.
        slices: the slices to read.
        pruned: how many slices partition pruning took out.
        skipped: what indexes took out after that: name of the index, how many slices it took out, of how many.
        found_by: the index that said where the records are that are asked for by key; then only these slices were
            listed, and `pruned` and `skipped` say nothing of others.
        unused: an index that could say it and isn't asked, and why; None for none.
        history: the schemas of older files, in a table with schema on read.
        merging: how log files are merged over base files; None in a copy-on-write table.
        limit: greatest number of rows that come back, of those that pass the filters; None for all.
        keys: rows that the wanted ones are joined with; None for no join.
        timeline: where the table's timeline is, for errors that name what cleans left; None where they don't.
    """

    table: str
    schema: pa.Schema
    columns: tuple[str, ...]
    where: Expr | None = None
    commit_times: frozenset[str] | None = None
    slices: tuple[FileSlice, ...] = ()
    pruned: int = 0
    skipped: tuple[tuple[str, int, int], ...] = ()
    found_by: str | None = None
    unused: tuple[str, str] | None = None
    history: SchemaHistory | None = field(kw_only=True)
    merging: Merging | None = None
    limit: int | None = None
    keys: WantedKeys | None = None
    timeline: TimelinePlace | None = None

    @property
    def narrowed(self) -> Expr | None:
        """A bound predicate that is true for all wanted rows, by which files are pruned; None if it is for all rows."""
        implied = None if self.keys is None else self.keys.implied
        return conjunction(each for each in (self.where, implied) if each is not None)

    def names(self, instant: str) -> FieldNames | None:
        """Return the names of columns in files of a commit; None if they have the same names."""
        return None if self.history is None else self.history.names(instant)

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of what comes back."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partition paths of the slices, sorted."""
        return tuple(sorted({s.partition for s in self.slices}))

    def with_slices(self, slices: Sequence[FileSlice], keys: KeyGenerator) -> ReadPlan:
        """Return the plan with those of `slices` whose partition may contain matching rows."""
        if self.narrowed is None or not keys.partition_fields:
            return replace(self, slices=tuple(slices))
        wanted = frozenset(self.prune_partitions({s.partition for s in slices}, keys))
        kept = tuple(s for s in slices if s.partition in wanted)
        return replace(self, slices=kept, pruned=len(slices) - len(kept))

    def prune_partitions(self, partitions: Iterable[str], keys: KeyGenerator) -> list[str]:
        """Return the partitions that may contain matching rows, by the column values in their paths.

        Args:
            partitions: partition paths, each once.
            keys: the table's key generator.
        """
        paths = list(partitions)
        where = self.narrowed
        if where is None or not keys.partition_fields or not paths:
            return paths
        values = partition_bounds(pa.array(paths, pa.string()), keys, self.schema)
        bounds = {name: BoundsArrays(least, greatest) for name, (least, greatest) in values.items()}
        return list(compress(paths, prune_many(where, bounds, len(paths))))


def plan_read(table: ReadableTable, selection: Selection, commit_times: frozenset[str] | None = None) -> ReadPlan:
    """Bind a read to a table's columns; slices are put in by `ReadPlan.with_slices`.

    Args:
        table: the table.
        selection: the rows and columns that are asked for.
        commit_times: see `ReadPlan`.

    Raises:
        InvalidArgumentError: an unknown column, `columns` is a text, a predicate that can't be parsed or isn't boolean,
            a limit below 0.
        NotSupportedError: the predicate uses SQL beyond the subset.
    """
    root, full, limit, keys = table.root, table.stored, selection.limit, selection.keys
    if limit is not None:
        check_limit(limit, root)
    if selection.columns is None:
        metas = set(META_FIELDS)
        names = [n for n in full.names if selection.meta_fields or n not in metas]
    else:
        names = list_columns(selection.columns, root)
        _check_columns(root, names, full)
    return ReadPlan(
        root,
        full,
        tuple(names),
        None if selection.where is None else bind_where(selection.where, full, root),
        commit_times,
        history=table.history,
        merging=table.merging,
        limit=limit,
        keys=None if keys is None else WantedKeys.of(keys, full, root),
    )


def check_limit(limit: object, table: str, least: int = 0) -> None:
    """Check a number of rows or instants.

    Raises:
        InvalidArgumentError: it's no whole number, or out of range.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not least <= limit < 1 << 63:
        raise InvalidArgumentError(f"limit={limit!r}: it is a whole number, {least} or more", table=table)


def list_columns(wanted: Sequence[str], table: str) -> list[str]:
    """Return the names of the columns that a caller wants.

    Raises:
        InvalidArgumentError: one text stands for a list, or a name is no text.
    """
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"columns is one text; give a list: columns=[{wanted!r}]", table=table)
    if not isinstance(wanted, Iterable):
        raise InvalidArgumentError(f"columns={wanted!r}: give a list of names", table=table)
    names = list(wanted)
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"columns has {name!r}: give the names of columns as texts", table=table)
    return names


def needed_columns(plan: ReadPlan) -> list[str]:
    """Return the columns to read from files, in file order: result columns and filter columns."""
    needed = set(plan.columns)
    if plan.where is not None:
        needed |= columns(plan.where)
    if plan.keys is not None:
        needed |= set(plan.keys.rows.column_names)
    if plan.commit_times is not None:
        needed.add(META_FIELDS[0])
    return [name for name in plan.schema.names if name in needed]


def _check_columns(table: str, names: Sequence[str], schema: pa.Schema) -> None:
    known = set(schema.names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"there is no column {unknown[0]!r}; the table has {', '.join(schema.names)}", table=table
        )
    if len(set(names)) != len(names):
        raise InvalidArgumentError("a column is named twice in columns", table=table)


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
    return places_among(known, distinct), places_among(values, distinct)


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
