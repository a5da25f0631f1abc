"""Bloom filters of existing base files: read them from the files, write them as records of the metadata table.

Jobs of the first kind read some base files each and write the filters, ordered by file group of the index, into a file
beside the markers. Jobs of the second kind, one per file group, collect their part of these files. A filter takes half
a megabyte, so none passes through the driver.

Source: HoodieTableMetadataUtil.convertFilesToBloomFilterRecords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFile, open_base_file
from pudi.format import METADATA_DIR, BloomFilter, write_token
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.metadata.changes import Changes, bloom_changes
from pudi.metadata.keys import shard_of
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array
from pudi.storage import StorageBelow, open_input
from pudi.task.jobs import FileResult
from pudi.task.metadata_files import base_name, write_base
from pudi.task.staged_keys import StagedKeys

_STAGED = pa.schema([pa.field("key", pa.string()), pa.field("value", pa.binary())])


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
        sink, shards = pa.BufferOutputStream(), np.unique(numbers).tolist()
        with pa.ipc.new_file(sink, _STAGED) as writer:
            for shard in shards:
                part = changes.part(pa.array(numbers == shard), pa.array([], pa.bool_()))
                writer.write_batch(pa.record_batch([part.keys, part.values], schema=_STAGED))
        content, path = bytes(sink.getvalue()), f"{self.path}.{attempt}"
        storage.put(path, content)
        counts = tuple(int((numbers == shard).sum()) for shard in shards)
        staged = StagedKeys(path, len(content), "", tuple(shards), counts)
        return FileResult(self.number, 0, None, staged=(staged,))


@dataclass(frozen=True, slots=True)
class BloomShardTask:
    """Write the first base file of one file group. Picklable.

    Attributes:
        number: number of the task, from 0.
        requested: the instant.
        file_id: the file group.
        portions: path, size and position of the records, for each file of the first jobs.
    """

    number: int
    requested: str
    file_id: str
    portions: tuple[tuple[str, int, int], ...]

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the file; see `FileJob.run`."""
        changes = _together(storage, self.portions)
        below = StorageBelow(storage, METADATA_DIR)
        name = base_name(self.file_id, self.requested, write_token(self.number, 0, attempt))
        stat = write_base(below, BLOOM_FILTERS, name, changes)
        return FileResult(self.number, len(changes), stat)


def _together(storage: Storage, portions: Sequence[tuple[str, int, int]]) -> Changes:
    batches = []
    for path, size, place in portions:
        with pa.ipc.open_file(open_input(storage, path, size)) as reader:
            batches.append(reader.get_batch(place))
    whole = pa.Table.from_batches(batches, _STAGED).combine_chunks()
    return Changes(*(one_array(column) for column in whole.columns))
