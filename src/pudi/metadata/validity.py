"""Decide which instants and partitions of the metadata table count, and whether it is up to date with the table.

A partition whose first entries were rolled back doesn't count, although the table lists it as ready. If Hudi's CREATE
INDEX runs directly after another index build, it rolls that build back, since it uses the same instant
(HoodieBackedTableMetadataWriter.generateUniqueInstantTime, SparkHoodieBackedTableMetadataWriter.commitInternal). The
entries that writers add afterwards then look like the whole index.

Source: HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from posixpath import basename

from pudi.filegroup import CommittedLogs, LogScope
from pudi.format import INIT_INSTANT, Action, Layout, parse_base_file
from pudi.timeline import Instant, Timeline, TimelineStore

_LOG = "a log file of the metadata table"
_REMEDY = "rebuild the index: `pudi repair`"
_BUILT = re.compile(r"[0-9]{17}0[1-9][0-9]")
"""Requested time, below version 8, of a deltacommit that creates a partition: the table's newest instant, and a suffix
from 010 on."""


def scope_of(data: Timeline, metadata: Timeline, store: TimelineStore | None = None) -> LogScope:
    """Return the instants whose log blocks count.

    The metadata table's deltacommit completes before the table's commit, and counts only after that completed too. An
    instant that is pending on the table's timeline is still running, or died between the two. Instants that the table
    lacks are initial commits and the metadata table's own services.

    Args:
        data: the table's active timeline, loaded before the metadata table's.
        metadata: the metadata table's active timeline.
        store: the storage of the metadata table's timeline; None if its log files aren't read.
    """
    pending = frozenset(i.requested for i in data.pending)
    completed = frozenset(i.requested for i in metadata.instants if i.is_completed)
    own = frozenset(i.requested for i in metadata.pending)
    committed = None
    if store is not None:
        committed = replace(CommittedLogs.of(store, metadata, metadata.start), called=_LOG, remedy=_REMEDY)
    return LogScope(completed - pending, pending | own, metadata.start, committed=committed)


def missing(
    data: Timeline, metadata: Timeline, archived: Callable[[], Iterable[Instant]] = lambda: ()
) -> Instant | None:
    """Return a completed write of the table that the metadata table lacks; None if it is up to date.

    Hudi trusts the table's properties alone, but a writer without support for metadata tables may have written.

    Args:
        data: the table's active timeline, loaded before the metadata table's.
        metadata: the metadata table's active timeline.
        archived: reads the instants in the metadata table's archive; called if the active timeline lacks one.
    """
    lacking = _missing(data, metadata.instants, metadata.commits, metadata.layout)
    if lacking is None or any(i.requested == f"{INIT_INSTANT}000" for i in metadata.commits):
        return lacking
    older = tuple(archived())
    return _missing(data, (*older, *metadata.instants), (*older, *metadata.commits), metadata.layout, whole=True)


def _missing(
    data: Timeline, instants: Iterable[Instant], commits: Sequence[Instant], layout: Layout, *, whole: bool = False
) -> Instant | None:
    """Return what `missing` returns; `whole` if the metadata table's archived instants are among them."""
    known = {i.requested for i in instants if i.is_completed}
    initial = [i for i in commits if i.requested.startswith(INIT_INSTANT)]
    since = min((i.completion or "" for i in initial), default=None)
    later = sorted(i.requested for i in commits if not i.requested.startswith(INIT_INSTANT))
    # a plan that is older than the metadata table may complete after its creation: that isn't where it begins
    built = [requested for requested in later if whole and _BUILT.fullmatch(requested)]
    first = next(iter(built or later), None)
    for instant in reversed(data.commits):
        if instant.archived or instant.requested in known or instant.layout != layout:
            continue
        if since is not None:
            # earlier commits were listed when the metadata table was created
            if instant.completion is not None and instant.completion > since:
                return instant
        elif first is not None and instant.requested > first:
            return instant
    return None


