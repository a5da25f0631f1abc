"""Bring a table to rest: complete what writers left, compact, clean, and see that no process writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from posixpath import basename
from typing import TypeVar

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.commit.dead_writers import repair_dead_writes
from pudi.config import (
    CompactionOptions,
    Options,
)
from pudi.errors import BlockedError, ConflictError
from pudi.filegroup import StorageListing
from pudi.format import LogFileName, parse_data_file
from pudi.indexing.rebuild import finish_rebuild
from pudi.services.registry import service_named
from pudi.services.runner import run, run_pending
from pudi.services.service import PlannedService
from pudi.services.target import ServiceTarget, clean_to
from pudi.task import Engine

_T = TypeVar("_T")

_ATTEMPTS = 3
"""Number of times that the table is brought to rest before the caller gives way to other writers."""


def at_rest(
    meta: MetaClient, engine: Engine, options: Options, *, logs: bool, act: Callable[[TableSnapshot], _T]
) -> _T:
    """Complete what is pending, compact and clean; then, while no process writes, do something under the table's lock.

    Args:
        meta: the table.
        engine: runs the jobs.
        options: the caller's options.
        logs: whether older file slices may keep their log files.
        act: what to do.

    Returns:
        The result of `act`.

    Raises:
        ConflictError: other writers don't let the table come to rest.
    """
    given = {**options.given, CompactionOptions.strategy.key: "UnBoundedCompactionStrategy"}
    if not logs:
        given |= clean_to(1)
    target = ServiceTarget.of_table(meta, engine, replace(options, given=given))
    busy: ConflictError | None = None
    for _ in range(_ATTEMPTS):
        repair_dead_writes(meta, options)
        finish_rebuild(meta, engine, options)  # definitions may go with the old layout
        run_pending(target)
        if meta.merges_on_read:
            _run(target, "compaction")
        if not logs:
            _run(target, "clean")
        with meta.lock:
            meta.reload()
            snapshot = TableSnapshot.load(meta, options)
            busy = _busy(snapshot, logs=logs)
            if busy is None:
                return act(snapshot)
    assert busy is not None
    raise busy


def _run(target: ServiceTarget, name: str) -> None:
    service = service_named(name, target.meta.storage.root)
    assert isinstance(service, PlannedService)
    run(service, target)


def _busy(snapshot: TableSnapshot, *, logs: bool) -> ConflictError | None:
    """Return why a table can't be moved now; None if it can.

    Args:
        snapshot: the table, loaded under its lock.
        logs: whether older file slices may have log files.
    """
    meta, root = snapshot.meta, snapshot.table
    for each in snapshot.timeline.pending:
        return BlockedError(
            f"a {each.action.value} is pending: wait until it's over, or stop its process",
            table=root,
            instant=each.requested,
        )
    if not meta.merges_on_read:
        return None
    if any(each.logs for each in snapshot.view(sizes=False).all_slices()):
        return BlockedError("other writers add log files faster than they are compacted: stop them", table=root)
    if logs:
        return None
    for infos in StorageListing(meta.storage).all_files().values():
        for info in infos:
            if isinstance(parse_data_file(basename(info.path)), LogFileName):
                return BlockedError(
                    "a log file of an older file slice is left, which version 6 can't read: see what keeps it from "
                    "being cleaned (`pudi doctor`)",
                    table=root,
                    path=info.path,
                )
    return None
