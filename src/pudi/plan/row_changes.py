"""Changes of a table's rows as values, independent of the engine.

An update or delete by predicate names the rows and their new values. A merge says how source rows match table rows, and
the outcome of each match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa

from pudi.config import WriteOptions
from pudi.errors import InvalidArgumentError, PudiError
from pudi.expr import Expr, bind, bind_value, conjunction, constant, leaf_columns, outside_where, parse
from pudi.expr.tree import Column, Compare
from pudi.merge import DELETED
from pudi.plan.read import ReadPlan
from pudi.plan.write import with_flag
from pudi.record import KeyGenerator


@dataclass(frozen=True, slots=True)
class Change:
    """A change of rows by predicate; picklable.

    Attributes:
        read: where the rows are and which they are (`where`, over meta fields and columns).
        assignments: column and bound expression of its new value; None deletes the rows.
    """

    read: ReadPlan
    assignments: tuple[tuple[str, Expr], ...] | None


def bind_assignments(
    values: Mapping[str, object], rows: pa.Schema, table: pa.Schema, root: str, fixed: Sequence[str] = ()
) -> tuple[tuple[str, Expr], ...]:
    """Bind new values of columns.

    Args:
        values: by column, SQL text, a bound-to-be tree, or a constant that is no text.
        rows: schema of the rows that the expressions are about.
        table: the table's columns.
        root: location of the table, for errors.
        fixed: columns that can't be changed.

    Raises:
        InvalidArgumentError: an unknown or fixed column, a wrong expression, a null for a column that takes none.
        NotSupportedError: an expression beyond the language.
    """
    if not values:
        raise InvalidArgumentError("there is no column to set", table=root)
    bound = []
    for name, value in values.items():
        if name not in table.names:
            raise InvalidArgumentError(
                f"there is no column {name!r}; the table has {', '.join(table.names)}", table=root
            )
        if name in fixed:
            raise InvalidArgumentError(
                f"column {name!r} is part of the record key or a partition column: an update can't set it; delete the "
                "records and insert others",
                table=root,
            )
        bound.append((name, bind_one(value, rows, table.field(name), root)))
    return tuple(bound)


def bind_one(value: object, rows: pa.Schema, field: pa.Field, root: str) -> Expr:
    """Bind the new value of one column; raises as `bind_assignments`, naming the column."""
    try:
        expr = value if isinstance(value, Expr) else parse(value) if isinstance(value, str) else constant(value)
        return bind_value(expr, rows, field.type)
    except PudiError as error:
        meant = isinstance(value, str) and value.isidentifier() and pa.types.is_string(field.type)
        hint = f"; the text {value} is written \"'{value}'\"" if meant else ""
        raise type(error)(
            f"the new value of column {field.name!r}: {outside_where(error)}{hint}", table=root
        ) from error


SOURCE, TARGET = "source", "target"
"""The two struct columns of joined rows, which bound expressions name."""

KEY = "_pudi_key_{}"
"""Names of the columns that the two sides are joined by."""


AMBIGUOUS = (
    "several source rows match one row of the table, so that it's not decided which of them counts: let the source "
    f"have each key once, or set {WriteOptions.merge_several_matches.key}=last"
)
"""Message of the error where source rows share a match."""
MOVES = (
    "an update would give a row another record key or partition: leave these columns out of it, or delete the row and "
    "insert another one"
)
"""Message of the error where an update changes what says which record a row is."""


class MergeKind(Enum):
    """Effect of a clause."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


class MergeStage(Enum):
    """Stage of a merge by its rows: pairs that may match, pairs that do, and rows of either side without a match."""

    PAIRS = "pairs"
    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class ComputedValues(Protocol):
    """Values that whoever states a merge computes of joined rows, in a language of its own."""

    def columns(self, stage: MergeStage) -> pa.Schema:
        """Return the columns that are added to the rows of a stage; those of `PAIRS` are conditions of the match."""

    def add(self, rows: Any, stage: MergeStage) -> Any:
        """Return rows with these columns.

        Args:
            rows: rows with the structs `SOURCE`, `TARGET` or both, whichever the stage has, and perhaps other columns.
            stage: the stage.

        Raises:
            InvalidArgumentError: an expression is wrong, or a value isn't one of the column that takes it.
        """


