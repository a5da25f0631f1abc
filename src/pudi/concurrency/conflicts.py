"""Decide which concurrent commits may both stand (SimpleConcurrentFileWritesConflictResolutionStrategy).

Source: HoodieWriteConfig.needResolveWriteConflict. Hudi checks nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import TypeAlias

from pudi.concurrency.touched import (
    KeyScope,
    Reads,
    Touched,
    Unchanged,
    insert_partitions,
    owned,
)
from pudi.errors import BlockedError, ConflictError, CorruptError, NotFoundError
from pudi.filegroup import clustered_groups, compacted_groups
from pudi.format import Action, CommitMetadata, FileGroupId, parse_log_file
from pudi.format.instants import COMPACT, ROLLED_BACK
from pudi.timeline import Instant, Timeline, TimelineStore

READS = "pudi.reads"
"""Extra metadata of a commit that was computed from the table's records, or depends on some of them staying."""


def contradicted_clusterings(
    store: TimelineStore, timeline: Timeline, groups: Collection[FileGroupId]
) -> Iterator[tuple[Instant, FileGroupId]]:
    """Yield the pending clusterings whose plans name some of these file groups, each with one of them.

    A plan that another process has dropped since the timeline was loaded contradicts nothing.

    Raises:
        BlockedError: a plan can't be read.
        NotFoundError: the file of a plan is missing.
    """
    for instant in timeline.pending_of(Action.CLUSTERING):
        try:
            both = clustered_groups(store, instant).intersection(groups)
        except NotFoundError:
            if all(each.requested != instant.requested for each in store.load().pending):
                continue
            raise
        except CorruptError as error:
            what = (
                f"clustering {instant.requested} is pending and its plan can't be read; nothing was written: "
                f"{ROLLED_BACK}"
            )
            raise BlockedError(what, table=store.storage.root, instant=instant.requested) from error
        if both:
            yield instant, min(both)


def refuse_contradicted(store: TimelineStore, clustering: Instant, group: FileGroupId, own: str | None) -> BlockedError:
    """Return the error for a write to a file group of a pending clustering.

    Args:
        store: the table's timeline.
        clustering: the pending clustering.
        group: the file group.
        own: requested time of the write; None before it has one.
    """
    return BlockedError(
        f"clustering {clustering.requested} is pending on {group.text}, and a write to it would be lost: run the plan "
        "(run_pending, or Apache Hudi), or roll it back (rollback), then write again. Nothing of this write is visible",
        table=store.storage.root,
        instant=own or clustering.requested,
    )


@dataclass(frozen=True, slots=True)
class NonBlocking:
    """A write that adds log files to buckets while other writers add theirs to the same buckets.

    Attributes:
        unfound: buckets in which deletes found no file group, by partition path and name.
    """

    unfound: frozenset[tuple[str, str]] = frozenset()

    def contradiction(
        self, own: Instant, written: CommitMetadata, other: Instant, theirs: CommitMetadata
    ) -> str | None:
        """Return what a write that completed meanwhile did which ours had to know; None for nothing.

        Readers merge log files of a slice in the order of their requested times. So a write that was computed from
        what it read, and was requested after ours, would overtake ours without having read it.

        Args:
            own: our instant.
            written: what we wrote.
            other: the other instant.
            theirs: what it wrote and replaced.
        """
        mine, groups = written.written_groups, theirs.written_groups
        gone = mine & theirs.replaced_groups
        if gone:
            return f"replaced {min(gone).text}"
        elsewhere = owned(mine, KeyScope.BUCKET) & owned(groups - mine, KeyScope.BUCKET)
        if elsewhere:
            return f"has another file group for bucket {min(elsewhere)[1]} of partition {min(elsewhere)[0]!r}"
        begun = self.unfound & owned(groups, KeyScope.BUCKET)
        if begun:
            return (
                f"began bucket {min(begun)[1]} of partition {min(begun)[0]!r}, where this write had nothing to delete"
            )
        both = mine & groups if READS in theirs.extra_metadata and other.requested > own.requested else None
        if both:
            return f"changed records that it had read in {min(both).text}"
        return None


_ADVICE = "nothing of this write is visible; read the table again and retry"

Completed: TypeAlias = Sequence[tuple[Instant, CommitMetadata]]
"""Commits that completed since a write began, with what they did."""


class TimelineBehindError(ConflictError):
    """Commits completed after the timeline was loaded that a write was planned from; it can be planned again."""


