"""Base files of any format: which reader and which writer fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pudi.context import Storage
from pudi.filegroup.basefile import BaseFileReader, BaseFileWriter
from pudi.filegroup.basefile_encode import ParquetOptions
from pudi.filegroup.hfilebase import HFILE_EXTENSION, HFileBaseReader, HFileBaseWriter, HFileOptions
from pudi.filegroup.missing_columns import PathColumnReader, StoredReader, VirtualKeyReader, path_columns, values_of
from pudi.filegroup.orcfile import ORC_EXTENSION, OrcBaseWriter, OrcFileReader, OrcOptions
from pudi.filegroup.slices import BaseFile
from pudi.format import BaseFileName
from pudi.schema import META_FIELDS, without_columns_text

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
