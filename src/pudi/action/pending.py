"""What every write goes through: an inflight instant with a heartbeat, and the metadata table switched off if asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pudi.action.meta_client import MetaClient
from pudi.action.properties import update_properties
from pudi.action.rollback import take_back
from pudi.concurrency import Heartbeat
from pudi.config import Options, TableConfig, WriteOptions, must_switch_off_metadata
from pudi.errors import PudiError
from pudi.format import METADATA_DIR, Action, State
from pudi.timeline import Instant


@contextmanager
def pending(meta: MetaClient, action: Action, options: WriteOptions) -> Iterator[Instant]:
    """An inflight instant with a heartbeat. On an error it's taken back, unless it completed all the same."""
    hearts: list[Heartbeat] = []

    def beat(requested: str) -> None:
        hearts.append(Heartbeat(meta.storage, requested, meta.context, options.heartbeat_interval_ms))
        hearts[-1].start()

    instant: Instant | None = None
    try:
        instant = meta.store.request(action, on_requested=beat)
        instant = meta.store.start(instant)
        yield instant
    except BaseException as error:
        for heart in hearts:  # what a failing clean-up leaves behind, the next writer must find dead
            heart.stop(delete=False)
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)) and instant is not None:
            _undo(meta, instant)
        raise
    for heart in hearts:
        heart.stop()


def _undo(meta: MetaClient, instant: Instant) -> None:
    try:
        found = meta.store.load().find(instant.requested, instant.action)
        if found is None or found.state is not State.COMPLETED:  # None: somebody took this writer for dead
            take_back(meta, instant)
    except PudiError:
        return  # the first error is the one to tell; the next writer finds this instant dead and rolls it back


def switch_metadata_table_off(meta: MetaClient, resolved: Options) -> None:
    """Do what the user asked for by hoodie.metadata.enable=false: a metadata table that isn't kept must go."""
    if not must_switch_off_metadata(meta.config, resolved):
        return
    root = meta.storage.root
    with meta.lock:
        changed = update_properties(
            meta.storage,
            meta.context,
            lambda old: TableConfig.parse(old, table=root).without_metadata_table(table=root).to_properties(),
        )
        meta.config = TableConfig.parse(changed, table=root)
        meta.storage.delete([info.path for info in meta.storage.list(METADATA_DIR)])
