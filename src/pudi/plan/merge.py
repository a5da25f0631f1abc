"""A merge as one value: how source rows match table rows, and the outcome of each match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa

from pudi.config import WriteOptions
from pudi.expr import Expr, bind, conjunction, constant
from pudi.expr.tree import Column, Compare
from pudi.plan.read import ReadPlan
from pudi.plan.write import with_flag
from pudi.record import KeyGenerator

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
        ordering: columns of the source that order the rows of a record; null is less than any value. None: the last
            row counts.
    """

    keys: tuple[str, ...]
    ordering: tuple[str, ...]


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
