"""Base files of any format: choose the reader and the writer, and fill the columns that files leave out.

Readers compute missing meta fields, and take partition columns from the path of the file. Files of some of Hudi's
commits (deletes, compactions, clusterings) have the columns all the same, with nulls in them. The path decides.

Source: hoodie.populate.meta.fields=false ("virtual keys"), RecordContext.virtualKeyExtractor,
hoodie.datasource.write.drop.partition.columns, HoodieFileIndex.parsePartitionColumnValues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError, PudiError
from pudi.filegroup.basefile import BaseFileReader, BaseFileWriter
from pudi.filegroup.basefile_encode import ParquetOptions
from pudi.filegroup.hfilebase import HFILE_EXTENSION, HFileBaseReader, HFileBaseWriter, HFileOptions
from pudi.filegroup.orcfile import ORC_EXTENSION, OrcBaseWriter, OrcFileReader, OrcOptions
from pudi.filegroup.slices import BaseFile
from pudi.format import BaseFileName, BloomFilter, ColumnStatistics
from pudi.record import KeyGenerator, partition_texts
from pudi.schema import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY, with_meta_fields, without_columns_text
from pudi.storage import StorageBelow, StorageWrapper

StoredReader: TypeAlias = "BaseFileReader | OrcFileReader | HFileBaseReader"
"""A reader of a base file with the columns that it stores."""


class WrappedReader:
    """A reader of a base file that adds columns to those of another reader.

    Args:
        stored: the reader of what the file holds.
        base: the file.
    """

    def __init__(self, stored: StoredReader, base: BaseFile) -> None:
        self.stored = stored
        self._base = base

    @property
    def path(self) -> str:
        """Path of the file, relative to the table's root."""
        return self._base.path

    @property
    def num_groups(self) -> int:
        """Number of groups of rows in the file."""
        return self.stored.num_groups

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return self.stored.num_rows

    def group_rows(self, group: int) -> int:
        """Number of rows in a group."""
        return self.stored.group_rows(group)

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return self.stored.corrupt(reason)


