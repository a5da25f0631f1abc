"""Rebuild partitions of the metadata table from the table's files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pudi.action.indexing import build_index
from pudi.action.kinds import registry as kinds
from pudi.action.mdt.build import drop_partitions, make_files
from pudi.action.mdt.client import open_metadata
from pudi.action.meta_client import MetaClient
from pudi.action.rollback import abort, dead_writes, pending_writes
from pudi.concurrency import Liveness
from pudi.config import Options, WriteOptions
from pudi.context.lazy import lazy_module
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import Action, State
from pudi.format.metadata_partitions import FILES
from pudi.task import Engine

if TYPE_CHECKING:
    from pudi.action.services import registry
else:
    registry = lazy_module("pudi.action.services.registry")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionRebuild:
    """The result of a rebuild.

    Attributes:
        built: rebuilt partitions of the metadata table.
        dropped: those that were taken away, and why they weren't made.
    """

    built: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()


def with_dependents(meta: MetaClient, partitions: Collection[str]) -> set[str]:
    """Partitions, and those that can't stay without them: all with `files`; statistics of partitions go with columns'.

    Args:
        meta: the table.
        partitions: some partitions of its metadata table.
    """
    ready = set(meta.config.metadata_partitions)
    doomed = ready if FILES in partitions else ready & set(partitions)
    return kinds.with_companions(doomed) & ready


def rebuild(
    meta: MetaClient, engine: Engine, options: Options, partitions: Collection[str], settle: Callable[[], object]
) -> PartitionRebuild:
    """Delete partitions of the metadata table and build them again from the table's files.

    Writers may go on once they're gone: their commits take part in the building, see `IndexRun`. A crash leaves a table
    without the partitions: its readers list folders and read footers until they're made again.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the user's: how many file groups partitions get, and the like.
        partitions: the damaged partitions; see `with_dependents`.
        settle: called after the deletion and before the build: it rolls back dead writers, for which the metadata table
            must be readable or absent.

    Raises:
        ConflictError: the metadata table is being compacted or gets an index; or, below version 8, an instant is
            pending on the table, whose log files can't be told from others, or a compaction on the metadata table.
            Nothing was done.
    """
    with meta.lock:
        meta.reload()
        doomed = with_dependents(meta, partitions)
        ordered = sorted(doomed, key=kinds.build_order)
        specs = [kind.spec_to_rebuild(meta, name) for name in ordered if (kind := kinds.find_kind(name)) is not None]
        if doomed:
            _check_alone(meta, options, doomed)
            _stop_services(meta, options, doomed)
            drop_partitions(meta, doomed)
        settle()
        timeline = meta.store.load()
        built: list[str] = []
        dropped: list[tuple[str, str]] = []
        if FILES in doomed:
            make_files(meta, timeline)
            built.append(FILES)
    for spec in specs:
        try:
            built += sorted(build_index(meta, engine, spec, options))
        except (InvalidArgumentError, NotSupportedError, ConflictError) as error:
            dropped.append((spec.partition, error.message))
    return PartitionRebuild(tuple(built), tuple(dropped))


def reinitialize_partitions(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write, rebuild indexes whose entries another writer rolled back.

    Where that can't be done now, they stay as they are, which no reader uses: the next write tries again.

    Args:
        meta: the table, with its metadata table as it was opened for the write (`build_metadata`).
        engine: runs the jobs.
        options: the writer's.

    Raises:
        NotFoundError: a file of the table is gone.
        CorruptError: one can't be read.
    """
    if meta.opened.table is None:
        return
    table = meta.opened.table[1]
    # what an index of records lacks is missed for good; without statistics only more files are read
    record_level = any(map(kinds.is_record_level, table.partitions))
    lost = table.ever_invalidated if record_level else table.invalidated
    if not lost:
        return
    try:
        done = rebuild(meta, engine, options, lost, lambda: None)
    except ConflictError as error:
        _log.warning("table %s: %s can't be made anew now: %s", meta.storage.root, ", ".join(sorted(lost)), error)
        return
    meta.opened.table = None
    _log.warning(
        "table %s: another writer had rolled back what indexes hold; made anew: %s; taken away: %s",
        meta.storage.root,
        ", ".join(done.built),
        "; ".join(f"{partition} ({why})" for partition, why in done.dropped) or "none",
    )


def _check_alone(meta: MetaClient, options: Options, doomed: Collection[str]) -> None:
    """Refuse to delete partitions that could not be rebuilt now, or that another process works on."""
    dead = {instant.requested for instant in dead_writes(meta, WriteOptions.of(options))}
    for instant, alive in pending_writes(meta, WriteOptions.of(options)):
        if FILES in doomed and instant.action is Action.INDEXING and alive is Liveness.ALIVE:
            raise ConflictError(
                "an index is being built by another process; repair the table when that is over",
                table=meta.storage.root,
                instant=instant.requested,
            )
        if meta.store.rules.logs_name_their_slice and instant.requested not in dead:
            raise ConflictError(
                f"a {instant.action.value} is pending on the table, whose log files can't be told from others below "
                "version 8; repair the table when that is over",
                table=meta.storage.root,
                instant=instant.requested,
            )


def _stop_services(meta: MetaClient, options: Options, doomed: Collection[str]) -> None:
    """Abort compactions of the metadata table that no process runs, whose plans name files that will be deleted."""
    try:
        mdt = open_metadata(meta)
    except (CorruptError, NotSupportedError):
        return
    for instant, alive in pending_writes(mdt, WriteOptions.of(options)):
        if instant.action not in registry.planned_actions():
            continue
        if alive is Liveness.ALIVE or (alive is Liveness.UNKNOWN and instant.state is State.INFLIGHT):
            raise ConflictError(
                "the metadata table is being compacted by another process; repair it when that is over",
                table=meta.storage.root,
                instant=instant.requested,
            )
        if meta.store.rules.logs_name_their_slice and FILES not in doomed:
            raise ConflictError(
                "a compaction of the metadata table is planned, whose instant the log files of all its partitions bear "
                "since, below version 8: have a write run it first, or repair 'files', with which all are made anew",
                table=meta.storage.root,
                instant=instant.requested,
            )
        abort(mdt, instant, dead=True)
