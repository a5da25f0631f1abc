"""Decide which file slices a clean deletes, and find what keeps each of the others.

Source: CleanPlanner, CleanerUtils.getEarliestCommitToRetain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from posixpath import basename
from typing import Any

from pudi.client import MetaClient, TableSnapshot
from pudi.config import CleanOptions, CleanPolicy
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup import FileGroup, SliceFiles, clustering_plan, compaction_plan
from pudi.format import (
    CDC_SUFFIX,
    Action,
    CompactionOperation,
    FileGroupId,
    instant_to_millis,
    millis_to_instant,
    parse_data_file,
)
from pudi.format.plans import CleanPlan
from pudi.services.service import oldest_write
from pudi.timeline import Instant, Timeline

_PAUSE = 3
"""Number of instants after a compaction of a metadata table at which a clean is due."""
_SAVEPOINTS = "savepointed_timestamps"
"""Extra metadata that names the savepoints that a clean saw (CleanerUtils.SAVEPOINTED_TIMESTAMPS)."""
_FILTERED = "pudi.partition.filter"
"""Extra metadata of a clean of some partitions: the next one must look at all. Hudi's look only at later writes."""


def last_clean(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return the metadata of the last completed clean; empty if there is none."""
    cleans = snapshot.timeline.of(Action.CLEAN)
    return snapshot.meta.store.decoded(cleans[-1]) if cleans else {}


def is_due(snapshot: TableSnapshot, options: CleanOptions) -> bool:
    """Return whether enough commits completed since the last clean, and not all of them stay readable.

    Source: CleanPlanActionExecutor.needsCleaning.
    """
    if options.policy != CleanPolicy.VERSIONS and earliest_to_retain(snapshot, options) is None:
        return False
    cleaned = last_clean(snapshot).get("lastCompletedCommitTimestamp") or ""
    return sum(instant.requested > cleaned for instant in snapshot.timeline.commits) >= options.trigger_commits


def is_due_on_metadata(timeline: Timeline) -> bool:
    """Return whether a metadata table has been compacted since the last clean, and readers had time to notice.

    Between compactions there is nothing to delete. The newest compaction alone doesn't count until a few instants
    later: readers may still use the slices that it replaced.

    Args:
        timeline: the metadata table's timeline.

    Source: HoodieBackedTableMetadataWriter.cleanIfNecessary.
    """
    cleaned = max((timeline.order(each) for each in timeline.of(Action.CLEAN)), default="")
    compactions = [at for each in timeline.of(Action.COMMIT) if (at := timeline.order(each)) > cleaned]
    if len(compactions) != 1:
        return bool(compactions)
    return sum(each.is_completed and timeline.order(each) > compactions[0] for each in timeline.instants) >= _PAUSE


def plan_clean(snapshot: TableSnapshot, options: CleanOptions, restorable: Iterable[str] = ()) -> CleanPlan | None:
    """Plan a clean, under the table's lock.

    Args:
        snapshot: the table.
        options: what stays.
        restorable: instants to which the table must stay restorable, though it has no savepoint of them: those of a
            data table's savepoints, if this is its metadata table.

    Returns:
        The plan; None if there is nothing to delete.

    Raises:
        CorruptError: a savepoint, a pending compaction or the last clean can't be read.
    """
    rules = RetentionRules.of(snapshot, options)
    if rules is None:
        return None
    rules = replace(rules, restorable=tuple(restorable))
    retained, savepoints = rules.retained, rules.savepoints
    view = snapshot.view(sizes=False)
    doomed: dict[str, tuple[str, ...]] = {}
    partitions = _partitions(snapshot, rules)
    for group in view.groups_of(partitions):
        replaced_at = view.replaced.get(group.id)
        files = [f"{snapshot.table}/{path}" for each in rules.unneeded(group, replaced_at) for path in each.files]
        if files:
            doomed[group.partition] = (*doomed.get(group.partition, ()), *files)
    if not doomed and not _is_worth_noting(snapshot, options, retained):
        return None
    extra = {_SAVEPOINTS: ",".join(sorted(savepoints))} if savepoints and snapshot.config.partition_fields else {}
    if options.partitions or options.regex:
        extra[_FILTERED] = "true"
    if not doomed:
        retained = _not_before(snapshot, retained)
    return CleanPlan(
        None if retained is None else (retained.requested, retained.action.value),
        snapshot.timeline.commits[-1].requested,
        doomed,
        options.policy,
        extra,
    )


def names_in_use(snapshot: TableSnapshot, partitions: Iterable[str]) -> dict[str, str]:
    """Return what no clean may delete: names of files in the newest slices of some partitions, and in savepoints.

    Change data of the newest slices is not among them: hard deletions delete it, and no state of the table needs it.

    Args:
        snapshot: the table.
        partitions: partition paths.

    Returns:
        For each name what needs the file, for messages.

    Raises:
        CorruptError: a savepoint can't be read.
    """
    view = snapshot.view(sizes=False)
    groups = view.groups_of(partitions)
    newest = [each.slices[0] for each in groups if each.id not in view.replaced]
    paths = (path for each in newest for path in each.files if not path.endswith(CDC_SUFFIX))
    found = {basename(path): "the newest slice of its file group" for path in paths}
    for requested, names in savepointed_names(snapshot).items():
        found |= dict.fromkeys(names, f"savepoint {requested}")
    return found


def saved_slices(group: FileGroup, replaced_at: str | None, savepoints: Iterable[str]) -> list[SliceFiles]:
    """Return the slices of a file group that readers of savepoints see.

    A savepoint names the files that were there when it was made. A write that was requested before its commit and
    completed later, a compaction too, belongs to its state, which goes by requested times, and which a restore leaves.
    Hudi's cleans delete the files of these.

    Args:
        group: the file group.
        replaced_at: requested time of the replacecommit that took it out of the table; None if it's in the table.
        savepoints: requested times of the commits that have one.
    """
    wanted = [each for each in savepoints if replaced_at is None or each < replaced_at]
    found = (next((s for s in group.slices if _begin(s) <= each), None) for each in wanted)
    return [each for each in found if each is not None]


def savepoints_of(
    file_slice: SliceFiles, group: FileGroup, replaced_at: str | None, savepoints: Mapping[str, frozenset[str]]
) -> list[str]:
    """Return the savepoints that keep a slice: they name a file of it, or their readers see it (`saved_slices`).

    Args:
        file_slice: the slice.
        group: its file group.
        replaced_at: as of `saved_slices`.
        savepoints: see `savepointed_names`.
    """
    names = {basename(path) for path in file_slice.files}
    return [
        requested
        for requested, kept in savepoints.items()
        if not names.isdisjoint(kept) or file_slice in saved_slices(group, replaced_at, [requested])
    ]


def _begin(file_slice: SliceFiles) -> str:
    """The requested time of a slice's base file; without one, the least one in the names of its log files."""
    names = (parse_data_file(basename(path)) for path in file_slice.files)
    return file_slice.instant or min((each.instant for each in names if each is not None), default="")


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Rules by which a clean keeps slices of file groups.

    Attributes:
        options: the policy.
        retained: the earliest commit whose state of the table stays; None if slices are counted.
        savepoints: names of the files that savepoints keep, by requested time of their commits.
        pending: what pending plans read, see `pending_slices`.
        restorable: instants to which a metadata table must stay restorable, see `plan_clean`.
    """

    options: CleanOptions
    retained: Instant | None
    savepoints: Mapping[str, frozenset[str]]
    pending: Mapping[FileGroupId, tuple[str, str, str]]
    restorable: Sequence[str] = ()
    _savepointed: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_savepointed", frozenset().union(*self.savepoints.values()))

    @classmethod
    def of(cls, snapshot: TableSnapshot, options: CleanOptions) -> RetentionRules | None:
        """Return what a clean of the table keeps now; None if it keeps everything.

        Raises:
            CorruptError: a savepoint or a pending plan can't be read.
        """
        retained = None
        if options.policy != CleanPolicy.VERSIONS:
            retained = earliest_to_retain(snapshot, options)
            if retained is None:
                return None
            retained = _capped(snapshot, options, retained)
        return cls(options, retained, savepointed_names(snapshot), pending_slices(snapshot))

    def unneeded(self, group: FileGroup, replaced_at: str | None) -> Iterator[SliceFiles]:
        """Return the slices of a file group to delete.

        Args:
            group: the file group.
            replaced_at: requested time of the replacecommit that took it out of the table; None if it's in the table.
        """
        saved = saved_slices(group, replaced_at, (*self.savepoints, *self.restorable))
        for file_slice in self.old(group, replaced_at):
            named = any(basename(path) in self._savepointed for path in file_slice.files)
            if not named and file_slice not in saved:
                yield file_slice

    def old(self, group: FileGroup, replaced_at: str | None) -> Sequence[SliceFiles]:
        """Return the slices of a file group that neither the policy nor a pending plan keeps, as `unneeded`."""
        retained = None if self.retained is None else self.retained.requested
        if replaced_at is not None:
            return group.slices if retained is None or replaced_at < retained else ()
        *_, since = self.pending.get(group.id, (None,))
        if retained is None:
            free = [each for each in group.slices if since is None or each.instant < since]
            return free[self.options.versions_retained - (since is not None) :]
        earlier = [each for each in group.slices if each.instant < retained]
        newest = group.slices[0]
        return [each for each in earlier[1:] if each is not newest and (since is None or each.instant < since)]


def earliest_to_retain(snapshot: TableSnapshot, options: CleanOptions, now_ms: int | None = None) -> Instant | None:
    """Return the earliest commit whose state of the table stays readable; None if all do.

    It's never later than a pending instant, whose plan may name the slices of its time. Hudi lacks that by hours.

    Args:
        snapshot: the table.
        options: a policy by commits or hours.
        now_ms: the moment from which hours count back, in milliseconds since the epoch; None for now.
    """
    commits, meta = snapshot.timeline.commits, snapshot.meta
    if options.policy == CleanPolicy.COMMITS:
        first = commits[-options.commits_retained] if len(commits) > options.commits_retained else None
    else:
        hours_ms = timedelta(hours=options.hours_retained) // timedelta(milliseconds=1)
        until_ms = meta.context.clock.now_ms() if now_ms is None else now_ms
        bound = millis_to_instant(until_ms - hours_ms, meta.config.timezone)
        first = next((each for each in commits if each.requested >= bound), commits[-1] if commits else None)
    if first is None:
        return None
    pending = oldest_write(snapshot.timeline)
    if pending is None or first.requested <= pending:
        return first
    return max((each for each in commits if each.requested < pending), key=lambda i: i.requested, default=None)


def _capped(snapshot: TableSnapshot, options: CleanOptions, retained: Instant) -> Instant:
    """Return an earlier commit if one clean would go ahead too far (CleanerUtils.capCommitsToClean)."""
    if options.max_commits == CleanOptions.max_commits.default:
        return retained
    before = last_clean(snapshot).get("earliestCommitToRetain")
    free = [each for each in snapshot.timeline.commits if before and before <= each.requested < retained.requested]
    return free[options.max_commits] if len(free) > options.max_commits else retained


def _is_worth_noting(snapshot: TableSnapshot, options: CleanOptions, retained: Instant | None) -> bool:
    """Return whether a clean without files is due: later cleans needn't look at what this one has looked at."""
    if retained is None or not options.incremental or options.empty_interval_hours <= 0:
        return False
    cleans, meta = snapshot.timeline.of(Action.CLEAN), snapshot.meta
    if not cleans:
        return True
    age_ms = meta.context.clock.now_ms() - instant_to_millis(cleans[-1].requested, meta.config.timezone)
    return age_ms > timedelta(hours=options.empty_interval_hours) // timedelta(milliseconds=1)


def _not_before(snapshot: TableSnapshot, retained: Instant | None) -> Instant | None:
    """Return what a clean without files retains: never more than the clean before it, whose files are gone."""
    before = last_clean(snapshot).get("earliestCommitToRetain") or ""
    if retained is None or retained.requested >= before:
        return retained
    return replace(retained, requested=before)


def _partitions(snapshot: TableSnapshot, rules: RetentionRules) -> list[str]:
    """Return the partitions to look at: by the commits since the last clean, if that is enough."""
    timeline, options, retained = snapshot.timeline, rules.options, rules.retained
    last = last_clean(snapshot)
    before = last.get("earliestCommitToRetain") or ""
    extra = last.get("extraMetadata") or {}
    listed = extra.get(_SAVEPOINTS) or ""
    ended = {each for each in listed.split(",") if each} - rules.savepoints.keys()
    start = timeline.start
    whole = not options.incremental or _FILTERED in extra or bool(ended) or not before
    if retained is None or whole or start is None or before < start:
        known = snapshot.listing().partitions()
        if options.partitions:
            return [each for each in known if each in options.partitions]
        return [each for each in known if re.fullmatch(options.regex, each)] if options.regex else list(known)
    found: set[str] = set()
    for instant in timeline.commits:
        if before <= instant.requested < retained.requested:
            written = snapshot.meta.store.read_commit_metadata(instant)
            found |= written.partitions
    return sorted(found)


def _names_in(meta: MetaClient, savepoint: Instant) -> frozenset[str]:
    """Return the names of the files that a savepoint keeps."""
    record = meta.store.decoded(savepoint)
    try:
        return frozenset(name for each in record["partitionMetadata"].values() for name in each["savepointDataFile"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"the savepoint names no files ({error!r}); nothing can be cleaned or rolled back before it's deleted",
            table=meta.storage.root,
            instant=savepoint.requested,
        ) from error


def _operations(meta: MetaClient, instant: Instant) -> Sequence[CompactionOperation]:
    """Return the slices of a pending plan."""
    if instant.action is not Action.CLUSTERING:
        return compaction_plan(meta.store, instant).operations
    return clustering_plan(meta.store, instant).slices


def pending_slices(snapshot: TableSnapshot) -> dict[FileGroupId, tuple[str, str, str]]:
    """Return the slices that pending compactions, log compactions and clusterings read, by file group.

    Hudi protects those of clusterings only by the time of the earliest pending instant, and not by hours or versions.

    Returns:
        The action and the requested time of the plan, and the requested time of the slice, for each file group.
    """
    found: dict[FileGroupId, tuple[str, str, str]] = {}
    for action in (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING):
        for instant in snapshot.timeline.pending_of(action):
            try:
                operations = _operations(snapshot.meta, instant)
            except NotFoundError:  # it completed, or was aborted, since the timeline was loaded
                continue
            for operation in operations:
                begins = operation.base_instant if operation.base_file else ""
                known = found.get(operation.group)
                if known is None or begins < known[2]:
                    found[operation.group] = action.value, instant.requested, begins
    return found


def savepointed_names(snapshot: TableSnapshot) -> dict[str, frozenset[str]]:
    """Return the names of the files that each savepoint keeps, by requested time of its commit.

    Raises:
        CorruptError: a savepoint can't be read.
    """
    return {instant.requested: _names_in(snapshot.meta, instant) for instant in snapshot.timeline.of(Action.SAVEPOINT)}


NEWEST, POLICY, PLAN, SAVEPOINT = "newest", "policy", "pending plan", "savepoint"
"""Kinds of reasons to keep a slice."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A reason to keep a file slice.

    Attributes:
        kind: `newest`, `policy` (of cleaning), `pending plan` or `savepoint`.
        reason: the same as a text.
        instant: requested time of the commit retained first, of the plan, or of the savepoint; None without one.
    """

    kind: str
    reason: str
    instant: str | None = None


@dataclass(frozen=True, slots=True)
class SliceHolders:
    """Reasons to keep the file slices of a table.

    Attributes:
        rules: what a clean keeps now; None if that is everything.
        savepoints: names of the files that savepoints keep, by requested time of their commits.
        pending: what pending plans read, see `pending_slices`.
    """

    rules: RetentionRules | None
    savepoints: Mapping[str, frozenset[str]]
    pending: Mapping[FileGroupId, tuple[str, str, str]]

    @classmethod
    def of(cls, snapshot: TableSnapshot, options: CleanOptions) -> SliceHolders:
        """Return what holds the slices of a table.

        Raises:
            CorruptError: a savepoint or a pending plan can't be read.
        """
        rules = RetentionRules.of(snapshot, options)
        if rules is not None:
            return cls(rules, rules.savepoints, rules.pending)
        return cls(None, savepointed_names(snapshot), pending_slices(snapshot))

    def of_slices(self, group: FileGroup, replaced_at: str | None) -> Iterator[tuple[SliceFiles, tuple[Holder, ...]]]:
        """Return the slices of a file group, the newest first, each with what holds it.

        Nothing holds a slice that the next clean deletes.

        Args:
            group: the file group.
            replaced_at: requested time of the replacecommit that took it out of the table; None if it's in the table.
        """
        rules = self.rules
        old = () if rules is None else rules.old(group, replaced_at)
        old_without_plans = () if rules is None else replace(rules, pending={}).old(group, replaced_at)
        plan = self.pending.get(group.id) if replaced_at is None else None
        for number, file_slice in enumerate(group.slices):
            found = []
            planned = plan is not None and file_slice.instant >= plan[2]
            if file_slice not in old:
                if not number and replaced_at is None:
                    found.append(Holder(NEWEST, "the newest slice of its file group"))
                elif file_slice not in old_without_plans or not planned:
                    found.append(self._policy())
                if plan is not None and planned:
                    found.append(Holder(PLAN, f"the pending {plan[0]} {plan[1]}", plan[1]))
            yield file_slice, (*found, *self._savepoints(file_slice, group, replaced_at))

    def _policy(self) -> Holder:
        if self.rules is None:
            return Holder(POLICY, "the policy retains all commits that there are")
        if self.rules.retained is None:
            return Holder(POLICY, f"the policy retains {self.rules.options.versions_retained} slices of a file group")
        first = self.rules.retained.requested
        return Holder(POLICY, f"the policy retains the commits from {first} on", first)

    def _savepoints(self, file_slice: SliceFiles, group: FileGroup, replaced_at: str | None) -> Iterator[Holder]:
        for requested in savepoints_of(file_slice, group, replaced_at, self.savepoints):
            yield Holder(SAVEPOINT, f"the savepoint {requested}", requested)
