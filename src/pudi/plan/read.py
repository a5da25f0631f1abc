"""The file slices of a read and the filters on their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import pyarrow as pa

from pudi.errors import InvalidArgumentError
from pudi.expr import BoundsArrays, Expr, bind_where, columns, prune_many
from pudi.expr.tree import conjunction
from pudi.filegroup import FileSlice
from pudi.plan.keys import WantedKeys
from pudi.plan.merging import Merging
from pudi.record import KeyGenerator, partition_bounds
from pudi.schema import META_FIELDS, FieldNames, with_meta_fields
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
