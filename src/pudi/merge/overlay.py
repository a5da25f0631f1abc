"""Apply newer record versions to a base file: which rows stay, which are replaced, deleted or added."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import pyarrow as pa

from pudi.config import PartialUpdate
from pudi.merge.deletes import DELETED
from pudi.merge.merge_rule import MergeRule
from pudi.merge.ordering_values import column_of
from pudi.merge.partial_update import mix
from pudi.merge.versions import Versions
from pudi.schema.arrays import decoded_column, one_array, places_among, take, take_column


@dataclass(frozen=True, slots=True)
class Overlay:
    """The outcome for the rows of a base file and the incoming rows, as row numbers.

    Attributes:
        base_rows: for each row of the result's first part, the base row it stands for; ascending.
        taken: for each of them, the incoming row that replaces it, or -1 where the base row stays.
        inserted: incoming rows that are new, in order of arrival.
        deleted: how many base rows go.
        matched: how many incoming rows have a key that the base holds, whoever wins.
    """

    base_rows: np.ndarray
    taken: np.ndarray
    inserted: np.ndarray
    deleted: int
    matched: int = 0

    @classmethod
    def appending(cls, base_rows: int, incoming_rows: int) -> Overlay:
        """Keep every base row and add every incoming row, whatever their keys (plain inserts)."""
        return cls(np.arange(base_rows), np.full(base_rows, -1), np.arange(incoming_rows), 0)

    @property
    def staying(self) -> np.ndarray:
        """Base rows that stay as they are."""
        return self.base_rows[self.taken < 0]

    @property
    def replaced(self) -> np.ndarray:
        """Base rows that a newer version replaces."""
        return self.base_rows[self.taken >= 0]

    @property
    def replacing(self) -> np.ndarray:
        """The incoming rows that replace these."""
        return self.taken[self.taken >= 0]

    @property
    def fresh(self) -> np.ndarray:
        """Incoming rows of the result: those that replace base rows, then the new ones."""
        return np.concatenate([self.replacing, self.inserted])

    def gone(self, base_rows: int) -> np.ndarray:
        """Return which of that many base rows go."""
        return np.delete(np.arange(base_rows), self.base_rows)


@dataclass(frozen=True, slots=True)
class MergeResult(Overlay):
    """The outcome for the rows of a base file and newer versions.

    Attributes:
        rows: the newer versions, as they are or mixed with those of the base file, whose numbers `taken` and `inserted`
            have; also some that nothing refers to.
    """

    _: KW_ONLY
    rows: pa.Table


def overlay(base: pa.Table, incoming: pa.Table, key: str, rule: MergeRule, *, unconditional_delete: bool) -> Overlay:
    """Apply incoming record versions to a base file by record key, with a rule that never combines two versions.

    Args:
        base: rows of the base file; needs the key and, where `rule` compares, the ordering columns.
        incoming: newer versions, each key once; the same columns, and those that mark deletes.
        key: the record key's column in both.
        rule: the merge rule.
        unconditional_delete: every incoming row is a delete by key that nothing outlives (the DELETE operation).

    Returns:
        Row numbers only, so that the caller decides which columns to move. A key that is in the base more than once
        (plain inserts) has all its rows replaced, as in Hudi.
    """
    if unconditional_delete:
        every = np.ones(incoming.num_rows, dtype=bool)
        return _plain(base, Versions(incoming, every, every), key, rule)
    return _plain(base, Versions.of(incoming, rule), key, rule)


def apply_updates(base: pa.Table, newer: Versions, key: str, rule: MergeRule, *, remixed: bool = False) -> MergeResult:
    """Merge newer versions with those of a base file (BufferedRecordMerger.finalMerge).

    Args:
        base: rows of the base file; needs the key and ordering columns, and all result columns where the rule combines
            versions.
        newer: newer versions, each key once.
        key: the record key's column in both.
        rule: how.
        remixed: where versions are mixed, take every base row that meets a newer version from `rows`, also if it
            stays as it was: so which ones are taken depends on the order and the delete marks, not on other columns,
            unless a merger of the user's decides.

    Raises:
        MergerError: the merger of the user's failed.
    """
    partial = newer.partial and rule.partial_update is not PartialUpdate.FILL_DEFAULTS
    if not rule.mixes and not partial:
        plain = _plain(base, newer, key, rule)
        return MergeResult(plain.base_rows, plain.taken, plain.inserted, plain.deleted, plain.matched, rows=newer.rows)
    newer = newer.padded(rule)
    partner, hit = _partners(base, newer.rows, key)
    schema = newer.rows.schema
    if partial or rule.merger is not None:
        there = set(schema.names)
        schema = pa.schema([*schema, *(f for f in base.schema if f.name not in there)])
    older = _stored(base, hit, schema, partial=partial)
    newer = newer.with_columns(schema)
    mixed = mix(older, newer.take(partner[hit]), rule, np.full(len(hit), partial))
    made = np.flatnonzero(~mixed.is_newer & (~mixed.is_older | remixed))
    taken = np.full(base.num_rows, -1)
    taken[hit[mixed.is_newer]] = partner[hit[mixed.is_newer]]
    taken[hit[made]] = len(newer) + np.arange(len(made))
    keep = np.ones(base.num_rows, dtype=bool)
    keep[hit] = ~mixed.versions.deleted
    met = np.zeros(len(newer), dtype=bool)
    met[partner[hit]] = True
    return MergeResult(
        base_rows=np.flatnonzero(keep),
        taken=taken[keep],
        rows=pa.concat_tables([newer.rows, take(mixed.versions.rows, made)]) if len(made) else newer.rows,
        inserted=np.flatnonzero(~met & ~newer.deleted),
        deleted=int(np.count_nonzero(~keep)),
        matched=int(np.count_nonzero(met)),
    )


def _stored(base: pa.Table, hit: np.ndarray, schema: pa.Schema, *, partial: bool) -> Versions:
    """Rows of a base file as versions: never deletes, and never without a column."""
    columns = []
    for field in schema:
        column = take_column(column_of(base, field.name), hit)
        columns.append(column if column.type == field.type else _cast(column, field.type))
    rows = pa.table(columns, schema=schema)
    none = np.zeros(len(hit), dtype=bool)
    missing = {} if DELETED in base.column_names else {DELETED: ~none}  # the flag column is not a value to fill
    return Versions(rows, none, none, partial, missing)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return decoded_column(column).cast(kind)


def _partners(base: pa.Table, newer: pa.Table, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Return for each base row the position of its newer row, or -1, and the base rows that have one."""
    partner = _by_place(base[key], newer[key]) if pa.types.is_integer(base.schema.field(key).type) else None
    if partner is None:
        partner = places_among(base[key], one_array(newer[key]))
    return partner, np.flatnonzero(partner >= 0)


