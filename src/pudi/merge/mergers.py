"""Rules of the user's own: what a merger is, which ones are known, how one is called without trusting its answer."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import is_own_strategy, note_registered, payload
from pudi.errors import InvalidArgumentError, MergerError
from pudi.merge.deletes import DELETED, with_flag
from pudi.schema.arrays import common_runs, in_step, mask_of, one_array


def same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    """Return a mask of the rows with equal values in two columns of one type; nulls are equal, and NaNs too."""
    return np.concatenate([_same(*parts) for parts in in_step(left, right)] or [np.zeros(0, dtype=bool)])


def _same(left: pa.Array, right: pa.Array) -> np.ndarray:
    left_null, right_null = np.asarray(left.is_null()), np.asarray(right.is_null())
    both = ~left_null & ~right_null
    same: np.ndarray = (left_null & right_null) | (both & _values(left, right, both))
    return same


def _values(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    """Compare two columns for rows where `both` is true; other rows are undefined."""
    kind = left.type
    if pa.types.is_struct(kind):
        same = np.ones(len(left), dtype=bool)
        for number in range(kind.num_fields):
            same &= _same(pc.struct_field(left, number), pc.struct_field(right, number))
        return same
    if pa.types.is_map(kind):
        listed = pa.list_(pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)]))
        left, right = left.cast(listed), right.cast(listed)
    if pa.types.is_list(left.type) or pa.types.is_large_list(left.type):
        return _lists(left, right, both)
    equal = mask_of(pc.equal(left, right))
    if pa.types.is_floating(kind):
        equal |= mask_of(pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return equal


def _lists(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(left), -1))
    same: np.ndarray = both & (lengths == np.asarray(pc.fill_null(pc.list_value_length(right), -1)))
    rows = np.flatnonzero(same & (lengths > 0))
    if not len(rows):
        return same
    items = [pc.list_flatten(side.take(pa.array(rows))) for side in (left, right)]
    alike = _same(items[0], items[1])
    starts = np.concatenate([[0], np.cumsum(lengths[rows])[:-1]])
    same[rows] = np.logical_and.reduceat(alike, starts)
    return same


@dataclass(frozen=True, slots=True)
class MergeContext:
    """Context that a merger gets along with the records.

    Attributes:
        schema: the table's columns without meta fields and `_hoodie_is_deleted`.
        ordering_fields: fields that say which version of a record is newer, `a.b` in the struct column `a`; empty where
            the table names none.
        properties: the table's merge properties (`hoodie.record.merge.property.*`), without that prefix.
    """

    schema: pa.Schema
    ordering_fields: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class RecordMerger(ABC):
    """Decide which version of a record wins by a rule of the user's own, on Arrow batches.

    One instance serves all threads of the process and is pickled to Spark workers, so it must hold nothing but
    settings. pudi applies the same rule to the records of one batch, to a batch and stored records, and to log files
    and base files, always from the oldest version to the newest.

    Attributes:
        strategy_id: a UUID of your own; a table stores it as `hoodie.record.merge.strategy.id`.
    """

    strategy_id: ClassVar[str] = ""

    @abstractmethod
    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        """Merge two versions of each record.

        Args:
            older: the older versions: the columns of `context.schema`, then a boolean column `_hoodie_is_deleted`, true
                for deletes. A delete has the key columns of the version that it meets, and the ordering values that it
                was written with; `Table.delete` writes none. Its other columns may be null.
            newer: the newer versions of the same records, row by row; the same columns.
            context: the table's columns, its ordering fields and merge properties.

        Returns:
            The same columns and as many rows, in the same order: the versions that stand, with the same key; where
            `_hoodie_is_deleted` is true the record goes. A row that equals the older version leaves it as it is.
        """

    def partial_merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        """Merge versions where one side lacks columns because it is a partial update.

        Args:
            older: the older versions: those of the table's columns that they have, and `_hoodie_is_deleted`.
            newer: the newer versions, likewise.
            context: as for `merge`.

        Returns:
            As for `merge`, with the columns that either side has, in the table's order.
        """
        raise MergerError(f"merger {named(self)} has no partial_merge, and the table holds partial updates")


_REGISTERED: dict[str, RecordMerger] = {}
_FOR_PAYLOADS: dict[str, RecordMerger] = {}


def register_merger(merger: RecordMerger, payload_class: str | None = None) -> None:
    """Make a merger known to this process: tables with its strategy id are read and written by it.

    Args:
        merger: an instance; it takes the place of one with the same id.
        payload_class: the full name of a Java class (`com.acme.TotalsPayload`) whose rule the merger is in Python:
            tables with that payload class are read and written by it too. A name is compared, never loaded.

    Raises:
        InvalidArgumentError: it's no `RecordMerger`, its strategy id is no UUID, or one of Hudi's own; or pudi has the
            rule of the payload class itself.
    """
    if not isinstance(merger, RecordMerger):
        raise InvalidArgumentError(
            f"{merger!r} is no pudi.RecordMerger: derive a class from it, and register an instance"
        )
    identifier = merger.strategy_id
    try:
        plain = str(uuid.UUID(identifier)) == identifier.lower()
    except (ValueError, AttributeError, TypeError):
        plain = False
    if not plain:
        raise InvalidArgumentError(
            f"strategy_id={identifier!r} of merger {type(merger).__qualname__} is no UUID: take one of your own, as "
            "python -c 'import uuid; print(uuid.uuid4())' makes it, and keep it"
        )
    if is_own_strategy(identifier):
        raise InvalidArgumentError(
            f"strategy_id={identifier} of merger {type(merger).__qualname__} is one of Hudi's own: take another UUID"
        )
    if payload_class is not None and (not payload_class.strip() or payload(payload_class) is not None):
        wrong = "pudi has the rule of this class itself" if payload_class.strip() else "give the full name of a class"
        raise InvalidArgumentError(f"payload_class={payload_class!r} of merger {type(merger).__qualname__}: {wrong}")
    _REGISTERED[identifier.lower()] = merger
    if payload_class is not None:
        _FOR_PAYLOADS[payload_class] = merger
    note_registered(f"{type(merger).__module__}.{type(merger).__qualname__}", payload_class)


def registered_for_payload(payload_class: str) -> RecordMerger | None:
    """The merger that was registered for a payload class; None for none."""
    return _FOR_PAYLOADS.get(payload_class)


def registered_merger(strategy_id: str) -> RecordMerger | None:
    """The merger that was registered with a strategy id; None for none."""
    return _REGISTERED.get(strategy_id.lower())


def named(merger: RecordMerger) -> str:
    """Return the name of a merger for messages."""
    return f"{type(merger).__qualname__} ({merger.strategy_id})"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a merger.

    Attributes:
        rows: the versions that stand: the columns of either side.
        deleted: which of the records go.
        is_older: which rows are the older version as it was.
        is_newer: which of the others are the newer version as it was.
    """

    rows: pa.Table
    deleted: np.ndarray
    is_older: np.ndarray
    is_newer: np.ndarray


