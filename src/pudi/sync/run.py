"""Register a table in a catalog: compare what is registered with what is to be, and change what differs.

The order makes each step safe to lose: columns first, then partitions, last the times up to which all is registered. A
sync that fails leaves the old times, and the next one looks at the same commits again. Nothing is changed before all
tables have been compared.

Two syncs of one table may run at once, and the one that knows less may be the later: it would drop a partition, or put
columns back, after the other has compared them. So a sync notes its times only if those in the catalog are still the
ones that it began with; otherwise it begins again, and compares from where it began first.

A sync changes what commits changed since the last one: the table's entry and the partitions.

Source: HiveSyncTool of Apache Hudi 1.2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pudi.catalogs import Catalog, CatalogColumn, CatalogPartition, CatalogTable, TableName, is_hudi
from pudi.catalogs.catalog import PROVIDER, SyncedTable, SyncResult, Values, with_s3_scheme
from pudi.catalogs.registered import (
    LAST_COMMIT,
    LAST_COMPLETION,
    HudiTable,
    Registration,
    registered_tables,
    sync_properties,
)
from pudi.client import MetaClient, TableSnapshot
from pudi.client.measure import measured
from pudi.config import SyncOptions
from pudi.errors import NotFoundError, RefusedError, SchemaError, TableExistsError, UnavailableError
from pudi.format import Action
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)

_METRIC = "meta_sync"
_ATTEMPTS = 5

Times: TypeAlias = tuple[str | None, str | None]
"""The requested time of the newest commit that is registered, and the greatest completion time."""
_SCHEMA_PART = "spark.sql.sources.schema.part."


def registered_times(table: CatalogTable) -> Times:
    """Return the times up to which a table is registered."""
    return table.properties.get(LAST_COMMIT), table.properties.get(LAST_COMPLETION)


def altered(known: CatalogTable, wanted: CatalogTable, *, comments: bool) -> CatalogTable:
    """Return a registered table as it's to be; what the catalog or others added stays."""
    properties = {**known.properties, **wanted.properties}
    if wanted.properties.get("spark.sql.sources.schema.numParts"):
        parts = {key for key in wanted.properties if key.startswith(_SCHEMA_PART)}
        properties = {k: v for k, v in properties.items() if k in parts or not k.startswith(_SCHEMA_PART)}
    said = {column.name.lower(): column.comment for column in known.columns}
    columns = tuple(
        CatalogColumn(each.name.lower(), each.type, each.comment if comments else said.get(each.name.lower(), ""))
        for each in wanted.columns
    )
    now = tuple(CatalogColumn(each.name.lower(), each.type, each.comment) for each in known.columns)
    serde = {**known.format.serde_properties, **wanted.format.serde_properties}
    form = replace(wanted.format, serde_properties=serde)
    if not wanted.columns:  # the catalog has no columns, at most comments
        return replace(known, properties=properties)
    return replace(known, columns=known.columns if columns == now else columns, format=form, properties=properties)


