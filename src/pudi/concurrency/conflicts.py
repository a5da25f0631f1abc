"""Which concurrent commits may both stand (optimistic concurrency, SimpleConcurrentFileWritesConflictResolution)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pudi.concurrency.pending_plans import compacted_groups, contradicted_clusterings, refuse_contradicted
from pudi.concurrency.touched import (
    Group,
    KeyScope,
    Reads,
    Touched,
    groups_of,
    insert_partitions,
    owned,
    replaced_groups,
)
from pudi.concurrency.unchanged import Unchanged
from pudi.errors import BlockedError, ConflictError
from pudi.format import Action, CommitMetadata, State, parse_log_file
from pudi.timeline import Instant, Timeline, TimelineStore

_COMPACT = "COMPACT"
_ADVICE = "nothing of this write is visible; read the table again and retry"


@dataclass(frozen=True, slots=True)
class ConflictCheck:
    """Refuses to complete a write that something which happened since it began contradicts.

    Two writes contradict each other when both wrote or replaced a file group. Stricter than Hudi: also when both put
    new keys into one partition while ours promises unique keys (upsert), since both may have inserted the same key
    into different file groups, and when another one wrote into a partition that ours replaces, since its records would
    stay beside ours. A clustering that is pending on a file group owns it, unless it yields. What our files were made
    from must still stand.

    Attributes:
        store: the table's timeline.
        own: the instant about to be completed.
        written: what it wrote.
        seen: the timeline that it planned from.
        keys_unique: where our operation promises that a key lives in one file group; None where it doesn't.
        unchanged: what the user says must not have changed; None where nothing is said.
        reads: which partitions our write read; None for none.
        yields: whether a pending clustering yields to our write; None where none does.
    """

    store: TimelineStore
    own: Instant
    written: CommitMetadata
    seen: Timeline
    keys_unique: KeyScope | None
    unchanged: Unchanged | None = None
    reads: Reads | None = None
    yields: Callable[[Instant], bool] | None = None

    def run(self, now: Timeline) -> None:
        """Compare with the timeline as it is under the table's lock.

        Raises:
            ConflictError: with the other instant and its conflict with our write.
        """
        if self.unchanged is not None:
            self.unchanged.check(Touched.of(self.written, self.keys_unique, self.reads), now, self.own.requested)
        for other in self.new_commits(now):
            self._check_commit(other, now)
        for other, group in self.contradicted(now):
            if self.yields is None or not self.yields(other):
                raise refuse_contradicted(self.store, other, group, self.own.requested)
        if now.rules.logs_name_their_slice:
            self._check_compactions(now)
        self._check_gone(now)

    def new_commits(self, now: Timeline) -> list[Instant]:
        """Commits completed since the write began."""
        known = {i.requested for i in self.seen.commits}
        return [i for i in now.commits if i.requested not in known and i.requested != self.own.requested]

    def contradicted(self, now: Timeline) -> Iterator[tuple[Instant, Group]]:
        """Yield the pending clusterings on file groups that the write touched, as `contradicted_clusterings`."""
        return contradicted_clusterings(self.store, now, groups_of(self.written) | replaced_groups(self.written))

    def _check_commit(self, other: Instant, now: Timeline) -> None:
        theirs = self.store.read_commit_metadata(other)
        if theirs.operation_type == _COMPACT:
            self._check_compacted(other, theirs, now)
            return
        mine = owned(groups_of(self.written) | replaced_groups(self.written), self.keys_unique)
        both = mine & owned(groups_of(theirs) | replaced_groups(theirs), self.keys_unique)
        if both:
            partition, file_id = min(both)
            raise self._conflict(
                f"commit {other.requested}, completed meanwhile, also wrote file group {file_id} of partition "
                f"{partition!r}"
            )
        theirs_only = {p for p, stats in theirs.partition_to_write_stats.items() if stats and self._replaces(p)}
        if theirs_only:
            raise self._conflict(
                f"commit {other.requested}, completed meanwhile, wrote into partition {min(theirs_only)!r}, which this "
                "write replaces"
            )
        if self.keys_unique is KeyScope.RING:
            moved = {p for p, ids in (theirs.partition_to_replace_file_ids or {}).items() if ids}
            lost = moved & {p for p, stats in self.written.partition_to_write_stats.items() if stats}
            if lost:
                raise self._conflict(
                    f"commit {other.requested}, completed meanwhile, gave partition {min(lost)!r} new buckets"
                )
        shared = self._shared_partitions(theirs)
        if shared:
            raise self._conflict(
                f"commit {other.requested}, completed meanwhile, also inserted records into partition {min(shared)!r}, "
                "perhaps the same keys"
            )

    def _check_compacted(self, other: Instant, theirs: CommitMetadata, now: Timeline) -> None:
        """Refuse what a compaction that completed meanwhile contradicts: new base files made from an older slice.

        It keeps all records, and the log files of a write that completes after it come after its base files, as in
        Hudi. Below version 8 they do if they bear its instant.
        """
        mine = replaced_groups(self.written) | _rebased(self.written)
        if now.rules.logs_name_their_slice:
            mine |= {group for group, base in _appended(self.written).items() if base < other.requested}
        both = mine & groups_of(theirs)
        if both:
            partition, file_id = min(both)
            raise self._conflict(
                f"compaction {other.requested}, completed meanwhile, also wrote file group {file_id} of partition "
                f"{partition!r}"
            )

    def _shared_partitions(self, theirs: CommitMetadata) -> set[str]:
        """Partitions into which both put new keys that may be the same."""
        mine, others = insert_partitions(self.written), insert_partitions(theirs)
        if self.keys_unique is KeyScope.TABLE:
            return mine if others else set()
        return mine & others if self.keys_unique is KeyScope.PARTITION else set()

    def _replaces(self, partition: str) -> bool:
        whole = self.written.operation_type == "INSERT_OVERWRITE_TABLE"
        return whole or partition in (self.written.partition_to_replace_file_ids or {})

    def _check_compactions(self, now: Timeline) -> None:
        """Refuse log blocks, below version 8, that belong to a slice which a pending compaction takes.

        A log file belongs to the slice named in its file name. A log file written during a pending compaction must
        carry the compaction's instant (`FileSlice.compacting`): the plan does not contain it, so it would be lost.
        """
        mine = _appended(self.written)
        for other in now.of(Action.COMPACTION, State.REQUESTED, State.INFLIGHT):
            late = {group for group, base in mine.items() if base < other.requested}
            both = late & compacted_groups(self.store, other) if late else set()
            if both:
                partition, file_id = min(both)
                raise self._conflict(
                    f"compaction {other.requested}, planned meanwhile, takes file group {file_id} of partition "
                    f"{partition!r}"
                )

    def _check_gone(self, now: Timeline) -> None:
        """Refuse what may build on commits that were rolled back, or are about to be."""
        for other in now.of(Action.RESTORE, State.REQUESTED, State.INFLIGHT):
            raise self._conflict(f"the restore {other.requested} is pending", BlockedError)
        there = {each.requested for each in now.commits}
        for each in self.seen.commits:
            if each.requested not in there and (now.start is None or each.requested >= now.start):
                raise self._conflict(f"commit {each.requested}, which this write builds on, was rolled back meanwhile")

    def _conflict(self, what: str, kind: type[ConflictError] = ConflictError) -> ConflictError:
        return kind(f"{what}; {_ADVICE}", table=self.store.storage.root, instant=self.own.requested)


def _rebased(metadata: CommitMetadata) -> set[Group]:
    """File groups to which base files were added."""
    return {
        (partition, stat.file_id or "")
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if parse_log_file((stat.path or "").rpartition("/")[2]) is None
    }


def _appended(metadata: CommitMetadata) -> dict[Group, str]:
    """File groups to which log files were added, with the least instant that these bear."""
    found: dict[Group, str] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            log = parse_log_file((stat.path or "").rpartition("/")[2])
            if log is not None and not log.cdc:
                group = partition, stat.file_id or ""
                found[group] = min(found.get(group, log.instant), log.instant)
    return found
