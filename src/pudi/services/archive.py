"""Archiving: move the instants that no reader needs from the active timeline to the archive.

Its plan decides which instants move, and what keeps the others on the active timeline.

Source: HoodieBackedTableMetadataWriter.performTableServices, TimelineArchiverV1, TimelineArchiverV2, ArchivalUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pudi.client import MetaClient, TableSnapshot
from pudi.client.measure import measured
from pudi.client.schema_commit import INTERNAL_SCHEMA_KEY, newest_write
from pudi.commit.dead_writers import refuse_pending_restore
from pudi.config import ArchiveOptions, CleanOptions, CleanPolicy, CompactionOptions
from pudi.filegroup import Markers
from pudi.format import TEMP_DIR, Action, FileGroupId, State, instant_to_millis
from pudi.format.metadata_partitions import FILES
from pudi.services.clean import clean_backlog
from pudi.services.clean_plan import earliest_to_retain, last_clean
from pudi.services.orphans import unknown_data_files
from pudi.services.service import Backlog, DirectService, Inline, Need
from pudi.services.target import ServiceTarget, TargetSnapshot
from pudi.timeline import Instant, Timeline, archive


class Archive(DirectService):
    """Moves the oldest commits of a timeline to its archive, with the cleans and rollbacks that are older."""

    name = "archive"

    def inline(self, target: ServiceTarget) -> Inline:
        """After every commit to a metadata table; to a data table by hoodie.archive.automatic."""
        if target.is_metadata:
            return Inline.RUN
        if not target.options[ArchiveOptions.automatic]:
            return Inline.NOTHING
        return Inline.RUN_ASYNC if target.options[ArchiveOptions.run_async] else Inline.RUN

    def is_due(self, snapshot: TargetSnapshot) -> bool:
        """With more commits than hoodie.keep.max.commits, unless something keeps all of them."""
        most = snapshot.options[ArchiveOptions.keep_max_commits]
        return len(snapshot.timeline.commits) > most and bool(plan_archive(snapshot).instants)

    def need(self, snapshot: TargetSnapshot) -> Need | None:
        """Return the need by the number of commits, and by what keeps them."""
        _, most = commits_to_keep(snapshot)
        plan = plan_archive(snapshot)
        reason = f"{len(snapshot.timeline.commits)} commits on the active timeline; above {most}, old ones are archived"
        kept = f"; kept from {plan.bound.instant or 'the first'} on, since {plan.bound.reason}" if plan.bound else ""
        return Need(bool(plan.instants), reason + kept, *_backlog(snapshot, plan))

    def run(self, target: ServiceTarget) -> int:
        """Archive, and return the number of archived instants; see `DirectService.run`.

        Raises:
            InvalidArgumentError: wrong options.
            CorruptError: an instant or the archive can't be read.
            BlockedError: a restore is pending.
        """
        meta = target.meta
        with measured(meta, self.name) as figures, meta.lock:
            snapshot = target.load()
            if not target.is_metadata:
                refuse_pending_restore(snapshot)
            chosen = plan_archive(snapshot).instants
            figures["numInstantsArchived"] = len(chosen)
            _delete_markers(meta, chosen)
            archive(meta.store, chosen, ArchiveOptions.of(target.options))
        return len(chosen)


def _backlog(snapshot: TargetSnapshot, plan: ArchivePlan) -> Backlog:
    """Return the commits that archiving should move; it is blocked by what keeps the first one that stays.

    Raises:
        InvalidArgumentError: wrong options.
        CorruptError: the last clean can't be read.
    """
    if plan.wanted:
        return plan.wanted, None if plan.bound is None else plan.bound.instant or None
    options, number = ArchiveOptions.of(snapshot.options), len(snapshot.timeline.commits)
    if number <= options.keep_max_commits:
        return 0, None
    _, blocked_by = clean_backlog(snapshot)  # what cleaning can't pass, archiving can't either
    return (0, None) if blocked_by is None else (number - options.keep_min_commits, blocked_by)


def _delete_markers(meta: MetaClient, instants: Iterable[Instant]) -> None:
    """Delete what writers left that died after they had completed."""
    left = set(meta.storage.list_dir(TEMP_DIR)[1])
    for instant in instants:
        if instant.requested in left:
            Markers(meta.storage, instant.requested).delete()


_COMMITS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)
_BESIDE = (Action.CLEAN, Action.ROLLBACK)
"""Actions that are archived along with commits, and that archiving doesn't wait for."""
_BEYOND_CLEAN = 2
"""Commits that stay beside those after the earliest one that cleaning retains (ArchivalUtils)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Something that keeps instants on the active timeline.

    Attributes:
        instant: the least requested time that stays.
        reason: why, for people.
    """

    instant: str
    reason: str


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """The instants that an archiving moves.

    Attributes:
        instants: oldest first; empty for none.
        wanted: the number of commits that the options ask to archive; fewer are where something keeps them.
        bound: what keeps the first commit that stays although it's wanted; None if nothing does.
    """

    instants: Sequence[Instant] = ()
    wanted: int = 0
    bound: Bound | None = None


