"""Newer record versions laid over a base file: which rows stay, which are replaced, which go, which are added."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.merge.winners import MergeRule


@dataclass(frozen=True, slots=True)
class Overlay:
    """What becomes of a base file's rows and of the rows laid over them, as row numbers.

    Attributes:
        base_rows: for each row of the result's first part, the base row it stands for; ascending.
        taken_from: for each of them, the incoming row that replaces it, or -1 where the base row stays.
        inserted: incoming rows that are new, in order of arrival.
        deleted: how many base rows go.
        matched: how many incoming rows have a key that the base holds, whoever wins.
    """

    base_rows: np.ndarray
    taken_from: np.ndarray
    inserted: np.ndarray
    deleted: int
    matched: int = 0

    @classmethod
    def appending(cls, base_rows: int, incoming_rows: int) -> Overlay:
        """Every base row stays and every incoming row is new, whatever their keys (plain inserts)."""
        return cls(np.arange(base_rows), np.full(base_rows, -1), np.arange(incoming_rows), 0)

    @property
    def updated(self) -> int:
        """How many base rows are replaced by a newer version."""
        return int(np.count_nonzero(self.taken_from >= 0))


def overlay(base: pa.Table, incoming: pa.Table, key: str, rule: MergeRule, *, unconditional_delete: bool) -> Overlay:
    """Lay incoming record versions over a base file by record key (HoodieMergeHandle's merge).

    Args:
        base: rows of the base file; needs the key and, where `rule` compares, the ordering columns.
        incoming: newer versions, each key once; the same columns, and those that mark deletes.
        key: the record key's column in both.
        rule: who wins.
        unconditional_delete: every incoming row is a delete by key that nothing outlives (the DELETE operation).

    Returns:
        Row numbers only, so that the caller decides which columns to move. A key that is in the base more than once
        (plain inserts) has all its rows replaced, as in Hudi.
    """
    found = pc.index_in(base[key], value_set=_whole(incoming[key]))
    partner = np.asarray(pc.fill_null(found, -1)).astype(np.int64, copy=False)
    hit = np.flatnonzero(partner >= 0)
    deletes = _deletes(incoming, rule, unconditional_delete)
    if not unconditional_delete and rule.compares and len(hit):
        fields = list(rule.ordering_fields)
        wins = rule.newer_wins(
            base.select(fields).take(pa.array(hit)), incoming.select(fields).take(pa.array(partner[hit]))
        )
    else:
        wins = np.ones(len(hit), dtype=bool)
    met = np.zeros(incoming.num_rows, dtype=bool)
    met[partner[hit]] = True
    partner[hit[~wins]] = -1
    keep = np.ones(base.num_rows, dtype=bool)
    if deletes is not None:
        keep[hit] = ~(wins & deletes[partner[hit]])
    added = ~met if deletes is None else ~met & ~deletes
    return Overlay(
        base_rows=np.flatnonzero(keep),
        taken_from=partner[keep],
        inserted=np.flatnonzero(added),
        deleted=int(base.num_rows - np.count_nonzero(keep)),
        matched=int(np.count_nonzero(met)),
    )


def _deletes(incoming: pa.Table, rule: MergeRule, unconditional: bool) -> np.ndarray | None:
    if unconditional:
        return np.ones(incoming.num_rows, dtype=bool)
    return rule.deletes(incoming) if rule.marks_deletes(incoming) else None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
