"""One version per record key, among versions in order of arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pudi.config import PartialUpdate
from pudi.merge.deletes import with_flag
from pudi.merge.merge_rule import MergeRule
from pudi.merge.ordering_values import sort_by
from pudi.merge.partial_update import mix
from pudi.merge.versions import Versions, in_one
from pudi.schema.arrays import encoded_column, take


def latest_per_key(rows: pa.Table, key: str, rule: MergeRule) -> pa.Table:
    """Reduce `rows` to one version of each record key: the winner, or the merge of all versions.

    Args:
        rows: record versions in order of arrival.
        key: name of the column that holds the record key, without nulls.
        rule: how versions are decided; ties go to the later row.

    Returns:
        The winners, in order of arrival; `rows` itself when no key repeats. Where a merger of the user's decides, a
        column `DELETED` says which of them are deletes.

    Raises:
        MergerError: the merger of the user's failed.
    """
    codes, count = _codes(rows, key)
    if count == rows.num_rows:
        return rows
    if rule.mixes:
        folded = fold([Versions.of(rows, rule)], key, rule)
        return folded.rows if rule.merger is None else with_flag(folded.rows, folded.deleted)
    return take(rows, np.sort(_winners(Versions.of(rows, rule), codes, count, rule)))


def fold(runs: Sequence[Versions], key: str, rule: MergeRule) -> Versions:
    """Merge versions among themselves, from the oldest to the newest (BufferedRecordMerger.deltaMerge).

    Args:
        runs: versions, oldest run first; at least one.
        key: name of the column that holds the record key, without nulls.
        rule: how.

    Each key once, in order of first appearance. Deletes stay: `apply_updates` applies them to stored records.

    Raises:
        MergerError: the merger of the user's failed.
    """
    if rule.partial_update is PartialUpdate.FILL_DEFAULTS:  # what a partial update lacks is null: it's a whole record
        runs = [Versions(run.rows, run.deleted, run.unconditional) for run in runs]
    together = in_one([run.padded(rule) for run in runs])
    if not len(together):
        return together
    codes, count = _codes(together.rows, key)
    if count == len(together):
        return together
    if rule.mixes or together.partial:
        lengths = [len(run) for run in runs]
        first = next((n for n, run in enumerate(runs) if run.partial), len(runs))
        partial = np.arange(len(together)) >= sum(lengths[:first])
        return _in_rounds(together, codes, count, rule, partial)
    return together.take(_winners(together, codes, count, rule))


def _codes(rows: pa.Table, key: str) -> tuple[np.ndarray, int]:
    """Return a key number per row and the number of distinct keys."""
    column = rows[key]
    if pa.types.is_integer(column.type) and (dense := _dense(np.asarray(column))) is not None:
        return dense
    encoded = encoded_column(column)
    return np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)


def _dense(numbers: np.ndarray) -> tuple[np.ndarray, int] | None:
    """Return `_codes` by a lookup table over the range of values; None if the range is too sparse."""
    if not len(numbers) or numbers.min() < 0 or numbers.max() > _PLACES_EACH * len(numbers):
        return None
    present = np.zeros(int(numbers.max()) + 1, dtype=bool)
    present[numbers] = True
    ranks = np.cumsum(present) - 1
    return ranks[numbers], int(ranks[-1]) + 1


_PLACES_EACH = 16


def _winners(versions: Versions, codes: np.ndarray, count: int, rule: MergeRule) -> np.ndarray:
    """Return the winning row of each key, by a rule that never mixes versions."""
    order = np.arange(len(codes))
    winners = np.empty(count, dtype=np.int64)
    winners[codes] = order  # of several values for one place the last stays
    if not rule.compares:
        return winners
    contested = np.bincount(codes, minlength=count)[codes] > 1
    alive = np.flatnonzero(contested & _alive(versions, codes, count))
    rows = versions.rows.select(rule.ordering_schema(versions.rows.schema).names)
    ranked = alive[sort_by(rule.order_of(take(rows, alive)))]
    winners[codes[ranked]] = ranked
    return winners


def _alive(versions: Versions, codes: np.ndarray, count: int) -> np.ndarray:
    """Versions that unconditional deletes leave in the running.

    Of a key that has one they're those from the first version on that follows the last of them and is no delete; where
    none follows, that delete itself. See `newer_stands`.
    """
    if not versions.unconditional.any():
        return np.ones(len(codes), dtype=bool)
    order = np.arange(len(codes))
    last = np.full(count, -1)
    gone = np.flatnonzero(versions.unconditional)
    last[codes[gone]] = gone
    follows = np.flatnonzero((order > last[codes]) & ~versions.deleted & (last[codes] >= 0))[::-1]
    first = np.full(count, len(codes))
    first[codes[follows]] = follows
    ends = (last[codes] == order) & (first[codes] == len(codes))
    alive: np.ndarray = (last[codes] < 0) | (order >= first[codes]) | ends
    return alive


def _in_rounds(versions: Versions, codes: np.ndarray, count: int, rule: MergeRule, partial: np.ndarray) -> Versions:
    """Merge the second version of every key into its first, then the third, and so on."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=count)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    several = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts > 1)]
    single = np.flatnonzero(counts == 1)
    done, keys = [versions.take(order[starts[single]])], [single]
    state = versions.take(order[starts[several]])
    for number in range(1, int(counts.max())):
        active = int(np.count_nonzero(counts[several] > number))
        if active < len(state):
            done.append(state.slice(active, len(state)))
            keys.append(several[active : len(state)])
            state = state.slice(0, active)
        places = order[starts[several[:active]] + number]
        state = mix(state, versions.take(places), rule, partial[places]).versions
    done.append(state)
    keys.append(several[: len(state)])
    return in_one([part for part in done if len(part)]).take(np.argsort(np.concatenate(keys)))