def plan_archive(snapshot: TargetSnapshot) -> ArchivePlan:
    """Plan an archiving.

    Raises:
        InvalidArgumentError: wrong options.
        CorruptError: the last clean, or a replacecommit, can't be read.
    """
    timeline = snapshot.timeline
    commits = timeline.commits
    least, most = commits_to_keep(snapshot)
    if len(commits) <= most:
        return ArchivePlan()
    wanted = len(commits) - least
    saved = timeline.savepoints
    free = [each for each in commits if each.requested not in saved][:wanted]
    bound = min(_bounds(snapshot), key=lambda each: each.instant, default=None)
    chosen = _before(free, bound)
    for find in (replaced_files, _unknown_files):
        if chosen and not snapshot.is_metadata:
            other = find(snapshot, chosen)
            bound, chosen = other or bound, _before(chosen, other)
    last = chosen[-1].requested if chosen else ""
    beside = [each for action in _BESIDE for each in timeline.of(action) if each.requested < last]
    moved = sorted([*chosen, *beside], key=lambda each: each.requested)
    return ArchivePlan(moved, wanted, bound if len(chosen) < wanted else None)


def _before(commits: Sequence[Instant], bound: Bound | None) -> list[Instant]:
    return [each for each in commits if bound is None or each.requested < bound.instant]


def commits_to_keep(snapshot: TargetSnapshot) -> tuple[int, int]:
    """Return how many commits archiving leaves, and above how many it begins (getMinAndMaxInstantsToKeep).

    Both grow where cleaning retains more commits: a clean looks at what was written since the last one.

    Raises:
        InvalidArgumentError: wrong options.
    """
    options = ArchiveOptions.of(snapshot.options)
    least, most = options.keep_min_commits, options.keep_max_commits
    needed = 0 if snapshot.is_metadata else _needed_by_clean(snapshot)
    return max(least, needed), most + max(0, needed - least)


def _needed_by_clean(snapshot: TableSnapshot) -> int:
    """Return how many commits stay for cleans: those that they retain and two more.

    By hours they count back from the newest commit. By commits the number counts from the start, which it doesn't in
    Hudi: if archiving begins before that number of commits is reached, Hudi never cleans.
    """
    commits, options = snapshot.timeline.commits, CleanOptions.of(snapshot.options)
    if options.policy == CleanPolicy.VERSIONS or not commits:
        return 0
    newest = instant_to_millis(commits[-1].requested, snapshot.config.timezone)
    first = earliest_to_retain(snapshot, options, newest)
    needed = 0 if first is None else sum(i.requested > first.requested for i in commits) + _BEYOND_CLEAN
    by_number = options.policy == CleanPolicy.COMMITS
    return max(needed, options.commits_retained - 1 + _BEYOND_CLEAN if by_number else 0)


def _bounds(snapshot: TargetSnapshot) -> Iterator[Bound]:
    """Return what keeps instants, as far as the timelines of the table and of its metadata table tell."""
    timeline, options = snapshot.timeline, ArchiveOptions.of(snapshot.options)
    yield from _before_pending(timeline)
    if not options.beyond_savepoint:
        for saved in timeline.savepoints[:1]:
            yield Bound(saved, f"the savepoint {saved} keeps what came after it")
    if snapshot.is_metadata:
        yield from _of_metadata_table(snapshot, beyond_savepoint=options.beyond_savepoint)
        return
    yield from _states_columns(snapshot)
    yield from _before_compaction(snapshot)
    yield from _in_metadata_logs(snapshot)
    if options.after_clean:
        retained = last_clean(snapshot).get("earliestCommitToRetain")
        if retained:
            yield Bound(retained, f"the last clean retained the commits from {retained} on")


def _states_columns(snapshot: TableSnapshot) -> Iterator[Bound]:
    """Keep the newest write of a table with schema on read.

    Hudi's readers look for the ids of columns in writes of the active timeline only. Without one they take columns by
    their names, and those that were renamed are null in older files. The next write of any kind takes its place.
    """
    found = newest_write(snapshot.meta.store, snapshot.commits)
    if found is not None and found[1].extra_metadata.get(INTERNAL_SCHEMA_KEY):
        requested = found[0].requested
        yield Bound(requested, f"Hudi's readers find the ids of the columns in {requested}, the newest write, only")


def _before_pending(timeline: Timeline) -> Iterator[Bound]:
    """Keep the last commit before the first pending instant, or that instant."""
    pending = [each for each in timeline.pending if each.action not in _BESIDE]
    if pending:
        first = min(pending, key=lambda each: each.requested)
        before = max((i.requested for i in timeline.commits if i.requested < first.requested), default=first.requested)
        if first.action is Action.RESTORE:  # it takes commits back that are older than itself
            before = ""
        yield Bound(before, f"the {first.action.value} {first.requested} is pending")


