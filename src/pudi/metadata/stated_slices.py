"""Check that a file group of the metadata table has all that its commits state: base file size and log blocks.

An index with missing entries would answer as if these records did not exist. So lost and replaced files are detected
before a look-up, on local disks; not in stores where reading each commit costs a request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup import FileSlice
from pudi.format import WriteStat
from pudi.storage import local_path
from pudi.timeline import Instant, Timeline, TimelineStore

_REMEDY = "restore it from a copy, or rebuild the metadata table (`pudi repair`)"


def check_slice(
    store: TimelineStore,
    timeline: Timeline,
    sees: Callable[[str], bool],
    partition: str,
    file_slice: FileSlice,
    instants: Collection[str],
) -> None:
    """Refuse a file group that lacks something that a completed commit wrote to it.

    It reads the commits that no log block names; most of these wrote to other file groups.

    Args:
        store: the storage of the metadata table's timeline.
        timeline: its active timeline.
        sees: whether the reader sees an instant.
        partition: the metadata table's partition.
        file_slice: the latest slice of the file group.
        instants: instants of the blocks in the slice's log files.

    Raises:
        CorruptError: a log file or a block is missing, or the base file has another size than its commit states.
    """
    if local_path(store.storage, store.folder) is None:
        return
    since, commits = file_slice.instant, [instant for instant in timeline.commits if sees(instant.requested)]
    for instant in commits:
        if instant.requested == file_slice.instant:  # it built (or rebuilt) the file group, or compacted it
            since = timeline.order(instant)
            _check_base(store, instant, partition, file_slice)
    for instant in commits:
        # later completed commits wrote to this slice, even if requested before the compaction that made it
        if timeline.order(instant) > since and instant.requested not in instants:
            _check_logs(store, instant, partition, file_slice)


def _check_base(store: TimelineStore, instant: Instant, partition: str, file_slice: FileSlice) -> None:
    base = file_slice.base
    for stat in _stats(store, instant, partition, file_slice.file_id):
        size = stat.file_size_in_bytes
        if base is not None and stat.path == base.path and size and size != base.size:
            raise CorruptError(
                f"a base file of the metadata table isn't the one that was written: it has {base.size} bytes, where "
                f"its commit states {size}; {_REMEDY}",
                table=store.storage.root,
                path=base.path,
                instant=instant.requested,
            )


def _check_logs(store: TimelineStore, instant: Instant, partition: str, file_slice: FileSlice) -> None:
    there = {log.path for log in file_slice.logs}
    for stat in _stats(store, instant, partition, file_slice.file_id):
        if stat.log_version is None or (
            stat.path in there and store.rules.logs_name_their_commit
        ):  # its blocks were compacted
            continue
        what = "has no block of an instant that wrote one" if stat.path in there else "is gone"
        raise CorruptError(
            f"a log file of the metadata table {what}; {_REMEDY}",
            table=store.storage.root,
            path=stat.path,
            instant=instant.requested,
        )


def _stats(store: TimelineStore, instant: Instant, partition: str, file_id: str) -> Iterator[WriteStat]:
    try:
        metadata = store.read_commit_metadata(instant)
    except NotFoundError:  # archived since the timeline was loaded
        return
    for stat in metadata.partition_to_write_stats.get(partition, ()):
        if stat.file_id == file_id:
            yield stat
