"""Global indexes: find keys in the whole table, and move records between partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice, open_base_file
from pudi.merge.deletes import delete_mask
from pudi.plan import Operation
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.arrays import one_array, places_among, take
from pudi.tagging.index import key_finder
from pudi.task.key_search import KeyLookup, KeySearch, TableSearch, live_places
from pudi.task.merged import MergedSlices
from pudi.task.partition import TaggedPartition
from pudi.task.table_rows import read_base_rows


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows whose key a slice holds, ascending; and those among them that are older than the stored version."""

    file_slice: FileSlice
    rows: np.ndarray
    older: np.ndarray


@dataclass(frozen=True, slots=True)
class _Homes:
    """The partitions that records belong to.

    Attributes:
        own: for each record the number of its partition.
        codes: the numbers, by partition path.
        deleted: for each record whether it's a delete, which applies in any partition.
    """

    own: np.ndarray
    codes: Mapping[str, int]
    deleted: np.ndarray

    def are_in(self, rows: np.ndarray, partition: str) -> np.ndarray:
        """Return which of some records belong to a partition."""
        inside: np.ndarray = self.own[rows] == self.codes.get(partition, -1)
        return inside

    def leave(self, rows: np.ndarray, partition: str) -> np.ndarray:
        """Return which of some records, found in a partition, belong to another one."""
        leaving: np.ndarray = ~self.are_in(rows, partition) & ~self.deleted[rows]
        return leaving


def tag_global(
    rows: pa.Table,
    partitions: Mapping[str, np.ndarray],
    search: TableSearch,
) -> dict[str, TaggedPartition]:
    """Find records' keys in any partition (HoodieIndexUtils.tagGlobalLocationBackToRecords).

    A record found in another partition either updates the record there or, if the index moves records, is deleted there
    and inserted into its own partition, in one commit. A record that is older than the stored version does neither. If
    plain inserts put a key into several partitions, all copies are updated, moved or deleted.

    Args:
        rows: all records, each key once.
        partitions: row numbers of the records, by partition path.
        search: the search, in all slices of the table.
    """
    keys, how, storage = one_array(rows[RECORD_KEY]), search.how, search.storage
    finder = key_finder(keys, how.index, how.records, spread=search.spread)
    own = np.empty(rows.num_rows, dtype=np.int64)
    codes = {partition: number for number, partition in enumerate(partitions)}
    for partition, places in partitions.items():
        own[places] = codes[partition]
    homes = _Homes(own, codes, delete_mask(rows, None))
    compares = how.moves and how.rule.compares

    def find(lookup: KeyLookup) -> _Found:
        file_slice = lookup.file_slice
        hits = finder.find(storage, file_slice)
        older = np.empty(0, dtype=np.int64)
        if compares:
            foreign = hits[homes.leave(hits, file_slice.partition)]
            whole = lookup.merged or file_slice
            older = foreign[~newer_than_stored(storage, whole, take(rows, foreign), how)]
        return _Found(file_slice, hits, older)

    found = list(search.spread(find, search.lookups))
    located = [(lookup, one.rows) for lookup, one in zip(search.lookups, found, strict=True)]

    def at_home(lookup: KeyLookup, hits: np.ndarray) -> np.ndarray:
        return homes.are_in(hits, lookup.file_slice.partition)

    counts = live_places(keys, located, search, at_home)
    found = [replace(one, rows=one.rows[mask]) for one, mask in zip(found, counts, strict=True)]
    return _compose(found, partitions, homes, how)


def newer_than_stored(storage: Storage, file_slice: FileSlice, rows: pa.Table, search: KeySearch) -> np.ndarray:
    """Return whether each record wins over the stored record of its key, over all copies if there are several.

    Args:
        storage: the table's files.
        file_slice: the slice.
        rows: record key and ordering columns, each key once.
        search: the comparison of versions.
    """
    wins = np.ones(rows.num_rows, dtype=bool)
    if not rows.num_rows:
        return wins
    fields = search.rule.ordering_schema(search.schema)
    wanted = pa.schema([pa.field(RECORD_KEY, pa.string()), *fields])
    keys = one_array(rows[RECORD_KEY])
    for stored in _stored(storage, file_slice, wanted, search):
        partner = places_among(stored[RECORD_KEY], keys)
        matched = np.flatnonzero(partner >= 0)
        incoming = take(rows.select(fields.names), partner[matched])
        newer = search.rule.newer_wins(take(stored, matched), incoming)
        wins[partner[matched][~newer]] = False
    return wins


def _stored(storage: Storage, file_slice: FileSlice, wanted: pa.Schema, search: KeySearch) -> Iterator[pa.Table]:
    """Return some columns of all records of a slice."""
    if file_slice.logs and search.merging is not None:
        slices = MergedSlices(storage, search.merging, with_meta_fields(search.schema), search.history)
        for part in slices.parts(file_slice, wanted.names):
            yield part.rows
        return
    reader = open_base_file(storage, file_slice.base_file)
    yield read_base_rows(reader, file_slice.base_file, wanted, search.history)


def _compose(
    found: Iterable[_Found], partitions: Mapping[str, np.ndarray], homes: _Homes, search: KeySearch
) -> dict[str, TaggedPartition]:
    """Combine by partition the results of each slice."""
    out = np.zeros(len(homes.own), dtype=bool)  # older than the record stored elsewhere
    settled = np.zeros(len(homes.own), dtype=bool)  # goes where it was found
    for one in found:
        out[one.older] = True
    by_partition: dict[str, list[tuple[str, np.ndarray]]] = {}
    leaving: dict[str, list[np.ndarray]] = {}
    for one in found:
        hits = one.rows[~out[one.rows]]
        if not len(hits):
            continue
        partition = one.file_slice.partition
        by_partition.setdefault(partition, []).append((one.file_slice.file_id, hits))
        moved = homes.leave(hits, partition) if search.moves else np.zeros(len(hits), bool)
        leaving.setdefault(partition, []).append(hits[moved])
        settled[hits[~moved]] = True
    new = ~settled & ~out
    tagged = {}
    for partition in {**partitions, **by_partition}:
        places = partitions.get(partition, np.empty(0, dtype=np.int64))
        inserts = np.asarray(places)[new[places]] if search.operation is not Operation.DELETE else places[:0]
        tagged[partition] = _partition(by_partition.get(partition, []), inserts, leaving.get(partition, []))
    return {partition: part for partition, part in tagged.items() if len(part.rows)}


def _partition(
    groups: Sequence[tuple[str, np.ndarray]], inserts: np.ndarray, leaving: Sequence[np.ndarray]
) -> TaggedPartition:
    rows = np.unique(np.concatenate([inserts, *(hits for _, hits in groups)])).astype(np.int64)
    located = np.full(len(rows), -1, dtype=np.int64)
    elsewhere: dict[int, np.ndarray] = {}
    for number, (_, hits) in enumerate(groups):
        places = np.searchsorted(rows, hits)
        again = located[places] >= 0
        located[places[~again]] = number
        if again.any():
            elsewhere[number] = places[again]
    gone = np.concatenate(leaving) if leaving else np.empty(0, dtype=np.int64)
    file_ids = [file_id for file_id, _ in groups]
    return TaggedPartition(rows, np.arange(len(rows)), located, file_ids, elsewhere, gone)
