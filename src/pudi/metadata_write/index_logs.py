"""Log files of record-level indexes: a commit writes them before it takes the table's lock, and verifies them under it.

The engine's jobs may take long, so no other writer waits for them. The metadata table's deltacommit is requested before
the jobs run: readers ignore its log files until it completes, and a rollback of the commit finds them. Below
version 8 a log file belongs to the slice that was the latest one when the file was named, so a slice that changed
meanwhile refuses the commit.

The jobs also find keys that the commit brings to a second file group (`KeyWatch`). What others added to the index since
is looked at under the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename
from typing import Protocol

from pudi.client import MetaClient, TableSnapshot
from pudi.client.inflight_builds import with_maintained
from pudi.errors import ConflictError
from pudi.filegroup import FileSlice
from pudi.format import Action, LogFileName, State, WriteStat, parse_log_file
from pudi.metadata.keys import are_empty
from pudi.metadata.validity import invalidated_partitions
from pudi.metadata_write.client import Stats, begin_deltacommit, open_metadata
from pudi.metadata_write.rollback import discard_deltacommit
from pudi.task import Engine
from pudi.task.index_keys import ShardTask
from pudi.task.metadata_files import DEFAULT_TOKEN, make_group
from pudi.task.staged_keys import Repeated, RepeatTask, StagedKeys, repeated_of
from pudi.timeline import NO_COMMIT, Instant
from pudi.timeline.plan_runs import PlanRun

_MOST_LOCKED_KEYS = 100_000
"""Keys of a commit that are looked up under the table's lock; more are looked up again before it."""


class IndexesChangedError(ConflictError):
    """The table's indexes changed while a commit prepared their log files: it must prepare them again."""


