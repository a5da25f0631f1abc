"""Tag, place and write the records of whole partitions that are in memory as one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.format import FileGroupId, new_file_id
from pudi.plan import (
    InsertRoute,
    Operation,
    PartitionTask,
    WritePlan,
    WriteProfile,
    WriteSpec,
    place,
    place_buckets,
)
from pudi.plan.write import SHARES, BucketWrite
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import encoded_column, places_of, take, take_column
from pudi.tagging import AnyBuckets
from pudi.tagging.index import RowFinder, key_finder
from pudi.task.append import BASE_ROW
from pudi.task.jobs import FileResult
from pudi.task.key_search import KeyLookup, KeySearch, TableSearch, live_places, lookups_in
from pudi.task.write import write_file

FILES_PER_PARTITION = 1 << 20
"""Number of files that a partition's task may number itself."""


@dataclass(frozen=True)
class TaggedPartition:
    """One partition's records with the file group of each.

    Attributes:
        rows: row numbers in the whole input, ascending.
        codes: for each row the number of its key among the partition's distinct keys.
        located: for each distinct key, the number of its file group in `file_ids`, or -1.
        file_ids: file groups.
        elsewhere: by number of a file group, keys that it holds in addition to `located`: copies made by plain inserts,
            which are updated and deleted together, as in Hudi.
        leaving: among `rows`, those that move to another partition: this partition deletes them.
        base_rows: for each distinct key its row in the base file of its file group, -1 if unknown; None if all are
            unknown.
    """

    rows: np.ndarray
    codes: np.ndarray
    located: np.ndarray
    file_ids: list[str]
    elsewhere: dict[int, np.ndarray]
    leaving: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    base_rows: np.ndarray | None = None


def tag_partitions(
    keys: pa.ChunkedArray, partitions: Mapping[str, np.ndarray], search: TableSearch
) -> dict[str, TaggedPartition]:
    """Find records' keys in file slices of their partitions.

    Args:
        keys: record key of every record.
        partitions: row numbers of the records, ascending, by partition path.
        search: the search, in slices of these partitions.
    """
    how, lookups, spread = search.how, search.lookups, search.spread
    by_partition: dict[str, list[KeyLookup]] = {partition: [] for partition in partitions}
    for lookup in lookups:
        by_partition[lookup.file_slice.partition].append(lookup)
    encoded = spread(lambda rows: _distinct(take_column(keys, rows)), partitions.values())
    distinct = dict(zip(partitions, encoded, strict=True))
    wanted = list(by_partition) if lookups else []
    made = spread(lambda partition: key_finder(distinct[partition][0], how.index, how.records, partition), wanted)
    finders = dict(zip(wanted, made, strict=True))

    def find(lookup: KeyLookup) -> tuple[np.ndarray, np.ndarray | None]:
        finder = finders[lookup.file_slice.partition]
        if how.positions and isinstance(finder, RowFinder):
            return finder.locate(search.storage, lookup.file_slice)
        return finder.find(search.storage, lookup.file_slice), None

    found = dict(zip(lookups, spread(find, lookups), strict=True))
    tagged = {}
    for partition, group in by_partition.items():
        known, codes = distinct[partition]
        places = [(lookup, found[lookup][0]) for lookup in group]
        counts = dict(zip(group, live_places(known, places, search), strict=True))
        located = np.full(len(known), -1, dtype=np.int64)
        base_rows = np.full(len(known), -1, dtype=np.int64)
        elsewhere: dict[int, np.ndarray] = {}
        for number, lookup in enumerate(group):
            hits, rows = found[lookup]
            hits, rows = hits[counts[lookup]], None if rows is None else rows[counts[lookup]]
            again = located[hits] >= 0
            located[hits[~again]] = number
            base_rows[hits] = -1 if rows is None else rows
            if again.any():
                elsewhere[number] = hits[again]
                base_rows[hits[again]] = -1
        file_ids = [lookup.file_slice.file_id for lookup in group]
        part = TaggedPartition(np.asarray(partitions[partition]), codes, located, file_ids, elsewhere)
        tagged[partition] = replace(part, base_rows=base_rows) if np.any(base_rows >= 0) else part
    return tagged


def with_base_rows(rows: pa.Table, partitions: Mapping[str, TaggedPartition], spec: WriteSpec) -> pa.Table:
    """Return records with column `BASE_ROW`, if log blocks store the base rows of their records.

    Not if versions are mixed: mixing goes column by column and would treat the row number as a value.
    """
    known = [part for part in partitions.values() if part.base_rows is not None]
    if not known or spec.logs is None or not spec.logs.positions or spec.rule.mixes:
        return rows
    places = np.full(rows.num_rows, -1, dtype=np.int64)
    for part in known:
        assert part.base_rows is not None
        places[part.rows] = part.base_rows[part.codes]
    return rows.append_column(BASE_ROW, pa.array(places))


def tag_buckets(
    keys: pa.ChunkedArray, partitions: Mapping[str, np.ndarray], buckets: AnyBuckets
) -> dict[str, TaggedPartition]:
    """Tag records with their buckets instead of file groups.

    Args:
        keys: record key of every record.
        partitions: row numbers of the records, ascending, by partition path.
        buckets: computes the bucket of a key.
    """
    hashes, found = buckets.hashes(keys), {}
    for partition, places in partitions.items():
        rows = np.asarray(places)
        names, located = buckets.named(hashes[rows], partition)
        found[partition] = TaggedPartition(rows, np.arange(len(rows)), located, names, {})
    return found


