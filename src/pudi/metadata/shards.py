"""The record index by file groups: find the file group of a key, and look keys up in it.

Source: HoodieBackedTableMetadata.readRecordIndex, HoodieTableMetadataUtil.getFileIDForFileGroup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import MetadataOptions
from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup import BaseFile, FileSlice, LogScope, read_log_blocks
from pudi.format.hfile_read import HFileReader, open_bytes
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_deletes import decode_deletes
from pudi.format.metadata_partitions import RECORD_INDEX, group_id
from pudi.metadata.keys import Shards, shard_of
from pudi.metadata.record_index_rows import decode_locations
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import one_array

FILE_ID = "_pudi_file_id"
LOCATIONS = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string()), (FILE_ID, pa.string())])
"""Locations of record keys: key, partition path and file group."""

WHOLE_TABLE = None
"""Stands for the data table's partition in an index over the whole table."""

_ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^_-]")

Numbers = npt.NDArray[np.int64]


def shard_id(number: int, partition: str | None = WHOLE_TABLE) -> str:
    """Return the file id of a file group of the record index.

    Args:
        number: its number in the table or in the partition.
        partition: path of the data table's partition; None if the index is over the whole table.

    Raises:
        NotSupportedError: the path has a dot, which Hudi can't write either.
    """
    if partition is not None and "." in partition:
        raise NotSupportedError(
            f"partition {partition!r} has a dot: Hudi's names of log files have no place for it in a record index by "
            "partition; use a record index over the whole table, or another index"
        )
    part = "" if partition is None else f"{_escape(partition)}-"
    return group_id(RECORD_INDEX, number, part)


