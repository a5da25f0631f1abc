"""Bloom filters of existing base files: read them from the files, write them as records of the metadata table.

Jobs of the first kind read some base files each and write the filters, ordered by file group of the index, into a file
beside the markers. Jobs of the second kind, one per file group, collect their part of these files. A filter takes half
a megabyte, so none passes through the driver.

Source: HoodieTableMetadataUtil.convertFilesToBloomFilterRecords.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFile, open_base_file
from pudi.format import METADATA_DIR, BloomFilter, write_token
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.metadata.changes import Changes, bloom_changes
from pudi.metadata.keys import shard_of
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array
from pudi.storage import StorageBelow
from pudi.task.jobs import FileResult
from pudi.task.metadata_files import base_name, write_base
from pudi.task.portions import Portion, read_portions, write_portions
from pudi.task.staged_keys import StagedKeys


def bloom_of(storage: Storage, file: BaseFile) -> BloomFilter | None:
    """Return the bloom filter of a base file's record keys: from its footer, or built from the keys.

    Returns:
        None if the file has no record keys.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it can't be read.
    """
    reader = open_base_file(storage, file)
    found = reader.bloom_filter()
    if found is not None or RECORD_KEY not in reader.schema.names:
        return found
    return BloomFilter.build(reader.read([RECORD_KEY])[RECORD_KEY])


@dataclass(frozen=True, slots=True)
class BloomTask:
    """Collect the bloom filters of some base files. Picklable.

    Attributes:
        number: number of the task, from 0.
        instant: requested time in the records.
        files: the files.
        shards: number of file groups of the index.
        path: the file to write.
    """

    number: int
    instant: str
    files: tuple[BaseFile, ...]
    shards: int
    path: str

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Collect and write the filters; see `FileJob.run`."""
        found = [(file, each) for file in self.files if (each := bloom_of(storage, file)) is not None]
        if not found:
            return FileResult(self.number, 0, None)
        changes = bloom_changes([(file.partition, file.name.name, self.instant, each) for file, each in found])
        numbers = shard_of(changes.keys, self.shards)
        rows = pa.table([changes.keys, changes.values], names=["key", "value"])
        staged = StagedKeys(write_portions(storage, f"{self.path}.{attempt}", rows, numbers))
        return FileResult(self.number, 0, None, staged=(staged,))


@dataclass(frozen=True, slots=True)
class BloomShardTask:
    """Write the first base file of one file group. Picklable.

    Attributes:
        number: number of the task, from 0.
        requested: the instant.
        file_id: the file group.
        portions: the records, in the files of the first jobs.
    """

    number: int
    requested: str
    file_id: str
    portions: tuple[Portion, ...]

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the file; see `FileJob.run`."""
        rows = pa.Table.from_batches([batch for batch, _ in read_portions(storage, self.portions)])
        changes = Changes(*(one_array(column) for column in rows.columns))
        below = StorageBelow(storage, METADATA_DIR)
        name = base_name(self.file_id, self.requested, write_token(self.number, 0, attempt))
        stat = write_base(below, BLOOM_FILTERS, name, changes)
        return FileResult(self.number, len(changes), stat)