def one_spelling(location: str) -> str:
    """Return a location in one spelling: catalogs change schemes and slashes."""
    location = with_s3_scheme(location.rstrip("/"))
    return "file:/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def lower_columns(columns: Iterable[CatalogColumn]) -> list[tuple[str, str]]:
    """Return names, in lower case as metastores store them, and types."""
    return [(each.name.lower(), each.type) for each in columns]


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Partitions to compare with a catalog, by their paths.

    Attributes:
        present: partitions that hold data.
        gone: partitions that hold none any more; none where `complete` says that all others are gone.
        complete: whether `present` is all that there is.
    """

    present: tuple[str, ...]
    gone: tuple[str, ...] = ()
    complete: bool = False


def commits_since(timeline: Timeline, last: str | None, completion: str | None) -> list[Instant] | None:
    """Return the commits that a sync hasn't seen; None where that can't be known: all partitions have to be compared.

    It can't be known before the first sync, after the last commit that was seen was archived or rolled back, or the
    table was created again, and after a restore.

    Args:
        timeline: the table's timeline now.
        last: requested time of the newest commit that was seen.
        completion: the greatest completion time that was seen; None if no sync noted one.
    """
    if last is None or timeline.start is None or last < timeline.start or timeline.commit(last) is None:
        return None
    end = completion or last
    if any(each.requested > last or _completion(each) > end for each in timeline.of(Action.RESTORE)):
        return None
    return [each for each in timeline.commits if each.requested > last or _completion(each) > end]


def changed_partitions(snapshot: TableSnapshot, commits: Iterable[Instant]) -> PartitionChanges:
    """Return the partitions that commits wrote to or replaced.

    Only those with replaced file groups are listed, as they may hold nothing now; a commit's own files are there.
    """
    written: set[str] = set()
    replaced: set[str] = set()
    for commit in commits:
        metadata = snapshot.meta.store.read_commit_metadata(commit)
        written.update(metadata.partition_to_write_stats)
        replaced.update(metadata.partition_to_replace_file_ids or ())
    if not replaced:
        return PartitionChanges(tuple(sorted(written)))
    held = {each.partition for each in snapshot.view(sizes=False).slices_of(sorted(replaced))}
    gone = replaced - held
    return PartitionChanges(tuple(sorted((written | replaced) - gone)), tuple(sorted(gone)))


def all_partitions(snapshot: TableSnapshot) -> PartitionChanges:
    """Return all partitions that hold data."""
    held = {each.partition for each in snapshot.view(sizes=False).all_slices()}
    return PartitionChanges(tuple(sorted(held)), complete=True)


def newest_times(timeline: Timeline) -> tuple[str | None, str | None]:
    """Return the greatest requested and the greatest completion time of the completed commits."""
    commits = timeline.commits
    last = max((each.requested for each in commits), default=None)
    return last, max((_completion(each) for each in commits), default=None)


def _completion(instant: Instant) -> str:
    return instant.completion or instant.requested


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Request for a sync.

    Attributes:
        catalog: where to register.
        options: how.
        name: the name to register by; None for that of the options, or the table's.
        extractor: class that reads partition values; None for the table's.
        complete: whether all partitions are compared, whatever the last sync saw.
        spark_version: release of the Spark session that writes; empty for none.
    """

    catalog: Catalog
    options: SyncOptions
    name: TableName | None = None
    extractor: str | None = None
    complete: bool = False
    spark_version: str = ""

    def entries(self, snapshot: TableSnapshot) -> tuple[HudiTable, Registration]:
        """Return a table as it's to be registered, and its entries in the catalog."""
        times = newest_times(snapshot.timeline)
        table = HudiTable(snapshot.config, snapshot.schema.avro, snapshot.table, *times, self.spark_version)
        has_partitions = self.catalog.has_partitions
        return table, registered_tables(table, self.options, self.name, self.extractor, has_partitions=has_partitions)


def sync_table(meta: MetaClient, request: SyncRequest) -> SyncResult:
    """Register a table in a catalog.

    Args:
        meta: the table.
        request: where and how.

    Raises:
        TableExistsError: another table has the name in the catalog.
        SchemaError: the partition columns of the registered table are others.
        NotFoundError: the database is missing, and the options don't let it be created.
        InvalidArgumentError: a partition path doesn't give the values of the partition columns, or the catalog has no
            database of several levels.
        RefusedError: the catalog refuses a change, for lack of rights or because of its rules for columns.
        UnavailableError: the catalog doesn't answer.
    """
    with measured(meta, _METRIC) as figures:
        result = _synced(meta, request)
        figures |= {
            "partitions_added": sum(each.added for each in result.tables),
            "partitions_dropped": sum(each.dropped for each in result.tables),
            "partitions_updated": sum(each.moved for each in result.tables),
        }
    _log.info("table %s: registered in %s", meta.storage.root, result)
    return result