def _escape(partition: str) -> str:
    """Escape a partition path for a file id (PartitionPathEncodeUtils.escapeFileName)."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", partition)


@dataclass(frozen=True, slots=True)
class RecordShards:
    """The record index of a table at one moment; picklable.

    Attributes:
        storage: the metadata table's files.
        slices: its file groups, by their numbers in this object.
        ranges: first number and count of its file groups by partition path of the data table; one range under
            `WHOLE_TABLE` if the index is over the whole table.
        scope: the instants whose log blocks count.
    """

    storage: Storage
    slices: tuple[FileSlice, ...]
    ranges: Mapping[str | None, tuple[int, int]]
    scope: LogScope

    @classmethod
    def of(cls, storage: Storage, slices: Sequence[FileSlice], scope: LogScope, *, partitioned: bool) -> RecordShards:
        """Return the index that consists of some slices.

        Raises:
            CorruptError: the file groups are not numbered from 0 on, or belong to an index of the other kind.
        """
        known = Shards.of(RECORD_INDEX, slices).by_owner if slices else {}
        ordered: list[FileSlice] = []
        ranges: dict[str | None, tuple[int, int]] = {}
        for owner in sorted(known, key=lambda partition: partition or ""):
            if partitioned == (owner is WHOLE_TABLE):
                kind = "by partition" if partitioned else "over the whole table"
                raise CorruptError(
                    f"file group {known[owner][0].file_id!r} is none of a record index {kind}; write with "
                    f"{MetadataOptions.drop}=record_index, which drops it, and create it again",
                    table=storage.root,
                )
            ranges[owner] = (len(ordered), len(known[owner]))
            ordered += known[owner]
        return cls(storage, tuple(ordered), ranges, scope)

    @property
    def partitioned(self) -> bool:
        """Whether the index is divided by partition of the data table, or has no file groups yet."""
        return WHOLE_TABLE not in self.ranges

    def shards_of(self, keys: pa.Array, partition: str | None = WHOLE_TABLE) -> Numbers:
        """Return the numbers of the file groups of keys, in one partition for an index per partition; -1 for none."""
        first, count = self.ranges.get(partition if self.partitioned else WHOLE_TABLE, (-1, 0))
        if not count:
            return np.full(len(keys), -1, dtype=np.int64)
        return first + shard_of(keys, count)

    def find(self, number: int, keys: pa.Array) -> pa.Table:
        """Look up keys in one file group: rows of `LOCATIONS`, none for missing keys.

        Raises:
            CorruptError: the file group can't be read.
            NotFoundError: one of its files is gone.
        """
        return read_shard(self.storage, self.slices[number], self.scope, keys)

    def scan(self, number: int) -> pa.Table:
        """Return all keys of a file group; errors as of `find`."""
        return read_shard(self.storage, self.slices[number], self.scope)


def read_shard(storage: Storage, file_slice: FileSlice, scope: LogScope, keys: pa.Array | None = None) -> pa.Table:
    """Read one file group of the record index: merge base file and log blocks, the newest row of a key wins.

    Args:
        storage: the metadata table's files.
        file_slice: the file group.
        scope: the instants whose log blocks count.
        keys: record keys; None for all.

    Returns:
        Rows of `LOCATIONS`, partition paths and file ids as dictionaries.

    Raises:
        CorruptError: a file can't be read, or has other records.
        NotFoundError: a file is gone.
    """
    found: list[pa.Table] = []
    gone: list[pa.Table] = []
    order = 0
    if file_slice.base is not None:
        found.append(_located(open_base(storage, file_slice.base), keys, file_slice.base.path, order))
    for block in read_log_blocks(storage, file_slice.logs, scope):
        order += 1
        if block.kind is BlockKind.DELETE:
            gone.append(_deleted(block, keys, order))
        elif block.kind is BlockKind.HFILE:
            path = block.path or file_slice.path
            found.append(_located(open_bytes(block.content, path=path), keys, path, order))
        else:
            raise CorruptError(f"a log file of the record index has a block of kind {block.kind.name}", path=block.path)
    if not found:
        return LOCATIONS.empty_table()
    rows = found[0] if len(found) == 1 else pa.concat_tables(found).unify_dictionaries()
    return rows.drop_columns(_ORDER) if not order else _newest(rows, gone).drop_columns(_ORDER)


_ORDER = "order"


def open_base(storage: Storage, base: BaseFile) -> HFileReader:
    """Open a base file of the metadata table for reading by ranges."""
    return HFileReader.open(
        lambda offset, length: bytes(storage.read_ranges(base.path, [(offset, length)])[0]), base.size, path=base.path
    )


def _located(reader: HFileReader, keys: pa.Array | None, path: str, order: int) -> pa.Table:
    """Return the rows of one HFile."""
    entries = (reader.scan() if keys is None else reader.seek(keys)).combine_chunks()
    names, values = entries.columns
    names, values = (one_array(names), one_array(values))
    partitions, files = decode_locations(values, reader.avro_schema, path=path)
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptError("a key of the record index is no text", path=path) from error
    return pa.table(
        [texts, partitions, files, pa.array(np.full(len(texts), order, dtype=np.int32))],
        names=[*LOCATIONS.names, _ORDER],
    )


def _deleted(block: LogBlock, keys: pa.Array | None, order: int) -> pa.Table:
    """Return the keys that one block deletes."""
    texts = decode_deletes(block).keys
    if keys is not None:
        texts = texts.filter(pc.is_in(texts, value_set=keys.cast(pa.string())))
    return pa.table([texts, pa.array(np.full(len(texts), order, dtype=np.int32))], names=[RECORD_KEY, _ORDER])


def _newest(rows: pa.Table, gone: Sequence[pa.Table]) -> pa.Table:
    """Return the newest row of each key, unless a delete follows it."""
    count = rows.num_rows
    both = pa.concat_tables([rows.select([RECORD_KEY, _ORDER]), *gone])
    coded = pc.dictionary_encode(one_array(both[RECORD_KEY]))
    order = np.asarray(one_array(both[_ORDER])).astype(np.int64)
    codes = np.asarray(coded.indices)
    sequence = np.argsort(order, kind="stable")
    last = np.full(len(coded.dictionary), -1, dtype=np.int64)
    last[codes[sequence]] = sequence  # the last assignment to a position stays
    kept = np.sort(last[(last >= 0) & (last < count)])
    return rows if len(kept) == count else rows.take(pa.array(kept))
