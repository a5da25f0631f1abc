"""Entries of record-level indexes, computed where a write's files are: record locations and secondary keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.metadata import leaf_values
from pudi.metadata.keys import secondary_shard_of, shard_of
from pudi.metadata.record_index import encode_location, keys_of_rows, secondary_value
from pudi.plan import Merging, ReadPlan
from pudi.plan.entry_staging import WrittenBase, WrittenLogs
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import joined_arrays, one_array, take, take_column, text_array
from pudi.task.index_keys import KeyReading, LoggedKeys, key_difference
from pudi.task.read import SliceReader
from pudi.task.staged_keys import KeyFile, StagedKeys, stage_keys


@dataclass(frozen=True, slots=True)
class SecondaryReading:
    """Reads the keys of a secondary index; picklable.

    Attributes:
        reading: how slices are read.
        column: name of the indexed column; dots separate the fields of a struct.
    """

    reading: KeyReading
    column: str

    @property
    def merging(self) -> Merging | None:
        """See `ReadsKeys`."""
        return self.reading.merging

    def keys(self, storage: Storage, file_slice: FileSlice, among: pa.Array | None = None) -> pa.Array:
        """Return the keys of the records of a slice, merged.

        Args:
            storage: the table's files.
            file_slice: the slice.
            among: the record keys of the wanted records; None for all.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: one can't be read.
            NotSupportedError: an index can't have a column of this type.
        """
        top = self.column.split(".", 1)[0]
        wanted = (RECORD_KEY, top)
        reading = self.reading
        plan = ReadPlan(storage.root, reading.schema, wanted, history=reading.history, merging=reading.merging)
        schema = pa.schema([reading.schema.field(name) for name in wanted])
        rows = pa.Table.from_batches(SliceReader(storage, plan).read(file_slice), schema)
        if among is not None:
            rows = rows.filter(pc.is_in(rows[RECORD_KEY], value_set=among))
        return _keys_of(rows, self.column)


@dataclass(frozen=True, slots=True)
class SecondaryStaging:
    """Recipe by which tasks stage the keys of a secondary index for the files that they write; picklable.

    Attributes:
        index: the index's partition of the metadata table.
        column: name of the indexed column; dots separate the fields of a struct.
        folder: the folder of staged keys.
        shards: number of file groups of the index.
        whole_key: see `secondary_shard_of`.
        reading: how slices are read in the state after the write.
    """

    index: str
    column: str
    folder: str
    shards: int
    whole_key: bool
    reading: KeyReading = field(compare=False)

    def of_base(self, storage: Storage, written: WrittenBase) -> StagedKeys:
        """Stage the keys that the file has and the one before it had not, and the other way round."""
        return self._stage(storage, written.file, *self._changes(written))

    def of_logs(self, storage: Storage, written: WrittenLogs) -> list[StagedKeys]:
        """Stage the keys that the file group has and had not, and the other way round.

        Only a merge tells the values before and after, so the slice is read twice.
        """
        changing = joined_arrays([written.keys, written.deleted])
        reading = SecondaryReading(self.reading, self.column)
        new = reading.keys(storage, written.after, changing).unique()
        old = new.slice(0, 0) if written.before is None else reading.keys(storage, written.before, changing).unique()
        return [self._stage(storage, written.files[0].file, *key_difference(old, new))]

    def _stage(self, storage: Storage, file: BaseFile | LogFile, new: pa.Array, gone: pa.Array) -> StagedKeys:
        numbers = secondary_shard_of(joined_arrays([new, gone]), self.shards, whole_key=self.whole_key)
        path = f"{self.folder}/{self.index}-{file.name.name}"
        return stage_keys(storage, KeyFile(path, "", secondary_value(), self.index), numbers, new, gone)

    def _changes(self, written: WrittenBase) -> tuple[pa.Array, pa.Array]:
        """Return the added keys and the removed keys."""
        merged, wanted = written.merged, [RECORD_KEY, self.column.split(".", 1)[0]]
        old = written.old(wanted)
        stays = np.zeros(old.num_rows, dtype=bool)
        stays[merged.staying] = True
        left = old.filter(pa.array(~stays))
        fresh = take(written.rows.select(wanted), merged.fresh) if len(merged.fresh) else left.slice(0, 0)
        new, gone = _keys_of(fresh, self.column).unique(), _keys_of(left, self.column).unique()
        # further rows with the keys of those that change: copies, and rows that an older version didn't replace
        changing = joined_arrays([text_array(rows[RECORD_KEY]) for rows in (fresh, left)])
        beside = stays & np.asarray(pc.is_in(old[RECORD_KEY], value_set=changing))
        kept = _keys_of(old.filter(pa.array(beside)), self.column)
        return _without(new, joined_arrays([gone, kept])), _without(gone, joined_arrays([new, kept]))


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))


def _keys_of(rows: pa.Table, column: str) -> pa.Array:
    """Return the index's keys of rows, which have the column and their record keys."""
    return keys_of_rows(leaf_values(rows, column), rows[RECORD_KEY])


