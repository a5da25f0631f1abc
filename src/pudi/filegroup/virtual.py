"""Base files without meta fields, for reading: what meta fields would say is computed from columns and names.

Source: hoodie.populate.meta.fields=false ("virtual keys"), RecordContext.virtualKeyExtractor.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import CorruptError, NotSupportedError, PudiError
from pudi.filegroup.slices import BaseFile
from pudi.filegroup.wrapped import StoredReader, WrappedReader
from pudi.format import BloomFilter, ColumnStatistics
from pudi.record import KeyGenerator
from pudi.schema import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY, with_meta_fields


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

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return self.stored.corrupt(reason)

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