@dataclass(frozen=True, slots=True)
class MergeClause:
    """A clause: what a merge does with some of the matched or not matched rows.

    Attributes:
        kind: update and delete are for rows of the table, insert for those of the source.
        condition: bound predicate over `SOURCE`, `TARGET` or both, whichever sides the rows have; None for all rows.
        values: column and bound expression of its new value; columns left out keep their value, or are null in an
            insert.
        same: must be true for each row that the clause takes: the columns that say which record it is.
        computes_key: whether `same` compares anything but columns of the source that have the table's names.
    """

    kind: MergeKind
    condition: Expr | None = None
    values: tuple[tuple[str, Expr], ...] = ()
    same: Expr | None = None
    computes_key: bool = False


@dataclass(frozen=True, slots=True)
class NewestRows:
    """Rule for several source rows with one key: the greatest ordering value counts, and of equal ones the last row.

    Attributes:
        keys: columns of the source that say which record a row is.
        ordering: paths of the source's fields that order the rows of a record; null is less than any value. None: the
            last row counts.
    """

    keys: tuple[str, ...]
    ordering: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class MergeJoin:
    """Join of a source with a table.

    Resulting records have the table's columns and `_hoodie_is_deleted`, true for records to delete.

    Attributes:
        read: the table's rows, all columns without meta fields; with the record key where the table generates keys.
        on: column of the table and column of the source, equal in rows that match.
        condition: bound predicate over `SOURCE` and `TARGET`, true for rows that match besides; None for no more. At
            least one of both is there.
        matched: clauses for matching rows; the first clause with a true condition applies.
        not_matched: clauses for source rows without a match, likewise.
        unsourced: clauses for rows of the table without a match, likewise.
        generator: how the table makes partition paths.
        nulls_match: whether null equals null; it does in the parts of a record's own key and partition.
        newest: which of several source rows with one key counts; None if they are an error where they match a row.
        computed: values that conditions and clauses name besides the columns of both sides; None for none.
    """

    read: ReadPlan
    on: tuple[tuple[str, str], ...]
    matched: tuple[MergeClause, ...]
    not_matched: tuple[MergeClause, ...]
    generator: KeyGenerator
    nulls_match: bool = False
    unsourced: tuple[MergeClause, ...] = ()
    condition: Expr | None = None
    newest: NewestRows | None = None
    computed: ComputedValues | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the resulting records."""
        return with_flag(self.read.output_schema)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns that the two sides are joined by."""
        return tuple(KEY.format(number) for number in range(len(self.on)))

    def clauses(self, stage: MergeStage) -> tuple[MergeClause, ...]:
        """Return the clauses for the rows of a stage."""
        found = {
            MergeStage.MATCHED: self.matched,
            MergeStage.NOT_MATCHED: self.not_matched,
            MergeStage.NOT_MATCHED_BY_SOURCE: self.unsourced,
        }
        return found.get(stage, ())

    def computes(self, stage: MergeStage) -> bool:
        """Return whether rows of a stage get computed columns."""
        return self.computed is not None and len(self.computed.columns(stage)) > 0

    def with_computed(self, rows: Any, stage: MergeStage) -> Any:
        """Return the rows of a stage with its computed columns."""
        return self.computed.add(rows, stage) if self.computed is not None and self.computes(stage) else rows

    def ranged(self) -> list[tuple[str, str]]:
        """Return the pairs of `on` whose source minimum and maximum can prune rows of the table.

        There are none where rows that match nothing count too.
        """
        if self.unsourced:
            return []
        return [(target, source) for target, source in self.on if _has_range(self.read.schema.field(target).type)]

    def within(self, spans: Mapping[str, tuple[object, object]]) -> ReadPlan:
        """The read of the rows that can match.

        Args:
            spans: by column of the table, least and greatest value that the source has for it; a column is left out
                where the source has nulls that match.
        """
        parts = []
        for name, (low, high) in spans.items():
            column = Column((name,))
            parts += [Compare(">=", column, constant(low)), Compare("<=", column, constant(high))]
        where = conjunction(parts)
        if where is None:
            return self.read
        return replace(self.read, where=bind(where, self.read.schema)).with_slices(self.read.slices, self.generator)


