"""Verbs of a `Table` that change what it is: its columns, its indexes, its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult
from pudi.config.arguments import names_given, text_given
from pudi.config.table_options import NEWEST_VERSION
from pudi.context.runtime import lazy_module
from pudi.engine.local import LocalEngine
from pudi.schema.spark_types import arrow_type_of
from pudi.table.base import VerbGroup, engine_of

if TYPE_CHECKING:
    from pudi.indexing import index_request, indexing
    from pudi.schema import changes
    from pudi.upgrade import upgrade as upgrade_action
    from pudi.upgrade.upgrade_intent import Upgrade
    from pudi.writes import alter as alter_action
else:
    alter_action = lazy_module("pudi.writes.alter")
    changes = lazy_module("pudi.schema.changes")
    index_request = lazy_module("pudi.indexing.index_request")
    indexing = lazy_module("pudi.indexing.indexing")
    upgrade_action = lazy_module("pudi.upgrade.upgrade")


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
        return self._alter(
            lambda schema: changes.add_column(schema, name, kind, after), options, name, *names_given(after, "after")
        )

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
        return self._alter(lambda schema: changes.move_column(schema, name, after), options, name, after)

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
        return self._alter(lambda schema: changes.rename_column(schema, name, new_name), options, name, new_name)

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
        return self._alter(lambda schema: changes.drop_column(schema, name), options, name)

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
        return self._alter(lambda schema: changes.change_type(schema, name, arrow_type_of(type, name)), options, name)

    def _alter(self, change: alter_action.Change, options: Mapping[str, str] | None, *names: str) -> CommitResult:
        names_given(names, "a column's name", self._path)
        meta, resolved = self._for_write(options)
        return alter_action.alter(meta, LocalEngine(), change, resolved)


class IndexVerbs(VerbGroup):
    """Verbs of `Table` about indexes."""

    def create_index(
        self,
        kind: str,
        columns: str | Sequence[str] | None = None,
        name: str | None = None,
        expr: str | None = None,
        *,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Build an index of the table while writers continue; create the metadata table if there is none.

        Every commit that completes after the start of the build is added to the index. Readers use it once it's
        complete. If the process dies, the next writer removes its files; `run_pending` or the same call builds the
        index again.

        Args:
            kind: `record_index` (where each record key is; with `hoodie.metadata.record.level.index.enable=true` for
                each partition by itself), `column_stats` (with them those of partitions), `bloom_filters` (of the
                record keys of base files), or `secondary_index` (the record keys of each value of a column).
            columns: columns of `column_stats`, None for the first ones; the one column of a secondary index, or that
                an expression is made of.
            name: of a secondary or expression index; None for the column's.
            expr: a function, as Hudi calls it (`from_unixtime`, `lower`, …): `column_stats` or `bloom_filters` are kept
                of its values.
            spark: a session to build it on; None for this machine.
            options: options of this call, over those of the `Table`, including settings of the function by Hudi's
                names, such as `format`.

        Returns:
            What was written to the metadata table.

        Raises:
            InvalidArgumentError: the table has the index already, or can't have it; nothing was written.
            NotSupportedError: this release can't write the table, or this kind of index.
            ConflictError: another process is building it, or writers got in the way; nothing of it stays.
        """
        own, settings = index_request.split_options(options)
        meta, resolved = self._for_call(own)
        of = names_given(columns, "columns", self._path)
        for given, what in ((name, "name"), (expr, "expr")):
            if given is not None:
                text_given(given, what, self._path)
        request = index_request.IndexRequest(text_given(kind, "kind", self._path), of, name, expr, settings)
        spec = index_request.requested_index(request, meta.config.version, resolved, meta.storage.root)
        return indexing.create_index(meta, engine_of(None, spark), spec, resolved)

    def drop_index(self, name: str, *, options: Mapping[str, str] | None = None) -> None:
        """Drop an index, or what a process that died left of it; with `column_stats` those of partitions go.

        Args:
            name: its full name, as `indexes` gives it; of secondary and expression indexes also without
                `secondary_index_` or `expr_index_` before it.
            options: this call's options, over those of the `Table`.

        Raises:
            InvalidArgumentError: the table does not have the index, or a secondary index needs it.
            ConflictError: another process is building it.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        indexing.drop_index(meta, index_request.partition_named(meta, text_given(name, "name", self._path)), resolved)

    def indexes(self) -> list[index_request.IndexInfo]:
        """The table's indexes by name: those that are ready, and those that are planned or being built."""
        self._meta.reload()
        return index_request.indexes_of(self._meta)


class VersionVerbs(VerbGroup):
    """Verb of `Table` about versions."""

    def upgrade(
        self,
        version: int = NEWEST_VERSION,
        *,
        dry_run: bool = False,
        accept_loss: bool = False,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Upgrade:
        """Bring the table to another version, upwards or downwards; records stay the same.

        Dead writes are rolled back, pending plans run, and log files compacted. Then the timeline, the archived one
        too, is written as the version has it, and one change of the properties makes that the table's. Readers go on
        with the old version until then, and open the table again afterwards. Writers must not run meanwhile; those of
        pudi are refused. If the process dies, the next call completes the upgrade.

        Args:
            version: 6, 8 or 9.
            dry_run: say what would be done, and what would be lost, and change nothing.
            accept_loss: go on although the version can't keep all: indexes that it doesn't have, and in a merge-on-read
                table that goes back to version 6 all states before now. Without it, such an upgrade is refused.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            The steps, and what was lost.

        Raises:
            InvalidArgumentError: there's no such version, something would be lost, or another upgrade is pending.
            NotSupportedError: that version can't say what the table does, or this release can't write the table.
            BlockedError: another process is writing.
            CorruptError: an instant or the archive can't be read; nothing was changed.
        """
        meta, resolved = self._for_call(options)
        request = upgrade_action.UpgradeRequest(version, dry_run, accept_loss)
        return self._opened.upgrade(meta, engine_of(None, spark), resolved, request)
