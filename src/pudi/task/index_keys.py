"""Jobs that find the record keys that a write adds to file groups and removes from them, and update the record index.

Jobs of the first kind read one file group each and write its changed keys, ordered by file group of the record index,
into a file beside the markers. Jobs of the second kind, one per file group of the index, collect their part of these
files. So no key passes through the driver, on either engine.

Source: BaseFileRecordParsingUtils.getRecordKeyStatuses, HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, FileSlice, LogFile, open_base_file, read_all_blocks
from pudi.format import METADATA_DIR, Layout, write_token
from pudi.format.log_block import BlockKind
from pudi.format.log_data import decode_data
from pudi.format.log_deletes import decode_deletes
from pudi.metadata.keys import secondary_shard_of, shard_of
from pudi.plan import Merging
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import joined_arrays, text_array
from pudi.schema.internal import SchemaHistory
from pudi.storage import StorageBelow
from pudi.task.jobs import FileResult
from pudi.task.merged import MergedSlices
from pudi.task.metadata_files import LogTarget, append_changes, base_name, write_base
from pudi.task.portions import Portion, read_portions
from pudi.task.staged_keys import IndexedKeys, KeyFile, KeyWatch, StagedRows, stage_keys


class ReadsKeys(Protocol):
    """Reads the index keys of the records of a slice; picklable."""

    @property
    def merging(self) -> Merging | None:
        """Return the merge of log files; None in a copy-on-write table."""

    def keys(self, storage: Storage, file_slice: FileSlice) -> pa.Array:
        """Return the keys of all records of a slice."""


_KEY_WEIGHT = 2_000
"""Cost of encoding one key's record, expressed in bytes of a file that takes as long to read."""

_BLOCK = 64 << 10
"""Bytes of a block of an index's base file, of which a look-up of one key reads one."""


@dataclass(frozen=True, slots=True)
class KeyReading:
    """Reads record keys of slices; picklable.

    Attributes:
        schema: every column of the table, meta fields first.
        merging: how log files are merged; None in a copy-on-write table.
        history: the schemas of older files, in a table with schema on read.
    """

    schema: pa.Schema
    merging: Merging | None = None
    history: SchemaHistory | None = field(kw_only=True)

    def with_instant(self, instant: str) -> KeyReading:
        """Return a reader of the state after an instant completes."""
        if self.merging is None:
            return self
        return replace(self, merging=replace(self.merging, scope=self.merging.scope.with_instant(instant)))

    def keys(self, storage: Storage, file_slice: FileSlice) -> pa.Array:
        """Return the keys of all records of a slice."""
        if file_slice.logs and self.merging is not None:
            reader = MergedSlices(storage, self.merging, self.schema, self.history)
            return text_array(reader.read(file_slice, [RECORD_KEY])[RECORD_KEY])
        return _keys_of(storage, file_slice.base_file)

    def find(self, storage: Storage, file_slice: FileSlice, keys: pa.Array) -> np.ndarray:
        """Return the positions of those keys that a slice holds, ascending; see `KeysInSlices`."""
        known = self.keys(storage, file_slice).cast(keys.type)
        return np.flatnonzero(np.asarray(pc.is_in(keys, value_set=known)))


@dataclass(frozen=True, slots=True)
class KeyTask:
    """Find the record keys that a write adds to and removes from one file group. Picklable.

    Attributes:
        number: number of the task, from 0.
        reading: reads keys in the state after the write; a `KeyReading` if log blocks are read separately.
        partition: partition path.
        location: value of the record index for keys of the file group.
        shards: number of file groups of the index.
        path: the file to write.
        before: the file slice before the write; None for a new file group.
        after: the file slice after the write; None if the file group was replaced.
        skip: number of old rows at the start of the base file; only rows after them are new.
        logged: the log files of the write.
        adds: whether the log files may hold new keys.
        revives: whether the log files may hold records of keys that older log files deleted.
        whole_key: of a secondary index, see `secondary_shard_of`; None for a record index.
        index: see `StagedKeys`.
    """

    number: int
    reading: ReadsKeys
    partition: str
    location: bytes
    shards: int
    path: str
    before: FileSlice | None
    after: FileSlice | None
    skip: int = 0
    logged: tuple[LogFile, ...] = ()
    adds: bool = False
    revives: bool = False
    whole_key: bool | None = None
    index: str = ""

    @property
    def weight(self) -> int:
        """Bytes of the files to read."""
        return sum(each.size for each in (self.before, self.after) if each is not None)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Find the keys and stage them; see `FileJob.run`.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: one can't be read.
        """
        new, gone = self._changes(storage)
        keys = joined_arrays([new, gone])
        if self.whole_key is None:
            numbers = shard_of(keys, self.shards)
        else:
            numbers = secondary_shard_of(keys, self.shards, whole_key=self.whole_key)
        file = KeyFile(f"{self.path}.{attempt}", self.partition, self.location, self.index)
        staged = stage_keys(storage, file, numbers, new, gone)
        return FileResult(self.number, 0, None, staged=(staged,))

    def _changes(self, storage: Storage) -> tuple[pa.Array, pa.Array]:
        """Return the added keys and the removed keys."""
        none = pa.array([], pa.string())
        if self.logged:
            touched, deleted = _logged_keys(storage, self.reading, self.logged)
            change = LoggedKeys(touched, deleted, self.before, self.after, self.adds, self.revives)
            return change.find(storage, self.reading)
        if self.after is None:
            return none, none if self.before is None else self.reading.keys(storage, self.before).unique()
        if self.before is None:
            return self.reading.keys(storage, self.after).unique(), none
        if self.skip and not self.before.logs:
            return _keys_of(storage, self.after.base_file, self.skip).unique(), none
        return key_difference(*(self.reading.keys(storage, each).unique() for each in (self.before, self.after)))


@dataclass(frozen=True, slots=True)
class LoggedKeys:
    """The record keys in the log files that a write appends to a file group.

    Attributes:
        touched: the keys of records.
        deleted: the keys of deletes.
        before: the file slice before the write; None for a new file group.
        after: the file slice after the write; None if the file group was replaced.
        adds: whether the records may have new keys.
        revives: whether the records may have keys that older log files deleted.
    """

    touched: pa.Array
    deleted: pa.Array
    before: FileSlice | None
    after: FileSlice | None
    adds: bool
    revives: bool

    def find(self, storage: Storage, reading: ReadsKeys) -> tuple[pa.Array, pa.Array]:
        """Return the keys that the file group has from now on, and those that it hasn't, by merging its files."""
        touched = self.touched
        if not self.adds:
            touched = touched.filter(pc.is_in(touched, value_set=self._deleted_before(storage, reading)))
        about = joined_arrays([touched, self.deleted]).unique()
        if not len(about) or self.after is None:
            return about.slice(0, 0), about
        there = pc.is_in(about, value_set=reading.keys(storage, self.after))
        new = pc.and_(there, pc.is_in(about, value_set=touched))
        return about.filter(new), about.filter(pc.invert(there))

    def _deleted_before(self, storage: Storage, reading: ReadsKeys) -> pa.Array:
        """Return keys that older log blocks delete: an index that reads only base files still finds them."""
        if not self.revives or not len(self.touched) or self.before is None:
            return self.touched.slice(0, 0)
        return _logged_keys(storage, reading, self.before.logs, records=False)[1]