def _by_place(base: pa.ChunkedArray, newer: pa.ChunkedArray) -> np.ndarray | None:
    """Return for each base row the position of its newer row, or -1; None if base rows have gaps in their numbers."""
    stored, wanted = np.asarray(base), np.asarray(newer)
    if not len(stored) or np.any(np.diff(stored) != 1):
        return None
    places = wanted - stored[0]
    inside = np.flatnonzero((places >= 0) & (places < len(stored)))
    partner = np.full(len(stored), -1, dtype=np.int64)
    partner[places[inside]] = inside
    return partner


def _plain(base: pa.Table, newer: Versions, key: str, rule: MergeRule) -> Overlay:
    """Apply versions by a rule that never mixes them."""
    partner, hit = _partners(base, newer.rows, key)
    certain = newer.unconditional[partner[hit]]
    if rule.compares and not certain.all():
        fields, present = (rule.ordering_schema(side.schema).names for side in (base, newer.rows))
        stored = take(base.select(fields), hit)
        wins = rule.newer_wins(stored, take(newer.rows.select(present), partner[hit])) | certain
    else:
        wins = np.ones(len(hit), dtype=bool)
    met = np.zeros(len(newer), dtype=bool)
    met[partner[hit]] = True
    partner[hit[~wins]] = -1
    keep = np.ones(base.num_rows, dtype=bool)
    added = ~met
    if newer.deleted.any():
        keep[hit] = ~(wins & newer.deleted[partner[hit]])
        added &= ~newer.deleted
    return Overlay(
        base_rows=np.flatnonzero(keep),
        taken=partner[keep],
        inserted=np.flatnonzero(added),
        deleted=int(base.num_rows - np.count_nonzero(keep)),
        matched=int(np.count_nonzero(met)),
    )