class VirtualKeyReader(WrappedReader):
    """A base file without meta fields, read as if it had them.

    Record keys come from the key columns, the partition path and the file's name from where the file is. Commit times
    and sequence numbers are null: nothing says them.

    Args:
        stored: the file.
        base: where it is.
        keys: makes record keys of its columns.
    """

    def __init__(self, stored: StoredReader, base: BaseFile, keys: KeyGenerator) -> None:
        super().__init__(stored, base)
        self._keys = keys
        self._schema: pa.Schema = with_meta_fields(stored.schema)

    @property
    def schema(self) -> pa.Schema:
        """The meta fields, and the file's columns in its physical types."""
        return self._schema

    def key_range(self) -> tuple[str, str] | None:
        """Least and greatest record key: the footer says none."""
        return None

    def bloom_filter(self) -> BloomFilter | None:
        """The filter of the record keys: there is none (HoodieFileWriterFactory.enableBloomFilter)."""
        return None

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return the bounds of a column for each group of rows; None for unknown bounds.

        Those of record keys are those of their column, if keys are one column's text.
        """
        if column == RECORD_KEY:
            column = self.key_column or ""
        return [None] * self.num_groups if column not in self.stored.schema.names else self.stored.statistics(column)

    @property
    def key_column(self) -> str | None:
        """The text column that record keys are the same as; None if there's none."""
        fields = self._keys.record_key_fields
        index = self.stored.schema.get_field_index(fields[0]) if len(fields) == 1 and not self._keys.names_keys else -1
        return fields[0] if index >= 0 and pt.is_string(self.stored.schema.field(index).type) else None

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types; arguments as of `BaseFileReader.read`.

        Raises:
            CorruptError: the file is damaged, or its columns make no record keys.
        """
        names = self._schema.names if columns is None else list(columns)
        needed = [name for name in names if name not in META_FIELDS]
        if RECORD_KEY in names:
            needed += sorted({field.split(".", 1)[0] for field in self._keys.record_key_fields} - {*needed})
        missing = [name for name in needed if name not in self.stored.schema.names]
        if missing:
            raise self.corrupt(f"no column {missing[0]}")
        rows = self.stored.read(needed or self.stored.schema.names[:1], groups)
        made = [self._meta(name, rows) if name in META_FIELDS else rows[name] for name in names]
        schema = pa.schema([pa.field(n, pa.string()) if n in META_FIELDS else rows.schema.field(n) for n in names])
        return pa.Table.from_arrays(made, schema=schema)

    def _meta(self, name: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        count = rows.num_rows
        if name == RECORD_KEY:
            try:
                return virtual_keys(rows, self._keys)
            except NotSupportedError:
                raise
            except PudiError as error:
                raise self.corrupt(error.message) from error
        constant = {PARTITION_PATH: self._base.partition, FILE_NAME: self._base.name.name}
        return pa.repeat(pa.scalar(constant.get(name), pa.string()), count)


def virtual_keys(rows: pa.Table, keys: KeyGenerator) -> pa.ChunkedArray:
    """The record keys of rows; see `KeyGenerator.record_keys` (which a table without rows has none of).

    Args:
        rows: rows with the key columns.
        keys: the table's key generator.
    """
    return keys.record_keys(rows) if rows.num_rows else pa.chunked_array([], pa.string())


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
    while isinstance(storage, StorageWrapper) and not isinstance(storage, StorageBelow):  # metadata tables have all
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


def with_values(rows: pa.Table, values: Mapping[str, str | None], names: Sequence[str]) -> pa.Table:
    """Return columns of rows, those that files leave out with their values."""
    made = [
        pa.repeat(pa.scalar(values[name], pa.string()), rows.num_rows) if name in values else rows[name]
        for name in names
    ]
    fields = [pa.field(name, pa.string()) if name in values else rows.schema.field(name) for name in names]
    return pa.Table.from_arrays(made, schema=pa.schema(fields))


AnyBaseFile: TypeAlias = "StoredReader | VirtualKeyReader | PathColumnReader"
"""An opened base file of any format."""

AnyBaseWriter: TypeAlias = "BaseFileWriter | OrcBaseWriter | HFileBaseWriter"
"""A writer of base files, whatever the format."""


def open_base_file(storage: Storage, base: BaseFile, dictionary: Sequence[str] = ()) -> AnyBaseFile:
    """A base file opened for reading, by its format.

    Args:
        storage: the table's files.
        base: the file; of a table without meta fields it's read as if it had them, see `VirtualKeyReader`, and
            partition columns that files leave out, see `PathColumnReader`.
        dictionary: text columns to read dictionary encoded, where the format is Parquet.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't what its extension says.
        NotSupportedError: its path doesn't tell the values of partition columns that it lacks.
    """
    stored = _open(storage, base, dictionary)
    if path_columns(storage) is not None:  # such a table has meta fields
        return PathColumnReader(stored, base, values_of(storage, base.partition))
    return stored if base.keys is None else VirtualKeyReader(stored, base, base.keys)


def _open(storage: Storage, base: BaseFile, dictionary: Sequence[str]) -> StoredReader:
    if base.name.extension == HFILE_EXTENSION:
        return HFileBaseReader(storage, base)
    if base.name.extension == ORC_EXTENSION:
        return OrcFileReader(storage, base)
    return BaseFileReader(storage, base, dictionary)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of a table's base files; picklable.

    Attributes:
        parquet: settings of Parquet files, and of Parquet blocks in log files.
        hfile: options of HFiles, in tables with HFile base files; None with others.
        orc: options of ORC files, likewise.
        path_columns: partition columns that base files leave out; writers take rows with them.
        populated: whether records have meta fields; otherwise writers take rows with them and leave them out.
    """

    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    hfile: HFileOptions | None = None
    populated: bool = True
    orc: OrcOptions | None = None
    path_columns: tuple[str, ...] = ()

    @property
    def is_parquet(self) -> bool:
        """Return whether base files are Parquet files, whose column chunks can be copied."""
        return self.hfile is None and self.orc is None

    @property
    def is_whole(self) -> bool:
        """Return whether base files have the meta fields and all columns of the table."""
        return self.populated and not self.path_columns

    @property
    def sorted(self) -> bool:
        """Return whether rows of a file are stored in key order, regardless of their input order."""
        return self.hfile is not None

    @property
    def without_bloom(self) -> FileOptions:
        """The same without a bloom filter in Parquet and ORC files."""
        orc = None if self.orc is None else replace(self.orc, bloom=None)
        return replace(self, parquet=replace(self.parquet, bloom=None), orc=orc)

    def name(self, file_id: str, token: str, instant: str) -> BaseFileName:
        """The name of a new base file."""
        if self.hfile is not None:
            return BaseFileName(file_id, token, instant, HFILE_EXTENSION)
        if self.orc is not None:
            return BaseFileName(file_id, token, instant, ORC_EXTENSION)
        return BaseFileName(file_id, token, instant)

    def writer(self, storage: Storage, avro_schema: str) -> AnyBaseWriter:
        """Return the writer of the files.

        Args:
            storage: the table's files.
            avro_schema: Avro schema with the meta fields, as JSON text.
        """
        populated = self.populated
        left_out = self.path_columns if populated else META_FIELDS
        schema = without_columns_text(avro_schema, left_out) if left_out else avro_schema
        if self.hfile is not None:  # which has keys of its own, and what is said of them
            return HFileBaseWriter(storage, schema, self.hfile, left_out)
        # without meta fields footers have no key ranges and bloom filters (HoodieAvroParquetWriter)
        options = self if populated else self.without_bloom
        if options.orc is not None:
            return OrcBaseWriter(storage, schema, options.orc, left_out)
        return BaseFileWriter(storage, schema, options.parquet, left_out)
