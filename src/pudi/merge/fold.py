"""Record versions folded into one per key, and laid over a base file (HoodieMergedLogRecordReader, FORMAT 9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError
from pudi.merge.winners import MergeRule, latest_per_key

_DELETED, _UNCONDITIONAL, _PLACE = "\0deleted", "\0unconditional", "\0place"


@dataclass(frozen=True, slots=True)
class Versions:
    """Record versions in order, oldest first; a key may come more than once.

    Attributes:
        rows: record key column, meta fields and those of the table's columns that the versions have.
        deleted: bool per row: the version is a delete.
        unconditional: bool per row: a delete without ordering value, which beats all that is older and loses to all
            that is newer.
        partial: whether the versions lack columns that are to be taken from the older version.
    """

    rows: pa.Table
    deleted: np.ndarray
    unconditional: np.ndarray
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Laid:
    """What becomes of base rows and of the versions laid over them, as row numbers.

    Attributes:
        base_rows: base rows that stay or are replaced, ascending.
        taken: for each of them the row of `rows` that stands for it, or -1 where the base row stays.
        rows: winning versions.
        inserted: rows of `rows` that are new.
    """

    base_rows: np.ndarray
    taken: np.ndarray
    rows: pa.Table
    inserted: np.ndarray


def fold(runs: Sequence[Versions], key: str, rule: MergeRule) -> Versions:
    """Each key's winner among versions of some runs, oldest run first.

    Raises:
        NotSupportedError: a run of partial updates.
    """
    if any(run.partial for run in runs):
        raise NotSupportedError("log files with partial updates are not supported yet")
    rows = pa.concat_tables([run.rows for run in runs], promote_options="default")
    deleted = np.concatenate([run.deleted for run in runs])
    unconditional = np.concatenate([run.unconditional for run in runs])
    marked = rows.select([key, *(rule.ordering_fields if rule.compares else ())])
    marked = marked.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
    if rule.compares and np.any(unconditional):
        marked = marked.filter(pa.array(_alive(rows[key], unconditional)))
    places = np.asarray(latest_per_key(marked, key, rule)[_PLACE])
    if len(places) == rows.num_rows:
        return Versions(rows, deleted, unconditional)
    return Versions(rows.take(pa.array(places)), deleted[places], unconditional[places])


def _alive(keys: pa.ChunkedArray, unconditional: np.ndarray) -> np.ndarray:
    """Versions that came after their key's last unconditional delete, and that delete where none did."""
    codes = np.asarray(pc.dictionary_encode(keys).combine_chunks().indices)
    count = int(codes.max()) + 1 if len(codes) else 0
    place = np.arange(len(codes))
    last_delete = np.full(count, -1, dtype=np.int64)
    np.maximum.at(last_delete, codes[unconditional], place[unconditional])
    last = np.zeros(count, dtype=np.int64)
    np.maximum.at(last, codes, place)
    kept: np.ndarray = (place > last_delete[codes]) | (place == last[codes])
    return kept


def lay_over(base: pa.Table, newer: Versions, key: str, rule: MergeRule) -> Laid:
    """Lay folded versions over a base file's rows.

    Args:
        base: the key and, where the rule compares, the ordering columns; others as the caller likes.
        newer: versions, each key once.
        key: the record key's column in both.
        rule: who wins.
    """
    wanted = newer.rows[key].combine_chunks()
    partner = np.asarray(pc.fill_null(pc.index_in(base[key], value_set=wanted), -1)).astype(np.int64)
    hit = np.flatnonzero(partner >= 0)
    met = np.zeros(newer.rows.num_rows, dtype=bool)
    met[partner[hit]] = True
    if rule.compares and len(hit):
        fields = list(rule.ordering_fields)
        older, later = base.select(fields).take(pa.array(hit)), newer.rows.select(fields).take(pa.array(partner[hit]))
        wins = rule.newer_wins(older, later) | newer.unconditional[partner[hit]]
        partner[hit[~wins]] = -1
    keep = (partner < 0) | ~newer.deleted[partner]
    return Laid(np.flatnonzero(keep), partner[keep], newer.rows, np.flatnonzero(~met & ~newer.deleted))
