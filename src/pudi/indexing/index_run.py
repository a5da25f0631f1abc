"""One run of a planned index build. It holds the table's lock only briefly, and runs no job under it.

The run creates the file groups and states in the properties, under the lock, that the index is being built. From then
on every commit writes its changes there. Without the lock the run writes base files of everything committed before.
Under the lock again it completes. The newest entry of a key wins, and log files are newer than base files, so there is
nothing to catch up with. If another writer committed without updating the index, the run starts again.

Source: RunIndexActionExecutor, AbstractIndexingCatchupTask.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.client.inflight_builds import plan_of
from pudi.client.result import CLEAN_UP, ActionReport, CommitResult
from pudi.commit.liveness import keep_alive
from pudi.commit.revert_index_build import complete_index, is_dead_building, revert_index_build
from pudi.commit.transaction import begin_report
from pudi.concurrency import Heartbeat
from pudi.config import Options, WriteOptions
from pudi.errors import ConflictError, PudiError
from pudi.format import Action, CommitMetadata, State, parse_base_file, staging_dir
from pudi.format.metadata_partitions import FILES
from pudi.format.plans import IndexedPartition
from pudi.indexes import registry
from pudi.metadata_write.build import Building, IndexBuilder, add_groups, make_groups, set_partitions
from pudi.metadata_write.client import Stats, begin_deltacommit, complete_partitions, open_metadata
from pudi.metadata_write.index_defs import defined_index, delete_definition
from pudi.storage import delete_folder
from pudi.task import Engine
from pudi.timeline import Instant, Timeline

_log = logging.getLogger(__name__)

_RUNS = 5
"""The number of runs after which a build gives up because other writers don't take part."""
_OPERATION = "INDEX"


class _CommitMissedIndex(PudiError):
    """Another writer committed without updating the index."""


