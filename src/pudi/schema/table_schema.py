"""A table's schema as one value: the Avro text that commits state, and the Arrow columns that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from pudi.context.runtime import cached_property
from pudi.schema.avro import add_meta_fields, avro_to_arrow, evolved_text, unwritable_columns
from pudi.schema.fields import with_meta_fields, without_meta_fields


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table. Two schemas are equal if their Avro texts are.

    Pickled it's the text alone. A process that unpickles one text many times, as a Spark worker does, parses it once.

    Attributes:
        avro: the Avro record schema as JSON text, as commits and properties state it.
    """

    avro: str

    def __reduce__(self) -> tuple[Callable[[str], TableSchema], tuple[str]]:
        return _known, (self.avro,)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns without meta fields.

        Raises:
            CorruptError: the text is no Avro record schema.
            NotSupportedError: a column has a type that pudi doesn't support.
        """
        return without_meta_fields(avro_to_arrow(self.avro))

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns of data files: the five meta fields, then the others. Errors as of `columns`."""
        return with_meta_fields(self.columns)

    @cached_property
    def stored_avro(self) -> str:
        """The Avro schema of data files, as it stands in their footers (addMetadataFields)."""
        return add_meta_fields(self.avro)

    @cached_property
    def unwritable(self) -> tuple[str, ...]:
        """Columns with an Avro type that pudi reads but would write differently, such as `timestamp-millis`.

        Their values are read into Arrow types of finer units or other layouts; files written from these would
        contradict the schema that names them.
        """
        return tuple(unwritable_columns(self.avro))

    def evolved(self, columns: pa.Schema, table_name: str) -> TableSchema:
        """Return the schema with changed columns; unchanged columns keep their definition.

        Args:
            columns: the table's columns now, without meta fields.
            table_name: `hoodie.table.name`.

        Returns:
            This very schema where nothing changed.

        Raises:
            SchemaError: a name or a type can't be stored in a Hudi table.
        """
        return self if self.columns.equals(columns) else TableSchema(evolved_text(self.avro, columns, table_name))


@lru_cache(maxsize=64)
def _known(avro: str) -> TableSchema:
    return TableSchema(avro)
