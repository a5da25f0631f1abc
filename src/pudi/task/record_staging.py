"""Stage the keys that a write adds to the record index and removes from it, where its files are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, LogFile
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.metadata.keys import shard_of
from pudi.metadata.locations import encode_location
from pudi.plan.entry_staging import WrittenBase, WrittenLogs
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import joined_arrays, one_array, take_column
from pudi.task.index_keys import KeyReading, LoggedKeys
from pudi.task.staged_keys import StagedKeys, stage_keys


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
        return stage_keys(
            storage,
            f"{self.folder}/{file.name.name}",
            file.partition,
            encode_location(file.partition, file.file_id, self.millis),
            shard_of(joined_arrays([new, gone]), self.groups_of(file.partition)),
            new,
            gone,
            index=self.index,
        )


def _changed_keys(written: WrittenBase) -> tuple[pa.Array, pa.Array]:
    """Return the keys of a file's new rows, and of rows beside removed ones with the same key; and those removed."""
    merged = written.merged
    new = one_array(take_column(written.rows[RECORD_KEY], merged.inserted))
    gone = new.slice(0, 0)
    if merged.deleted:
        keys = one_array(written.old([RECORD_KEY])[RECORD_KEY])
        leaves = np.ones(len(keys), dtype=bool)
        leaves[merged.base_rows] = False
        gone, stay = keys.filter(pa.array(leaves)), keys.filter(pa.array(~leaves))
        new = joined_arrays([new.cast(keys.type), stay.filter(pc.is_in(stay, value_set=gone))])
    return new, gone
