"""Two versions of each of some records become one: by mode, by partial update, or by a merger of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import PartialUpdate
from pudi.merge.deletes import DELETED
from pudi.merge.merge_rule import MergeRule
from pudi.merge.mergers import ask
from pudi.merge.versions import Versions, in_one
from pudi.schema import META_FIELDS
from pudi.schema.arrays import mask_of, take


@dataclass(frozen=True, slots=True)
class Mixed:
    """Result of merging aligned versions.

    Attributes:
        versions: for each pair the version that stands.
        is_older: where it's the older one as it was.
        is_newer: where it's the newer one as it was.
    """

    versions: Versions
    is_older: np.ndarray
    is_newer: np.ndarray


def newer_stands(older: Versions, newer: Versions, rule: MergeRule) -> np.ndarray:
    """Return a mask of the newer versions that win over the older ones, row by row, by commit time or event time.

    An unconditional delete beats anything older and loses to anything newer; only that a delete is followed by another
    doesn't take its being unconditional away (BufferedRecordMergerFactory.deltaMergeDeleteRecord).
    """
    if not rule.compares:
        return np.ones(len(newer), dtype=bool)
    wins: np.ndarray = rule.newer_wins(older.rows, newer.rows) | newer.unconditional | older.unconditional
    wins &= ~(older.unconditional & newer.deleted & ~newer.unconditional)
    return wins


def mix(older: Versions, newer: Versions, rule: MergeRule, partial: np.ndarray) -> Mixed:
    """Merge aligned versions (BufferedRecordMerger's deltaMerge and finalMerge).

    Args:
        older: the older versions; the same columns as `newer`.
        newer: the newer versions of the same records, row by row.
        rule: how.
        partial: which pairs are merged as partial updates: columns that one lacks come from the other, and nothing
            else is filled.

    Raises:
        MergerError: the merger of the user's failed.
    """
    if rule.merger is not None:
        return _by_merger(older, newer, rule, partial)
    wins = newer_stands(older, newer, rule)
    whole = older.deleted | newer.deleted  # deletes have no values to fill with or to be filled
    taken: dict[str, np.ndarray] = {}
    missing: dict[str, np.ndarray] = {}
    touched = ~wins & ~whole if rule.deletes_win else np.zeros(len(newer), dtype=bool)
    for field in newer.rows.schema:
        lacks = np.where(wins, newer.lacking(field.name), older.lacking(field.name)) & partial & ~whole
        known = ~newer.lacking(field.name) & ~older.lacking(field.name)
        if rule.fills and field.name not in META_FIELDS:
            lacks |= np.where(wins, *(_gaps(side.rows[field.name], field.name, rule) for side in (newer, older))) & (
                ~partial & ~whole & known
            )
        touched |= lacks
        taken[field.name] = wins ^ lacks
        if rule.deletes_win and field.name in META_FIELDS:  # mergeDisorderRecordsWithMetadata
            taken[field.name] = wins | (~whole & ~partial)
        gone = np.where(taken[field.name], newer.lacking(field.name), older.lacking(field.name)) & partial
        if gone.any():
            missing[field.name] = gone
    rows = _chosen(older.rows, newer.rows, taken)
    deleted = np.where(wins, newer.deleted, older.deleted)
    unconditional = np.where(wins, newer.unconditional, older.unconditional)
    made = Versions(rows, deleted, unconditional, older.partial or newer.partial, missing)
    return Mixed(made, ~wins & ~touched, wins & ~touched)


def _gaps(values: pa.ChunkedArray, name: str, rule: MergeRule) -> np.ndarray:
    """Return a mask of the winner's values that give way to the loser's (PartialUpdateHandler)."""
    kind = values.type
    if rule.partial_update is PartialUpdate.IGNORE_DEFAULTS:
        gaps = mask_of(values.is_null())
        default = dict(rule.defaults).get(name)
        return gaps if default is None else gaps | mask_of(pc.equal(values, pa.scalar(default).cast(kind)))
    if rule.unavailable is None or kind not in _TEXTS:
        return np.zeros(len(values), dtype=bool)
    return mask_of(pc.equal(values, pa.scalar(rule.unavailable).cast(kind)))


_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _chosen(older: pa.Table, newer: pa.Table, taken: dict[str, np.ndarray]) -> pa.Table:
    """Columns put together of two sides: where `taken`, the newer's value. Columns chosen alike are moved together."""
    columns: dict[str, pa.ChunkedArray] = {}
    groups: dict[bytes, list[str]] = {}
    for name, mask in taken.items():
        groups.setdefault(mask.tobytes(), []).append(name)
    for names in groups.values():
        mask = taken[names[0]]
        if mask.all():
            columns.update({name: newer[name] for name in names})
        elif not mask.any():
            columns.update({name: older[name] for name in names})
        else:
            places = pa.array(np.arange(len(mask)) + np.where(mask, len(mask), 0))
            both = take(pa.concat_tables([older.select(names), newer.select(names)]), places)
            columns.update({name: both[name] for name in names})
    return pa.table([columns[name] for name in newer.column_names], schema=newer.schema)


def _by_merger(older: Versions, newer: Versions, rule: MergeRule, partial: np.ndarray) -> Mixed:
    """Merge with the user's merger. Unconditional deletes always win and skip it."""
    if not len(newer):
        return Mixed(newer, newer.deleted, newer.deleted)
    settled = newer.unconditional | older.unconditional
    parts: list[tuple[np.ndarray, Mixed]] = []
    places = np.flatnonzero(settled)
    if len(places):
        every = np.ones(len(places), dtype=bool)
        parts.append((places, Mixed(newer.take(places), ~every, every)))
    for group in _shapes(older, newer, partial, np.flatnonzero(~settled)):
        parts.append((group, _asked(older.take(group), newer.take(group), rule, bool(partial[group[0]]))))
    back = np.argsort(np.concatenate([group for group, _ in parts]))
    merged = in_one([part.versions for _, part in parts])
    masks = (np.concatenate([getattr(part, name) for _, part in parts])[back] for name in ("is_older", "is_newer"))
    return Mixed(merged.take(back), *masks)


def _shapes(older: Versions, newer: Versions, partial: np.ndarray, places: np.ndarray) -> Iterator[np.ndarray]:
    """Return the rows of `places` grouped by the columns that their versions lack."""
    if not len(places):
        return
    masks = [partial, *older.missing.values(), *newer.missing.values()]
    _, shape = np.unique(np.stack([mask[places] for mask in masks], axis=1), axis=0, return_inverse=True)
    for number in range(int(shape.max()) + 1):
        yield places[shape.reshape(-1) == number]


def _asked(older: Versions, newer: Versions, rule: MergeRule, partial: bool) -> Mixed:
    """Merge pairs whose versions lack the same columns; the merger sees table columns without meta fields."""
    assert rule.merger is not None
    schema = pa.schema([f for f in newer.rows.schema if f.name not in (*META_FIELDS, DELETED)])
    sides = [side.rows.select([n for n in schema.names if not side.lacking(n).any()]) for side in (older, newer)]
    answer = ask(
        rule.merger,
        (sides[0], older.deleted),
        (sides[1], newer.deleted),
        rule.context(schema),
        key_fields=rule.key_fields,
        partial=partial,
    )
    answered, columns = set(answer.rows.column_names), []
    for field in newer.rows.schema:
        if field.name in answered:
            columns.append(answer.rows[field.name])
        elif field.name == DELETED:
            columns.append(pa.chunked_array([pa.array(answer.deleted)]))
        elif field.name in META_FIELDS:
            columns.append(newer.rows[field.name])
        else:  # neither side has it
            columns.append(pa.chunked_array([pa.nulls(len(newer), field.type)]))
    names = [n for n in schema.names if n not in answered]
    missing = {name: np.ones(len(newer), dtype=bool) for name in names}
    rows = pa.table(columns, schema=newer.rows.schema)
    rows = _chosen(older.rows, rows, dict.fromkeys(rows.column_names, ~answer.is_older))  # with its meta fields
    none = np.zeros(len(newer), dtype=bool)
    made = Versions(rows, answer.deleted, none, older.partial or newer.partial, missing)
    return Mixed(made, answer.is_older, answer.is_newer)
