"""One version per record key: the winner by commit time or event time, among versions in arrival order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DELETED = "_hoodie_is_deleted"
"""Boolean column by which a record says that it's a delete (HoodieRecord.HOODIE_IS_DELETED_FIELD)."""


class MergeMode(str, Enum):
    """`hoodie.record.merge.mode` (RecordMergeMode)."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How two versions of one record are decided (FORMAT: spec 'record mergers'; BufferedRecordMergerFactory).

    Attributes:
        mode: COMMIT_TIME: the newer version wins. EVENT_TIME: the newer wins unless its ordering value is lower.
        ordering_fields: columns of the ordering value, compared in this order; used by EVENT_TIME only.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()

    @property
    def compares(self) -> bool:
        """Whether ordering values decide anything."""
        return self.mode is MergeMode.EVENT_TIME and bool(self.ordering_fields)

    def newer_wins(self, older: pa.Table, newer: pa.Table) -> np.ndarray:
        """Whether the newer version wins, for tables aligned row by row: a boolean array of that length.

        A null ordering value is lower than any other (Hudi reads it as 0 and fails on most types); equal values let
        the newer win; NaN is greater than any number, as in Java's `Double.compareTo`.
        """
        if not self.compares:
            return np.ones(newer.num_rows, dtype=bool)
        older_wins = np.zeros(newer.num_rows, dtype=bool)
        undecided = np.ones(newer.num_rows, dtype=bool)
        for field in self.ordering_fields:
            old_greater, equal = _compare(older[field], newer[field])
            older_wins |= undecided & old_greater
            undecided &= equal
        return ~older_wins


def latest_per_key(rows: pa.Table, key: str, rule: MergeRule) -> pa.Table:
    """The winning version of each record key among `rows`.

    Args:
        rows: record versions in order of arrival.
        key: name of the column that holds the record key, without nulls.
        rule: how versions are decided; ties go to the later row.

    Returns:
        The winners, in order of arrival; `rows` itself when no key repeats.
    """
    keys = rows[key]
    if pc.count_distinct(keys).as_py() == rows.num_rows:
        return rows
    position = pa.array(np.arange(rows.num_rows))
    if rule.compares:
        order = pc.sort_indices(_sort_table(rows, rule.ordering_fields, position), _sort_keys(rule.ordering_fields))
    else:
        order = position
    ranked = pa.table({"key": keys.take(order), "rank": position})
    last = ranked.group_by("key").aggregate([("rank", "max")])["rank_max"]
    winners = np.sort(np.asarray(order)[np.asarray(last)])
    return rows.take(pa.array(winners))


def _compare(older: pa.ChunkedArray, newer: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of `older > newer` and `older = newer` by the total order of ordering values."""
    greater = _mask(pc.greater(older, newer))
    equal = _mask(pc.equal(older, newer))
    old_null, new_null = _mask(older.is_null()), _mask(newer.is_null())
    greater |= new_null & ~old_null
    equal |= old_null & new_null
    if pa.types.is_floating(older.type):
        old_nan, new_nan = _mask(pc.is_nan(older)), _mask(pc.is_nan(newer))
        greater |= old_nan & ~new_nan
        equal |= old_nan & new_nan
    return greater, equal


def _mask(values: pa.ChunkedArray) -> np.ndarray:
    filled: np.ndarray = np.array(pc.fill_null(values, False), dtype=bool)
    return filled


def _sort_table(rows: pa.Table, fields: Sequence[str], position: pa.Array) -> pa.Table:
    """Sort columns that order as ordering values do: null, numbers, NaN; then arrival."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for number, field in enumerate(fields):
        values = rows[field]
        rank = pc.cast(values.is_valid(), pa.int8())
        if pa.types.is_floating(values.type):
            rank = pc.add(rank, pc.cast(pc.fill_null(pc.is_nan(values), False), pa.int8()))
        columns[f"rank{number}"] = rank
        columns[f"value{number}"] = values
    columns["position"] = position
    return pa.table(columns)


def _sort_keys(fields: Sequence[str]) -> list[tuple[str, str]]:
    keys = [(f"{part}{number}", "ascending") for number in range(len(fields)) for part in ("rank", "value")]
    return [*keys, ("position", "ascending")]
