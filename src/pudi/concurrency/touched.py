"""File groups and partitions that a write touches; check that none of it has changed since the user read the table.

A commit is *unseen* if it completed after the commit of that instant, or was requested after it: a snapshot shows
completed commits, a time travel read shows requested ones. In layout 1 only requested times count, since completion
times are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from pudi.errors import ChangedSinceError
from pudi.format import WRITE_ACTIONS, Action, CommitMetadata, FileGroupId, bucket_of_file_id
from pudi.timeline import Instant, Timeline, TimelineStore

Reads: TypeAlias = Callable[[Collection[str]], Collection[str]]
"""Selects of given partitions those that a write read, or would have read if they existed."""


class KeyScope(Enum):
    """Within what a record key lives in one file group."""

    BUCKET = auto()
    """The partition, in which the key's hash determines the file group."""
    RING = auto()
    """Likewise, by consistent hashing: a write that replaces a partition's file groups gives new ones to its hashes."""
    PARTITION = auto()
    TABLE = auto()


@dataclass(frozen=True, slots=True)
class Touched:
    """Changes of a write to a table, as far as they are known.

    Attributes:
        groups: file groups that it writes or replaces.
        inserts: partitions that get new keys.
        scope: where a key lives in one file group; None where that isn't promised.
        reads: which partitions it reads; None for none.
    """

    groups: frozenset[FileGroupId]
    inserts: frozenset[str]
    scope: KeyScope | None
    reads: Reads | None = None

    @classmethod
    def of(cls, written: CommitMetadata, scope: KeyScope | None, reads: Reads | None) -> Touched:
        """Return the changes that a commit made."""
        groups = frozenset(written.touched_groups)
        return cls(groups, frozenset(insert_partitions(written)), scope, reads)

    @property
    def partitions(self) -> set[str]:
        """Partitions that it writes to."""
        return {partition for partition, _ in self.groups} | self.inserts


def insert_partitions(metadata: CommitMetadata) -> set[str]:
    """Partitions that got new keys by a commit; a clustering only moves records."""
    if metadata.is_clustering:
        return set()
    return {p for p, stats in metadata.partition_to_write_stats.items() if any(s.num_inserts for s in stats)}


def owned(groups: Collection[FileGroupId], scope: KeyScope | None) -> set[FileGroupId]:
    """Return what no concurrent commit may write: file groups; in a bucket table buckets, named as file groups."""
    if scope is not KeyScope.BUCKET:
        return set(groups)
    buckets = ((p, file_id, bucket_of_file_id(file_id)) for p, file_id in groups)
    return {FileGroupId(p, file_id if bucket is None else f"{bucket:08}") for p, file_id, bucket in buckets}


_DELETES = frozenset({"DELETE", "DELETE_PREPPED"})
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Commit:
    instant: Instant
    done: CommitMetadata

    @property
    def groups(self) -> set[FileGroupId]:
        return self.done.touched_groups

    @property
    def replaced(self) -> set[str]:
        """Partitions that file groups were taken out of."""
        return {partition for partition, _ in self.done.replaced_groups}

    @property
    def keys(self) -> set[str]:
        """Partitions in which a key came or went."""
        stats = self.done.partition_to_write_stats
        gone = {p for p, each in stats.items() if any(s.num_deletes for s in each)}
        if self.done.operation_type in _DELETES:
            gone = set(stats)
        return insert_partitions(self.done) | gone | self.replaced


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The user's statement that the data to write was derived from the table at an instant.

    Attributes:
        store: the table's timeline.
        since: the instant.
        unseen: commits and restores that the user hasn't seen, oldest first, as of when the write began.
        known: requested times of all that were completed by then.
    """

    store: TimelineStore
    since: str
    unseen: tuple[Instant, ...]
    known: frozenset[str]

    def check(self, touched: Touched, now: Timeline, own: str | None = None) -> None:
        """Raise where what a write touches has changed.

        Compactions don't count, they keep all records. What was put into other file groups since, by a clustering or an
        overwrite, can't be compared by these: there partitions are.

        Args:
            touched: what the write does.
            now: the timeline now.
            own: requested time of the write's instant.

        Raises:
            ChangedSinceError: naming the commits.
        """
        found = list(self._changes(touched, now, own))
        if not found:
            return
        names = [f"{instant.action.value} {instant.requested} {what}" for instant, what in found[:_MOST_NAMED]]
        more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise self.changed(", ".join(names) + more, found[-1][0].requested)

    def changed(self, what: str, instant: str) -> ChangedSinceError:
        """The error that says what has changed."""
        return ChangedSinceError(
            f"the table has changed since {self.since}, which this write is based on: {what}. Nothing of this write is "
            "visible: read the table again, and write what comes of that with the new scan's instant",
            table=self.store.storage.root,
            instant=instant,
        )

    def _changes(self, touched: Touched, now: Timeline, own: str | None) -> Iterator[tuple[Instant, str]]:
        """The instants that contradict the write, oldest first, and what each did."""
        new = [i for i in now.instants if counts(i) and i.requested not in self.known and i.requested != own]
        commits = []
        for instant in (*self.unseen, *new):
            if instant.action is Action.RESTORE:
                yield instant, "went back to an earlier state"
                continue
            metadata = self.store.read_commit_metadata(instant)
            if not (metadata.is_compaction or metadata.compacted):
                commits.append(_Commit(instant, metadata))
        moved = {p for each in commits if each.done.is_clustering for p in each.replaced}
        for commit in commits:
            what = None if commit.done.is_clustering else _contradiction(commit, touched, moved)
            if what is not None:
                yield commit.instant, what


def counts(instant: Instant) -> bool:
    """Return whether an instant may have changed records."""
    return instant.is_completed and (instant.action in WRITE_ACTIONS or instant.action is Action.RESTORE)


def _contradiction(commit: _Commit, touched: Touched, moved: set[str]) -> str | None:
    """Return how a commit changed data that a write touches."""
    theirs = {partition for partition, _ in commit.groups}
    both = owned(touched.groups, touched.scope) & owned(commit.groups, touched.scope)
    if both:
        return f"wrote {min(both).text}"
    whole = touched.partitions & (commit.replaced | (theirs & moved))
    if whole:
        return f"changed partition {min(whole)!r}, whose records are in other file groups by now"
    if touched.inserts and touched.scope not in {KeyScope.BUCKET, KeyScope.RING}:
        keys = commit.keys if touched.scope is KeyScope.TABLE else commit.keys & touched.inserts
        if keys:
            return f"inserted or deleted records in partition {min(keys)!r}"
    read = () if touched.reads is None or not theirs else touched.reads(sorted(theirs))
    return f"changed partition {min(read)!r}" if read else None
