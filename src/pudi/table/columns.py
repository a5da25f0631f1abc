"""Verbs of a `Table` that change its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult
from pudi.context.lazy import lazy_module
from pudi.engine.local import LocalEngine
from pudi.schema.spark_types import arrow_type_of
from pudi.table.base import VerbGroup

if TYPE_CHECKING:
    from pudi.schema import changes
    from pudi.writes import alter as alter_action
else:
    alter_action = lazy_module("pudi.writes.alter")
    changes = lazy_module("pudi.schema.changes")


class ColumnVerbs(VerbGroup):
    """Verbs of `Table` about columns."""

    def add_column(
        self, name: str, type: Any, *, after: str | None = None, options: Mapping[str, str] | None = None
    ) -> CommitResult:
        """Add a nullable column; no file is touched, old records have null in it.

        This and the other column changes enable schema on read: columns are identified by ids from then on. Apache Hudi
        reads the table correctly with `hoodie.schema.on.read.enable=true`.

        Args:
            name: its name; `place.x` adds a field to the struct `place`.
            type: an Arrow type, a Spark one, or Spark's name of it, such as `double`.
            after: the column that it follows, in the same struct; None for the end.
            options: this call's options, over those of the `Table`.

        Raises:
            SchemaError: the column exists already, the one before it doesn't, or a table can't hold the type.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed the schema meanwhile.
        """
        kind = arrow_type_of(type, name)
        return self._alter(lambda schema: changes.add_column(schema, name, kind, after), options)

    def move_column(self, name: str, after: str, *, options: Mapping[str, str] | None = None) -> CommitResult:
        """Move a column behind another one; no file is touched.

        Args:
            name: its name; `place.x` is a field of the struct `place`.
            after: the column that it follows from then on, in the same struct.
            options: this call's options, over those of the `Table`.

        Raises:
            SchemaError: one of them does not exist.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed the schema meanwhile.
        """
        return self._alter(lambda schema: changes.move_column(schema, name, after), options)

    def rename_column(self, name: str, new_name: str, *, options: Mapping[str, str] | None = None) -> CommitResult:
        """Rename a column; no file is touched. Key, partition and ordering columns keep their names.

        Args:
            name: its name; `place.x` is a field of the struct `place`.
            new_name: its new name, without the path.
            options: this call's options, over those of the `Table`.

        Raises:
            SchemaError: the column does not exist, the new name does, or it's a key, partition or ordering column.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed the schema meanwhile.
        """
        return self._alter(lambda schema: changes.rename_column(schema, name, new_name), options)

    def drop_column(self, name: str, *, options: Mapping[str, str] | None = None) -> CommitResult:
        """Drop a column; its values are gone for good, also if a column of that name is added again.

        Args:
            name: its name; `place.x` is a field of the struct `place`.
            options: this call's options, over those of the `Table`.

        Raises:
            SchemaError: the column does not exist, is a key, partition or ordering column, or the last one of a struct.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed the schema meanwhile.
        """
        return self._alter(lambda schema: changes.drop_column(schema, name), options)

    def change_type(self, name: str, type: Any, *, options: Mapping[str, str] | None = None) -> CommitResult:
        """Give a column another type; stored values are turned into it when they're read.

        A number may become a wider one, a decimal or text, a decimal a wider one or text, a date or binary text, text
        a date, decimal or binary.

        Args:
            name: its name; `place.x` is a field of the struct `place`.
            type: an Arrow type, a Spark one, or Spark's name of it, such as `double`.
            options: this call's options, over those of the `Table`.

        Raises:
            SchemaError: the column does not exist, its type can't be converted, or it's part of keys.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed the schema meanwhile.
        """
        return self._alter(lambda schema: changes.change_type(schema, name, arrow_type_of(type, name)), options)

    def _alter(self, change: alter_action.Change, options: Mapping[str, str] | None) -> CommitResult:
        meta, resolved = self._for_write(options)
        return alter_action.alter(meta, LocalEngine(), change, resolved)