@dataclass(frozen=True, slots=True)
class ConflictRule:
    """One line of the table of conflicts, in the code and in docs/concurrency.md.

    Attributes:
        other: the other action.
        conflict: when it contradicts our write.
        hudi: what Hudi's strategies do.
        find: raises the conflict, if there is one, given the timeline now and the commits that completed meanwhile.
    """

    other: str
    conflict: str
    hudi: str
    find: Callable[[ConflictCheck, Timeline, Completed], None]


@dataclass(frozen=True, slots=True)
class ConflictCheck:
    """Refuses to complete a write that something which happened since it began contradicts: see `CONFLICT_RULES`.

    Stricter than Hudi: writes that put new keys into one partition conflict while ours promises unique keys (upsert),
    since both may have inserted the same key into different file groups; so do writes into a partition that ours
    replaces, since its records would stay beside ours. What our files were made from must still stand.

    Attributes:
        store: the table's timeline.
        own: the instant about to be completed.
        written: what it wrote.
        seen: the timeline that it planned from.
        keys_unique: where our operation promises that a key lives in one file group; None where it doesn't.
        unchanged: what the user says must not have changed; None where nothing is said.
        reads: which partitions our write read; None for none.
        yields: whether a pending clustering yields to our write; None where none does.
        nonblocking: what contradicts our write in place of other writes to its file groups; None for those.
    """

    store: TimelineStore
    own: Instant
    written: CommitMetadata
    seen: Timeline
    keys_unique: KeyScope | None
    unchanged: Unchanged | None = None
    reads: Reads | None = None
    yields: Callable[[Instant], bool] | None = None
    nonblocking: NonBlocking | None = None

    def check(self, now: Timeline) -> None:
        """Compare the write with the timeline that was loaded under the table's lock.

        Raises:
            ConflictError: with the other instant and its conflict with our write.
        """
        if self.unchanged is not None:
            self.unchanged.check(Touched.of(self.written, self.keys_unique, self.reads), now, self.own.requested)
        completed = [(other, self.store.read_commit_metadata(other)) for other in self.new_commits(now)]
        for rule in CONFLICT_RULES:
            rule.find(self, now, completed)

    def new_commits(self, now: Timeline) -> list[Instant]:
        """Commits completed since the write began."""
        known = {i.requested for i in self.seen.commits}
        return [i for i in now.commits if i.requested not in known and i.requested != self.own.requested]

    def contradicted(self, now: Timeline) -> Iterator[tuple[Instant, FileGroupId]]:
        """Yield the pending clusterings on file groups that the write touched, as `contradicted_clusterings`."""
        return contradicted_clusterings(self.store, now, self.written.touched_groups)

    def check_groups(self, now: Timeline, completed: Completed) -> None:
        """Refuse what another write also wrote or replaced: a file group, or a bucket."""
        del now
        mine = owned(self.written.touched_groups, self.keys_unique)
        for other, theirs in _writes(completed) if self.nonblocking is None else ():
            both = mine & owned(theirs.touched_groups, self.keys_unique)
            if both:
                raise self._meanwhile(other, f"also wrote {min(both).text}")

    def check_buckets(self, now: Timeline, completed: Completed) -> None:
        """Have a write by non-blocking concurrency control planned again where another write did what it must know.

        Raises:
            TimelineBehindError: there is such a write.
        """
        del now
        if self.nonblocking is None:
            return
        for other, theirs in _writes(completed):
            what = self.nonblocking.contradiction(self.own, self.written, other, theirs)
            if what is not None:
                raise self._meanwhile(other, what, TimelineBehindError)

    def check_replaced(self, now: Timeline, completed: Completed) -> None:
        """Refuse to replace a partition into which another write wrote."""
        del now
        for other, theirs in _writes(completed):
            both = {p for p, stats in theirs.partition_to_write_stats.items() if stats and self._replaces(p)}
            if both:
                raise self._meanwhile(other, f"wrote into partition {min(both)!r}, which this write replaces")

    def check_reads(self, now: Timeline, completed: Completed) -> None:
        """Refuse what was computed from partitions that another write changed: each could miss the other's records."""
        del now
        for other, theirs in _writes(completed) if self.reads is not None else ():
            changed = set() if theirs.is_clustering else {p for p, _ in theirs.touched_groups}
            read = self.reads(sorted(changed)) if self.reads is not None and changed else ()
            if read:
                raise self._meanwhile(other, f"changed partition {min(read)!r}, which this write read")

    def check_ring(self, now: Timeline, completed: Completed) -> None:
        """Refuse writes by a hash ring that another write replaced."""
        del now
        mine = {p for p, stats in self.written.partition_to_write_stats.items() if stats}
        for other, theirs in _writes(completed) if self.keys_unique is KeyScope.RING else ():
            lost = mine & {p for p, ids in (theirs.partition_to_replace_file_ids or {}).items() if ids}
            if lost:
                raise self._meanwhile(other, f"gave partition {min(lost)!r} new buckets")

    def check_inserts(self, now: Timeline, completed: Completed) -> None:
        """Refuse new keys where another write put new keys too."""
        del now
        for other, theirs in _writes(completed):
            shared = self._shared_partitions(theirs)
            if shared:
                raise self._meanwhile(
                    other, f"also inserted records into partition {min(shared)!r}, perhaps the same keys"
                )

    def check_compacted(self, now: Timeline, completed: Completed) -> None:
        """Refuse what a compaction that completed meanwhile contradicts: new base files made from an older slice.

        It keeps all records, and the log files of a write that completes after it come after its base files, as in
        Hudi. Below version 8 they do if they bear its instant. From version 8 on, log files that were requested before
        it completed are searched for keys that its base files lack; others must be planned by these base files.

        Raises:
            TimelineBehindError: they weren't.
        """
        buckets = {KeyScope.BUCKET, KeyScope.RING}  # a key's hash says its file group, whatever the base file has
        for other, theirs in completed:
            if theirs.operation_type != COMPACT:
                continue
            early = (other.completion or self.own.requested) < self.own.requested and self.keys_unique not in buckets
            if early and not now.rules.logs_name_their_slice and theirs.written_groups & _appended(self.written).keys():
                raise TimelineBehindError(
                    f"compaction {other.requested} completed after this write was planned and before its instant was "
                    f"requested; {_ADVICE}",
                    table=self.store.storage.root,
                    instant=self.own.requested,
                )
            mine = self.written.replaced_groups | _rebased(self.written)
            if now.rules.logs_name_their_slice:
                mine |= {group for group, base in _appended(self.written).items() if base < other.requested}
            both = mine & theirs.written_groups
            if both:
                raise self._conflict(f"compaction {other.requested}, completed meanwhile, also wrote {min(both).text}")

    def check_clusterings(self, now: Timeline, completed: Completed) -> None:
        """Refuse writes to file groups of a pending clustering that doesn't yield."""
        del completed
        for other, group in self.contradicted(now):
            if self.yields is None or not self.yields(other):
                raise refuse_contradicted(self.store, other, group, self.own.requested)

    def check_compactions(self, now: Timeline, completed: Completed) -> None:
        """Refuse log blocks, below version 8, that belong to a slice which a pending compaction takes.

        A log file belongs to the slice named in its file name. A log file written during a pending compaction must
        carry the compaction's instant (`FileSlice.compacting`): the plan does not contain it, so it would be lost.
        """
        del completed
        mine = _appended(self.written) if now.rules.logs_name_their_slice else {}
        for other in now.pending_of(Action.COMPACTION) if mine else ():
            late = {group for group, base in mine.items() if base < other.requested}
            both = late & compacted_groups(self.store, other) if late else set()
            if both:
                raise self._conflict(f"compaction {other.requested}, planned meanwhile, takes {min(both).text}")

    def check_restores(self, now: Timeline, completed: Completed) -> None:
        """Refuse what a pending restore is about to roll back."""
        del completed
        for other in now.pending_of(Action.RESTORE):
            raise self._conflict(f"the restore {other.requested} is pending", BlockedError)

    def check_gone(self, now: Timeline, completed: Completed) -> None:
        """Refuse what may build on commits that were rolled back."""
        del completed
        for each in self.seen.rolled_back_in(now):
            raise self._conflict(f"commit {each.requested}, which this write builds on, was rolled back meanwhile")

    def _shared_partitions(self, theirs: CommitMetadata) -> set[str]:
        """Partitions into which both put new keys that may be the same."""
        mine, others = insert_partitions(self.written), insert_partitions(theirs)
        if self.keys_unique is KeyScope.TABLE:
            return mine if others else set()
        return mine & others if self.keys_unique is KeyScope.PARTITION else set()

    def _replaces(self, partition: str) -> bool:
        whole = self.written.operation_type == "INSERT_OVERWRITE_TABLE"
        return whole or partition in (self.written.partition_to_replace_file_ids or {})

    def _meanwhile(self, other: Instant, what: str, kind: type[ConflictError] = ConflictError) -> ConflictError:
        return self._conflict(f"commit {other.requested}, completed meanwhile, {what}", kind)

    def _conflict(self, what: str, kind: type[ConflictError] = ConflictError) -> ConflictError:
        return kind(f"{what}; {_ADVICE}", table=self.store.storage.root, instant=self.own.requested)