_MOST_ROWS = 1 << 18
"""Rows per call of a merger."""


def ask(
    merger: RecordMerger,
    older: tuple[pa.Table, np.ndarray],
    newer: tuple[pa.Table, np.ndarray],
    context: MergeContext,
    *,
    key_fields: Sequence[str] = (),
    partial: bool = False,
) -> Answer:
    """Call a merger for aligned versions and validate its result.

    Args:
        merger: the merger.
        older: the older versions, columns of the table alone, and which of them are deletes.
        newer: the newer versions, likewise.
        context: the context for the merger.
        key_fields: columns that it must leave as they are.
        partial: whether sides may lack columns.

    Raises:
        MergerError: the merger raised, or its result is invalid.
    """
    parts = []
    for start, end in list(common_runs([older[0], newer[0]], _MOST_ROWS)) or [(0, 0)]:
        sides = [_flagged(rows.slice(start, end - start), gone[start:end]) for rows, gone in (older, newer)]
        sides = [_with_keys(one, other, key_fields) for one, other in (sides, sides[::-1])]
        call = merger.partial_merge if partial else merger.merge
        said = _call(merger, call, sides[0], sides[1], context)
        there = {n for side in sides for n in side.schema.names}
        names = [n for n in context.schema.names if n in there]
        _check(merger, said, names, sides, key_fields)
        parts.append(_judged(said, *sides))
    rows = pa.concat_tables([part.rows for part in parts]).drop_columns([DELETED])
    masks = (np.concatenate([getattr(part, name) for part in parts]) for name in ("deleted", "is_older", "is_newer"))
    return Answer(rows, *masks)


