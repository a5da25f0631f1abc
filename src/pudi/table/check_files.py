"""Files that must be there: by what the metadata table lists, and by what commits say that they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pudi.client import MetaClient
from pudi.client.lost_instants import find_lost
from pudi.context import FileInfo
from pudi.filegroup import FileSlice, FileSystemView
from pudi.format import Action, is_shared_bucket, parse_data_file, parse_log_file
from pudi.format.metadata_partitions import FILES
from pudi.indexes.checking import Difference
from pudi.task.finding import DATA_FILES
from pudi.timeline import Timeline

TIMELINE = "timeline"
"""Place of a difference that concerns the timeline itself."""

_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})


def listing_differences(
    meta: MetaClient,
    listed: Mapping[str, Sequence[FileInfo]],
    timeline: Timeline,
    folders: Mapping[str, Sequence[FileInfo]],
    slices: Sequence[FileSlice],
) -> Iterator[Difference]:
    """Files that are listed and aren't there, are there and aren't listed, or have another size.

    Files of pending or dead writes are in no list, even in a new partition; and files that a running clean deletes may
    be missing.

    Args:
        meta: the table.
        listed: the files that its metadata table lists, by partition path.
        timeline: its timeline, loaded before.
        folders: the files that are there, by partition path.
        slices: its latest slices by its folders.
    """
    for partition in sorted({each.partition for each in slices} - listed.keys()):
        yield Difference(FILES, partition, "the partition is not listed")
    needed = {path for each in slices for path in paths_of(each)}
    done = {i.requested for i in timeline.instants if i.is_completed}
    others = [i for i in meta.store.load().instants if i.requested not in done]
    cleaning = any(i.action in _DELETING for i in others)
    if others and timeline.rules.logs_name_their_slice:
        needed &= _not_of_others(meta, timeline, needed)
    for partition in sorted(listed):
        there = {info.path: info.size for info in folders.get(partition, ()) if _is_data(info.path)}
        said = {info.path: info.size for info in listed[partition]}
        for path in sorted(said.keys() - there.keys()):
            if not cleaning:
                yield Difference(FILES, path, "the file is listed, but missing")
        for path in sorted(there.keys() - said.keys()):
            if path in needed:
                yield Difference(FILES, path, "the file is not listed, so readers miss its records")
        for path in sorted(said.keys() & there.keys()):
            if said[path] != there[path]:
                yield Difference(FILES, path, f"listed with {said[path]:,} bytes, it has {there[path]:,}")


def _not_of_others(meta: MetaClient, timeline: Timeline, paths: set[str]) -> set[str]:
    """Return the paths that aren't log files of an incomplete write; below version 8 names don't tell."""
    metadata = [meta.store.read_commit_metadata(instant) for instant in timeline.commits]
    stated = {stat.path for each in metadata for stats in each.partition_to_write_stats.values() for stat in stats}
    return {path for path in paths if path in stated or parse_log_file(path.rpartition("/")[2]) is None}


def lost_files(
    meta: MetaClient,
    timeline: Timeline,
    folders: Mapping[str, Sequence[FileInfo]],
    view: FileSystemView,
    slices: Iterable[FileSlice],
) -> Iterator[Difference]:
    """Return missing files of completed commits whose records no newer file has.

    Args:
        meta: the table.
        timeline: its active timeline; files of older commits are not checked.
        folders: the files that are there, by partition path.
        view: the view that the slices come from.
        slices: its latest slices by its folders.
    """
    there = {info.path for infos in folders.values() for info in infos}
    bases = {(each.partition, each.file_id): each.base for each in slices}
    lost: dict[str, str] = {}
    for instant in timeline.commits:
        for partition, stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                path, group = stat.path or "", (partition, stat.file_id or "")
                log = parse_log_file(path.rpartition("/")[2])
                if not path or path in there or not _is_data(path) or (log is not None and log.cdc):
                    continue
                base = bases.get(group)
                if (base is None or base.instant <= instant.requested) and not view.is_replaced(*group):
                    lost[path] = instant.requested
    for path, requested in sorted(lost.items()):
        yield Difference(DATA_FILES, path, f"the file that commit {requested} wrote is gone, and its records with it")


def copied_files(folders: Mapping[str, Sequence[FileInfo]]) -> Iterator[Difference]:
    """Return the file ids that lie in two partitions by files of one name: a copy of a partition's folder.

    Args:
        folders: the files that are there, by partition path.
    """
    places: dict[str, list[str]] = {}
    for partition, infos in folders.items():
        for info in infos:
            places.setdefault(info.path.rpartition("/")[2], []).append(partition)
    copied: dict[tuple[str, ...], list[str]] = {}
    for name, partitions in places.items():
        parsed = parse_data_file(name) if len(partitions) > 1 else None
        if parsed is not None and not is_shared_bucket(parsed.file_id):
            copied.setdefault((parsed.file_id, *sorted(partitions)), []).append(name)
    for (file_id, *partitions), names in sorted(copied.items()):
        yield Difference(
            DATA_FILES,
            f"{partitions[-1]}/{min(names)}".lstrip("/"),
            f"file id {file_id} lies in the partitions {', '.join(map(repr, partitions))}: one folder is a copy of the "
            "other, and its rows may come twice; move the copy out of the table",
        )


def lost_instants(meta: MetaClient, timeline: Timeline) -> Iterator[Difference]:
    """Return instants of the active timeline that had completed and whose completed file is missing."""
    for lost in find_lost(meta, timeline, timeline.commits):
        yield Difference(TIMELINE, lost.requested, lost.text)


def _is_data(path: str) -> bool:
    return parse_data_file(path.rpartition("/")[2]) is not None


def paths_of(file_slice: FileSlice) -> list[str]:
    """Paths of a slice's files."""
    return [*([] if file_slice.base is None else [file_slice.base.path]), *(log.path for log in file_slice.logs)]
