"""Merge the records of one file group of the metadata table: base file and log blocks, newest last.

Source: HoodieTableMetadataUtil.combineFileSystemMetadata, HoodieTableMetadataUtil.mergeColumnStatsRecords,
HoodieMetadataPayload.preCombine, MetadataPartitionType.combineMetadataPayloads. As in Hudi's reader, log blocks are
merged among themselves first, then with the base file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError
from pudi.format.metadata_partitions import FILES
from pudi.metadata.record_schema import RECORD_SCHEMA, columns_of
from pudi.metadata.stat_records import stats_of_records, typed
from pudi.metadata.value_types import ValueType
from pudi.schema.arrays import mask_of, places_among


def merge_rounds(record: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Split versions into rounds with at most one version of a record, oldest first.

    Args:
        record: for each version the number of its record.
        chosen: the versions that count, oldest first.
    """
    if not len(chosen):
        return []
    order = chosen[np.argsort(record[chosen], kind="stable")]
    grouped = record[order]
    first = np.concatenate([[True], grouped[1:] != grouped[:-1]])
    place = np.arange(len(order))
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    return [order[rank == turn] for turn in range(int(rank.max()) + 1)]


_MAP = RECORD_SCHEMA.field("filesystemMetadata").type


@dataclass(slots=True)
class _FileStates:
    """The merged entries of each file of each record so far."""

    there: np.ndarray
    tombstone: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, count: int) -> _FileStates:
        return cls(np.zeros(count, dtype=bool), np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64))

    def merge(self, which: np.ndarray, size: np.ndarray, deleted: np.ndarray) -> None:
        """Apply newer entries of files: a delete removes an existing entry, and stays as an entry if there is none."""
        gone = which[deleted]
        self.tombstone[gone] = ~self.there[gone]
        self.there[gone] = False
        kept = which[~deleted]
        before = np.where(self.there[kept], self.size[kept], 0)
        self.size[kept] = np.maximum(before, size[~deleted])
        self.there[kept], self.tombstone[kept] = True, False


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of maps, concatenated.

    Attributes:
        owner: row number of each entry.
        names: file name.
        sizes: file size in bytes.
        deleted: whether the file is deleted.
    """

    owner: np.ndarray
    names: pa.Array
    sizes: np.ndarray
    deleted: np.ndarray


def entries_of(maps: pa.Array | pa.ChunkedArray) -> Entries:
    """Return the entries of `filesystemMetadata` maps; null maps have none."""
    if isinstance(maps, pa.ChunkedArray):
        maps = maps.combine_chunks()
    lists = maps.cast(pa.list_(pa.struct([("key", _MAP.key_type), ("value", _MAP.item_type)])))
    owner = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
    items = pc.list_flatten(lists)
    stored = pc.struct_field(items, "value")
    return Entries(
        owner,
        pc.struct_field(items, "key"),
        np.asarray(pc.struct_field(stored, "size")).astype(np.int64),
        np.asarray(pc.struct_field(stored, "isDeleted")).astype(bool),
    )


def merged_files(rows: pa.Table, codes: np.ndarray, of_base: np.ndarray, *, tombstones: bool = False) -> pa.Table:
    """Return one record per key, without deleted files.

    Args:
        rows: versions of records, oldest first.
        codes: for each version a number for its key.
        of_base: for each version whether it comes from the base file, which is merged last.
        tombstones: whether deletes stay, for base records that are not among the versions.
    """
    if not rows.num_rows:
        return rows
    entries = entries_of(rows["filesystemMetadata"])
    coded = pc.dictionary_encode(entries.names)
    names, record = coded.dictionary, codes[entries.owner]
    pairs, file = np.unique(record * max(len(names), 1) + np.asarray(coded.indices), return_inverse=True)
    logs, whole = _FileStates.of(len(pairs)), _FileStates.of(len(pairs))
    in_base = of_base[entries.owner]
    for state, chosen in ((logs, ~in_base), (whole, in_base)):
        for turn in merge_rounds(file, np.flatnonzero(chosen)):
            state.merge(file[turn], entries.sizes[turn], entries.deleted[turn])
    newer = np.flatnonzero(logs.there | logs.tombstone)
    whole.merge(newer, logs.size[newer], logs.tombstone[newer])
    there = np.flatnonzero(whole.there | whole.tombstone if tombstones else whole.there)
    sizes = np.where(whole.there, whole.size, 0)[there]
    record, name = np.divmod(pairs[there], max(len(names), 1))
    return _file_records(rows, codes, Entries(record, names.take(pa.array(name)), sizes, whole.tombstone[there]))


def _file_records(rows: pa.Table, codes: np.ndarray, entries: Entries) -> pa.Table:
    """Return the records of files in the order of their keys' numbers; an empty map if all files are deleted.

    Args:
        rows: versions of the records.
        codes: for each version the number of its key.
        entries: the entries in the order of their owners, which are numbers of keys.
    """
    present, last = np.unique(codes[::-1], return_index=True)
    rows = rows.select(["key", "type"]).take(pa.array(len(codes) - 1 - last))
    ends = np.searchsorted(entries.owner, present, side="right")
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    infos = pa.StructArray.from_arrays(
        [pa.array(entries.sizes), pa.array(entries.deleted)], fields=list(_MAP.item_type)
    )
    maps = pa.MapArray.from_arrays(offsets, entries.names, infos, type=_MAP)
    return rows.append_column(RECORD_SCHEMA.field("filesystemMetadata"), maps)


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
    ranks = places_among(both, ordered)
    return [ranks[: len(values[0])], ranks[len(values[0]) :]]


@dataclass(slots=True)
class _StatStates:
    """Rows that the parts of each merged record come from; -1 for none."""

    last: np.ndarray
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    unknown: np.ndarray

    @classmethod
    def of(cls, count: int) -> _StatStates:
        last, low, high = (np.full(count, -1, dtype=np.int64) for _ in range(3))
        return cls(last, low, high, np.zeros((count, len(_COUNTS)), dtype=np.int64), np.zeros(count, dtype=bool))

    def merge(self, which: np.ndarray, newer: _StatStates, at: np.ndarray, facts: _Facts) -> None:
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

    def _put(self, which: np.ndarray, newer: _StatStates, at: np.ndarray) -> None:
        for name in ("last", "low", "high", "counts", "unknown"):
            getattr(self, name)[which] = getattr(newer, name)[at]

    def _check(self, which: np.ndarray, newer: _StatStates, at: np.ndarray, facts: _Facts) -> None:
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
    single = _StatStates.of(rows.num_rows)
    everyone = np.arange(rows.num_rows)
    single.last, single.low, single.high = everyone, everyone.copy(), everyone.copy()
    stored = rows[_STATS.name]
    for place, name in enumerate(_COUNTS):
        single.counts[:, place] = np.asarray(pc.fill_null(pc.struct_field(stored, name), 0))
    count = int(codes.max()) + 1
    whole, logs = _StatStates.of(count), _StatStates.of(count)
    for turn in merge_rounds(codes, np.flatnonzero(of_base)):
        whole.merge(codes[turn], single, turn, facts)
    for turn in merge_rounds(codes, np.flatnonzero(~of_base)):
        logs.merge(codes[turn], single, turn, facts)
    newer = np.flatnonzero(logs.last >= 0)
    whole.merge(newer, logs, newer, facts)
    return _stat_records(rows, whole, np.flatnonzero((whole.last >= 0) & ~whole.unknown))


def _stat_records(rows: pa.Table, state: _StatStates, which: np.ndarray) -> pa.Table:
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


_FLAGGED = ("ColumnStatsMetadata", "BloomFilterMetadata", "SecondaryIndexMetadata")
"""Columns whose struct marks tombstones."""


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one log block: records, or keys of deleted records."""

    rows: pa.Table | None = None
    deleted: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of records, oldest first.

    Attributes:
        rows: the versions.
        codes: for each version a number for its key.
        of_base: for each version whether it comes from the base file.
    """

    rows: pa.Table
    codes: np.ndarray
    of_base: np.ndarray

    def part(self, rows: np.ndarray) -> Versions:
        """Return some of the versions."""
        return Versions(self.rows.take(pa.array(rows)), self.codes[rows], self.of_base[rows])


def merged(partition: str, base: pa.Table, blocks: Sequence[Block]) -> pa.Table:
    """Merge a file group: return one record per key, without tombstones.

    Args:
        partition: the metadata table's partition, which determines how versions are merged.
        base: the base file's records, columns as in `columns_of`; empty without a base file.
        blocks: the content of log blocks, oldest first.

    Returns:
        Base records without versions in log blocks in their order, then the others.

    Raises:
        CorruptError: versions of one key have different record types.
    """
    base = base.combine_chunks()
    if not any(_size(block) for block in blocks):
        return _without_tombstones(partition, base)
    versions, touched = _versions(base, blocks)
    untouched = base.filter(pa.array(~touched)) if touched.any() else base
    if partition == FILES:
        rows = merged_files(versions.rows, versions.codes, versions.of_base)
    else:
        rows = _newest_or_merged(versions)
    return pa.concat_tables([_without_tombstones(partition, untouched), _without_tombstones(partition, rows)])


def folded(partition: str, blocks: Sequence[Block]) -> tuple[pa.Table, pa.Array]:
    """Merge log blocks for a log file that replaces them; tombstones stay, since they apply to the base file.

    Args:
        partition: the metadata table's partition.
        blocks: the content of log blocks, oldest first.

    Returns:
        One record per key, and the keys whose older records are deleted; these apply first.

    Raises:
        CorruptError: versions of one key have different record types.
    """
    nothing = pa.schema([RECORD_SCHEMA.field(name) for name in columns_of(partition)]).empty_table()
    if not any(_size(block) for block in blocks):
        return nothing, pa.array([], pa.string())
    versions, _ = _versions(nothing, blocks)
    if partition == FILES:
        rows = merged_files(versions.rows, versions.codes, versions.of_base, tombstones=True)
    else:
        rows = _newest_or_merged(versions)
    gone = [block.deleted.cast(pa.string()) for block in blocks if block.deleted is not None]
    return rows, pc.unique(pa.chunked_array(gone, pa.string()))


def _size(block: Block) -> int:
    return (0 if block.rows is None else block.rows.num_rows) + (0 if block.deleted is None else len(block.deleted))


def _versions(base: pa.Table, blocks: Sequence[Block]) -> tuple[Versions, np.ndarray]:
    """Return the versions of keys in log blocks, without those before a delete; and which base rows have such keys."""
    tables = [block.rows for block in blocks if block.rows is not None]
    order = [np.full(b.rows.num_rows, place) for place, b in enumerate(blocks, 1) if b.rows is not None]
    gone = [b.deleted for b in blocks if b.deleted is not None]
    gone_at = [np.full(len(b.deleted), place) for place, b in enumerate(blocks, 1) if b.deleted is not None]
    newer = pa.chunked_array(
        [chunk for table in tables for chunk in table["key"].chunks] + [keys.cast(pa.string()) for keys in gone],
        pa.string(),
    )
    known = pc.unique(newer)
    newer_codes = places_among(newer, known)
    base_codes = places_among(base["key"], known)
    touched = base_codes >= 0
    count = len(newer_codes) - sum(len(keys) for keys in gone)
    codes = np.concatenate([base_codes[touched], newer_codes[:count]])
    places = np.concatenate([np.zeros(int(touched.sum()), np.int64), *order])
    last = np.full(len(known), -1, dtype=np.int64)
    if gone:
        np.maximum.at(last, newer_codes[count:], np.concatenate(gone_at))
    rows = pa.concat_tables([base.filter(pa.array(touched)), *tables]).combine_chunks()
    live = places > last[codes]
    versions = Versions(rows, codes, places == 0)
    return versions if live.all() else versions.part(np.flatnonzero(live)), touched


def _newest_or_merged(versions: Versions) -> pa.Table:
    codes, rows = versions.codes, versions.rows
    if not len(codes):
        return rows
    newest = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    newest[codes] = np.arange(len(codes))  # the last of several stays
    kinds = np.asarray(rows["type"])
    if np.any(kinds != kinds[newest[codes]]):
        raise CorruptError("the metadata table has records of different types under one key; rebuild it")
    several = len(codes) > int((newest >= 0).sum())
    # an expression index has either statistics or bloom filters
    if several and "ColumnStatsMetadata" in rows.column_names and not rows["ColumnStatsMetadata"].null_count:
        return merged_stats(rows, codes, versions.of_base)
    return rows.take(pa.array(newest[newest >= 0]))


def _without_tombstones(partition: str, rows: pa.Table) -> pa.Table:
    if not rows.num_rows:
        return rows
    if partition == FILES:
        count = rows.num_rows
        has_some = entries_of(rows["filesystemMetadata"]).deleted.any()
        return merged_files(rows, np.arange(count), np.ones(count, dtype=bool)) if has_some else rows
    gone = np.zeros(rows.num_rows, dtype=bool)
    for name in _FLAGGED:
        if name in rows.column_names:
            flags = pc.struct_field(rows[name], "isDeleted")
            gone |= mask_of(flags)
    return rows.filter(pa.array(~gone)) if gone.any() else rows
