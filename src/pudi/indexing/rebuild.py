"""Rebuild partitions of the metadata table from the table's files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import dead_writes, pending_writes
from pudi.commit.rollback import abort
from pudi.concurrency import Liveness
from pudi.config import Options, WriteOptions, metadata_switched_off
from pudi.errors import BlockedError, ConflictError, CorruptError, InvalidArgumentError, NotSupportedError, PudiError
from pudi.format import Action, State
from pudi.format.metadata_partitions import FILES, with_companions
from pudi.indexes import registry as kinds
from pudi.indexing.indexing import build_index
from pudi.metadata_write.build import drop_partitions, hides_logs, make_files
from pudi.metadata_write.client import open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.task import Engine

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PartitionRebuild:
    """The result of a rebuild.

    Attributes:
        built: rebuilt partitions of the metadata table.
        dropped: partitions that were dropped and not rebuilt, with the reason.
    """

    built: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()


def with_dependents(meta: MetaClient, partitions: Collection[str]) -> set[str]:
    """Return partitions with their dependents: all for `files`; `partition_stats` for `column_stats`, and vice versa.

    Args:
        meta: the table.
        partitions: some partitions of its metadata table.
    """
    ready = set(meta.config.metadata_partitions)
    doomed = ready if FILES in partitions else ready & set(partitions)
    return with_companions(doomed) & ready


def rebuild(
    meta: MetaClient, engine: Engine, options: Options, partitions: Collection[str], before_build: Callable[[], object]
) -> PartitionRebuild:
    """Delete partitions of the metadata table and build them again from the table's files.

    After the deletion writers go on, and their commits update the new partitions, see `IndexRun`. A crash leaves a
    table without the partitions: readers list folders and read footers until the next write, or `finish_rebuild`, has
    rebuilt them. The properties list them until then.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the user's, such as the number of file groups of a partition.
        partitions: the damaged partitions; see `with_dependents`.
        before_build: called after the deletion: it rolls back dead writers, for which the metadata table must be
            readable or absent.

    Raises:
        ConflictError: the metadata table is being compacted or gets an index. Below version 8 also: a write or a
            compaction is pending on the table, see `hides_logs`, or a compaction on the metadata table. Nothing was
            changed.
    """
    with meta.lock:
        meta.reload()
        doomed = with_dependents(meta, partitions)
        specs = _specs(meta, doomed)
        if doomed:
            _check_alone(meta, options, doomed)
            _stop_services(meta, options, doomed)
            drop_partitions(meta, doomed, rebuild={*meta.config.metadata_partitions_to_rebuild, *doomed})
        before_build()
        fitted = {spec.partition for spec in specs if kinds.kind_of(spec.partition).needs_columns}
        specs = [*_specs(meta, fitted), *(spec for spec in specs if spec.partition not in fitted)]  # of the schema now
        specs.sort(key=lambda spec: kinds.build_order(spec.partition))
        built: list[str] = []
        if FILES in doomed:
            make_files(TableSnapshot.load(meta, options))
            built.append(FILES)
    return _build(meta, engine, options, specs, built)


def finish_rebuild(meta: MetaClient, engine: Engine, options: Options, *, died: bool = True) -> PartitionRebuild:
    """Rebuild the partitions that a restore, a rollback, a repair or an upgrade deleted before it died.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the user's.
        died: whether another process has deleted them, which is logged.
    """
    if not meta.config.metadata_partitions_to_rebuild or metadata_switched_off(options):
        return PartitionRebuild()
    built: list[str] = []
    with meta.lock:
        meta.reload()
        noted = meta.config.metadata_partitions_to_rebuild
        if noted and FILES not in meta.config.metadata_partitions:
            snapshot = TableSnapshot.load(meta, options)
            hiding = [instant for instant in snapshot.timeline.pending if hides_logs(meta, instant)]
            if hiding:
                why = f"a {hiding[0].action.value} is pending"
                return PartitionRebuild((), tuple((name, why) for name in noted))
            make_files(snapshot)
            built.append(FILES)
        specs = _specs(meta, noted)
    done = _build(meta, engine, options, specs, built)
    level = logging.WARNING if died else logging.DEBUG
    _log.log(
        level,
        "table %s: a process died that had deleted indexes to rebuild them; rebuilt: %s; not rebuilt: %s",
        meta.storage.root,
        ", ".join(done.built) or "none",
        "; ".join(f"{partition} ({why})" for partition, why in done.dropped) or "none",
    )
    return done


def rebuild_around(meta: MetaClient, engine: Engine, options: Options, run: Callable[[], _Result]) -> _Result:
    """Take commits back under the table's lock; a metadata table is dropped before, and rebuilt after it.

    What a dead run dropped is rebuilt, too. If it fails with a rollback or a restore begun, whoever completes that
    rebuilds the metadata table: what it rolls back must not be in the new indexes.

    Args:
        meta: the table.
        engine: builds indexes.
        options: the caller's.
        run: rolls back, or restores.
    """
    done: list[_Result] = []
    failed: list[PudiError] = []

    def attempt() -> None:
        try:
            done.append(run())
        except PudiError as error:
            if _is_undoing(meta):
                raise
            failed.append(error)  # nothing has changed, and the metadata table is rebuilt all the same

    # no process writes, or the restore would have been refused; what is pending is what a dead restore has hidden
    eager = options.having({WriteOptions.failed_writes_policy.key: "EAGER"})
    if FILES in meta.config.metadata_partitions:
        rebuild(meta, engine, eager, [FILES], attempt)
    else:
        with meta.lock:
            attempt()
        if not failed:
            finish_rebuild(meta, engine, eager)
    if failed:
        raise failed[0]
    return done[0]


def _is_undoing(meta: MetaClient) -> bool:
    return any(each.action in {Action.ROLLBACK, Action.RESTORE} for each in meta.store.load().pending)


def _specs(meta: MetaClient, partitions: Collection[str]) -> list[IndexSpec]:
    ordered = sorted(partitions, key=kinds.build_order)
    return [kind.spec_to_rebuild(meta, name) for name in ordered if (kind := kinds.find_kind(name)) is not None]


def _build(
    meta: MetaClient, engine: Engine, options: Options, specs: Collection[IndexSpec], built: Sequence[str]
) -> PartitionRebuild:
    """Build indexes. One that the table can't have any more is no longer to be rebuilt; a disturbed one still is."""
    made, dropped = list(built), []
    impossible: set[str] = set()
    for spec in specs:
        try:
            made += sorted(build_index(meta, engine, spec, options))
        except (InvalidArgumentError, NotSupportedError, ConflictError) as error:
            dropped.append((spec.partition, error.message))
            waits = set(kinds.kind_of(spec.partition).requires) & set(meta.config.metadata_partitions_to_rebuild)
            if not isinstance(error, ConflictError) and not waits - impossible:
                impossible.add(spec.partition)
    if impossible:
        with meta.lock:
            meta.reload()
            left = set(meta.config.metadata_partitions_to_rebuild) - with_companions(impossible)
            drop_partitions(meta, (), rebuild=left)
    return PartitionRebuild(tuple(made), tuple(dropped))