CONFLICT_RULES: tuple[ConflictRule, ...] = (
    ConflictRule(
        "a write, overwrite or clustering that completed meanwhile",
        "both wrote or replaced one file group; with a bucket index, one bucket",
        "the same",
        ConflictCheck.check_groups,
    ),
    ConflictRule(
        "in place of that, with NON_BLOCKING_CONCURRENCY_CONTROL: a write that completed meanwhile",
        "it changed the buckets of this write as described below the table",
        "no conflict",
        ConflictCheck.check_buckets,
    ),
    ConflictRule(
        "a write that completed meanwhile",
        "it wrote into a partition that this write replaces",
        "no conflict: its records stay beside the new ones",
        ConflictCheck.check_replaced,
    ),
    ConflictRule(
        "a write that completed meanwhile",
        "it changed a partition that this write read ([isolation](#how-isolated-a-verb-is))",
        "no conflict: each may miss records of the other",
        ConflictCheck.check_reads,
    ),
    ConflictRule(
        "a clustering or overwrite that completed meanwhile",
        "with consistent hashing: it gave new buckets to a partition that this write changes",
        "the same, by file groups",
        ConflictCheck.check_ring,
    ),
    ConflictRule(
        "a write that completed meanwhile",
        "both add new keys to one partition (with a global index: to the table), and this write must find each key "
        "once (upsert, merge); not with a bucket index",
        "no conflict: a key that both insert is stored twice",
        ConflictCheck.check_inserts,
    ),
    ConflictRule(
        "a compaction that completed meanwhile",
        "this write made or replaced a base file of a file group that it compacted, or added log files to it "
        "as described below the table",
        "from version 8 on no conflict; below, if it was planned after this write began",
        ConflictCheck.check_compacted,
    ),
    ConflictRule(
        "a pending clustering",
        "this write wrote one of its file groups, unless the clustering yields (PreferWriterConflictResolutionStrategy "
        "or SparkAllowUpdateStrategy)",
        "the same",
        ConflictCheck.check_clusterings,
    ),
    ConflictRule(
        "a pending compaction",
        "below version 8: it was planned meanwhile, and takes a file slice to which this write added log files",
        "the same",
        ConflictCheck.check_compactions,
    ),
    ConflictRule(
        "a pending restore", "always", "no conflict: the restore rolls the write back", ConflictCheck.check_restores
    ),
    ConflictRule(
        "a rollback or restore that completed meanwhile",
        "it rolled back a commit that this write was planned from",
        "only a rollback of the write itself",
        ConflictCheck.check_gone,
    ),
)
"""Rules of conflict in the order of checking. Services that change no records have none."""


def conflict_table() -> str:
    """The rules as a table of Markdown, for docs/concurrency.md."""
    rows = [f"| {rule.other} | {rule.conflict} | {rule.hudi} |" for rule in CONFLICT_RULES]
    return "\n".join(("| other action | conflict, if | Hudi |", "|---|---|---|", *rows)) + "\n"


def _writes(completed: Completed) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The commits that aren't compactions, which keep all records."""
    return ((other, theirs) for other, theirs in completed if theirs.operation_type != COMPACT)


def _rebased(metadata: CommitMetadata) -> set[FileGroupId]:
    """File groups to which base files were added."""
    return {
        FileGroupId(partition, stat.file_id or "")
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if parse_log_file(basename(stat.path or "")) is None
    }


def _appended(metadata: CommitMetadata) -> dict[FileGroupId, str]:
    """File groups to which log files were added, with the least instant that these bear."""
    found: dict[FileGroupId, str] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            log = parse_log_file(basename(stat.path or ""))
            if log is not None and not log.cdc:
                group = FileGroupId(partition, stat.file_id or "")
                found[group] = min(found.get(group, log.instant), log.instant)
    return found
