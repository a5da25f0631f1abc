"""Partitions of the metadata table whose first entries were rolled back, though the table calls them ready.

Hudi's CREATE INDEX, right behind the building of another index, rolls that building back: it takes the same instant
(HoodieBackedTableMetadataWriter.generateUniqueInstantTime, SparkHoodieBackedTableMetadataWriter.commitInternal). What
writers add to such a partition afterwards looks like the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.format import Action, parse_base_file
from pudi.timeline import Instant, Timeline, TimelineStore

_seen_until: dict[str, str] = {}
"""By location of a metadata table: the time until which this process has seen its instants, and nothing lost."""


def invalidated_partitions(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """The partitions that were so emptied, and not built anew since.

    Only the building of a partition writes base files in a delta commit; so a rollback of one that deleted some took
    its entries.

    Args:
        own: the metadata table's timeline.
        store: where it lies.

    Raises:
        CorruptError: what an instant says can't be read.
        NotFoundError: an instant is gone from the timeline, and not in the archive.
    """
    lost: dict[str, str] = {}
    for rollback in own.of(Action.ROLLBACK):
        done = store.decoded(rollback)
        if any(each["action"] == Action.DELTACOMMIT.value for each in done.get("instantsRollback", ())):
            for partition, files in done["partitionMetadata"].items():
                if _has_base(files["successDeleteFiles"]):
                    lost[partition] = max(own.order(rollback), lost.get(partition, ""))
    for commit in own.of(Action.DELTACOMMIT) if lost else ():
        rebuilt = {name for name, when in lost.items() if own.order(commit) >= when and _builds(store, commit, name)}
        lost = {name: when for name, when in lost.items() if name not in rebuilt}
    return frozenset(lost)


def ever_invalidated_partitions(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """The same by the archived part of the timeline too, which a process reads once for each metadata table.

    Args:
        own: the metadata table's active timeline.
        store: where it lies.

    Raises:
        CorruptError: the archive, or what an instant says, can't be read.
        NotFoundError: an instant is gone from the timeline, and not in the archive.
    """
    root, newest = store.storage.root, own.newest_time or ""
    known = own.start is not None and own.start <= _seen_until.get(root, "")
    lost = invalidated_partitions(own if known else own.with_archived(store.archived()), store)
    if lost:
        _seen_until.pop(root, None)
    else:
        _seen_until[root] = newest
    return lost


def _builds(store: TimelineStore, commit: Instant, partition: str) -> bool:
    stats = store.read_commit_metadata(commit).partition_to_write_stats.get(partition, ())
    return _has_base(stat.path or "" for stat in stats)


def _has_base(paths: Iterable[str]) -> bool:
    return any(parse_base_file(path.rpartition("/")[2]) is not None for path in paths)
