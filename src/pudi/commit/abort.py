"""Abort a write of this process, or of one that died: it was never there, and no rollback mentions it."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.client.hash_rings import discard_rings
from pudi.client.meta_client import MetaClient
from pudi.commit.commit_hook import discard_metadata
from pudi.commit.rollback import RING_CHANGES, roll_back, without_hidden
from pudi.filegroup import Markers, unmarked_files
from pudi.format import State, heartbeat_path, plan_run_path
from pudi.metadata_write.rollback import block_requests, roll_back_blocks
from pudi.timeline import Instant


def abort(meta: MetaClient, target: Instant, *, dead: bool = False, written: Sequence[str] = ()) -> None:
    """Discard a write of this process as if it had never begun: no rollback instant mentions it.

    Below version 8 its log files stay, and a rollback records them in the metadata table.

    Args:
        meta: the table.
        target: the write, pending.
        dead: whether it belongs to another process, which died.
        written: files that it wrote, relative to the root. A process that rolled it back may have deleted the markers
            of files that came after.

    Raises:
        CorruptError: its markers can't be read; nothing was deleted.
    """
    with meta.lock:
        markers = Markers(meta.storage, target.requested)
        if written:
            markers.create_missing(written)
        appended = without_hidden(meta, target.requested, markers.appended())
        files, blocks = markers.files(), block_requests(meta.storage, appended)
        if blocks and meta.config.metadata_partitions:  # log files stay: the metadata table must list them
            roll_back(meta, target)
            return
        if dead:  # if it lives after all, it can't complete without this file, and those that it wrote go now
            meta.delete_locked([meta.store.path(target, State.INFLIGHT)])
        if target.action in RING_CHANGES:
            discard_rings(meta, target.requested)
        meta.delete_locked(files)
        if dead:
            meta.delete_locked(unmarked_files(meta.storage, target.requested, meta.store.layout))
        roll_back_blocks(meta.storage, target.requested, target.requested, blocks, meta.lock.verify)
        discard_metadata(meta, target.requested)
        meta.store.discard(target)
        markers.delete()
        meta.storage.delete([heartbeat_path(target.requested), plan_run_path(target.requested)])
