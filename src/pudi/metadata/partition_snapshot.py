"""A partition of the metadata table as tasks read it: its file groups and the instants that count."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogScope
from pudi.format import METADATA_DIR
from pudi.metadata.decode import ReadRequest
from pudi.metadata.keys import Shards
from pudi.metadata.record_schema import RECORD_SCHEMA, columns_of
from pudi.metadata.table import MetadataTable
from pudi.storage import StorageBelow


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A partition of the metadata table at one moment; picklable.

    Attributes:
        name: the partition.
        shards: its file groups.
        scope: the instants whose log blocks count.
        whole_key: see `secondary_shard_of`.
    """

    name: str
    shards: Shards
    scope: LogScope
    whole_key: bool = False

    @classmethod
    def of(cls, table: MetadataTable, name: str, *, whole_key: bool = False) -> PartitionSnapshot:
        """Return a partition of an opened metadata table.

        Raises:
            CorruptError: file groups are missing.
        """
        return cls(name, table.shards(name), table.scope, whole_key)

    def read(self, storage: Storage, keys: pa.Array) -> pa.Table:
        """Return the records of some keys; see `MetadataTable.read`.

        Args:
            storage: the data table's files.
            keys: record keys, strings.
        """
        table = self._table(storage)
        found = self.shards.holding(keys.unique(), whole_key=self.whole_key)
        parts = [table.read_slice(self.name, each, ReadRequest(keys=own)) for each, own in found]
        schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns_of(self.name)])
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def read_slice(self, storage: Storage, file_slice: FileSlice) -> pa.Table:
        """Return all records of one file group."""
        return self._table(storage).read_slice(self.name, file_slice)

    def _table(self, storage: Storage) -> MetadataTable:
        return MetadataTable.of_files(StorageBelow(storage, METADATA_DIR), self.scope)
