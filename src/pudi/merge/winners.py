"""One version per record key: the winner by commit time or event time, among versions in arrival order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.merge.deletes import delete_columns, delete_mask


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
        delete_marker: a column and the text that it holds in records that are deletes; None where there is none.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    delete_marker: tuple[str, str] | None = None

    def marks_deletes(self, rows: pa.Table) -> bool:
        """Whether records of this kind can say that they're deletes."""
        return bool(delete_columns(rows, self.delete_marker))

    def deletes(self, rows: pa.Table) -> np.ndarray:
        """For each record whether it says that it's a delete."""
        return delete_mask(rows, self.delete_marker)

    @property
    def compares(self) -> bool:
        """Whether ordering values decide anything."""
        return self.mode is MergeMode.EVENT_TIME and bool(self.ordering_fields)

    def newer_wins(self, older: pa.Table, newer: pa.Table) -> np.ndarray:
        """Whether the newer version wins, for tables aligned row by row: a boolean array of that length.

        Equal values let the newer win. Null is 0 among ints, as Hudi 1.2.0 has it, and lower than any other value of
        other types, on which Hudi fails. -0.0 is lower than 0.0, and NaN greater than any number (`Double.compareTo`).
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
    older, newer = _comparable(older), _comparable(newer)
    greater = _mask(pc.greater(older, newer))
    equal = _mask(pc.equal(older, newer))
    old_null, new_null = _mask(older.is_null()), _mask(newer.is_null())
    greater |= new_null & ~old_null
    equal |= old_null & new_null
    return greater, equal


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values whose own order is that of ordering values, but for null."""
    kind = values.type
    if kind == pa.int32():
        return pc.fill_null(values, 0)
    if not pa.types.is_floating(kind):
        return values
    present = _mask(values.is_valid())
    numbers = np.asarray(pc.fill_null(pc.cast(values, pa.float64()), 0.0), dtype=np.float64)
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)  # all NaNs are one
    ranks = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return pa.chunked_array([pa.array(ranks, mask=~present)])


def _mask(values: pa.ChunkedArray) -> np.ndarray:
    filled: np.ndarray = np.array(pc.fill_null(values, False), dtype=bool)
    return filled


def _sort_table(rows: pa.Table, fields: Sequence[str], position: pa.Array) -> pa.Table:
    """Sort columns that order as ordering values do: null, then values; then arrival."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for number, field in enumerate(fields):
        values = _comparable(rows[field])
        columns[f"rank{number}"] = pc.cast(values.is_valid(), pa.int8())
        columns[f"value{number}"] = values
    columns["position"] = position
    return pa.table(columns)


def _sort_keys(fields: Sequence[str]) -> list[tuple[str, str]]:
    keys = [(f"{part}{number}", "ascending") for number in range(len(fields)) for part in ("rank", "value")]
    return [*keys, ("position", "ascending")]