def reinitialize_partitions(meta: MetaClient, engine: Engine, options: Options) -> None:
    """Before a write, rebuild indexes whose entries another writer rolled back.

    If that fails now, they stay as they are; no reader uses them, and the next write tries again.

    Args:
        meta: the table, with its metadata table as it was opened for the write (`build_metadata`).
        engine: runs the jobs.
        options: the writer's.

    Raises:
        NotFoundError: a file of the table is missing.
        CorruptError: a file can't be read.
    """
    if meta.opened.table is None:
        return
    table = meta.opened.table[1]
    # readers would miss what a record-level index lacks; missing statistics only cost time
    record_level = any(map(kinds.is_record_level, table.partitions))
    lost = table.ever_invalidated if record_level else table.invalidated
    if not lost:
        return
    try:
        done = rebuild(meta, engine, options, lost, lambda: None)
    except ConflictError as error:
        _log.warning("table %s: %s can't be rebuilt now: %s", meta.storage.root, ", ".join(sorted(lost)), error)
        return
    meta.opened.table = None
    _log.warning(
        "table %s: another writer had rolled back entries of indexes; rebuilt: %s; dropped: %s",
        meta.storage.root,
        ", ".join(done.built),
        "; ".join(f"{partition} ({why})" for partition, why in done.dropped) or "none",
    )


def _check_alone(meta: MetaClient, options: Options, doomed: Collection[str]) -> None:
    """Refuse to delete partitions that can't be rebuilt now, or that another process is building or compacting."""
    snapshot = TableSnapshot.load(meta, options)
    dead = {instant.requested for instant in dead_writes(snapshot)}
    for instant, alive in pending_writes(snapshot):
        if FILES in doomed and instant.action is Action.INDEXING and alive is Liveness.ALIVE:
            raise ConflictError(
                "an index is being built by another process; repair the table when that is over",
                table=meta.storage.root,
                instant=instant.requested,
            )
        own = instant.action in {Action.RESTORE, Action.ROLLBACK}  # under this lock
        if hides_logs(meta, instant) and instant.requested not in dead and not own:
            planned = instant.action.is_planned and alive is not Liveness.ALIVE
            raise BlockedError(
                f"a {instant.action.value} is pending on the table, and below version 8 the metadata table can't be "
                "rebuilt meanwhile, since log files have the name of their slice only: "
                + ("run it (Table.run_pending), then try again" if planned else "try again when it's over"),
                table=meta.storage.root,
                instant=instant.requested,
            )


def _stop_services(meta: MetaClient, options: Options, doomed: Collection[str]) -> None:
    """Abort plans to compact files that will be deleted, if no process runs them."""
    try:
        mdt = open_metadata(meta)
    except (CorruptError, NotSupportedError):
        return
    for instant, alive in pending_writes(TableSnapshot.load(mdt, options)):
        if not instant.action.is_planned:
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
                "since, below version 8: have a write run it first, or repair 'files', which rebuilds all",
                table=meta.storage.root,
                instant=instant.requested,
            )
        abort(mdt, instant, dead=True)
