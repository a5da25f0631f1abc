"""Merge column statistics: versions of records of `column_stats`, `partition_stats` and so on in, one per key out.

Source: HoodieTableMetadataUtil.mergeColumnStatsRecords.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.metadata.merge_rounds import merge_rounds
from pudi.metadata.records import RECORD_SCHEMA
from pudi.metadata.stat_records import stats_of_records
from pudi.metadata.stat_values import typed
from pudi.metadata.value_types import ValueType

_STATS = RECORD_SCHEMA.field("ColumnStatsMetadata")
_COUNTS = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts that decide, by row.

    Attributes:
        resets: whether it replaces all older versions: a tombstone, or tight bounds.
        deleted: whether it is a tombstone.
        kind: a number for the value type; -1 if it can't be compared with others.
        low: minimum as a number in the order of values of its type; -1 for null.
        high: maximum likewise.
    """

    resets: np.ndarray
    deleted: np.ndarray
    kind: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table) -> _Facts:
        stats = stats_of_records(rows)
        deleted = np.asarray(stats["deleted"]).astype(bool)
        kinds = np.asarray(stats["type"]).astype(np.int64)
        info = stats["info"].combine_chunks()
        names = pc.dictionary_encode(pc.fill_null(info, ""))
        kind = kinds * max(len(names.dictionary), 1) + np.asarray(names.indices)
        low, high = np.full(len(kinds), -1, dtype=np.int64), np.full(len(kinds), -1, dtype=np.int64)
        sides = [stats[name].combine_chunks() for name in ("min", "max")]
        for each in np.unique(kind):
            here = kind == each
            first = int(np.flatnonzero(here)[0])
            known = _ranked(
                [side.filter(pa.array(here)) for side in sides], ValueType(kinds[first]), info[first].as_py()
            )
            if known is None:
                kind[here] = -1
                continue
            low[here], high[here] = known
        lost = _lost(rows, "minValue", low) | _lost(rows, "maxValue", high)
        return cls(deleted | np.asarray(stats["tight"]).astype(bool), deleted, np.where(lost, -1, kind), low, high)


def _lost(rows: pa.Table, name: str, found: np.ndarray) -> np.ndarray:
    """Return whether a value exists that can't be decoded."""
    side = pc.struct_field(rows[_STATS.name], name).combine_chunks()
    lost: np.ndarray = np.asarray(side.is_valid()) & (found < 0)
    return lost


def _ranked(sides: list[pa.Array], kind: ValueType, info: str | None) -> list[np.ndarray] | None:
    """Return both bounds as numbers in the order of their values; None for an invalid type."""
    if kind == ValueType.NULL:
        return [np.full(len(side), -1, dtype=np.int64) for side in sides]
    values = [typed(side, kind, info) for side in sides]
    if values[0] is None or values[1] is None:
        return None
    both = pa.concat_arrays(values)
    if pa.types.is_boolean(both.type):
        both = both.cast(pa.int8())
    distinct = pc.unique(both.drop_null())
    ordered = distinct.take(pc.sort_indices(distinct))
    ranks = np.asarray(pc.fill_null(pc.index_in(both, value_set=ordered), -1)).astype(np.int64)
    return [ranks[: len(values[0])], ranks[len(values[0]) :]]


@dataclass(slots=True)
class _State:
    """Rows that the parts of each merged record come from; -1 for none."""

    last: np.ndarray
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    unknown: np.ndarray

    @classmethod
    def of(cls, count: int) -> _State:
        last, low, high = (np.full(count, -1, dtype=np.int64) for _ in range(3))
        return cls(last, low, high, np.zeros((count, len(_COUNTS)), dtype=np.int64), np.zeros(count, dtype=bool))

    def merge(self, which: np.ndarray, newer: _State, at: np.ndarray, facts: _Facts) -> None:
        """Return newer states of some records, at rows `at` of `newer`."""
        before = self.last[which]
        fresh = (before < 0) | facts.resets[newer.last[at]] | facts.deleted[before]
        self._put(which[fresh], newer, at[fresh])
        which, at = which[~fresh], at[~fresh]
        self._check(which, newer, at, facts)
        for mine, others, values, least in (
            (self.low, newer.low, facts.low, True),
            (self.high, newer.high, facts.high, False),
        ):
            old, new = mine[which], others[at]
            a, b = (np.where(rows < 0, -1, values[rows]) for rows in (old, new))
            better = (b >= 0) & ((a < 0) | ((b < a) if least else (b > a)))
            mine[which] = np.where(better, new, old)
        self.counts[which] += newer.counts[at]
        self.last[which] = newer.last[at]
        self.unknown[which] |= newer.unknown[at]

    def _put(self, which: np.ndarray, newer: _State, at: np.ndarray) -> None:
        for name in ("last", "low", "high", "counts", "unknown"):
            getattr(self, name)[which] = getattr(newer, name)[at]

    def _check(self, which: np.ndarray, newer: _State, at: np.ndarray, facts: _Facts) -> None:
        """Make bounds unknown if the types differ, as after a change of the column's type."""
        stored = [(side[which], other[at]) for side in (self.low, self.high) for other in (newer.low, newer.high)]
        for old, new in stored:
            a, b = facts.kind[old], facts.kind[new]
            values = (facts.low[old] >= 0) & (facts.low[new] >= 0)
            self.unknown[which] |= (a < 0) | (b < 0) | (values & (a != b))


def merged_stats(rows: pa.Table, codes: np.ndarray, of_base: np.ndarray) -> pa.Table:
    """Return one record per key; keys with versions of different value types are left out.

    Args:
        rows: versions of records, oldest first.
        codes: for each version a number for its key.
        of_base: for each version whether it comes from the base file, which is merged last.
    """
    facts = _Facts.of(rows)
    single = _State.of(rows.num_rows)
    everyone = np.arange(rows.num_rows)
    single.last, single.low, single.high = everyone, everyone.copy(), everyone.copy()
    stored = rows[_STATS.name]
    for place, name in enumerate(_COUNTS):
        single.counts[:, place] = np.asarray(pc.fill_null(pc.struct_field(stored, name), 0))
    count = int(codes.max()) + 1
    whole, logs = _State.of(count), _State.of(count)
    for turn in merge_rounds(codes, np.flatnonzero(of_base)):
        whole.merge(codes[turn], single, turn, facts)
    for turn in merge_rounds(codes, np.flatnonzero(~of_base)):
        logs.merge(codes[turn], single, turn, facts)
    newer = np.flatnonzero(logs.last >= 0)
    whole.merge(newer, logs, newer, facts)
    return _records(rows, whole, np.flatnonzero((whole.last >= 0) & ~whole.unknown))


def _records(rows: pa.Table, state: _State, which: np.ndarray) -> pa.Table:
    last = pa.array(state.last[which])
    stored = rows[_STATS.name].combine_chunks()
    parts = {field.name: part for field, part in zip(_STATS.type, stored.flatten(), strict=True)}
    made = {name: part.take(last) for name, part in parts.items()}
    made["minValue"] = parts["minValue"].take(pa.array(state.low[which]))
    made["maxValue"] = parts["maxValue"].take(pa.array(state.high[which]))
    for place, name in enumerate(_COUNTS):
        made[name] = pa.array(state.counts[which, place])
    stats = pa.StructArray.from_arrays([made[field.name] for field in _STATS.type], fields=list(_STATS.type))
    taken = rows.take(last)
    return taken.set_column(taken.schema.get_field_index(_STATS.name), _STATS, stats)
