"""Partitions of the metadata table whose first entries were rolled back although the table lists them as ready.

If Hudi's CREATE INDEX runs directly after another index build, it rolls that build back, since it uses the same instant
(HoodieBackedTableMetadataWriter.generateUniqueInstantTime, SparkHoodieBackedTableMetadataWriter.commitInternal). The
entries that writers add afterwards then look like the whole index.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.format import Action, parse_base_file
from pudi.timeline import Instant, Timeline, TimelineStore

_seen_until: dict[str, str] = {}
"""Locations of metadata tables with the time up to which this process found no rolled-back build."""


def invalidated_partitions(own: Timeline, store: TimelineStore) -> frozenset[str]:
    """Return the partitions that lost their first entries and were not rebuilt since.

    In a deltacommit only an index build writes base files, so a rollback that deleted base files removed the build's
    entries.

    Args:
        own: the metadata table's timeline.
        store: the timeline's storage.

    Raises:
        CorruptError: an instant can't be read.
        NotFoundError: an instant is gone from the timeline and not in the archive.
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
    """Like `invalidated_partitions`, including the archive, which a process reads once per metadata table.

    Args:
        own: the metadata table's active timeline.
        store: the timeline's storage.

    Raises:
        CorruptError: the archive or an instant can't be read.
        NotFoundError: an instant is gone from the timeline and not in the archive.
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
