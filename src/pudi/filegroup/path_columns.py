"""Partition columns that data files leave out: readers take them from the path of the file, as Apache Hudi does.

Source: hoodie.datasource.write.drop.partition.columns, HoodieFileIndex.parsePartitionColumnValues. Files of some of
Hudi's commits (deletes, compactions, clusterings) have the columns all the same, with nulls in them. The path decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup.slices import BaseFile
from pudi.filegroup.wrapped import StoredReader, WrappedReader
from pudi.format import BloomFilter, ColumnStatistics
from pudi.record import KeyGenerator, partition_texts
from pudi.storage import StorageWrapper


@dataclass(frozen=True, slots=True)
class PathColumns:
    """The partition columns that the files of a table leave out; picklable.

    Attributes:
        keys: the table's key generator, which made the paths.
    """

    keys: KeyGenerator

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the path."""
        return self.keys.partition_fields

    def values(self, partition: str, table: str) -> dict[str, str | None]:
        """Return the text of each column in a partition; None for null.

        Args:
            partition: partition path.
            table: the table's root, for messages.

        Raises:
            NotSupportedError: the path doesn't tell them.
        """
        found = partition_texts(partition, self.keys)
        if found is None:
            raise NotSupportedError(
                f"the files lack the partition columns {', '.join(self.names)}, and the path {partition!r} doesn't "
                "tell their values: it has another number of folders, or other names; read the table with Apache Hudi",
                table=table,
                path=partition,
            )
        return found


class PartitionedStorage(StorageWrapper):
    """The files of a table whose data files leave out the partition columns.

    It brings the columns to everything that opens data files, in tasks on other machines too.

    Args:
        inner: the storage that does the work.
        columns: the columns.
    """

    def __init__(self, inner: Storage, columns: PathColumns) -> None:
        super().__init__(inner)
        self.path_columns = columns

    def __repr__(self) -> str:
        return f"PartitionedStorage({self.inner!r})"


def path_columns(storage: Storage) -> PathColumns | None:
    """Return the partition columns that data files in a storage leave out; None if they have all columns."""
    while isinstance(storage, StorageWrapper):
        if isinstance(storage, PartitionedStorage):
            return storage.path_columns
        storage = storage.inner
    return None


def partitioned(storage: Storage, columns: PathColumns | None) -> Storage:
    """Return the storage of a table whose files leave out these columns; None for a table whose files have all."""
    plain = storage.inner if isinstance(storage, PartitionedStorage) else storage
    return plain if columns is None else PartitionedStorage(plain, columns)


def values_of(storage: Storage, partition: str) -> Mapping[str, str | None]:
    """Return the columns that a partition's files leave out, with their values; none in other tables.

    Raises:
        NotSupportedError: the path doesn't tell them.
    """
    columns = path_columns(storage)
    return {} if columns is None else columns.values(partition, storage.root)


class PathColumnReader(WrappedReader):
    """A base file without partition columns, read as if it had them.

    Args:
        stored: the file.
        base: where it is.
        values: the values of the columns, the same in all rows.
    """

    def __init__(self, stored: StoredReader, base: BaseFile, values: Mapping[str, str | None]) -> None:
        super().__init__(stored, base)
        self._values = values
        own = [field for field in stored.schema if field.name not in values]
        self._schema = pa.schema([*own, *(pa.field(name, pa.string()) for name in values)])

    @property
    def schema(self) -> pa.Schema:
        """The file's columns in its physical types, and the partition columns."""
        return self._schema

    def key_range(self) -> tuple[str, str] | None:
        """Least and greatest record key, as of the file."""
        return self.stored.key_range()

    def bloom_filter(self) -> BloomFilter | None:
        """The filter of the record keys, as of the file."""
        return self.stored.bloom_filter()

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return the bounds of a column for each group of rows; None for unknown bounds."""
        return [None] * self.num_groups if column in self._values else self.stored.statistics(column)

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types; arguments and errors as of `BaseFileReader.read`."""
        names = self._schema.names if columns is None else list(columns)
        own = [name for name in names if name not in self._values]
        rows = self.stored.read(own or self.stored.schema.names[:1], groups)
        return with_values(rows, self._values, names)

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return self.stored.corrupt(reason)


def with_values(rows: pa.Table, values: Mapping[str, str | None], names: Sequence[str]) -> pa.Table:
    """Return columns of rows, those that files leave out with their values."""
    made = [
        pa.repeat(pa.scalar(values[name], pa.string()), rows.num_rows) if name in values else rows[name]
        for name in names
    ]
    fields = [pa.field(name, pa.string()) if name in values else rows.schema.field(name) for name in names]
    return pa.Table.from_arrays(made, schema=pa.schema(fields))
