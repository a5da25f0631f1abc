"""Undo an index build that died, or complete it if it had written everything.

Source: RunIndexActionExecutor, HoodieBackedTableMetadataWriter.deletePendingIndexingInstant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pudi.client import MetaClient, TableSnapshot
from pudi.client.inflight_builds import partitions_of, plan_of
from pudi.client.result import CLEAN_UP, after_commit
from pudi.commit.liveness import liveness_of
from pudi.concurrency import Liveness
from pudi.config import WriteOptions
from pudi.format import METADATA_DIR, Action, State, heartbeat_path, staging_dir
from pudi.format.metadata_partitions import FILES
from pudi.format.plans import IndexedPartition, encode_index_commit
from pudi.metadata_write.build import drop_partitions, set_partitions
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.rollback import discard_deltacommit
from pudi.storage import delete_folder, delete_for_good
from pudi.timeline import Instant


def is_dead_building(meta: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Return whether certainly no process runs a pending index build: it has not begun, or its heartbeat has expired.

    Hudi's builds have no heartbeat: once begun, they may be alive at any time.

    Args:
        meta: the table.
        instant: the indexing.
        options: the heartbeat's limits.
    """
    seen = meta.context.clock.now_ms() if instant.state is State.INFLIGHT else 0
    return liveness_of(meta, instant.requested, options, seen) is Liveness.DEAD


def revert_index_build(meta: MetaClient, instant: Instant) -> Instant | None:
    """Undo a dead index build, under the table's lock: delete its files and revert its instant to requested.

    If it has written everything, complete it instead.

    Args:
        meta: the table.
        instant: the pending indexing.

    Returns:
        The requested instant; None if the build is completed now.
    """
    meta.reload()
    doomed = partitions_of(meta, instant)
    if FILES in meta.config.metadata_partitions:
        mdt = open_metadata(meta)
        own = TableSnapshot.load(mdt).timeline.find(instant.requested, Action.DELTACOMMIT)
        if own is not None and own.is_completed and instant.state is State.INFLIGHT:
            complete_index(meta, instant, set(mdt.store.read_commit_metadata(own).partition_to_write_stats))
            return None
        building = doomed & set(meta.config.metadata_partitions_inflight)
        if building:
            drop_partitions(meta, building)
        for partition in sorted(doomed - building - set(meta.config.metadata_partitions)):
            delete_folder(meta.storage, f"{METADATA_DIR}/{partition}")
        discard_deltacommit(mdt, instant.requested)
        mdt.storage.delete([heartbeat_path(instant.requested)])
    delete_folder(meta.storage, staging_dir(instant.requested))
    delete_for_good(meta.storage, [meta.store.path(instant, State.INFLIGHT)])
    meta.storage.delete([heartbeat_path(instant.requested)])
    return replace(instant, state=State.REQUESTED)


def complete_index(meta: MetaClient, instant: Instant, written: Iterable[str]) -> Instant:
    """Complete an index build, under the table's lock: first in the properties, as Hudi does, then on the timeline.

    Args:
        meta: the table.
        instant: the indexing, inflight.
        written: the partitions that its completed deltacommit wrote to.
    """
    plan = plan_of(meta, instant)
    made = {each.partition for each in plan} | (set(written) & partitions_of(meta, instant))
    ready, building = set(meta.config.metadata_partitions), set(meta.config.metadata_partitions_inflight)
    if not made <= ready:
        set_partitions(meta, ready=ready | made, building=building - made)
    newest = TableSnapshot.load(meta).commits[-1:]
    until = newest[0].requested if newest else ""
    done = encode_index_commit([IndexedPartition(each.partition, until or each.until) for each in plan])
    completed = meta.store.complete(instant, done)
    with after_commit(CLEAN_UP, meta.storage.root):
        for storage in (open_metadata(meta).storage, meta.storage):
            storage.delete([heartbeat_path(instant.requested)])
    return completed
