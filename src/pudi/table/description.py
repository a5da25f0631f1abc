"""Describe a table on one page: properties, columns, indexes, sizes, last commits, and what waits.

No data file is read, and files are listed once: by the metadata table where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import pending_writes
from pudi.config import Options
from pudi.engine.local import LocalEngine
from pudi.errors import InvalidArgumentError, PudiError
from pudi.format import Action, instant_to_millis
from pudi.indexing.index_request import IndexInfo, indexes_of
from pudi.services.registry import planned_services
from pudi.table.diagnosis import FileCounts, Pending, counts
from pudi.table.history import HistoryEntry, describe_instant, problem_of_pending
from pudi.table.slices import row_counts
from pudi.upgrade.maintenance import MaintenanceRequest, MaintenanceStep, maintain

_BLOCKS = dict.fromkeys(
    (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT),
    "archiving of later instants, and compactions of the metadata table",
) | {
    Action.SAVEPOINT: "archiving of later instants",
    Action.INDEXING: "cleaning and archiving of the metadata table",
    Action.ROLLBACK: "writes, until it is resumed",
    Action.RESTORE: "writes, until it is resumed",
}
"""Work that waits for a pending action of writers, Hudi's services and builds of indexes. A service of pudi
has it in `PlannedService.blocks`."""


def pending_instants(snapshot: TableSnapshot) -> Iterator[Pending]:
    """Return what isn't completed.

    Args:
        snapshot: the table; its options say when a writer counts as dead.
    """
    meta = snapshot.meta
    now_ms = meta.context.clock.now_ms()
    for instant, alive in pending_writes(snapshot):
        try:
            age = max(0, now_ms - instant_to_millis(instant.requested, meta.config.timezone)) // 1000
        except InvalidArgumentError:
            age = 0
        action, state = instant.action.value, instant.state.name.lower()
        problem = problem_of_pending(meta, instant)
        yield Pending(instant.requested, action, state, age, alive.value, _blocked_by(instant.action), problem)


def _blocked_by(action: Action) -> str:
    """Return what waits for a pending action."""
    service = next((each for each in planned_services() if each.action is action), None)
    return _BLOCKS.get(action, "") if service is None else service.blocks


_LAST = 5
"""Commits that are described."""
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column of a table.

    Attributes:
        name: its name.
        type: its type, as Arrow calls it.
        nullable: whether it may hold null.
    """

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class TableSize(FileCounts):
    """The size of a table.

    Attributes:
        records: of the base files, as commits or column statistics state them; log files change records. None if
            neither states it of all of them.
    """

    records: int | None


@dataclass(frozen=True, slots=True)
class TableDescription:
    """Description of a table and of its state.

    Attributes:
        path: its root.
        name: its name.
        version: version of the table's format.
        timeline_layout: layout of its timeline: 1 below version 8, 2 from there on.
        table_type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        base_file_format: format of base files.
        record_key: the columns of the record key; none if keys are generated.
        key_generator: Hudi's type of key generator.
        partition_fields: the partition columns.
        ordering_fields: the columns that decide between versions of a record; without any the later commit does.
        merge_mode: Hudi's merge mode.
        timezone: in which instants are: `LOCAL` or `UTC`.
        columns: without meta fields.
        indexes: of the metadata table; its list of files and partitions of other releases don't count.
        metadata_table: partitions of the metadata table that are ready.
        size: its files; None if they can't be listed.
        commits: number of completed commits on the active timeline.
        last_commits: the newest of these, newest first.
        savepoints: requested times of the commits with one.
        pending: what isn't completed.
        services: what `maintain` would do now, and what it would leave, with the reasons and the backlog.
        problems: what couldn't be found out, and why.
    """

    path: str
    name: str
    version: int
    timeline_layout: int
    table_type: str
    base_file_format: str
    record_key: tuple[str, ...]
    key_generator: str
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str
    timezone: str
    columns: tuple[ColumnInfo, ...]
    indexes: tuple[IndexInfo, ...]
    metadata_table: tuple[str, ...]
    size: TableSize | None
    commits: int
    last_commits: tuple[HistoryEntry, ...]
    savepoints: tuple[str, ...]
    pending: tuple[Pending, ...]
    services: tuple[MaintenanceStep, ...]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as values that JSON has."""
        return asdict(self) | {"last_commits": [each.to_dict() for each in self.last_commits]}


def describe(snapshot: TableSnapshot) -> TableDescription:
    """Describe a table; what can't be read of it is among the problems.

    Args:
        snapshot: the table, with the user's options: what is due, and when a writer counts as dead.
    """
    meta, config, timeline, problems = snapshot.meta, snapshot.config, snapshot.timeline, list[str]()

    def tried(what: str, find: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return find()
        except PudiError as error:
            problems.append(f"{what}: {error}")
            return otherwise

    return TableDescription(
        path=snapshot.table,
        name=config.name,
        version=config.version,
        timeline_layout=config.layout_version,
        table_type=config.table_type,
        base_file_format=config.base_file_format,
        record_key=tuple(config.record_key_fields),
        key_generator=config.key_generator_type,
        partition_fields=tuple(config.partition_fields),
        ordering_fields=tuple(config.ordering_fields),
        merge_mode=config.merge_mode.value,
        timezone=config.timezone,
        columns=tried("its columns", lambda: _columns(snapshot), ()),
        indexes=tried("its indexes", lambda: tuple(indexes_of(meta)), ()),
        metadata_table=tuple(config.metadata_partitions),
        size=tried("its files", lambda: _size(snapshot), None),
        commits=len(timeline.commits),
        last_commits=tuple(describe_instant(meta, each) for each in reversed(timeline.commits[-_LAST:])),
        savepoints=timeline.savepoints,
        pending=tried("what is pending", lambda: tuple(pending_instants(snapshot)), ()),
        services=tried("what is due", lambda: _services(meta, snapshot.options), ()),
        problems=tuple(problems),
    )


def _columns(snapshot: TableSnapshot) -> tuple[ColumnInfo, ...]:
    return tuple(ColumnInfo(each.name, str(each.type), each.nullable) for each in snapshot.schema.columns)


def _size(snapshot: TableSnapshot) -> TableSize | None:
    slices = snapshot.view(sizes=False).all_slices()
    bases = [each.base.path for each in slices if each.base is not None]
    rows = row_counts(snapshot, bases)
    return TableSize(**counts(slices), records=sum(rows.values()) if len(rows) == len(bases) else None)


def _services(meta: MetaClient, options: Options) -> tuple[MaintenanceStep, ...]:
    """Return what a maintenance would do, without orphaned files, whose search would list all folders."""
    return maintain(meta, LocalEngine(), options, MaintenanceRequest(dry_run=True, orphans=False)).steps
