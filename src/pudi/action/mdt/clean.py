"""Delete what no reader of the metadata table needs any more: all but the newest two slices of each file group.

Source: FORMAT 7.3; HoodieBackedTableMetadataWriter.cleanIfNecessary, CleanPlanner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pudi.action.meta_client import MetaClient
from pudi.concurrency import Liveness, liveness
from pudi.config import WriteOptions
from pudi.context import FileInfo
from pudi.errors import NotFoundError
from pudi.format import Action, BaseFileName, LogFileName, State, parse_data_file
from pudi.format.clean import BY_VERSIONS, CleanPlan, encode_clean_metadata, encode_clean_plan
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

RETAINED = 2
"""How many slices of a file group stay (HoodieMetadataWriteUtils.createMetadataWriteConfig)."""
_PAUSE = range(3, 5)
"""How many instants completed since a compaction when it's time: before, readers may be at what it compacted, and
after, nothing new has come up."""
_SUFFIX = "002"
"""What cleans are named by below version 8, behind the newest delta commit."""


def clean_metadata(mdt: MetaClient, seen: Timeline, options: WriteOptions, retained: int = RETAINED) -> bool:
    """Clean the metadata table, under its table's lock; whether anything was deleted.

    A clean that died is of no use to later ones: its files are found again, and it's taken off the timeline. Beside one
    that may be at work (another writer's, since pudi's own are done under the lock) nothing is cleaned until later.

    Args:
        mdt: the metadata table.
        seen: its timeline as it was a moment ago: where that says that it isn't time, nothing more is asked.
        options: after how long a writer without a sign of life is dead.
        retained: how many slices of each file group stay.
    """
    if not _is_time(seen):
        return False
    with mdt.lock:
        timeline = mdt.store.load()
        pending = timeline.of(Action.CLEAN, State.REQUESTED, State.INFLIGHT)
        if not all(_is_dead(mdt, each, options) for each in pending):
            return False
        for dead in pending:
            mdt.store.discard(dead)
        plan = _plan(mdt, timeline, retained)
        if plan is None:
            return False
        newest = timeline.of(Action.DELTACOMMIT)[-1].requested
        at = f"{newest}{_SUFFIX}" if mdt.store.layout == 1 else None
        if at is not None and timeline.find(at, Action.CLEAN) is not None:
            return False
        began_ms = mdt.context.clock.now_ms()
        instant = mdt.store.start(mdt.store.request(Action.CLEAN, encode_clean_plan(plan), at=at))
        root = f"{mdt.storage.root}/"
        delete_for_good(mdt.storage, [path.removeprefix(root) for paths in plan.files.values() for path in paths])
        took = mdt.context.clock.now_ms() - began_ms
        mdt.store.complete(instant, encode_clean_metadata(plan, instant.requested, took))
    return True


def _is_dead(mdt: MetaClient, instant: Instant, options: WriteOptions) -> bool:
    """Whether nobody is at work on a clean: its heartbeat, or without one its file, is too old."""
    try:
        touched = mdt.store.modified_ms(instant)
    except NotFoundError:  # on its way to its next state
        touched = mdt.context.clock.now_ms()
    found = liveness(
        mdt.storage,
        instant.requested,
        mdt.context,
        expires_after_ms=options.heartbeat_expiry_ms,
        last_seen_ms=touched,
    )
    return found is Liveness.DEAD


def _is_time(timeline: Timeline) -> bool:
    return _has_paused(timeline) or bool(timeline.of(Action.CLEAN, State.REQUESTED, State.INFLIGHT))


def _has_paused(timeline: Timeline) -> bool:
    """Whether so many instants completed since the last compaction, if there was one."""
    compacted = max((timeline.order(i) for i in timeline.of(Action.COMMIT)), default=None)
    if compacted is None:
        return False
    return sum(i.is_completed and timeline.order(i) > compacted for i in timeline.instants) in _PAUSE


def _plan(mdt: MetaClient, timeline: Timeline, retained: int) -> CleanPlan | None:
    """What to delete; None for nothing."""
    if not _has_paused(timeline):
        return None
    _, partitions = mdt.storage.list_dir("")
    doomed: dict[str, tuple[str, ...]] = {}
    for partition in sorted(p for p in partitions if not p.startswith(".")):
        files, _ = mdt.storage.list_dir(partition)
        found = _unneeded(timeline, files, retained)
        if found:
            doomed[partition] = tuple(f"{mdt.storage.root}/{path}" for path in found)
    last = mdt.commits_by_completion(timeline)[-1].requested
    return CleanPlan(None, last, doomed, BY_VERSIONS) if doomed else None


def _unneeded(timeline: Timeline, files: Iterable[FileInfo], retained: int) -> list[str]:
    """The files of slices before the newest ones of each file group."""
    groups: defaultdict[str, list[tuple[BaseFileName | LogFileName, str]]] = defaultdict(list)
    for info in files:
        parsed = parse_data_file(info.path.rpartition("/")[2])
        if parsed is not None:
            groups[parsed.file_id].append((parsed, info.path))
    doomed = []
    for members in groups.values():
        bases = {
            name.instant for name, _ in members if isinstance(name, BaseFileName) and _done(timeline, name.instant)
        }
        if len(bases) >= retained:
            kept = sorted(bases)[-retained]
            doomed += [path for name, path in members if _before(timeline, name, kept)]
    return sorted(doomed)


def _before(timeline: Timeline, name: BaseFileName | LogFileName, kept: str) -> bool:
    """Whether a file is of a slice before the one that begins at `kept`."""
    if isinstance(name, BaseFileName) or timeline.layout == 1:
        return name.instant < kept
    known = timeline.commit(name.instant)
    if known is None:  # of an archived instant, which completed before all that are left; or of one that never did
        return timeline.start is not None and name.instant < timeline.start <= kept
    return known.completion is not None and known.completion < kept


def _done(timeline: Timeline, instant: str) -> bool:
    archived = timeline.start is not None and instant < timeline.start and not timeline.is_pending(instant)
    return archived or timeline.commit(instant) is not None
