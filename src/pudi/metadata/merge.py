"""Merge the records of one file group of the metadata table: base file and log blocks, newest last.

Source: HoodieMetadataPayload.preCombine, MetadataPartitionType.combineMetadataPayloads. As in Hudi's
reader, log blocks are merged among themselves first, then with the base file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError
from pudi.format.metadata_partitions import FILES
from pudi.metadata.merge_files import entries_of, merged_files
from pudi.metadata.merge_stats import merged_stats
from pudi.metadata.records import RECORD_SCHEMA, columns_of

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
    newer_codes = _codes(newer, known)
    base_codes = _codes(base["key"], known)
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


def _codes(keys: pa.ChunkedArray, known: pa.Array) -> np.ndarray:
    """Return the position of each key among the known keys; -1 for others."""
    found: np.ndarray = np.asarray(pc.fill_null(pc.index_in(keys, value_set=known), -1)).astype(np.int64)
    return found


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
            gone |= np.asarray(pc.fill_null(flags, False))
    return rows.filter(pa.array(~gone)) if gone.any() else rows
