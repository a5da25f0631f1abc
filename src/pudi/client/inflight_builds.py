"""Indexes that are being built while writers go on, and that commits already maintain.

A build creates its file groups before it lists the index as inflight in the properties. From then on each commit
updates them, as it updates ready partitions; the base files, whenever they are written, contain everything before.

Source: RunIndexActionExecutor, HoodieBackedTableMetadataWriter.getMetadataPartitionsToUpdate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.errors import BlockedError, NotFoundError
from pudi.format import METADATA_DIR, Action, State, parse_data_file
from pudi.format.metadata_partitions import with_companions
from pudi.format.plans import IndexedPartition, decode_index_plan
from pudi.timeline import Instant, Timeline

_STARTING_MS = 120_000
"""Milliseconds to wait for an index build that Hudi announced in the table properties, until its file groups exist."""


def plan_of(meta: MetaClient, instant: Instant) -> tuple[IndexedPartition, ...]:
    """Return the plan of a pending index build.

    Raises:
        CorruptError: its plan can't be read.
    """
    return meta.store.read_plan(instant, decode_index_plan)


def partitions_of(meta: MetaClient, instant: Instant) -> set[str]:
    """Return the partitions that a pending index build creates: those of its plan, and their companions."""
    return with_companions({each.partition for each in plan_of(meta, instant)})


def inflight_partitions(meta: MetaClient) -> Mapping[str, str]:
    """Return the partitions that are being built and maintained by commits, each with the instant of its build.

    Raises:
        ConflictError: Hudi has just begun to build one and has not made its file groups yet.
    """
    said = set(meta.config.metadata_partitions_inflight)
    if not said:
        return {}
    found: dict[str, str] = {}
    for instant in meta.store.load().of(Action.INDEXING, State.INFLIGHT):
        for partition in partitions_of(meta, instant) & said:
            if _has_groups(meta, partition):
                found[partition] = instant.requested
            elif meta.context.clock.now_ms() - _began(meta, instant) < _STARTING_MS:
                raise BlockedError(
                    f"another process is just beginning to build the index {partition}; retry",
                    table=meta.storage.root,
                    instant=instant.requested,
                )
    return found


def maintained_partitions(meta: MetaClient) -> tuple[str, ...]:
    """Return the partitions of the metadata table that commits maintain: those that are ready or being built."""
    return (*meta.config.metadata_partitions, *inflight_partitions(meta))


def with_inflight_builds(own: Timeline, instants: Collection[str]) -> Timeline:
    """Return the metadata table's timeline with the deltacommits of inflight builds as completed.

    Args:
        own: its timeline.
        instants: requested times of the builds.
    """
    if not instants:
        return own

    def done(instant: Instant) -> Instant:
        if instant.is_completed or instant.action is not Action.DELTACOMMIT or instant.requested not in instants:
            return instant
        completion = instant.requested if own.rules.has_completion_times else None
        return replace(instant, state=State.COMPLETED, completion=completion)

    return replace(own, instants=tuple(done(instant) for instant in own.instants))


def with_maintained(meta: MetaClient, mdt: MetaClient) -> TableSnapshot:
    """Return the metadata table as it is now, in which the file groups of all maintained partitions are visible."""
    own = TableSnapshot.load(mdt)
    return own.at(with_inflight_builds(own.timeline, set(inflight_partitions(meta).values())))


def _has_groups(meta: MetaClient, partition: str) -> bool:
    files, _ = meta.storage.list_dir(f"{METADATA_DIR}/{partition}")
    return any(parse_data_file(basename(info.path)) is not None for info in files)


def _began(meta: MetaClient, instant: Instant) -> int:
    try:
        return meta.storage.head(meta.store.path(instant)).modified_ms
    except NotFoundError:
        return 0
