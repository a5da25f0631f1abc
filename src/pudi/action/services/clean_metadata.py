"""Cleaning of metadata tables: delete all but the newest slices of each file group.

Source: HoodieBackedTableMetadataWriter.cleanIfNecessary, CleanPlanner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pudi.action.meta_client import MetaClient
from pudi.action.services.service import Inline, LockedService
from pudi.action.services.target import ServiceTarget
from pudi.concurrency import Liveness, liveness
from pudi.config import CleanPolicy, CompactionOptions, WriteOptions
from pudi.context import FileInfo
from pudi.errors import NotFoundError
from pudi.format import Action, BaseFileName, LogFileName, State, parse_data_file
from pudi.format.clean import CleanPlan, encode_clean_metadata, encode_clean_plan
from pudi.storage import delete_for_good
from pudi.timeline import Instant, Timeline

RETAINED = 2
"""Number of slices of a file group that stay (HoodieMetadataWriteUtils.createMetadataWriteConfig)."""
_PAUSE = range(3, 5)
"""Numbers of instants since a compaction at which a clean is due."""
_SUFFIX = "002"
"""Suffix of clean instants in metadata tables below version 8, after the newest deltacommit's time."""


class CleanMetadata(LockedService):
    """Deletes file slices of a metadata table that no reader needs.

    A dead clean is removed from the timeline: the next one finds its files again. While another process may be
    cleaning, nothing is cleaned.
    """

    name = "clean"

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit to a metadata table."""
        return Inline.RUN if target.is_metadata else Inline.NOTHING

    def is_due(self, target: ServiceTarget, timeline: Timeline) -> bool:
        """A few instants after a compaction, or if a clean is pending."""
        return _has_paused(target, timeline) or bool(timeline.of(Action.CLEAN, State.REQUESTED, State.INFLIGHT))

    def run(self, target: ServiceTarget) -> bool:
        """Plan, delete and complete; see `LockedService.run`."""
        mdt = target.meta
        with mdt.lock:
            timeline = mdt.store.load()
            pending = timeline.of(Action.CLEAN, State.REQUESTED, State.INFLIGHT)
            if not all(_is_dead(mdt, each, target.write_options) for each in pending):
                return False
            for dead in pending:
                mdt.store.discard(dead)
            plan = _plan(mdt, timeline, RETAINED) if _has_paused(target, timeline) else None
            if plan is None:
                return False
            newest = timeline.of(Action.DELTACOMMIT)[-1].requested
            at = f"{newest}{_SUFFIX}" if mdt.store.rules.services_have_suffixes else None
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
    """Return whether no process runs a clean: its heartbeat, or without one its file, is too old."""
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


def _has_paused(target: ServiceTarget, timeline: Timeline) -> bool:
    """Return whether a few instants completed since the last compaction.

    Right after a compaction readers may still use the files that it replaced, and long after it there is nothing new
    to delete. Where compactions come more often than `_PAUSE` begins, it begins earlier.
    """
    compacted = max((timeline.order(i) for i in timeline.of(Action.COMMIT)), default=None)
    if compacted is None:
        return False
    begin = min(_PAUSE.start, CompactionOptions.of(target.options).max_delta_commits - 1)
    since = sum(i.is_completed and timeline.order(i) > compacted for i in timeline.instants)
    return since in range(begin, begin + len(_PAUSE))


def _plan(mdt: MetaClient, timeline: Timeline, retained: int) -> CleanPlan | None:
    """Return the files to delete; None for nothing."""
    _, partitions = mdt.storage.list_dir("")
    doomed: dict[str, tuple[str, ...]] = {}
    for partition in sorted(p for p in partitions if not p.startswith(".")):
        files, _ = mdt.storage.list_dir(partition)
        found = _unneeded(timeline, files, retained)
        if found:
            doomed[partition] = tuple(f"{mdt.storage.root}/{path}" for path in found)
    last = mdt.commits_by_completion(timeline)[-1].requested
    return CleanPlan(None, last, doomed, CleanPolicy.VERSIONS.value) if doomed else None


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
    if isinstance(name, BaseFileName) or timeline.rules.logs_name_their_slice:
        return name.instant < kept
    known = timeline.commit(name.instant)
    if known is None:  # of an archived instant, which completed before all that are left; or of one that never did
        return timeline.start is not None and name.instant < timeline.start <= kept
    return known.completion is not None and known.completion < kept


def _done(timeline: Timeline, instant: str) -> bool:
    archived = timeline.start is not None and instant < timeline.start and not timeline.is_pending(instant)
    return archived or timeline.commit(instant) is not None
