"""Check record keys against the indexes and against each other, in bounded memory on either engine.

Jobs of the first kind read the keys of some file groups and write them, by part, into a file. A part is a file group of
the index to compare with; without an index it is given by some bits of the keys' hashes. Jobs of the second kind, one
per part, compare keys of files with those of the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogScope, read_log_blocks
from pudi.format import METADATA_DIR, FileGroupId
from pudi.format.log_block import BlockKind
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.merge import MergeRule, Versions, apply_updates, fold
from pudi.metadata import leaf_values
from pudi.metadata.keys import secondary_shard_of, shard_of, split_secondary_keys
from pudi.metadata.record_index import keys_of_rows, read_shard
from pudi.metadata.table import PartitionSnapshot
from pudi.plan import ReadPlan
from pudi.record import KeyGenerator
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.arrays import joined_arrays, take, text_array
from pudi.storage import StorageBelow
from pudi.tagging.index import groups_in
from pudi.task.check_files import DATA_FILES, UNREADABLE, Finding, Findings
from pudi.task.log_versions import LogVersions
from pudi.task.merged import MergedSlices
from pudi.task.portions import Portion, PortionFile, read_portions, write_portions
from pudi.task.read import SliceReader

REVIVED = (
    "deleted in log files without an ordering value, and visible again: a later version has a lower "
    "ordering value than the deleted record in the base file, so readers return the base file's record; "
    "delete by key the records that should be gone"
)
"""The text of a finding about these keys."""


def revived_keys(storage: Storage, plan: ReadPlan, file_slice: FileSlice) -> pa.Array:
    """Return keys that a delete without an ordering value removed and a later, lower version restored.

    Args:
        storage: the table's files.
        plan: how slices are read.
        file_slice: the slice.

    Raises:
        CorruptError: a file of the slice can't be read.
    """
    merging, none = plan.merging, pa.array([], pa.string())
    if merging is None or not merging.rule.compares or file_slice.base is None or not file_slice.logs:
        return none
    blocks = read_log_blocks(storage, file_slice.logs, merging.scope, merging.memory.share // 4)
    if all(block.kind is not BlockKind.DELETE for block in blocks):
        return none
    names = merging.columns(plan.schema)
    target = pa.schema([field for field in plan.schema if field.name in names])
    found, buckets, _ = LogVersions(storage, merging, plan.history).collect(blocks, target)
    rule = replace(merging.rule, partial_update=None)  # ask for the winner only: mixing values is not needed
    if buckets is None:
        parts = [_once_deleted(found, rule)]
    else:
        with buckets:
            parts = [_once_deleted(runs, rule) for runs, _ in buckets.parts(pa.table({}))]
    newer = [versions for versions in parts if versions is not None]
    if not newer:
        return none
    slices = MergedSlices(storage, replace(merging, rule=rule), with_meta_fields(plan.schema), plan.history)
    found = [none]
    for part in slices.parts(
        replace(file_slice, logs=()), [RECORD_KEY, *(name for name in target.names if name != RECORD_KEY)]
    ):
        for versions in newer:
            base = part.rows.filter(pc.is_in(part.rows[RECORD_KEY], value_set=text_array(versions.rows[RECORD_KEY])))
            merged = apply_updates(base, versions, RECORD_KEY, rule)
            found.append(text_array(take(base, merged.staying)[RECORD_KEY]))
    return joined_arrays(found).unique()


def _once_deleted(runs: Sequence[Versions], rule: MergeRule) -> Versions | None:
    """Return the merged versions of keys with such a delete; None if there are none."""
    keyed = [(run, text_array(run.rows[RECORD_KEY])) for run in runs]
    gone = [keys.filter(pa.array(run.unconditional)) for run, keys in keyed]
    wanted = joined_arrays(gone, pa.string()).unique()
    if not len(wanted):
        return None
    kept = [run.take(np.flatnonzero(np.asarray(pc.is_in(keys, value_set=wanted)))) for run, keys in keyed]
    return fold([run for run in kept if len(run)], RECORD_KEY, rule)


RECORD_KEYS = "record keys"
"""The index name in findings about duplicate keys."""

_KEY, _OWNER = "key", "owner"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spread:
    """The compared values of each record, and how they are spread over parts; picklable.

    Attributes:
        ranges: by partition path the first part and the number of parts; under None for all partitions.
        rest: the part of records in partitions without a range.
        column: the indexed column of a secondary index; None to compare record keys.
        whole_key: see `secondary_shard_of`.
        keys: makes record keys if files have no meta fields; otherwise None.
    """

    ranges: Mapping[str | None, tuple[int, int]]
    rest: int
    column: str | None = None
    whole_key: bool = False
    keys: KeyGenerator | None = None

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        own = [RECORD_KEY] if self.keys is None else list(self.keys.record_key_fields)
        top = (self.column or "").split(".", 1)[0]
        return own if not top or top in own else [*own, top]

    def texts(self, rows: pa.Table) -> pa.Array:
        """Return the compared values."""
        keys = rows[RECORD_KEY] if self.keys is None else self.keys.record_keys(rows)
        keys = text_array(keys)
        if self.column is None:
            return keys
        values = leaf_values(rows, self.column)
        return keys_of_rows(pa.nulls(len(keys), pa.string()) if values is None else values, keys)

    def parts(self, texts: pa.Array, partition: str) -> Numbers:
        """Return the part of each value."""
        first, count = self.ranges.get(None) or self.ranges.get(partition) or (self.rest, 1)
        if self.column is not None:
            return first + secondary_shard_of(texts, count, whole_key=self.whole_key)
        return first + shard_of(texts, count)


@dataclass(frozen=True, slots=True)
class StagedPortions(Findings):
    """The result of a `StageKeys`.

    Attributes:
        rows: the file.
    """

    rows: PortionFile = field(default_factory=PortionFile)


@dataclass(frozen=True, slots=True)
class StageKeys:
    """Read the keys of some file groups and write them by part. Picklable.

    Attributes:
        number: number of the job, from 0.
        plan: how slices are read.
        spread: the compared values and their parts.
        slices: the file slices, by their numbers.
        staging: the storage of the staged file; None for the table's own.
        path: the staged file.
    """

    number: int
    plan: ReadPlan
    spread: Spread
    slices: tuple[tuple[int, FileSlice], ...]
    staging: Storage | None
    path: str

    def run(self, storage: Storage, attempt: int) -> StagedPortions:
        """Read them; see `FileJob.run`."""
        reader = SliceReader(storage, self.plan)
        texts, parts, owners = [pa.array([], pa.string())], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        found, unread = [], []
        for owner, file_slice in self.slices:
            try:
                # in one table: rows read before damage is found must not count as the whole file
                rows = list(reader.read(file_slice))
                if self.spread.column is None and len(again := revived_keys(storage, self.plan, file_slice)):
                    found.append(Finding.of_keys(RECORD_KEYS, file_slice.path, again.sort(), REVIVED))
            except UNREADABLE as error:
                found.append(Finding(DATA_FILES, file_slice.path, f"can't be read: {error}"))
                unread.append(owner)
                continue
            if rows:
                texts.append(self.spread.texts(pa.Table.from_batches(rows)))
                parts.append(self.spread.parts(texts[-1], file_slice.partition))
                owners.append(np.full(len(texts[-1]), owner, dtype=np.int32))
        left = pa.table([joined_arrays(texts), pa.array(np.concatenate(owners))], names=[_KEY, _OWNER])
        staging = storage if self.staging is None else self.staging
        file = write_portions(staging, f"{self.path}.{attempt}", left, np.concatenate(parts))
        return StagedPortions(self.number, left.num_rows, None, found=tuple(found), unread=tuple(unread), rows=file)


@dataclass(frozen=True, slots=True)
class CompareKeys:
    """Compare the keys of one part with each other and with an index. Picklable.

    Attributes:
        number: number of the job, from 0.
        portions: the staged keys.
        staging: the storage of the staged files; None for the table's own.
        places: partition path and file id of each file group, by its number.
        unread: numbers of file groups with unreadable keys.
        unique: whether keys must be unique in the table (true) or in their partition (false); None doesn't check.
        located: the file group of the record index for this part, with the instants that count; None doesn't compare.
        index: the secondary index to compare; None for none.
        group: its file group for this part; None if it is missing.
    """

    number: int
    portions: tuple[Portion, ...]
    staging: Storage | None
    places: tuple[FileGroupId, ...]
    unread: frozenset[int] = frozenset()
    unique: bool | None = None
    located: tuple[FileSlice | None, LogScope] | None = None
    index: PartitionSnapshot | None = None
    group: FileSlice | None = None

    def run(self, storage: Storage, attempt: int) -> Findings:
        """Compare them; see `FileJob.run`."""
        staged = [batch for batch, _ in read_portions(storage if self.staging is None else self.staging, self.portions)]
        keys = joined_arrays([batch[_KEY] for batch in staged], pa.string())
        owner = np.asarray(joined_arrays([batch[_OWNER] for batch in staged], pa.int32())).astype(np.int64)
        found: list[Finding] = []
        if self.unique is not None:
            found += self._twice(keys, owner)
        name = RECORD_INDEX if self.index is None else self.index.name
        try:
            if self.located is not None:
                found += self._located(storage, *self.located, keys, owner)
            if self.index is not None:
                found += self._indexed(storage, self.index, keys)
        except UNREADABLE as error:
            found.append(Finding(name, "", f"can't be read: {error}"))
        return Findings(self.number, len(keys), None, found=tuple(found))

    def _twice(self, keys: pa.Array, owner: Numbers) -> Iterator[Finding]:
        """Find keys that occur more than once."""
        partitions = sorted({partition for partition, _ in self.places})
        place = {partition: 0 if self.unique else number for number, partition in enumerate(partitions)}
        of_owner = np.array([place[partition] for partition, _ in self.places] or [0], dtype=np.int64)
        coded = pc.dictionary_encode(keys)
        pairs = np.asarray(coded.indices).astype(np.int64) * max(1, len(partitions)) + of_owner[owner]
        several, counts = np.unique(pairs, return_counts=True)
        several = several[counts > 1]
        where = several % max(1, len(partitions))
        for number in np.unique(where).tolist():
            codes = several[where == number] // max(1, len(partitions))
            named = pc.array_take(coded.dictionary, pa.array(codes))
            path = "" if self.unique else partitions[number]
            yield Finding.of_keys(RECORD_KEYS, path, named.sort(), "stored more than once")

    def _located(
        self, storage: Storage, group: FileSlice | None, scope: LogScope, keys: pa.Array, owner: Numbers
    ) -> Iterator[Finding]:
        """Find keys that the record index has in another location, lacks, or has without a record."""
        names = [f"{partition}/{file_id}" if partition else file_id for partition, file_id in self.places]
        listed, of_index, strange = pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, bool)
        if group is not None:
            rows = read_shard(StorageBelow(storage, METADATA_DIR), group, scope)
            listed = text_array(rows[RECORD_KEY])
            of_index = self._numbers(rows)
            strange = of_index < 0
        here, there = _matched(keys, owner, listed, of_index)
        for number, missing in _by(owner, ~here):
            yield Finding.of_keys(RECORD_INDEX, names[number], keys.take(missing).sort(), "missing from the index")
        spare = ~there & ~np.isin(of_index, list(self.unread))
        for number, rest in _by(of_index, spare & ~strange):
            named = listed.take(rest).sort()
            yield Finding.of_keys(RECORD_INDEX, names[number], named, "only in the index")
        if (spare & strange).any():
            named = listed.filter(pa.array(spare & strange)).sort()
            yield Finding.of_keys(RECORD_INDEX, "", named, "in the index under file groups that don't exist")

    def _numbers(self, rows: pa.Table) -> Numbers:
        """Return the numbers of the file groups that index rows name; -1 for a missing file group."""
        known = {place: number for number, place in enumerate(self.places)}
        groups, numbers = groups_in(rows)
        found: Numbers = np.array([known.get(group, -1) for group in groups], dtype=np.int64)[numbers]
        return found

    def _indexed(self, storage: Storage, index: PartitionSnapshot, keys: pa.Array) -> Iterator[Finding]:
        """Find records that a secondary index has under another value, lacks, or has without a record."""
        listed = pa.array([], pa.string())
        if self.group is not None:
            listed = text_array(index.read_slice(storage, self.group)["key"])
        for mine, other, what in ((keys, listed, "missing from the index"), (listed, keys, "only in the index")):
            if what == "only in the index" and self.unread:
                return  # they may belong to records that could not be read
            lost = mine.filter(pc.invert(pc.is_in(mine, value_set=other)))
            if len(lost):
                yield Finding.of_keys(index.name, "", _as_pairs(lost).sort(), what)


def _matched(left: pa.Array, left_place: Numbers, right: pa.Array, right_place: Numbers) -> tuple[np.ndarray, ...]:
    """Return for each of two lists of located keys whether the other list contains it."""
    codes = np.asarray(pc.dictionary_encode(joined_arrays([left, right])).indices).astype(np.int64)
    places = np.concatenate([left_place, right_place]).astype(np.int64)
    pairs = codes * (int(places.max(initial=0)) + 2) + places + 1
    mine, others = pairs[: len(left)], pairs[len(left) :]
    return np.isin(mine, others), np.isin(others, mine)


def _by(owner: Numbers, chosen: np.ndarray) -> Iterator[tuple[int, pa.Array]]:
    """Return the chosen rows, by file group."""
    rows = np.flatnonzero(chosen)
    for number in np.unique(owner[rows]).tolist():
        yield number, pa.array(rows[owner[rows] == number])


def _as_pairs(keys: pa.Array) -> pa.Array:
    """Return keys of a secondary index as readable text: record key and value."""
    values, records = split_secondary_keys(keys)
    shown = pc.if_else(pc.is_null(values), "null", pc.binary_join_element_wise("'", pc.fill_null(values, ""), "'", ""))
    return pc.binary_join_element_wise(records, shown, "=")