def _has_range(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind))


@dataclass(frozen=True, slots=True)
class MergeNames:
    """The columns of both sides, and what expressions call the sides.

    Attributes:
        names: what expressions call each side.
        schemas: the columns of each side.
    """

    names: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]

    def resolved(self, column: Column, sides: Sequence[str]) -> Column:
        """Return a column with the side that it is of in front.

        Args:
            column: as an expression has it: with the name of a side in front, or a column of one side alone.
            sides: those that the rows have.

        Raises:
            InvalidArgumentError: no side has it, or more than one.
        """
        first, *rest = column.path
        named = {name.lower(): side for side, name in self.names.items()}
        side = named.get(first.lower()) if rest else None
        if side is None:
            return Column((self._holder(column, sides), *column.path))
        if side not in sides:
            one, other = ("source", "table") if side == TARGET else ("table", "source")
            raise InvalidArgumentError(f"{column} is unknown for rows of the {one} that match no row of the {other}")
        if self.field(side, rest[0]) is None:
            raise InvalidArgumentError(f"there is no column {column}; {self._known(side)}")
        return Column((side, *rest))

    def field(self, side: str, name: str) -> pa.Field | None:
        """Return the column of a side by its name in any case; None if there is none."""
        return next((field for field in self.schemas[side] if field.name.lower() == name.lower()), None)

    def _holder(self, column: Column, sides: Sequence[str]) -> str:
        """The side that has a column whose first name is none of the aliases."""
        first, *rest = column.path
        source, target = self.names[SOURCE], self.names[TARGET]
        fields = {each: self.field(each, first) for each in sides}
        holders = [side for side, f in fields.items() if f is not None and (not rest or pa.types.is_nested(f.type))]
        if len(holders) == 1:
            return holders[0]
        if holders:
            raise InvalidArgumentError(
                f"{column} is a column of both sides: write {source}.{first} or {target}.{first}"
            )
        if rest:
            raise InvalidArgumentError(f"{column}: {first} is neither the source ({source}) nor the table ({target})")
        raise InvalidArgumentError(f"there is no column {column}; {'; '.join(map(self._known, sides))}")

    def _known(self, side: str) -> str:
        """The columns of a side, for an error."""
        who = f"the {'source' if side == SOURCE else 'table'} ({self.names[side]})"
        return f"{who} has {', '.join(self.schemas[side].names)}"


@dataclass(frozen=True, slots=True)
class MergeUpsert:
    """A merge whose source rows are looked up by key, as an upsert's, in place of a join with the table.

    It gives what the join gives as long as no two source rows share a key, and none has another partition than the row
    that it matches. For other sources the join decides.

    Attributes:
        schema: columns of the records, the table's.
        values: column of the table and bound expression over `SOURCE`; columns left out are null.
        updates: whether records whose key exists are written.
        inserts: whether records whose key is new are written.
        anywhere: whether a row matches in any partition, since the condition doesn't name the partition's columns.
        present: columns of the source; a row with a null in one of them matches nothing and is no record.
    """

    schema: pa.Schema
    values: tuple[tuple[str, Expr], ...]
    updates: bool
    inserts: bool
    anywhere: bool
    present: tuple[str, ...] = ()


