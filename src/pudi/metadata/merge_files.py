"""Merge lists of files: versions of records of the partition `files` in, one per key out.

Source: HoodieTableMetadataUtil.combineFileSystemMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.metadata.merge_rounds import merge_rounds
from pudi.metadata.records import RECORD_SCHEMA

_MAP = RECORD_SCHEMA.field("filesystemMetadata").type


@dataclass(slots=True)
class _State:
    """The merged entries of each file of each record so far."""

    there: np.ndarray
    tombstone: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, count: int) -> _State:
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
    logs, whole = _State.of(len(pairs)), _State.of(len(pairs))
    in_base = of_base[entries.owner]
    for state, chosen in ((logs, ~in_base), (whole, in_base)):
        for turn in merge_rounds(file, np.flatnonzero(chosen)):
            state.merge(file[turn], entries.sizes[turn], entries.deleted[turn])
    newer = np.flatnonzero(logs.there | logs.tombstone)
    whole.merge(newer, logs.size[newer], logs.tombstone[newer])
    there = np.flatnonzero(whole.there | whole.tombstone if tombstones else whole.there)
    sizes = np.where(whole.there, whole.size, 0)[there]
    return _records(rows, codes, pairs[there], names, sizes, whole.tombstone[there])


def _records(
    rows: pa.Table, codes: np.ndarray, pairs: np.ndarray, names: pa.Array, sizes: np.ndarray, deleted: np.ndarray
) -> pa.Table:
    """Return the records of files in the order of their keys' numbers; an empty map if all files are deleted."""
    present, last = np.unique(codes[::-1], return_index=True)
    rows = rows.select(["key", "type"]).take(pa.array(len(codes) - 1 - last))
    record, name = np.divmod(pairs, max(len(names), 1))
    ends = np.searchsorted(record, present, side="right")
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    infos = pa.StructArray.from_arrays([pa.array(sizes), pa.array(deleted)], fields=list(_MAP.item_type))
    maps = pa.MapArray.from_arrays(offsets, names.take(pa.array(name)), infos, type=_MAP)
    return rows.append_column(RECORD_SCHEMA.field("filesystemMetadata"), maps)
