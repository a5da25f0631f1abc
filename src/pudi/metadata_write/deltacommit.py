"""Begin and complete the deltacommits of a metadata table: for commits of the table, and for new partitions.

Source: HoodieBackedTableMetadataWriter.commitInternal, BaseCommitActionExecutor.saveWorkloadProfileMetadata.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pudi.client.meta_client import MetaClient
from pudi.client.schema_commit import SCHEMA_KEY
from pudi.errors import ConflictError, TableExistsError
from pudi.format import Action, CommitMetadata, WriteStat
from pudi.metadata.records import RECORD_AVRO
from pudi.schema import META_FIELDS
from pudi.timeline import NO_COMMIT, Instant, Timeline

_UPSERT = "UPSERT_PREPPED"
_BULK_INSERT = "BULK_INSERT_PREPPED"
_NEW_GROUPS = WriteStat(file_id="", prev_commit=NO_COMMIT)

Stats = Mapping[str, tuple[WriteStat, ...]]
"""Write statistics by partition of the metadata table."""


def _own_avro() -> str:
    """Return the records' schema without meta fields, as commits state it."""
    schema: dict[str, Any] = json.loads(RECORD_AVRO)
    fields = [each for each in schema["fields"] if each["name"] not in META_FIELDS]
    return json.dumps({**schema, "fields": fields}, separators=(",", ":"))


_OWN_AVRO = _own_avro()


def begin_deltacommit(
    mdt: MetaClient, requested: str, profile: Mapping[str, Sequence[WriteStat]] | None = None
) -> Instant:
    """Request and start a deltacommit, under the table's lock.

    Args:
        mdt: the metadata table.
        requested: the instant.
        profile: the file groups that it may update, by partition; None for a deltacommit that makes partitions.

    Returns:
        The inflight instant.

    Raises:
        ConflictError: a process that was taken for dead has come back and begun it meanwhile; it can't complete it.
    """
    planned: bytes | CommitMetadata = b""
    if profile is not None:
        groups = {partition: (_NEW_GROUPS, *stats) for partition, stats in profile.items()}
        planned = CommitMetadata(groups, operation_type=_UPSERT)
    request = mdt.store.request(Action.DELTACOMMIT, at=requested, durable=profile is None)
    try:
        return mdt.store.start(request, planned)
    except TableExistsError as error:
        raise ConflictError(
            "another process, which was taken for dead, has come back to this instant and will notice: try again",
            table=mdt.storage.root,
            instant=requested,
        ) from error


def complete_update(mdt: MetaClient, instant: Instant, stats: Stats, listed: Timeline) -> Instant:
    """Complete the deltacommit of a commit of the table, under the table's lock.

    Args:
        mdt: the metadata table.
        instant: the inflight deltacommit.
        stats: what it wrote.
        listed: the metadata table's timeline, with the instant.
    """
    done = metadata_deltacommit(stats, _UPSERT)
    return mdt.store.complete(instant, done, listed=listed, started_durably=True)  # its inflight file has a plan


def complete_partitions(mdt: MetaClient, instant: Instant, stats: Stats, partitions: Collection[str]) -> Instant:
    """Complete a deltacommit that makes partitions, under the table's lock.

    Args:
        mdt: the metadata table.
        instant: the inflight deltacommit.
        stats: what it wrote.
        partitions: the partitions, which may have file groups without records: `stats` don't name these.
    """
    return mdt.store.complete(instant, metadata_deltacommit(stats, _BULK_INSERT), also=list(partitions))


def metadata_deltacommit(stats: Stats, operation: str) -> CommitMetadata:
    """Return the commit metadata of an instant of the metadata table."""
    return CommitMetadata(stats, extra_metadata={SCHEMA_KEY: _OWN_AVRO}, operation_type=operation)