def _before_compaction(snapshot: TargetSnapshot) -> Iterator[Bound]:
    """Keep the deltacommits that a trigger by their number counts (getEarliestInstantToRetainForCompaction)."""
    timeline, options = snapshot.timeline, CompactionOptions.of(snapshot.options)
    by_number = options.trigger in {"NUM_COMMITS", "NUM_AND_TIME"}
    if not snapshot.meta.merges_on_read or not by_number:
        return
    compactions = timeline.of(Action.COMMIT)
    deltas = list(timeline.of(Action.DELTACOMMIT, *State))
    if compactions:
        last = compactions[-1].requested
        deltas = [each for each in deltas if not each.is_completed or timeline.order(each) > last]
    first = [compactions[-1] if compactions else deltas[0]] if compactions or deltas else []
    kept = deltas[-options.max_delta_commits :] if len(deltas) >= options.max_delta_commits else first
    for each in kept[:1]:
        yield Bound(each.requested, "compactions are planned by the number of deltacommits since the last one")


def _in_metadata_logs(snapshot: TargetSnapshot) -> Iterator[Bound]:
    """Keep commits that only log files of the metadata table know: their readers ask whether the commits completed."""
    meta, timeline = snapshot.meta, snapshot.timeline
    if FILES not in meta.config.metadata_partitions:
        return
    own = ServiceTarget.of_metadata_table(meta, snapshot.target.engine, snapshot.options)
    compactions = own.load().timeline.of(Action.COMMIT)
    reason = "the metadata table has not been compacted since"
    if not compactions:
        yield Bound("", reason)
        return
    last = compactions[-1].requested
    for each in timeline.commits:
        if timeline.order(each) > last:
            yield Bound(each.requested, reason)
            return


def _of_metadata_table(snapshot: TargetSnapshot, *, beyond_savepoint: bool) -> Iterator[Bound]:
    """Keep what came after the last compaction, and commits that are on the data table's active timeline.

    Readers of log files ask the active timeline whether a block counts. For the state of the table's first savepoint
    they ask for what came after the last compaction before it. Hudi archives that, and then, to restore the table,
    deletes the metadata table: it has no compaction as old as the savepoint (BaseHoodieWriteClient.restoreToSavepoint).
    """
    timeline = snapshot.timeline
    compactions = timeline.of(Action.COMMIT)
    if not compactions:
        yield Bound("", "the metadata table has not been compacted yet")
        return
    yield from _since(timeline, compactions[-1], "the last compaction")
    data = snapshot.data_timeline
    saved = data.savepoints
    if saved and not beyond_savepoint:
        for each in [each for each in compactions if each.requested <= saved[0]][-1:]:
            yield from _since(timeline, each, f"the last compaction before the savepoint {saved[0]}")
    counted = (i for i in data.instants if i.action in _COMMITS or not i.is_completed)
    for each in counted:
        if not (beyond_savepoint and each.requested in saved):
            yield Bound(each.requested, "the table's own timeline still has it")
            break


def _since(timeline: Timeline, compaction: Instant, name: str) -> Iterator[Bound]:
    """Keep a compaction of a metadata table, and the commits that completed after it was planned."""
    yield Bound(compaction.requested, f"{name} stays")
    for each in timeline.commits:
        if timeline.order(each) >= compaction.requested:
            yield Bound(each.requested, f"it completed after {name}")
            return


def replaced_files(snapshot: TableSnapshot, chosen: Sequence[Instant]) -> Bound | None:
    """Return the first replacecommit with file groups that haven't been cleaned: without it, they'd be in the table.

    Hudi derives this from the last clean's plan (getEarliestInstantToRetainForClustering); the files themselves tell
    it where cleans were run in another order, or not at all.
    """
    replaced: dict[str, set[FileGroupId]] = {}
    for instant in chosen:
        if instant.action is Action.REPLACECOMMIT:
            groups = snapshot.meta.store.read_commit_metadata(instant).replaced_groups
            if groups:
                replaced[instant.requested] = groups
    if not replaced:
        return None
    partitions = sorted({group.partition for groups in replaced.values() for group in groups})
    there = {g.id for g in snapshot.view(sizes=False).groups_of(partitions)}
    for requested, groups in replaced.items():
        if not there.isdisjoint(groups):
            return Bound(requested, f"the replacecommit {requested} replaced file groups that no clean has deleted yet")
    return None


def _unknown_files(snapshot: TableSnapshot, chosen: Sequence[Instant]) -> Bound | None:
    """Return the last commit before the first data file of an instant that isn't on the timeline.

    Were the timeline to begin later, that instant would count as an archived commit.

    A metadata table lists the files of commits alone.
    """
    if FILES in snapshot.config.metadata_partitions:
        return None
    timeline = snapshot.timeline
    files = [instant for _, instant in unknown_data_files(snapshot, snapshot.listing().all_files())]
    first = min(files, default=None)
    starts = (each.requested for each in timeline.commits if each.requested > chosen[-1].requested)
    if first is None or first >= next(starts, first):
        return None
    before = max(each.requested for each in timeline.commits if each.requested < first)
    return Bound(before, f"a failed write left data files of instant {first} behind; `pudi repair` deletes them")