def key_difference(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys that are only in `new`, and those that are only in `old`."""
    return new.filter(pc.invert(pc.is_in(new, value_set=old))), old.filter(pc.invert(pc.is_in(old, value_set=new)))


def _logged_keys(
    storage: Storage, reading: ReadsKeys, logs: Sequence[LogFile], *, records: bool = True
) -> tuple[pa.Array, pa.Array]:
    """Return the keys of records and of deletes in log files."""
    touched, deleted = [pa.array([], pa.string())], [pa.array([], pa.string())]
    assert reading.merging is not None
    for block in read_all_blocks(storage, logs, reading.merging.scope):
        if block.kind is BlockKind.DELETE:
            deleted.append(decode_deletes(block).keys)
        elif records and block.kind.is_data:
            touched.append(text_array(decode_data(block, {RECORD_KEY})[RECORD_KEY]))
    return joined_arrays(touched), joined_arrays(deleted)


def _keys_of(storage: Storage, base: BaseFile, skip: int = 0) -> pa.Array:
    """Return the record keys of a base file, without its first rows."""
    reader = open_base_file(storage, base)
    if RECORD_KEY not in reader.schema.names:
        raise reader.corrupt(f"no column {RECORD_KEY}")
    if not skip:
        return text_array(reader.read([RECORD_KEY])[RECORD_KEY])
    passed, first = 0, 0
    while first < reader.num_groups - 1 and passed + reader.group_rows(first) <= skip:
        passed += reader.group_rows(first)
        first += 1
    return text_array(reader.read([RECORD_KEY], range(first, reader.num_groups))[RECORD_KEY].slice(skip - passed))


@dataclass(frozen=True, slots=True)
class ShardTask:
    """Update one file group of the record index or of a secondary index. Picklable.

    Attributes:
        number: number of the task, from 0.
        requested: the instant.
        layout: the layout of the metadata table's timeline.
        slice: the file group's latest slice.
        portions: the keys.
        bootstrap: whether to write the first base file of the file group instead of a log file.
        watch: finds keys that are in several file groups of the table; None doesn't look for them.
        of_plan: whether a run of a plan commits.
    """

    number: int
    requested: str
    layout: Layout
    slice: FileSlice
    portions: tuple[Portion, ...]
    bootstrap: bool = False
    watch: KeyWatch | None = None
    of_plan: bool = False

    @property
    def weight(self) -> int:
        """Cost of the keys, expressed in bytes of a file that takes as long to read."""
        records = sum(portion.records for portion in self.portions)
        looks_up = self.watch is not None and self.watch.scope is not None
        return _KEY_WEIGHT * records + (min(self.slice.size, _BLOCK * records) if looks_up else 0)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the file; see `FileJob.run`.

        Raises:
            CorruptError: a staged file or, where keys are watched, a file of the index can't be read.
            ConflictError: another run of the plan wrote it.
        """
        below = StorageBelow(storage, METADATA_DIR)
        staged = StagedRows.of(read_portions(storage, self.portions))
        repeated = () if self.watch is None else self.watch.find(below, self.slice, staged)
        changes = staged.changes()
        if self.bootstrap:
            name = base_name(self.slice.file_id, self.requested, write_token(self.number, 0, attempt))
            stat = write_base(below, self.slice.partition, name, changes)
        else:
            target = LogTarget(self.requested, self.layout, self.slice, self.number, attempt, self.of_plan)
            stat = append_changes(below, target, changes.sorted())
        return IndexedKeys(self.number, len(changes), stat, repeated=repeated)


@dataclass(frozen=True, slots=True)
class CountTask:
    """Count the records of base files. Picklable.

    Attributes:
        number: number of the task, from 0.
        slices: the slices of the base files.
    """

    number: int
    slices: tuple[FileSlice, ...]

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Count them; `received` is the count. See `FileJob.run`."""
        bases = [each.base for each in self.slices if each.base is not None]
        rows = sum(open_base_file(storage, base).num_rows for base in bases)
        return FileResult(self.number, rows, None)