def _flagged(rows: pa.Table, deleted: np.ndarray) -> pa.RecordBatch:
    rows = with_flag(rows, deleted)
    return pa.RecordBatch.from_arrays([one_array(column) for column in rows.columns], schema=rows.schema)


def _with_keys(side: pa.RecordBatch, other: pa.RecordBatch, key_fields: Sequence[str]) -> pa.RecordBatch:
    """Return versions whose deletes have the key columns of those that they meet: delete blocks hold record keys only.

    Args:
        side: the versions.
        other: those that they meet, row by row.
        key_fields: columns of the record key.
    """
    for name in key_fields:
        place = side.schema.get_field_index(name)
        if place >= 0 and side.column(place).null_count and name in other.schema.names:
            values = pc.if_else(side[DELETED], pc.coalesce(side[name], other[name]), side[name])
            side = side.set_column(place, side.schema.field(place), values)
    return side


def _call(
    merger: RecordMerger,
    call: Callable[[pa.RecordBatch, pa.RecordBatch, MergeContext], object],
    older: pa.RecordBatch,
    newer: pa.RecordBatch,
    context: MergeContext,
) -> object:
    try:
        return call(older, newer, context)
    except MergerError:
        raise
    except Exception as error:
        raise MergerError(f"merger {named(merger)} raised {type(error).__name__}: {error}") from error


def _check(
    merger: RecordMerger,
    said: object,
    names: Sequence[str],
    sides: Sequence[pa.RecordBatch],
    key_fields: Sequence[str],
) -> None:
    """Refuse an answer that isn't aligned with the question, or of other columns.

    Raises:
        MergerError: with the reason.
    """
    older, newer = sides
    if not isinstance(said, pa.RecordBatch):
        raise MergerError(f"merger {named(merger)} answered with a {type(said).__name__}, not a pyarrow.RecordBatch")
    if said.num_rows != newer.num_rows:
        raise MergerError(f"merger {named(merger)} answered {said.num_rows} rows where it was given {newer.num_rows}")
    fields = {f.name: f for side in (older, newer) for f in side.schema}
    expected, found = [(n, fields[n].type) for n in (*names, DELETED)], [(f.name, f.type) for f in said.schema]
    if found != expected:
        wrong = [f"{n} {t}" for n, t in found if (n, t) not in expected] or ["columns in another order or number"]
        shown = ", ".join(f"{n} {t}" for n, t in expected)
        raise MergerError(
            f"merger {named(merger)} answered with other columns ({', '.join(wrong)}); it must be {shown}"
        )
    stands = ~mask_of(said[DELETED])
    for name, part in fields.items():
        if name != DELETED and not part.nullable and (stands & np.asarray(said[name].is_null())).any():
            raise MergerError(f"merger {named(merger)} answered null in column {name}, which takes none")
    for name in key_fields:
        if name in said.schema.names:
            column = pa.chunked_array([said[name]])
            kept = np.zeros(said.num_rows, dtype=bool)
            for side in (s for s in sides if name in s.schema.names):
                kept |= same_values(column, pa.chunked_array([side[name]]))
            if (stands & ~kept).any():
                raise MergerError(f"merger {named(merger)} changed column {name}, which is of the record key")


def _judged(said: pa.RecordBatch, older: pa.RecordBatch, newer: pa.RecordBatch) -> Answer:
    deleted = mask_of(said[DELETED])
    rows = pa.Table.from_batches([said])
    is_older = _answered_as(rows, older, deleted)
    return Answer(rows, deleted, is_older, _answered_as(rows, newer, deleted) & ~is_older)


def _answered_as(rows: pa.Table, side: pa.RecordBatch, deleted: np.ndarray) -> np.ndarray:
    """Return a mask of the rows that equal one side in all columns; columns of deletes don't count."""
    if set(side.schema.names) != set(rows.column_names):
        return np.zeros(rows.num_rows, dtype=bool)
    same: np.ndarray = mask_of(side[DELETED]) == deleted
    for name in rows.column_names:
        if name != DELETED:
            same &= deleted | same_values(rows[name], pa.chunked_array([side[name]]))
    return same