class StagedKeyChanges(Protocol):
    """The changes of one commit to a record-level index, divided by the index's file groups."""

    @property
    def meta(self) -> MetaClient:
        """The table."""

    @property
    def engine(self) -> Engine:
        """Runs the jobs."""

    @property
    def instant(self) -> str:
        """Requested time of the commit."""

    @property
    def partition(self) -> str:
        """The index's partition of the metadata table."""

    @property
    def keys(self) -> tuple[StagedKeys, ...]:
        """The files with the keys that change."""

    def plan(self, own: TableSnapshot) -> ShardWork:
        """Find the file groups of the index that the commit changes.

        Args:
            own: the metadata table.

        Raises:
            IndexesChangedError: the index was rebuilt with another number of file groups.
        """

    def note_repeated(self, found: Sequence[Repeated]) -> None:
        """Take note of keys in several file groups, under the table's lock, before the commit is visible."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """An index's part of one deltacommit of the metadata table.

    Attributes:
        staged: the changes.
        tasks: one for each file group that changes.
        new: ids of the file groups that the deltacommit creates.
    """

    staged: StagedKeyChanges
    tasks: tuple[ShardTask, ...]
    new: tuple[str, ...]

    @property
    def slices(self) -> Mapping[str, FileSlice]:
        """The slices that the log files belong to, by file id."""
        return {task.slice.file_id: task.slice for task in self.tasks}

    def profile(self) -> tuple[WriteStat, ...]:
        """Return the file groups that it updates, as the inflight deltacommit announces them."""
        return tuple(
            WriteStat(
                file_id=task.slice.file_id,
                prev_commit=NO_COMMIT if task.slice.file_id in self.new else task.slice.instant,
                num_update_writes=sum(portion.records for portion in task.portions),
            )
            for task in self.tasks
        )

    def run(self, mdt: MetaClient, of_plan: PlanRun | None) -> IndexPart:
        """Write the log files by the engine's jobs, and delete those of failed attempts."""
        staged = self.staged
        tasks = [replace(task, of_plan=of_plan is not None) for task in self.tasks]
        mdt.context.executor.map(lambda name: make_group(mdt.storage, staged.instant, staged.partition, name), self.new)
        results = staged.engine.run_jobs(staged.meta.storage, staged.instant, tasks)
        stats = tuple(stat for result in results for stat in result.stats)
        counted = {stat.path for stat in stats}
        created = {LogFileName(file_id, staged.instant, 1, DEFAULT_TOKEN).name for file_id in self.new}
        files, _ = mdt.storage.list_dir(staged.partition)
        extra = [
            info.path
            for info in files
            if (name := parse_log_file(basename(info.path))) is not None
            and name.instant == staged.instant
            and info.path not in counted
            and name.name not in created
        ]
        if extra:
            if of_plan is not None:
                of_plan.refuse_displaced(staged.meta.storage)
            mdt.storage.delete(extra)
        mdt.storage.sync([stat.path for stat in stats if stat.path])
        return IndexPart(self, stats, repeated_of(results))

    def repeated_since(self, now: ShardWork) -> tuple[Repeated, ...]:
        """Look keys up in what has been added to the index since the jobs did, under the table's lock.

        No engine's job runs while the lock is held: few keys are looked up by this process, many by jobs once more.

        Args:
            now: the same work, planned by what is there now.

        Raises:
            IndexesChangedError: there are many keys.
        """
        jobs: list[RepeatTask] = []
        before = {task.slice.file_id: task for task in self.tasks}
        for task in now.tasks:
            old = before[task.slice.file_id]
            if task.watch is None or task.watch.scope is None or old.watch is None or old.watch.scope is None:
                continue
            scope, file_slice = task.watch.scope, task.slice
            if file_slice.base == old.slice.base:
                new = scope.completed - old.watch.scope.completed
                logs = file_slice.logs
                if not self.staged.meta.store.rules.logs_name_their_slice:
                    logs = tuple(log for log in logs if log.instant in new)
                if not new or not logs:
                    continue
                scope, file_slice = replace(scope, among=new), replace(file_slice, base=None, logs=logs)
            jobs.append(RepeatTask(len(jobs), file_slice, scope, task.portions))
        staged = self.staged
        if sum(portion.records for job in jobs for portion in job.portions) > _MOST_LOCKED_KEYS:
            raise IndexesChangedError(
                f"other commits added keys to {staged.partition} while this write looked its own up; retry",
                table=staged.meta.storage.root,
                instant=staged.instant,
            )
        return repeated_of([job.run(staged.meta.storage, 0) for job in jobs])


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Results of the jobs of one index.

    Attributes:
        work: the index's part of the deltacommit.
        stats: what was written.
        repeated: keys that the commit brought to a second file group, as far as was known then.
    """

    work: ShardWork
    stats: tuple[WriteStat, ...]
    repeated: tuple[Repeated, ...]


@dataclass(frozen=True, slots=True)
class IndexLogs:
    """The log files that a commit has written to record-level indexes.

    Attributes:
        instant: the metadata table's deltacommit, inflight.
        parts: the indexes' parts of it.
    """

    instant: Instant
    parts: tuple[IndexPart, ...]

    def verify(self, own: TableSnapshot, maintained: Collection[str]) -> Stats:
        """Return the statistics of the log files that count, under the table's lock; delete the others.

        Log files of an index that another process dropped don't count, nor those of an index whose entries were rolled
        back. Keys in several file groups are noted.

        Args:
            own: the metadata table under the lock.
            maintained: the partitions that commits maintain.

        Raises:
            IndexesChangedError: the metadata table or an index was rebuilt, or, below version 8, compacted.
        """
        mdt = own.meta
        current = own.timeline.find(self.instant.requested, Action.DELTACOMMIT)
        if current is None or current.state is not State.INFLIGHT:
            raise self._changed(mdt, "the metadata table was rebuilt")
        counted = {}
        for part in self.parts:
            work, stats, partition = part.work, part.stats, part.work.staged.partition
            again = work.staged.plan(own) if partition in maintained else None
            if again is None or not again.tasks:
                mdt.storage.delete([stat.path for stat in stats if stat.path])
                continue
            moved = [n for n, s in again.slices.items() if n not in again.new and s.instant != work.slices[n].instant]
            files, _ = mdt.storage.list_dir(partition)
            if not {stat.path for stat in stats} <= {info.path for info in files} or (
                own.timeline.rules.logs_name_their_slice and moved
            ):
                raise self._changed(mdt, f"the index {partition} was rebuilt or compacted")
            counted[partition] = stats
            if repeated := (*part.repeated, *work.repeated_since(again)):
                work.staged.note_repeated(repeated)
        return counted

    def _changed(self, mdt: MetaClient, what: str) -> IndexesChangedError:
        return IndexesChangedError(
            f"{what} while this write was under way; retry", table=mdt.storage.root, instant=self.instant.requested
        )


def write_index_logs(
    meta: MetaClient,
    pending: Instant,
    staged: Sequence[StagedKeyChanges],
    others: Collection[str],
    of_plan: PlanRun | None = None,
) -> IndexLogs | None:
    """Write the log files of record-level indexes, by the engine's jobs, without the table's lock.

    Args:
        meta: the table.
        pending: the commit's instant, inflight.
        staged: the changes by index.
        others: the other partitions that the commit may write to.
        of_plan: the run of a plan that commits; None for a write.

    Returns:
        The log files; None if the commit changes no record-level index.

    Raises:
        IndexesChangedError: an index was rebuilt since the changes were staged.
        ConflictError: the instant is no longer pending: another process rolled it back, or ran its plan.
    """
    requested, mdt = pending.requested, open_metadata(meta)
    with mdt.lock:
        if of_plan is not None:
            of_plan.refuse_displaced(meta.storage)
        own = with_maintained(meta, mdt)
        if (
            own.timeline.find(requested, Action.DELTACOMMIT) is not None
        ):  # a failed attempt, unless another process was faster
            meta.store.refuse_taken(pending)
            discard_deltacommit(mdt, requested)
            own = with_maintained(meta, mdt)
        works = tuple(work for each in staged if (work := each.plan(own)).tasks)
        if not works:
            return None
        profile = {work.staged.partition: work.profile() for work in works}
        if own.timeline.rules.logs_name_their_slice:  # a rollback finds the log files by what the inflight file names
            profile |= _any_group(own, others)
        instant = begin_deltacommit(mdt, requested, profile)
    return IndexLogs(instant, tuple(work.run(mdt, of_plan) for work in works))


def _any_group(own: TableSnapshot, partitions: Collection[str]) -> Stats:
    """Return the profile of a deltacommit that may write to any file group of some partitions."""
    found: dict[str, tuple[WriteStat, ...]] = {}
    for each in own.view(sizes=False).slices_of(sorted(partitions)):
        stat = WriteStat(file_id=each.file_id, prev_commit=each.instant)
        found[each.partition] = (*found.get(each.partition, ()), stat)
    return found


def is_invalidated(own: TableSnapshot, partition: str, slices: Sequence[FileSlice]) -> bool:
    """Return whether an index lost all its entries: further ones would look complete to readers.

    Args:
        own: the metadata table.
        partition: the index's partition.
        slices: its file groups.
    """
    return bool(slices) and are_empty(slices) and partition in invalidated_partitions(own.timeline, own.meta.store)