def upsert_of(join: MergeJoin, source: pa.Schema) -> MergeUpsert | None:
    """Return the upsert that a merge is; None if only a join gives its records.

    Args:
        join: the merge.
        source: the source's columns.
    """
    pairs = dict(join.on)
    if not _matches_keys(join, pairs, source):
        return None
    clauses = [*join.matched, *join.not_matched]
    if not 0 < len(clauses) < 3 or any(
        c.condition is not None or c.kind is MergeKind.DELETE or c.computes_key for c in clauses
    ):
        return None
    if len(join.matched) == 1 and len(join.not_matched) == 1:
        values = _same_values(join, join.matched[0], join.not_matched[0], pairs)
    elif len(clauses) == 1 and join.read.merging is None:  # a key in a base file is a record only without log files
        values = _updated(join, clauses[0], pairs, source) if join.matched else _inserted(join, clauses[0], pairs)
    else:
        values = None
    if values is None:
        return None
    keys = join.generator.record_key_fields
    present: tuple[str, ...] = ()
    if not join.not_matched:
        present = tuple(s for t, s in join.on if not join.nulls_match or keys == (t,))
    anywhere = not pairs.keys() >= {*join.generator.partition_fields}
    return MergeUpsert(
        join.read.output_schema,
        tuple((name, values[name]) for name in join.read.output_schema.names if name in values),
        updates=bool(join.matched),
        inserts=bool(join.not_matched),
        anywhere=anywhere,
        present=present,
    )


def _matches_keys(join: MergeJoin, pairs: Mapping[str, str], source: pa.Schema) -> bool:
    """Whether rows match if, and only if, they have the same record key, and the same partition where it's named."""
    keys, folders = set(join.generator.record_key_fields), set(join.generator.partition_fields)
    table = join.read.output_schema
    plain = all(join.generator.moments_of(n) is None for n in range(len(join.generator.partition_fields)))
    whole = join.unsourced or join.condition is not None or join.computed is not None
    if not keys or not plain or whole or DELETED in table.names:
        return False
    if len(pairs) < len(join.on) or not keys <= pairs.keys() <= keys | folders or not keys | folders <= {*table.names}:
        return False
    return all(table.field(t).type == source.field(s).type and _is_exact(table.field(t).type) for t, s in join.on)


def _is_exact(kind: pa.DataType) -> bool:
    """Whether equal values of a type are equal texts in a record key."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind))


def _keeps_keys(join: MergeJoin, values: Mapping[str, Expr], pairs: Mapping[str, str]) -> bool:
    """Whether a record has the key that its source row is matched by."""
    return all(_is_of_source(values.get(target), source) for target, source in pairs.items())


def _is_of_source(value: Expr | None, name: str) -> bool:
    return isinstance(value, Column) and value.path == (SOURCE, name)


def _same_values(
    join: MergeJoin, update: MergeClause, insert: MergeClause, pairs: Mapping[str, str]
) -> dict[str, Expr] | None:
    """The values of both clauses; None if they differ, or an update keeps a value of the table."""
    new, changed = dict(insert.values), dict(update.values)
    fixed = {*join.generator.record_key_fields, *join.generator.partition_fields}
    names = join.read.output_schema.names
    same = all(name in new and (name in fixed or changed.get(name) == new[name]) for name in names)
    return new if same and _keeps_keys(join, new, pairs) else None


def _updated(
    join: MergeJoin, update: MergeClause, pairs: Mapping[str, str], source: pa.Schema
) -> dict[str, Expr] | None:
    """The values of a merge that only updates: all columns must come from the source, those that it can't set too."""
    values = dict(update.values)
    if any(column.path[0] != SOURCE for value in values.values() for column in leaf_columns(value)):
        return None
    for name in (*join.generator.record_key_fields, *join.generator.partition_fields):
        kind, given = join.read.output_schema.field(name).type, pairs.get(name, name)
        if given not in source.names or source.field(given).type != kind:
            return None
        values[name] = Column((SOURCE, given), kind)
    return values if all(name in values for name in join.read.output_schema.names) else None


def _inserted(join: MergeJoin, insert: MergeClause, pairs: Mapping[str, str]) -> dict[str, Expr] | None:
    """The values of a merge that only inserts; None where a null in the key of a stored row would match nothing."""
    values = dict(insert.values)
    whole = join.nulls_match or len(join.on) == len(join.generator.record_key_fields) == 1
    return values if whole and _keeps_keys(join, values, pairs) else None