@dataclass(frozen=True, slots=True)
class RecordStaging:
    """Recipe by which tasks stage the keys of the files that they write, for the record index; picklable.

    Attributes:
        folder: the folder of staged keys.
        millis: time of the commit in the index, milliseconds since 1970.
        groups: the number of the index's file groups by partition path; under None for the whole table.
        partitioned: whether the index is kept for each partition by itself.
        least: the number of file groups of a partition that the index doesn't know.
        reading: how slices are read in the state after the write.
        adds: whether log files of existing file groups may have new keys.
        revives: whether log files may have records of keys that older log files deleted.
    """

    folder: str
    millis: int
    groups: Mapping[str | None, int]
    partitioned: bool
    least: int
    reading: KeyReading
    adds: bool = False
    revives: bool = False

    @property
    def index(self) -> str:
        """See `EntryStaging`."""
        return RECORD_INDEX

    def groups_of(self, partition: str) -> int:
        """Return the number of file groups that the keys of a partition are divided among."""
        return self.groups.get(partition if self.partitioned else None, self.least)

    def of_base(self, storage: Storage, written: WrittenBase) -> StagedKeys:
        """Stage the keys that the file has and the one before it had not, and the other way round."""
        file = written.file
        new, gone = (each.cast(pa.string()).unique() for each in _changed_keys(written))
        again, stays = pc.is_in(new, value_set=gone), pc.is_in(gone, value_set=new)
        return self._stage(storage, file, new.filter(pc.invert(again)), gone.filter(pc.invert(stays)))

    def of_logs(self, storage: Storage, written: WrittenLogs) -> list[StagedKeys]:
        """Stage the keys that the file group has and had not, and the other way round.

        The file group is read only if records were deleted, or if it isn't known which records are new.
        """
        keys = LoggedKeys(
            written.keys,
            written.deleted,
            written.before,
            written.after,
            adds=self.adds or written.before is None,
            revives=self.revives,
        )
        new, gone = keys.find(storage, self.reading)
        return [self._stage(storage, written.files[0].file, new, gone)]

    def _stage(self, storage: Storage, file: BaseFile | LogFile, new: pa.Array, gone: pa.Array) -> StagedKeys:
        location = encode_location(file.partition, file.file_id, self.millis)
        staged = KeyFile(f"{self.folder}/{file.name.name}", file.partition, location, self.index)
        numbers = shard_of(joined_arrays([new, gone]), self.groups_of(file.partition))
        return stage_keys(storage, staged, numbers, new, gone)


def _changed_keys(written: WrittenBase) -> tuple[pa.Array, pa.Array]:
    """Return the keys of a file's new rows, and of rows beside removed ones with the same key; and those removed."""
    merged = written.merged
    new = one_array(take_column(written.rows[RECORD_KEY], merged.inserted))
    gone = new.slice(0, 0)
    if merged.deleted:
        keys = one_array(written.old([RECORD_KEY])[RECORD_KEY])
        gone, stay = keys.take(pa.array(merged.gone(len(keys)))), keys.take(pa.array(merged.base_rows))
        new = joined_arrays([new.cast(keys.type), stay.filter(pc.is_in(stay, value_set=gone))])
    return new, gone
