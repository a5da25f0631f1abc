"""Steps of a write: delete files of failed task attempts, create partition metadata, build the commit metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pudi.client.meta_client import MetaClient
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, SCHEMA_KEY
from pudi.errors import TableExistsError
from pudi.filegroup import Markers
from pudi.format import (
    CommitMetadata,
    PartitionMetadata,
    WriteStat,
    encode_partition_metadata,
    partition_metadata_path,
)
from pudi.plan import Operation
from pudi.schema.internal import SchemaHistory
from pudi.storage import delete_for_good
from pudi.timeline import Instant
from pudi.timeline.guards import taken_for_dead


def reconcile_markers(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Delete the files of failed or duplicate task attempts (HoodieTable.reconcileAgainstMarkers).

    A writer that stood still for long may have been rolled back, markers and all, before it wrote its files. It
    marks them again then: whoever undoes the write finds them, also if this process dies first.

    Raises:
        ConflictError: another writer rolled the instant back.
    """
    markers = Markers(meta.storage, instant.requested)
    named = [*markers.files(), *markers.appended()]
    written = {path for stat in stats for path in stat.paths}
    unmarked = written - set(named)
    if unmarked and meta.store.load().find(instant.requested, instant.action) is None:
        markers.create_missing(unmarked)
        raise taken_for_dead(instant, meta.storage.root)
    delete_for_good(meta.storage, sorted(set(named) - written))


def add_partitions(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Write the partition metadata file into each folder that may be new."""
    begun = [s for s in stats if s.prev_base_file is None and (s.num_inserts or s.log_version is None)]

    def add(file: tuple[str, bytes]) -> None:
        with suppress(TableExistsError):
            meta.storage.create(*file, durable=True)

    files = []
    for partition in sorted({s.partition_path or "" for s in begun}):
        depth = len(partition.split("/")) if partition else 0
        content = encode_partition_metadata(PartitionMetadata(instant.requested, depth), meta.context.clock.now_ms())
        files.append((partition_metadata_path(partition), content))
    meta.context.executor.map(add, files)


def build_commit_metadata(
    operation: Operation,
    stats: Sequence[WriteStat],
    schema_json: str,
    history: SchemaHistory | None,
    replaced: Mapping[str, tuple[str, ...]] | None,
    extra: Mapping[str, str],
) -> CommitMetadata:
    """Return the commit metadata of a write.

    Args:
        operation: what was done.
        stats: the files that were written.
        schema_json: the table's schema as Avro.
        history: the schemas by id, in a table with schema on read.
        replaced: ids of the replaced file groups, by partition path.
        extra: extra metadata, by key.
    """
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path or "", []).append(stat)
    by_id = {} if history is None else {INTERNAL_SCHEMA_KEY: history.current.to_json()}
    return CommitMetadata(
        partition_to_write_stats={p: tuple(group) for p, group in by_partition.items()},
        extra_metadata={**extra, SCHEMA_KEY: schema_json, **by_id},
        operation_type=operation.value,
        partition_to_replace_file_ids=replaced,
    )