def profile(partitions: Mapping[str, TaggedPartition]) -> WriteProfile:
    """Return the counts for the planner."""
    updates: dict[tuple[str, str], int] = {}
    inserts: dict[str, int] = {}
    for partition, tagged in partitions.items():
        groups = tagged.located[tagged.codes]
        counts = np.bincount(groups + 1, minlength=len(tagged.file_ids) + 1)
        inserts[partition] = int(counts[0])
        for group, keys in tagged.elsewhere.items():
            counts[group + 1] += np.count_nonzero(np.isin(tagged.codes, keys))
        updates.update({(partition, f): int(n) for f, n in zip(tagged.file_ids, counts[1:], strict=True) if n})
    return WriteProfile(updates, inserts)


def only_new(part: TaggedPartition) -> TaggedPartition:
    """Return one partition's records without those whose key exists already."""
    new = part.located[part.codes] < 0
    return replace(part, rows=part.rows[new], codes=part.codes[new], elsewhere={})


def only_known(part: TaggedPartition) -> TaggedPartition:
    """Return one partition's records whose key exists already."""
    known = part.located[part.codes] >= 0
    return replace(part, rows=part.rows[known], codes=part.codes[known])


def assign(partitions: Mapping[str, TaggedPartition], plan: WritePlan) -> dict[int, np.ndarray]:
    """Return the row numbers of the records of each task of a plan, ascending; tasks without records are left out."""
    routes = {route.partition: route for route in plan.routes}
    assigned: dict[int, list[np.ndarray]] = {task.number: [] for task in plan.tasks}
    numbers = {(task.partition, task.location): task.number for task in plan.tasks if task.location}
    for partition, part in partitions.items():
        targets = [numbers.get(FileGroupId(partition, file_id), -1) for file_id in part.file_ids]
        by_key = np.array([*targets, -1])[part.located]
        route = routes.get(partition)
        if route is not None:
            new = np.flatnonzero(part.located < 0)
            by_key[new] = _spread_inserts(new, route)
        for number, places in places_of(by_key[part.codes]):
            if number >= 0:
                assigned[number].append(part.rows[places])
        for group, keys in part.elsewhere.items():
            assigned[targets[group]].append(part.rows[np.isin(part.codes, keys)])
    return {number: np.sort(np.concatenate(rows)) for number, rows in assigned.items() if rows}


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a task, by which the names of its files differ from those of other attempts.

    Attributes:
        unique: prefix of new file ids.
        token: write token.
    """

    unique: str
    token: str


def write_partition(
    storage: Storage, spec: WriteSpec, task: PartitionTask, rows: pa.Table, attempt: Attempt
) -> list[FileResult]:
    """Write the records of one partition: find their file groups, decide on files, and write these.

    Args:
        storage: the table's files.
        spec: the write.
        task: the partition.
        rows: all its records in order of arrival, as `write_file` takes them.
        attempt: the attempt.

    Raises:
        CorruptError: a base file can't be read.
    """
    placed = _placed if spec.index.buckets is None else _placed_buckets
    tagged, plan = placed(storage, spec, task, rows, attempt.unique)
    results = []
    rows = with_base_rows(rows, tagged, spec)
    for number, places in assign(tagged, plan).items():
        numbered = replace(plan.tasks[number], number=task.number * FILES_PER_PARTITION + number)
        taken = rows if len(places) == rows.num_rows else take(rows, places)
        results.append(write_file(storage, spec, numbered, taken, attempt.token))
    return results


def _placed(
    storage: Storage, spec: WriteSpec, task: PartitionTask, rows: pa.Table, unique: str
) -> tuple[dict[str, TaggedPartition], WritePlan]:
    everything = {task.partition: np.arange(rows.num_rows)}
    lookups = [] if spec.operation is Operation.INSERT else lookups_in(task.slices)
    how = KeySearch(
        spec.index,
        spec.operation,
        spec.rule,
        spec.schema.columns,
        history=spec.history,
        positions=spec.logs is not None and spec.logs.positions,
    )
    tagged = tag_partitions(rows[RECORD_KEY], everything, TableSearch(storage, lookups, how))
    counts = profile(tagged)
    if spec.operation is Operation.DELETE:  # a delete of a missing key is no error, and does nothing
        counts = WriteProfile(counts.updates, {})
    return tagged, place(counts, task.slices, task.sizing, lambda number: new_file_id(unique, number), spec.logs)


def _placed_buckets(
    storage: Storage, spec: WriteSpec, task: PartitionTask, rows: pa.Table, unique: str
) -> tuple[dict[str, TaggedPartition], WritePlan]:
    """Like `_placed` for bucket tables. `unique` belongs to this partition: all ids may use it."""
    assert spec.index.buckets is not None
    tagged = tag_buckets(rows[RECORD_KEY], {task.partition: np.arange(rows.num_rows)}, spec.index.buckets)
    write = BucketWrite(spec.operation, spec.index.buckets, storage.root, spec.logs)
    plan = place_buckets(profile(tagged), task.slices, write, lambda: unique)
    return tagged, plan


def _distinct(keys: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct keys, and for each row the number of its key."""
    encoded = encoded_column(keys)
    return encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)


def _spread_inserts(keys: np.ndarray, route: InsertRoute) -> np.ndarray:
    """Return task numbers of new keys: each key goes to one task, each task gets its share."""
    shares = (keys * 0x9E3779B1) % SHARES
    return np.asarray(route.tasks)[np.searchsorted(np.asarray(route.upper), shares, side="right")]
