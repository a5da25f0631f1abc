"""Which concurrent commits may both stand (optimistic concurrency, SimpleConcurrentFileWritesConflictResolution)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pudi.errors import ConflictError
from pudi.format import CommitMetadata
from pudi.timeline import Instant, Timeline


def check_conflicts(
    table: str,
    own: Instant,
    written: CommitMetadata,
    seen: Timeline,
    now: Timeline,
    metadata_of: Callable[[Instant], CommitMetadata],
    *,
    keys_unique: bool,
) -> None:
    """Refuse to complete a write that a commit made since it began contradicts. Called under the table's lock.

    Two writes contradict each other when both wrote or replaced a file group. Stricter than Hudi: also when both put
    new keys into one partition while at least ours promises unique keys (upsert), since both may have inserted the
    same key into different file groups.

    Args:
        table: the table's location, for the error.
        own: the instant about to be completed.
        written: what it wrote.
        seen: the timeline that it planned from.
        now: the timeline under the lock.
        metadata_of: commit metadata of a completed instant.
        keys_unique: whether our operation promises that a key lives in one file group.

    Raises:
        ConflictError: naming the other instant and what both wrote.
    """
    known = {i.requested for i in seen.commits}
    ours, our_inserts = _groups(written), _insert_partitions(written)
    for other in now.commits:
        if other.requested in known or other.requested == own.requested:
            continue
        theirs = metadata_of(other)
        both = ours & (_groups(theirs) | _replaced(theirs))
        advice = "nothing of this write is visible; read the table again and retry"
        if both:
            partition, file_id = min(both)
            raise ConflictError(
                f"commit {other.requested}, completed meanwhile, also wrote file group {file_id} of partition "
                f"{partition!r}; {advice}",
                table=table,
                instant=own.requested,
            )
        shared = our_inserts & _insert_partitions(theirs) if keys_unique else set()
        if shared:
            raise ConflictError(
                f"commit {other.requested}, completed meanwhile, also inserted records into partition {min(shared)!r}, "
                f"perhaps the same keys; {advice}",
                table=table,
                instant=own.requested,
            )


def _groups(metadata: CommitMetadata) -> set[tuple[str, str]]:
    return {(p, s.file_id or "") for p, stats in metadata.partition_to_write_stats.items() for s in stats}


def _replaced(metadata: CommitMetadata) -> set[tuple[str, str]]:
    replaced = metadata.partition_to_replace_file_ids or {}
    return {(partition, file_id) for partition, ids in replaced.items() for file_id in ids}


def _insert_partitions(metadata: CommitMetadata) -> set[str]:
    return {p for p, stats in metadata.partition_to_write_stats.items() if _any_inserts(s.num_inserts for s in stats)}


def _any_inserts(counts: Iterable[int | None]) -> bool:
    return any(counts)
