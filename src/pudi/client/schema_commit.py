"""The schema that commits state: find the commit that states the table's, on the timeline or in the archive; state it.

Commits of table services state a schema too, that by which they rewrote files. It may be older than the table's: a
write that completed while the service ran may have brought a column. So they count only where no write is known, as
they do in Hudi's reads of schemas by id (TableSchemaResolver, WriteOperationType.canUpdateSchema). Hudi looks at the
active timeline alone, and once all its writes are archived falls back to the schema that the table was created with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pudi.format import CommitMetadata, WriteStat, stats_by_partition
from pudi.format.instants import CLUSTER, COMPACT, LOG_COMPACT
from pudi.plan import Operation
from pudi.schema import TableSchema
from pudi.schema.internal import SchemaHistory
from pudi.timeline import Instant, Timeline, TimelineStore

SCHEMA_KEY: Final = "schema"
"""Key in a commit's extra metadata under which the writer's Avro schema stands (HoodieCommitMetadata.SCHEMA_KEY)."""

INTERNAL_SCHEMA_KEY: Final = "latest_schema"
"""Key of the internal schema, there once schema on read is in use (SerDeHelper.LATEST_SCHEMA)."""

ALTER_SCHEMA: Final = "ALTER_SCHEMA"
"""Operation of commits that change columns and touch no file (WriteOperationType)."""

SERVICE_OPERATIONS: Final = frozenset({CLUSTER, COMPACT, "INDEX", LOG_COMPACT})
"""Operations of table services, by the names that commits say: they change no records and no schema."""


def find_schema(store: TimelineStore, timeline: Timeline) -> tuple[Instant | None, CommitMetadata] | None:
    """Return the newest commit that states the table's schema, and its metadata; None if no commit states one.

    Args:
        store: reads commits.
        timeline: the commits that count, and all that were archived before them.

    Raises:
        CorruptError: a commit or the archive can't be read.
    """
    active = commits_by_completion(timeline)
    found = newest_write(store, active)
    start = timeline.start
    if start is None or any(each.archived for each in active):
        return found or _newest(store, active, services=True)
    if found is None or found[0].requested < start:  # a savepoint keeps a commit while later ones are archived
        archived = store.kept(f"schema before {start}", lambda: _archived(store, timeline, start))
        if archived is not None:
            return None, archived
    return found or _newest(store, active, services=True)


def newest_write(store: TimelineStore, commits: Iterable[Instant]) -> tuple[Instant, CommitMetadata] | None:
    """Return the last of some commits that is a write and states a schema; None if none does."""
    return _newest(store, commits, services=False)


def commits_by_completion(timeline: Timeline) -> list[Instant]:
    """Return completed commits in order of completion; in layout 1 of their requested times, see `Timeline.order`."""
    return sorted(timeline.commits, key=lambda i: (timeline.order(i), i.requested))


def _archived(store: TimelineStore, timeline: Timeline, start: str) -> CommitMetadata | None:
    """Return what the newest write before the active timeline's start states of the schema; None if it's unknown."""
    if not store.has_history():
        return None
    whole = commits_by_completion(timeline.with_archived(store.archived()))
    found = newest_write(store, [each for each in whole if each.archived or each.requested < start])
    return None if found is None else found[1]


def _newest(
    store: TimelineStore, commits: Iterable[Instant], *, services: bool
) -> tuple[Instant, CommitMetadata] | None:
    for instant in reversed(list(commits)):
        metadata = store.read_commit_metadata(instant)
        is_service = metadata.operation_type in SERVICE_OPERATIONS
        if metadata.extra_metadata.get(SCHEMA_KEY) and is_service is services:
            return instant, metadata
    return None


def build_commit_metadata(
    operation: Operation,
    stats: Sequence[WriteStat],
    schema: TableSchema,
    history: SchemaHistory | None,
    replaced: Mapping[str, tuple[str, ...]] | None,
) -> CommitMetadata:
    """Return the commit metadata of a write, which states the table's schema.

    Args:
        operation: what was done.
        stats: the files that were written.
        schema: the table's schema after the write.
        history: the schemas by id, in a table with schema on read.
        replaced: ids of the replaced file groups, by partition path.
    """
    by_id = {} if history is None else {INTERNAL_SCHEMA_KEY: history.current.to_json()}
    return CommitMetadata(
        partition_to_write_stats=stats_by_partition(stats),
        extra_metadata={SCHEMA_KEY: schema.avro, **by_id},
        operation_type=operation.value,
        partition_to_replace_file_ids=replaced,
    )