@dataclass(slots=True)
class IndexRun:
    """The run of one plan.

    Attributes:
        meta: the table.
        engine: runs the jobs.
        instant: the indexing instant.
        options: the options.
        keeps_plan: whether a failed run leaves the plan for other processes.
        small_here: see `Building`.
    """

    meta: MetaClient
    engine: Engine
    instant: Instant
    options: Options
    keeps_plan: bool = True
    small_here: bool = False
    report: ActionReport = field(init=False)

    def __post_init__(self) -> None:
        self.report = begin_report(self.meta, _OPERATION.lower())

    def run(self) -> CommitResult:
        """Build it; see `pudi.indexing.indexing.create_index`."""
        meta = self.meta
        for _ in range(_RUNS):
            try:
                done, stats = self._once()
            except _CommitMissedIndex as error:
                _log.warning("the build of an index starts again: %s", error)
                continue
            with self.report.after_commit(CLEAN_UP):
                delete_folder(meta.storage, staging_dir(done.requested))
            written = CommitMetadata({p: s for p, s in stats.items() if s}, operation_type=_OPERATION)
            return self.report.result(done, written)
        self._give_up()
        raise ConflictError(
            f"other writers committed {_RUNS} times without putting their changes into the index; stop them, and retry",
            table=meta.storage.root,
            instant=self.instant.requested,
        )

    def _once(self) -> tuple[Instant, Stats]:
        with self._leased() as (pending, plan):
            if pending.is_completed:
                return pending, {}
            spec = defined_index(self.meta, plan[0].partition)
            snapshot = TableSnapshot.load(self.meta, self.options)
            work = Building(snapshot, self.engine, spec, pending.requested, self.small_here)
            builder = registry.open_builder(work)
            with self.report.phase("count"):
                groups = builder.groups()
            instant = self._begin(builder, groups, pending)
            with self.report.phase("write"):
                filled = builder.fill()
            with self.report.phase("commit"):
                return self._finish(builder, instant, filled)

    @contextmanager
    def _leased(self) -> Iterator[tuple[Instant, tuple[IndexedPartition, ...]]]:
        """Yield the leased plan with a heartbeat; revert it to requested on an error."""
        meta, requested = self.meta, self.instant.requested
        interval = WriteOptions.of(self.options).heartbeat_interval_ms
        # Hudi considers a deltacommit of the metadata table without a heartbeat dead, even one of an index build
        beats = [Heartbeat(s, requested, meta.context, interval) for s in (meta.storage, open_metadata(meta).storage)]
        leased = False

        def undo(error: BaseException) -> None:
            if leased:
                self._undo(keeps_plan=self.keeps_plan or isinstance(error, _CommitMissedIndex))

        with keep_alive(meta, beats, undo):
            with meta.lock:
                current = self._free()
                plan = plan_of(meta, current)
                if current.state is State.INFLIGHT:
                    current = revert_index_build(meta, current) or replace(current, state=State.COMPLETED)
                if not current.is_completed:
                    for beat in beats:
                        beat.start()
                leased = True
            yield current, plan

    def _free(self) -> Instant:
        """Return the current instant of the plan, which is pending and which no process runs."""
        current = self.meta.store.load().find(self.instant.requested, Action.INDEXING)
        options = WriteOptions.of(self.options)
        if current is None or current.is_completed or not is_dead_building(self.meta, current, options):
            raise build_in_progress(self.meta, self.instant, "")
        return current

    def _begin(self, builder: IndexBuilder, groups: Sequence[str], instant: Instant) -> Instant:
        """Create the file groups, then list the index as inflight in the properties, under the lock."""
        meta, partition = self.meta, builder.work.spec.partition
        with meta.lock:
            self._check_not_built(partition)
            instant = meta.store.start(instant)
            mdt = open_metadata(meta)
            own = begin_deltacommit(mdt, instant.requested)
        make_groups(mdt, instant.requested, partition, groups)
        with meta.lock:
            self._check_not_built(partition)
            now = builder.work.snapshot.refreshed()
            if {i.requested for i in now.commits} != {i.requested for i in builder.work.snapshot.commits}:
                builder.work = replace(builder.work, snapshot=now)
                add_groups(mdt, instant.requested, partition, builder.late_groups())
            meta.storage.sync([meta.store.path(instant)])  # the properties may only list a complete index
            mdt.storage.sync([partition, mdt.store.path(own)])
            ready, building = meta.config.metadata_partitions, meta.config.metadata_partitions_inflight
            set_partitions(meta, ready=ready, building={*building, partition})
        return instant

    def _check_not_built(self, partition: str) -> None:
        """Refuse to build an index that another process has built meanwhile; under the lock."""
        self.meta.reload()
        ready, wrong = self.meta.config.metadata_partitions, None
        if partition in ready:
            wrong = f"another process made the index {partition} meanwhile; use it, or drop it first"
        elif FILES not in ready:
            wrong = "another process took the metadata table away; retry"
        if wrong is not None:
            raise ConflictError(wrong, table=self.meta.storage.root, instant=self.instant.requested)

    def _finish(self, builder: IndexBuilder, instant: Instant, filled: Stats) -> tuple[Instant, Stats]:
        """Check under the lock that all commits since the start updated the index, then publish it."""
        meta, partition = self.meta, builder.work.spec.partition
        builder.catch_up(builder.work.snapshot.refreshed())
        with meta.lock:
            self._check_not_built(partition)
            now, config = builder.work.snapshot.refreshed(), meta.config
            if partition not in config.metadata_partitions_inflight:
                raise ConflictError(
                    f"another process dropped the index {partition} while it was being built",
                    table=meta.storage.root,
                    instant=instant.requested,
                )
            meta.store.refuse_strangers(instant, builder.work.snapshot.timeline, now.timeline)
            mdt = open_metadata(meta)
            listed = mdt.store.load()
            self._check_updated_by_all(builder, now.timeline, listed)
            stats = {partition: (), **filled, **builder.finish(now)}
            own = listed.find(instant.requested, Action.DELTACOMMIT)
            if own is None or own.is_completed:
                raise _CommitMissedIndex("the metadata table lost the index's delta commit", table=meta.storage.root)
            if set(stats) - {partition}:  # if this process dies, commits must maintain the companions too
                building = {*config.metadata_partitions_inflight, *stats}
                set_partitions(meta, ready=config.metadata_partitions, building=building)
            complete_partitions(mdt, own, stats, stats)
            return complete_index(meta, instant, stats), stats

    def _check_updated_by_all(self, builder: IndexBuilder, now: Timeline, own: Timeline) -> None:
        """Check that every commit since the start of the build updated the index.

        Args:
            builder: the build.
            now: the table's timeline.
            own: the metadata table's.

        Raises:
            _CommitMissedIndex: one did not, or the file groups were compacted before their base files existed.
        """
        meta, work = self.meta, builder.work
        partition, kind = work.spec.partition, registry.kind_of(work.spec.partition)
        mdt = open_metadata(meta)
        files, _ = mdt.storage.list_dir(partition)
        bases = [name for info in files if (name := parse_base_file(basename(info.path))) is not None]
        if any(base.instant != work.requested for base in bases):
            raise _CommitMissedIndex(
                f"the file groups of {partition} were compacted meanwhile", table=meta.storage.root
            )
        known = {i.requested for i in work.snapshot.commits}
        for commit in (i for i in now.commits if i.requested not in known):
            delta = own.find(commit.requested, Action.DELTACOMMIT)
            took_part = delta is not None and delta.is_completed
            if delta is not None and took_part and kind.must_change(meta.store.read_commit_metadata(commit)):
                took_part = partition in mdt.store.read_commit_metadata(delta).partition_to_write_stats
            if not took_part:
                raise _CommitMissedIndex(f"commit {commit.requested} did not take part in it", table=meta.storage.root)

    def _undo(self, *, keeps_plan: bool) -> None:
        meta = self.meta
        with meta.lock:
            found = meta.store.load().find(self.instant.requested, Action.INDEXING)
            if found is None or found.is_completed:
                return
            left = revert_index_build(meta, found)
            made = {each.partition for each in plan_of(meta, found)} <= set(meta.config.metadata_partitions)
            if left is not None and (made or not keeps_plan):
                discard_index(meta, left)

    def _give_up(self) -> None:
        if not self.keeps_plan:
            with self.meta.lock:
                found = self.meta.store.load().find(self.instant.requested, Action.INDEXING)
                if found is not None and found.state is State.REQUESTED:
                    discard_index(self.meta, found)


def discard_index(meta: MetaClient, instant: Instant) -> None:
    """Remove a pending index build and its files from the table, under the table's lock.

    If it has written everything, complete it instead.
    """
    plan = plan_of(meta, instant)
    if instant.state is State.INFLIGHT:
        given = revert_index_build(meta, instant)
        if given is None:  # the dead run had written everything; the build is completed now
            return
        instant = given
    config = meta.config
    wanted = {*config.metadata_partitions, *config.metadata_partitions_to_rebuild}  # both are built by their definition
    for each in plan:
        if each.partition not in wanted:
            delete_definition(meta, each.partition)
    meta.store.discard(instant)


def build_in_progress(meta: MetaClient, instant: Instant, partition: str) -> ConflictError:
    """Return the error for an index that another process is building."""
    what = f"the index {partition}" if partition else "it"
    return ConflictError(
        f"another process is building {what}, or has built it. If you know that it's dead, drop the index, and create "
        "it again",
        table=meta.storage.root,
        instant=instant.requested,
    )