def _synced(meta: MetaClient, request: SyncRequest) -> SyncResult:
    """Register a table; begin again while other syncs of it end before."""
    began = meta.context.clock.monotonic()
    first_seen: dict[TableName, Times] = {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _attempt(meta, request, first_seen, began)
        except _OvertakenError as error:
            _log.info("table %s: attempt %d of %d: %s", meta.storage.root, attempt, _ATTEMPTS, error)
            meta.reload()
    raise UnavailableError(
        f"{request.catalog}: other processes register the table all the time; the next sync compares what this one saw",
        table=meta.storage.root,
    )


def _attempt(meta: MetaClient, request: SyncRequest, first_seen: dict[TableName, Times], began: float) -> SyncResult:
    snapshot = TableSnapshot.load(meta)
    table, registration = request.entries(snapshot)
    times = sync_properties(table) if request.catalog.has_partitions else {}
    run = _Sync(snapshot, request, registration, times, first_seen)
    done = run.run()
    seconds = meta.context.clock.monotonic() - began
    return SyncResult(str(request.catalog), done, table.last_commit, run.is_complete, seconds)


class _OvertakenError(Exception):
    """Another sync of the table ended while this one was under way."""


class _Sync:
    """One sync, with what its tables share: each list of changed partitions is found once."""

    def __init__(
        self,
        snapshot: TableSnapshot,
        request: SyncRequest,
        registration: Registration,
        times: dict[str, str],
        first_seen: dict[TableName, Times],
    ) -> None:
        """Take what to do.

        Args:
            snapshot: the table now.
            request: where and how.
            registration: what is to be registered.
            times: properties that say how far it will be; none for a catalog that doesn't keep them.
            first_seen: the times in the catalog when the first attempt began; it's filled here.
        """
        self._snapshot, self._request = snapshot, request
        self._catalog, self._options = request.catalog, request.options
        self._registration, self._times = registration, times
        self._first_seen = first_seen
        self._changes: dict[tuple[str | None, str | None], PartitionChanges] = {}
        self.is_complete = False

    def run(self) -> tuple[SyncedTable, ...]:
        """Register all tables."""
        wanted = self._registration.tables
        self._catalog.check_name(wanted[0].name)
        known = self._catalog.tables(wanted[0].name.database, [each.name.table for each in wanted])
        for each in wanted:
            if (there := known.get(each.name.table)) is not None:
                self._check(each, there)
        if not known:
            self._make_database(wanted[0].name.database)
        return tuple(self._sync(each, known.get(each.name.table)) for each in wanted)

    def _sync(self, wanted: CatalogTable, known: CatalogTable | None) -> SyncedTable:
        if known is None:
            return self._create(wanted)
        done = SyncedTable(str(wanted.name))
        began = registered_times(known)
        first = self._first_seen.setdefault(wanted.name, began)
        self._check_not_behind(began)
        target = altered(known, wanted, comments=self._options.comments)
        properties_changed = (target.properties, target.format) != (known.properties, known.format)
        if target.columns != known.columns:
            now = self._check_first(wanted.name, began)
            try:
                self._catalog.alter_table(replace(target, entry=now.entry), cascade=self._registration.is_partitioned)
            except RefusedError as error:
                self._check_first(wanted.name, began)
                if not self._options.recreates:
                    raise self._with_advice(error, wanted.name) from error
                _log.warning("table %s: %s is dropped and created: %s", self._snapshot.table, wanted.name, error)
                self._catalog.drop_table(wanted.name)
                return self._create(wanted)
            known = replace(target, entry=self._read(wanted.name).entry)
            done = replace(done, columns_changed=True)
        done = replace(done, properties_changed=properties_changed)
        if self._registration.is_partitioned:
            changes = self._changes_since(*first)
            done = self._sync_partitions(target, changes, done)
        if done.is_changed or not self._options.conditional:
            target = target.with_properties(self._times)
        if target.properties != known.properties or target.format != known.format:
            now = self._check_first(wanted.name, began)
            more = {key: value for key, value in now.properties.items() if key not in known.properties}
            self._catalog.alter_table(replace(target, entry=now.entry, properties={**more, **target.properties}))
        return done

    def _check_not_behind(self, registered: Times) -> None:
        """Check that no other sync has registered commits that came after the timeline was read.

        Raises:
            _OvertakenError: one has.
        """
        newest = newest_times(self._snapshot.timeline)
        is_ahead = any((theirs or "") > (ours or "") for theirs, ours in zip(registered, newest, strict=True))
        if is_ahead and newest_times(self._snapshot.refreshed().timeline) != newest:  # else commits were taken back
            raise _OvertakenError(f"{self._catalog}: another sync knows later commits: compare again")

    def _check_first(self, name: TableName, began: Times) -> CatalogTable:
        """Return the entry as it is now.

        Raises:
            _OvertakenError: another sync has ended since this one began.
        """
        now = self._read(name)
        if registered_times(now) != began:
            raise _OvertakenError(f"{self._catalog}: another sync of {name} ended meanwhile: compare again")
        return now

    def _create(self, wanted: CatalogTable) -> SyncedTable:
        """Register a table for the first time; the times come last, when its partitions are there."""
        try:
            self._catalog.create_table(wanted)
        except TableExistsError:  # another process was quicker
            known = self._catalog.table(wanted.name)
            if known is None:  # the name is taken, but by no table
                raise
            self._check(wanted, known)
            return self._sync(wanted, known)
        if not self._times:
            return SyncedTable(str(wanted.name), created=True)
        created = self._read(wanted.name)
        self._first_seen[wanted.name] = began = registered_times(created)
        done = SyncedTable(str(wanted.name), created=True)
        if self._registration.is_partitioned:
            partitions = self._registration.partitions(self._all().present)
            self._catalog.add_partitions(created, partitions)
            done = replace(done, added=len(partitions))
        now = self._check_first(wanted.name, began)
        self._catalog.alter_table(now.with_properties(self._times))
        return done

    def _sync_partitions(self, table: CatalogTable, changes: PartitionChanges, done: SyncedTable) -> SyncedTable:
        wanted = self._registration.partitions(changes.present)
        values = [each.values for each in wanted]
        gone = list(set(map(self._registration.reader.values, changes.gone)) - set(values))
        if not wanted and not gone and not changes.complete:
            return done
        known = self._known(table, None if changes.complete else values)
        if changes.complete:
            gone = [each for each in known if each not in set(values)]
        added = [each for each in wanted if each.values not in known]
        moved = [each for each in wanted if _is_elsewhere(each, known.get(each.values))]
        self._check_moved(moved, known)
        touched = [each for each in wanted if each.values in known] if self._options.touches else moved
        if added:
            self._catalog.add_partitions(table, added)
        if touched:
            self._catalog.alter_partitions(table, touched)
        if gone:
            self._catalog.drop_partitions(table, gone)
        return replace(done, added=len(added), moved=len(moved), dropped=len(gone))

    def _check_moved(self, moved: list[CatalogPartition], known: dict[Values, str]) -> None:
        """Check that no entry is taken from another partition, which has the same values and still holds data.

        Raises:
            InvalidArgumentError: one would be.
        """
        values, root = self._registration.reader.values, one_spelling(self._registration.location) + "/"
        there = {one_spelling(known[each.values]): each for each in moved}
        taken = {place.removeprefix(root): each for place, each in there.items() if place.startswith(root)}
        for other in self._snapshot.view(sizes=False).slices_of(sorted(taken)) if taken else ():
            wanted = taken[other.partition]
            if values(other.partition) == wanted.values:
                path = one_spelling(wanted.location).removeprefix(root)
                raise self._registration.same_values(other.partition, path)

    def _known(self, table: CatalogTable, values: list[Values] | None) -> dict[Values, str]:
        """Return the locations of registered partitions, by their values."""
        found = self._catalog.partitions(table, values) if values is None or values else []
        return {each.values: each.location for each in found}

    def _changes_since(self, last: str | None, completion: str | None) -> PartitionChanges:
        key = last, completion
        if key not in self._changes:
            wants_all = self._request.complete or not self._options.incremental
            commits = None if wants_all else commits_since(self._snapshot.timeline, last, completion)
            if commits is None:
                self._changes[key] = self._all()
            else:
                self._changes[key] = changed_partitions(self._snapshot, commits)
        return self._changes[key]

    def _all(self) -> PartitionChanges:
        self.is_complete = True
        key = None, None
        if key not in self._changes:
            self._changes[key] = all_partitions(self._snapshot)
        return self._changes[key]

    def _make_database(self, name: str) -> None:
        if self._catalog.has_database(name):
            return
        if not self._options.creates_database:
            raise NotFoundError(
                f"{self._catalog}: there is no database {name!r}: create it, or let the sync create it by "
                f"{SyncOptions.creates_database}=true",
                table=self._snapshot.table,
            )
        self._catalog.create_database(name)

    def _read(self, name: TableName) -> CatalogTable:
        found = self._catalog.table(name)
        if found is None:
            raise NotFoundError(
                f"{self._catalog}: the table {name} was dropped while it was registered; sync again",
                table=self._snapshot.table,
            )
        return found

    def _check(self, wanted: CatalogTable, known: CatalogTable) -> None:
        """Refuse to take over the name of another table, before anything is changed."""
        root, name = self._snapshot.table, wanted.name
        advice = f"register by another name, or drop {name} there (its files stay if it is an external table)"
        if not is_hudi(known):
            what = known.properties.get(PROVIDER) or known.format.input_format or known.kind
            raise TableExistsError(f"{self._catalog}: {name} is no Hudi table but one of {what}: {advice}", table=root)
        if one_spelling(known.location) != one_spelling(wanted.location):
            raise TableExistsError(
                f"{self._catalog}: {name} is the table at {known.location}, not the one at {wanted.location}: {advice}",
                table=root,
            )
        if lower_columns(known.partition_columns) != lower_columns(wanted.partition_columns):
            raise SchemaError(
                f"{self._catalog}: {name} has the partition columns {_texts(known.partition_columns)}, the table has "
                f"{_texts(wanted.partition_columns)}; catalogs can't change them: {advice}, and sync again",
                table=root,
            )

    def _with_advice(self, error: RefusedError, name: TableName) -> RefusedError:
        return RefusedError(
            f"{error.message}. Hive's metastore compares columns by their positions and takes new ones at the end and "
            f"wider types; for any other change drop {name} there (files of an external table stay) and sync again, or "
            f"let the sync do that by {SyncOptions.recreates}=true",
            table=self._snapshot.table,
        )


def _is_elsewhere(wanted: CatalogPartition, known: str | None) -> bool:
    return known is not None and one_spelling(known) != one_spelling(wanted.location)


def _texts(columns: Iterable[CatalogColumn]) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in columns) or "(none)"
