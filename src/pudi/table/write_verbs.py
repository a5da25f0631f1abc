"""Verbs of a `Table` that write: by predicate, by clauses of a merge, and partitions as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import CommitResult
from pudi.config.arguments import map_given, names_given, text_given, texts_given
from pudi.context.runtime import lazy_module
from pudi.engine.local import LocalEngine
from pudi.errors import InvalidArgumentError
from pudi.plan import Operation
from pudi.table.base import VerbGroup, engine_of
from pudi.task import InputSpec

if TYPE_CHECKING:
    from pudi.client import partitions as added_action
    from pudi.indexing import build_by_options
    from pudi.table import merge_builder
    from pudi.writes import merge_binding
    from pudi.writes import merge_into as merge_action
    from pudi.writes import replace_partitions as replace_action
    from pudi.writes import write_records as change_action
else:
    added_action = lazy_module("pudi.client.partitions")
    build_by_options = lazy_module("pudi.indexing.build_by_options")
    change_action = lazy_module("pudi.writes.write_records")
    merge_action = lazy_module("pudi.writes.merge_into")
    merge_binding = lazy_module("pudi.writes.merge_binding")
    replace_action = lazy_module("pudi.writes.replace_partitions")
    merge_builder = lazy_module("pudi.table.merge_builder")


class WriteVerbs(VerbGroup):
    """Verbs of `Table` that write."""

    def insert_overwrite(
        self,
        data: Any,
        *,
        partitions: Iterable[str] | None = None,
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Write records in place of all that is in the partitions they fall into; other partitions stay.

        The old file groups leave the table when the commit completes; `scan(as_of=…)` reads them until a cleaner
        removes them. Keys are not looked up: a duplicate key in `data` becomes two records, unless
        `hoodie.combine.before.insert` is set.

        Args:
            data: records: a Spark DataFrame, or anything that offers an Arrow stream.
            partitions: paths of the partitions to replace, whether records fall into them or not (Spark's static
                overwrite). None: those that records fall into (dynamic), or all of the table with
                `hoodie.datasource.overwrite.mode=static`.
            if_unchanged_since: the instant of the scan that the records come from (`Scan.instant`): nothing is written
                where a partition that is replaced has changed since.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done; None when there were no records and nothing to replace.

        Raises:
            SchemaError: a column is missing, unknown, or of another type.
            InvalidArgumentError: null keys, a record outside of `partitions`, a wrong option.
            NotSupportedError: the table can't be written by this release.
            ConflictError: another writer changed what would be replaced; nothing of this write is visible.
            ChangedSinceError: a partition has changed since `if_unchanged_since`; nothing was written.
        """
        request = self._request(engine_of(data), options, if_unchanged_since)
        return replace_action.overwrite(request, data, Operation.INSERT_OVERWRITE, partitions)

    def insert_overwrite_table(
        self, data: Any, *, if_unchanged_since: str | None = None, options: Mapping[str, str] | None = None
    ) -> CommitResult | None:
        """Write records in place of all that is in the table; no records empty it.

        Arguments, result and errors as `insert_overwrite`. Schema, properties and history of the table stay.
        """
        request = self._request(engine_of(data), options, if_unchanged_since)
        return replace_action.overwrite(request, data, Operation.INSERT_OVERWRITE_TABLE)

    def delete_partitions(
        self,
        partitions: Iterable[str] | None = None,
        *,
        where: str | None = None,
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Take all that some partitions hold out of the table, without reading it: `delete_partitions(["city=nyc"])`.

        Args:
            partitions: partition paths as `partitions()` gives them; those that aren't there are no error.
            where: in their place, a SQL predicate over partition columns alone.
            if_unchanged_since: an instant (`Scan.instant`): nothing is deleted where one of the partitions has changed
                since.
            options: this call's options, over those of the `Table`.
            extra_metadata: more to say in the commit.

        Returns:
            What was done; None when the partitions hold nothing.

        Raises:
            InvalidArgumentError: neither or both are given, the table isn't partitioned, or the predicate names a
                column that is no partition column.
            NotSupportedError: the predicate uses SQL beyond the subset or is true for some records of a partition
                only; the table can't be written by this release.
            ConflictError: another writer changed what would be deleted; nothing of this write is visible.
            ChangedSinceError: a partition has changed since `if_unchanged_since`; nothing was deleted.
        """
        extra = texts_given(extra_metadata, "extra_metadata", self._path)
        request = self._request(LocalEngine(), options, if_unchanged_since, extra)
        return replace_action.delete_partitions(request, partitions, where)

    def add_partitions(self, partitions: Iterable[str], *, exists_ok: bool = False) -> None:
        """Make folders partitions of the table before they hold records: `add_partitions(["city=nyc"])`.

        A write makes the partitions of its records by itself. Where the metadata table lists the files of a table with
        commits, the partition shows once it has records, as in Hudi.

        Args:
            partitions: partition paths (`partition_path`).
            exists_ok: whether it's no error if one is there already.

        Raises:
            InvalidArgumentError: the table isn't partitioned, or a path can't be a folder of it.
            TableExistsError: a partition is there already; nothing was added.
            NotSupportedError: the table can't be written by this release.
        """
        meta, resolved = self._for_write(None)
        added_action.add_empty_partitions(meta, partitions, exists_ok=exists_ok)
        if meta.config.metadata_partitions:
            build_by_options.list_added(meta, resolved)

    def update(
        self,
        set: Mapping[str, object],
        where: str | None = None,
        *,
        spark: Any = None,
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Set columns of the records that a predicate is true for: `update({"fare": "fare * 2"}, where="ts > 9")`.

        Only files that may contain matching records are read, and only files that do are rewritten. All values are
        computed from the old record. With an ordering column, a record whose ordering value would decrease stays
        unchanged: to Hudi it is the newer version.

        Args:
            set: by column, SQL text of its new value, or a constant that is no text (a text is `"'nyc'"`).
            where: SQL predicate, as of `scan`; None for all records.
            spark: a session to run on; None for this machine.
            if_unchanged_since: an instant (`Scan.instant`): nothing is written where a partition that is read has
                changed since.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done; None when the predicate is true for no record.

        Raises:
            InvalidArgumentError: an unknown column, one of the record key or the partition, a wrong expression, a
                value that can't be computed.
            NotSupportedError: SQL beyond the subset; the table can't be written by this release.
            ConflictError: other writers won, this one's further attempts too; nothing of this write is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
        """
        request = self._request(engine_of(None, spark), options, if_unchanged_since)
        return change_action.change_where(request, map_given(set, "set", self._path), where)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str] | None = None,
        *,
        source_alias: str = "source",
        target_alias: str = "target",
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> merge_builder.MergeBuilder:
        """Merge records by clauses, in one commit.

        `table.merge(data).when_matched_update().when_not_matched_insert().execute()`. What clauses make is written as
        an upsert: an ordering column decides between old and new version, and records that are not matched and share a
        key are combined, or with a record of that key.

        Args:
            source: rows: a Spark DataFrame, or anything that offers an Arrow stream; it may lack columns of the table
                and have others.
            on: column or columns of both sides, or a condition, `"target.uuid = source.id AND source.ts > 5"`. None for
                the record key, with the partition columns that the source has. Without an equality of columns, each row
                of the source is compared with each of the table.
            source_alias: what conditions and values call the source.
            target_alias: the name of the table in expressions.
            if_unchanged_since: an instant (`Scan.instant`): nothing is written where a partition that is compared with
                the source has changed since.
            options: this call's options, over those of the `Table`.

        Returns:
            A builder; nothing is done before its `execute`.
        """
        request = self._request(engine_of(source), options, if_unchanged_since)
        keys = on if on is None or isinstance(on, str) else names_given(on, "on", self._path)
        source_name = text_given(source_alias, "source_alias", self._path)
        target_name = text_given(target_alias, "target_alias", self._path)
        merging = merge_binding.MergeRequest(keys, (), source_name, target_name)
        return merge_builder.MergeBuilder(merging, lambda whole: merge_action.merge_into(request, source, whole))

    def partitions_of(self, data: Any) -> list[str]:
        """Paths of the partitions that records fall into, sorted, whether the table has them yet or not.

        Args:
            data: records with at least the key columns, in a form that `insert` takes.

        Raises:
            SchemaError: a key or partition column is missing.
            InvalidArgumentError: null keys, or a partition value outside the table.
        """
        meta, schema = self._meta, self._snapshot().schema.columns
        spec = InputSpec(meta.storage.root, schema, meta.keys, keys_only=True, as_text=meta.path_columns)
        records = engine_of(data).prepare(data, spec)
        try:
            return sorted(records.counts)
        finally:
            records.release()

    def partition_path(self, values: Mapping[str, object]) -> str:
        """Path of the partition that some values name, whether the table has it yet or not.

        Args:
            values: the value of each partition column.

        Raises:
            InvalidArgumentError: a partition column is missing, or a value is not of its type.
        """
        meta = self._meta
        names = meta.config.partition_fields
        if set(names) != set(map_given(values, "values", self._path)):
            raise InvalidArgumentError(
                f"the partition columns are {', '.join(names) or 'none'}, not {', '.join(values)}", table=self._path
            )
        schema = self._snapshot().schema.columns
        try:
            row = pa.table({name: pa.array([values[name]], schema.field(name).type) for name in names})
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise InvalidArgumentError(f"{dict(values)} names no partition: {error}", table=self._path) from error
        return str(meta.keys.partition_paths(row)[0].as_py()) if names else ""