def lost_commit(data: Timeline, metadata: Timeline, store: TimelineStore) -> Instant | None:
    """Return a pending deltacommit of the metadata table that has completed, so that its completed file is gone.

    The first deltacommit makes the list of files, and others follow only when it is there. Any other one completes
    before the table's instant of the same time. Where Hudi rolled back an index build and uses its time again, such a
    pending deltacommit is the next build, and nothing is lost.

    Args:
        data: the table's active timeline, loaded before the metadata table's.
        metadata: the metadata table's active timeline; it has completed commits.
        store: the storage of the metadata table's timeline.

    Raises:
        CorruptError: a rollback of the metadata table can't be read.
        NotFoundError: a rollback is gone from the timeline and not in the archive.
    """
    pending = metadata.pending_of(Action.DELTACOMMIT)
    for instant in pending:
        if instant.requested == f"{INIT_INSTANT}000":
            return instant
    done = {i.requested for i in data.instants if i.is_completed and i.layout == metadata.layout}
    lost = next((i for i in pending if i.requested in done), None)
    if lost is None or lost.requested in _rolled_back(metadata, store):
        return None
    return lost


def _rolled_back(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """Requested times of deltacommits that rollbacks of the metadata table took back."""
    found = (each for rollback in own.of(Action.ROLLBACK) for each in store.decoded(rollback)["instantsRollback"])
    return frozenset(each["commitTime"] for each in found)


def is_known_to(
    scope: LogScope, metadata: Timeline, data: Timeline, is_own: Callable[[Instant], bool] = lambda _: False
) -> bool:
    """Return whether the table's timeline, loaded before, has all commits that the metadata table has.

    Record locations are those of the newest commit, so a reader that doesn't see that commit must not use them.

    Args:
        scope: the instants whose log blocks count.
        metadata: the metadata table's active timeline.
        data: the data table's active timeline.
        is_own: returns whether a deltacommit that isn't on the table's timeline belongs to the metadata table itself: a
            log compaction, or the creation of a partition.
    """
    known = {i.requested for i in data.instants if i.is_completed}
    return all(
        i.requested in known or (data.start is not None and i.requested < data.start) or is_own(i)
        for i in metadata.commits
        if i.action is Action.DELTACOMMIT and i.requested in scope.completed
    )


_seen_until: dict[str, str] = {}
"""Locations of metadata tables with the time up to which this process found no rolled-back build."""


def invalidated_partitions(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """Return the partitions that lost their first entries and were not rebuilt since.

    In a deltacommit only an index build writes base files, so a rollback that deleted base files removed the build's
    entries.

    Args:
        own: the metadata table's timeline.
        store: the timeline's storage.

    Raises:
        CorruptError: an instant can't be read.
        NotFoundError: an instant is gone from the timeline and not in the archive.
    """
    lost: dict[str, str] = {}
    for rollback in own.of(Action.ROLLBACK):
        done = store.decoded(rollback)
        if any(each["action"] == Action.DELTACOMMIT.value for each in done.get("instantsRollback", ())):
            for partition, files in done["partitionMetadata"].items():
                if _has_base(files["successDeleteFiles"]):
                    lost[partition] = max(own.order(rollback), lost.get(partition, ""))
    for commit in own.of(Action.DELTACOMMIT) if lost else ():
        rebuilt = {name for name, when in lost.items() if own.order(commit) >= when and _builds(store, commit, name)}
        lost = {name: when for name, when in lost.items() if name not in rebuilt}
    return frozenset(lost)


def ever_invalidated_partitions(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """Like `invalidated_partitions`, including the archive, which a process reads once per metadata table.

    Args:
        own: the metadata table's active timeline.
        store: the timeline's storage.

    Raises:
        CorruptError: the archive or an instant can't be read.
        NotFoundError: an instant is gone from the timeline and not in the archive.
    """
    root, newest = store.storage.root, own.newest_time or ""
    known = own.start is not None and own.start <= _seen_until.get(root, "")
    lost = invalidated_partitions(own if known else own.with_archived(store.archived()), store)
    if lost:
        _seen_until.pop(root, None)
    else:
        _seen_until[root] = newest
    return lost


def _builds(store: TimelineStore, commit: Instant, partition: str) -> bool:
    stats = store.read_commit_metadata(commit).partition_to_write_stats.get(partition, ())
    return _has_base(stat.path or "" for stat in stats)


def _has_base(paths: Iterable[str]) -> bool:
    return any(parse_base_file(basename(path)) is not None for path in paths)
