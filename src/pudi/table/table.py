"""The `Table`: what a user holds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import CommitResult, MetaClient, TableSnapshot
from pudi.client.find_index import check_index
from pudi.config import TableConfig, check_consistent, resolve
from pudi.config.arguments import map_given, path_given, texts_given
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, TableNotFoundError
from pudi.filegroup import FileSlice
from pudi.plan import Operation, Selection
from pudi.scan import ChangeFeed, Scan, change_feed, changes_scan, snapshot_scan
from pudi.table.base import OpenTable, VerbGroup, engine_of, small_side
from pudi.table.catalogs import CatalogVerbs, root_of
from pudi.table.definition import ColumnVerbs, IndexVerbs, VersionVerbs
from pudi.table.overview import InspectionVerbs
from pudi.table.recovery import RecoveryVerbs
from pudi.table.services import MaintenanceVerbs, RetentionVerbs
from pudi.table.write_verbs import WriteVerbs
from pudi.timeline import Timeline

if TYPE_CHECKING:
    from pudi.client import partitions as added_action
    from pudi.client import partitions as choosing
    from pudi.commit.conditions import SoleProgress
    from pudi.writes import replace_partitions as replace_action
    from pudi.writes import write_records as change_action
    from pudi.writes import write_records as records_action
else:
    added_action = lazy_module("pudi.client.partitions")
    change_action = lazy_module("pudi.writes.write_records")
    choosing = lazy_module("pudi.client.partitions")
    records_action = lazy_module("pudi.writes.write_records")
    replace_action = lazy_module("pudi.writes.replace_partitions")


class Table(
    WriteVerbs,
    ColumnVerbs,
    IndexVerbs,
    MaintenanceVerbs,
    RecoveryVerbs,
    RetentionVerbs,
    InspectionVerbs,
    VersionVerbs,
    CatalogVerbs,
):
    """A Hudi table.

    Every verb and scan sees the table as it is at that moment. A Spark DataFrame is written by its session; anything
    that offers an Arrow stream (pyarrow, polars, pandas, DuckDB) on this machine.

    Args:
        path: the table's root, or its place in a catalog: `hive://host:9083/db.trips`, `glue:db.trips`.
        options: Hudi's option keys, defaults of this object's verbs; unknown ones are refused.
        storage_options: credentials and settings of the storage.

    Raises:
        TableNotFoundError: there is no table.
        NotSupportedError: it's of a kind that this release can't read.
        CorruptError: its properties can't be read.
        InvalidArgumentError: an option is unknown, or contradicts the table.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        root, own = path_given(path), map_given(options, "options")
        resolved = resolve(own, table=root)
        meta = MetaClient.open(root_of(root, own), storage_options, own)
        check_consistent(meta.config, resolved, meta.storage.root)
        check_index(meta, resolved)
        super().__init__(OpenTable(meta, own))

    @classmethod
    def of(cls, meta: MetaClient, options: Mapping[str, str]) -> Table:
        """The table that a client is open for."""
        table = cls.__new__(cls)
        VerbGroup.__init__(table, OpenTable(meta, dict(options)))
        return table

    @property
    def path(self) -> str:
        """Location of the table's root."""
        return self._meta.storage.root

    @property
    def config(self) -> TableConfig:
        """The table's properties, typed."""
        return self._meta.config

    @property
    def options(self) -> Mapping[str, str]:
        """The options that its verbs take by default."""
        return dict(self._options)

    @property
    def maintenance(self) -> MaintenanceVerbs:
        """The services, as a group of their own: `table.maintenance.compact()` is `table.compact()`."""
        return MaintenanceVerbs(self._opened)

    @property
    def inspect(self) -> InspectionVerbs:
        """The verbs that show the table, as a group of its own: `table.inspect.history()` is `table.history()`."""
        return InspectionVerbs(self._opened)

    @property
    def timeline(self) -> Timeline:
        """The active timeline now."""
        return self._snapshot().timeline

    @property
    def schema(self) -> pa.Schema:
        """The table's columns now, without meta fields."""
        return self._snapshot().schema.columns

    def partitions(self, *, where: str | None = None, empty: bool = False) -> list[str]:
        """Partition paths that hold data now, sorted; one empty path when the table isn't partitioned.

        Args:
            where: those alone for which this predicate over partition columns is true.
            empty: also those without data: made by `add_partitions`, and not dropped since.

        Raises:
            InvalidArgumentError: `where` names another column.
            NotSupportedError: the paths don't say the values that `where` asks for.
        """
        snapshot = self._snapshot()
        found = {each.partition for each in snapshot.view(sizes=False).all_slices()}
        if empty:
            found.update(added_action.empty_partitions(snapshot, found))
        if where is not None:
            found.intersection_update(choosing.partitions_where(snapshot, where))
        return sorted(found)

    def file_slices(self) -> list[FileSlice]:
        """Latest file slices now, by partition path and file id."""
        return self._snapshot().view(sizes=False).all_slices()

    def refresh(self) -> Table:
        """Read the properties again; every verb reads the timeline anyway."""
        self._opened.reopen()
        return self

    def insert(
        self, data: Any, *, if_unchanged_since: str | None = None, options: Mapping[str, str] | None = None
    ) -> CommitResult | None:
        """Add records without looking for their keys; small files are filled first. A key may come to be there twice.

        Args:
            data: records: a Spark DataFrame, or anything that offers an Arrow stream.
            if_unchanged_since: the instant of the scan that the records come from (`Scan.instant`). Nothing is written
                if a target of the records changed after it: their file group, or, for new keys, any key of the
                partition. Compactions and clusterings change no records.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done; None when there were no records.

        Raises:
            SchemaError: a column is missing, unknown, or of another type.
            InvalidArgumentError: null keys, a partition value outside the table, a wrong option.
            NotSupportedError: the table can't be written by this release.
            ConflictError: other writers won, this one's further attempts too; nothing of this write is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
            NotFoundError: what has changed since then can't be known, as the timeline's history is gone.
        """
        return self._write(data, Operation.INSERT, options, since=if_unchanged_since)

    def bulk_insert(
        self, data: Any, *, if_unchanged_since: str | None = None, options: Mapping[str, str] | None = None
    ) -> CommitResult | None:
        """Add records to new files in one pass, the fastest way in; arguments, result and errors as `insert`."""
        return self._write(data, Operation.BULK_INSERT, options, since=if_unchanged_since)

    def upsert(
        self, data: Any, *, if_unchanged_since: str | None = None, options: Mapping[str, str] | None = None
    ) -> CommitResult | None:
        """Update records with existing keys and insert the others; arguments, result and errors as `insert`.

        Versions of one key within `data` are combined first. With an ordering column, a version that is older than
        the stored one changes nothing. Where another writer wins, nothing is repeated, unless
        `hoodie.write.num.retries.on.conflict.failures` says so: the records may come from what that writer changed.
        Read, change and write is safe with `if_unchanged_since`:
        `scan = table.scan(); table.upsert(raised(scan.to_arrow()), if_unchanged_since=scan.instant)`.

        A table without a record key takes rows that were read from it with their `_hoodie_record_key`; rows in which it
        is null are new.
        """
        return self._write(data, Operation.UPSERT, options, since=if_unchanged_since)

    def delete(
        self,
        data: Any = None,
        *,
        where: str | None = None,
        spark: Any = None,
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Delete records by key or by predicate, regardless of their ordering value; unknown keys are ignored.

        Args:
            data: the keys: record key and partition columns, others are ignored; in a form that `insert` takes. Of a
                table without a record key, `_hoodie_record_key` as it was read and the partition columns.
            where: a SQL predicate, as of `scan`, instead of keys; only files that may contain matching records are read
                and rewritten.
            spark: a session to delete by predicate on; None for this machine.
            if_unchanged_since: as in `insert`; by predicate the partitions that are read count as a whole.
            options: this call's options, over those of the `Table`.

        Returns:
            The commit; None if no record matched.

        Raises:
            InvalidArgumentError: neither or both of `data` and `where` are given, `data` is a text (a predicate belongs
                into `where`), or a wrong predicate.
            NotSupportedError: SQL beyond the subset, or the table can't be written by this release.
            SchemaError: a key or partition column is missing.
            ConflictError: other writers won; nothing of this write is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
        """
        if isinstance(data, str):
            raise InvalidArgumentError(
                f"delete takes records; to delete by predicate, write delete(where={data!r})", table=self.path
            )
        if (data is None) == (where is None):
            raise InvalidArgumentError("delete takes either keys of records or where=…", table=self.path)
        if where is not None:
            request = self._request(engine_of(data, spark), options, if_unchanged_since)
            return change_action.change_where(request, None, where)
        return self._write(data, Operation.DELETE, options, since=if_unchanged_since)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        as_of: str | date | None = None,
        read_optimized: bool = False,
        meta_fields: bool = True,
        limit: int | None = None,
        keys: Any = None,
    ) -> Scan:
        """A read of the table as it is, or as it was.

        Args:
            columns: exactly the columns that come back, in that order; `place.x` is a field of the struct `place`.
                None for all.
            where: a SQL predicate in Spark's ANSI mode and UTC, whatever a session says; partitions and row groups that
                can't match aren't read.
            as_of: the moment to read the table at, compared with requested times: an instant, ISO text, date
                (its midnight) or datetime.
            read_optimized: base files only, without what log files hold; no difference for a copy-on-write table.
            meta_fields: whether the meta fields come with all columns.
            limit: how many rows come back at most, whichever are found first; reading ends with them.
            keys: the small side of a join: rows in a form that `insert` takes, with columns of the table. Only rows
                come back that equal one of them in all these columns, each once; null equals nothing. Files that
                can't match aren't read: by the record index, bloom filters, secondary indexes, partitions and
                statistics. At most a million distinct rows, which are brought to this process.

        Raises:
            InvalidArgumentError: an unknown column, a wrong predicate, `as_of` no point in time, a limit below 0,
                columns of `keys` that the table doesn't have or can't compare, or too many.
            NotSupportedError: the predicate uses SQL beyond the subset, or a column of `keys` has fractions or is
                nested.
            NotFoundError: the cleaner has removed what the table was then.
        """
        resolved = resolve(self._options, table=self.path)
        side = None if keys is None else small_side(keys, self.path)
        snapshot = TableSnapshot.load(self._meta, resolved)
        selection = Selection(columns, where, meta_fields, limit, side)
        return snapshot_scan(snapshot, selection, as_of=as_of, read_optimized=read_optimized)

    def changes(
        self,
        since: str | date | None = None,
        until: str | date | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        format: str = "latest",
        meta_fields: bool = True,
        images: str = "json",
    ) -> Scan | ChangeFeed:
        """Return the changes of commits that completed in a span of time.

        By default the records that they brought, each in its last version; deletes don't come. With `format="cdc"`
        every change of every commit, deletes too: operation (`op`: i, u, d), instant (`ts_ms`), and the record
        `before` and `after` it.

        Args:
            since: completion time after which commits count (exclusive): a `CommitResult.completion_time`, an ISO text,
                a date or datetime; None or `earliest` for all commits. In tables below version 8, requested times are
                compared instead.
            until: completion time up to which they count (inclusive); None for now.
            columns: as in `scan`; with `cdc` some of op, ts_ms, before and after.
            where: as in `scan`; with `cdc` about these columns.
            format: `latest` or `cdc`. A table that doesn't log its changes computes them from its files, at a cost.
            meta_fields: as in `scan`; with `cdc`, whether JSON texts of records from data files have the meta fields.
            images: with `cdc`, whether `before` and `after` are `json` texts, as in Hudi, or a `struct` each.

        Raises:
            InvalidArgumentError: as in `scan`, or `since` is later than `until`.
            NotSupportedError: rows that don't say which commit brought them.
            NotFoundError: the cleaner has removed files of the range; with `cdc`, commits of it were archived.
        """
        selection = Selection(columns, where, meta_fields)
        if format == "cdc":
            return change_feed(self._snapshot(), selection, since, until, images)
        if images != "json":
            raise InvalidArgumentError("images= is about format='cdc'", table=self.path)
        if format != "latest":
            raise InvalidArgumentError(f"format={format!r}: it is 'latest' or 'cdc'", table=self.path)
        return changes_scan(TableSnapshot.load(self._meta, resolve(self._options)), selection, since, until)

    def write(
        self,
        data: Any,
        operation: Operation | str,
        *,
        if_unchanged_since: str | None = None,
        options: Mapping[str, str] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
    ) -> CommitResult | None:
        """Write by a named operation, with more to say in the commit's extra metadata; as the verb of that name.

        Args:
            data: as of the verb.
            operation: the verb: `"insert"`, `"bulk_insert"`, `"upsert"`, `"delete"`, `"insert_overwrite"` or
                `"insert_overwrite_table"`.
            if_unchanged_since: as in `insert`.
            options: this call's options, over those of the `Table`.
            extra_metadata: texts by key that the commit holds; `history` shows them.

        Raises:
            InvalidArgumentError: the operation is none of these, or `extra_metadata` no map of texts; else as the verb.
        """
        known = {each.value.lower(): each for each in Operation if each is not Operation.DELETE_PARTITION}
        if str(getattr(operation, "value", operation)).lower() not in known:
            raise InvalidArgumentError(f"operation={operation!r}: it is one of {', '.join(known)}", table=self.path)
        chosen = known[str(getattr(operation, "value", operation)).lower()]
        extra = texts_given(extra_metadata, "extra_metadata", self.path)
        return self._write(data, chosen, options, extra, if_unchanged_since)

    def _write(
        self,
        data: Any,
        operation: Operation,
        options: Mapping[str, str] | None,
        extra_metadata: Mapping[str, str] | None = None,
        since: str | None = None,
        progress: SoleProgress | None = None,
    ) -> CommitResult | None:
        request = self._request(engine_of(data), options, since, extra_metadata, progress)
        if operation in {Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE}:
            return replace_action.overwrite(request, data, operation)
        return records_action.write(request, data, operation)

    def __len__(self) -> int:
        """The number of records now, counted anew each time; see `Scan.count`."""
        return self.scan().count()

    def __bool__(self) -> bool:
        """True, also if it's empty: a table that is there."""
        return True

    def __repr__(self) -> str:
        return f"Table({self.path!r})"


def find_table(
    path: str | os.PathLike[str],
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table | None:
    """Open a table; None if there is none. Arguments and other errors as of `Table`."""
    try:
        return Table(path, options, storage_options)
    except TableNotFoundError:
        return None
