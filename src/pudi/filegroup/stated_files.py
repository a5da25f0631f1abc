"""Files that must be there, and how large base files are, by what completed commits on the timeline state.

Only folder listings need it: a metadata table lists stated sizes already. Archived commits are not read. Source:
HoodieWriteStat (path, and fileSizeInBytes: the length of the file when its writer closed it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.slices import FileSlice
from pudi.format import PARTITION_METADATA, Action, FileGroupId, LogFileName, WriteStat, parse_data_file
from pudi.storage import local_path
from pudi.timeline import Instant, Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class _Stated:
    """Files of one file group that commits state.

    Attributes:
        instant: requested time of the newest commit that wrote a base file; empty where none did.
        sizes: the base files of that commit, each with the sizes that are stated of it. A file that was written again
            within one commit, as Flink's writers do, has several.
        logs: log files that were written, with the commit of each.
    """

    instant: str = ""
    sizes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)

    def with_stat(self, partition: str, stat: WriteStat, requested: str) -> _Stated:
        """Return the stated sizes with those of one later commit added."""
        name = parse_data_file(basename(stat.path or ""))
        if name is None:
            return self
        path = f"{partition}/{name.name}" if partition else name.name
        if isinstance(name, LogFileName):
            return self if name.cdc else replace(self, logs={**self.logs, path: requested})
        if name.instant != requested:
            return self
        sizes = self.sizes.get(path, frozenset()) | {stat.file_size_in_bytes}
        return replace(self, instant=requested, sizes={**self.sizes, path: sizes})


def _commits_to_ask(store: TimelineStore, seen: Timeline) -> list[Instant]:
    """The completed commits on the active timeline that say which files there are.

    On a local disk all commits; in object stores, where each costs a request, only commits that are read anyway.

    Args:
        store: the timeline in storage.
        seen: the part of the timeline that the reader sees.
    """
    active = [instant for instant in seen.commits if not instant.archived]
    if active and local_path(store.storage, store.folder) is None:
        return [instant for instant in active if store.has_read(instant)]
    return active


def stated_base_sizes(store: TimelineStore, seen: Timeline, paths: Iterable[str]) -> dict[str, int]:
    """Return the sizes that commits state of base files, by path, without files that no commit or several ones name.

    Args:
        store: the timeline in storage.
        seen: the part of the timeline that the reader sees.
        paths: the base files.
    """
    wanted: dict[str, str] = {}
    for path in paths:
        name = parse_data_file(basename(path))
        if name is not None:
            wanted[path] = name.instant
    found: dict[str, set[int]] = {}
    for instant in _commits_to_ask(store, seen):
        if instant.requested in wanted.values():
            for stats in store.read_commit_metadata(instant).partition_to_write_stats.values():
                for stat in stats:
                    if wanted.get(stat.path or "") == instant.requested:
                        found.setdefault(stat.path or "", set()).add(stat.file_size_in_bytes or 0)
    return {path: size for path, sizes in found.items() if len(sizes) == 1 and (size := next(iter(sizes)))}


def check_stated(
    store: TimelineStore,
    seen: Timeline,
    slices: Sequence[FileSlice],
    replaced: Collection[FileGroupId],
    partitions: Collection[str] | None = None,
    groups: Collection[FileGroupId] | None = None,
) -> None:
    """Refuse slices that lack a file of a completed commit, or whose base file differs from the committed one.

    A base file is superseded by one of a later commit, a log file by a base file that was requested after its commit:
    only then, or when its file group was replaced, cleaners take it away.

    Args:
        store: the timeline in storage.
        seen: the part of the timeline that the reader sees.
        slices: latest slices that it sees.
        replaced: file groups that were taken out of the table.
        partitions: those that `slices` are of; None for all.
        groups: file groups that they are of; None for all of the partitions.

    Raises:
        NotFoundError: a file is gone.
        CorruptError: a base file has another size than its commit states, or a partition's metadata file is gone.
    """
    known = _stated(store, _commits_to_ask(store, seen), partitions, groups)
    found = {s.group: s for s in slices}
    for group, stated in known.items():
        if group in replaced:
            continue
        base = found[group].base if group in found else None
        if stated.instant > ("" if base is None else base.instant):
            _refuse(store, group, stated.instant, next(iter(stated.sizes)))
        elif base is not None and base.instant == stated.instant:
            sizes = stated.sizes.get(base.path)
            if sizes and 0 not in sizes and base.size not in sizes:
                store.storage.head(base.path)  # report it as no file, whatever its size
                raise CorruptError(
                    f"the base file isn't the one that was written: it has {base.size} bytes, but its commit states "
                    f"{max(sizes)}; restore the file from a copy, or roll back this commit and all later ones",
                    table=store.storage.root,
                    path=base.path,
                    instant=base.instant,
                )
        if stated.logs:
            there = {log.path for log in found[group].logs} if group in found else set()
            for path, requested in stated.logs.items():
                if path not in there and (base is None or base.instant <= requested):
                    _refuse(store, group, requested, path)


def _refuse(store: TimelineStore, group: FileGroupId, requested: str, path: str) -> None:
    """Raise for a file that is gone, unless an archived replacecommit took its file group out of the table.

    That is so where a savepoint kept the file's commit on the timeline longer than the replacecommit.
    """
    if store.has_history() and group in replaced_since(store, requested):
        return
    if _is_there(store.storage, path):
        raise CorruptError(
            f"the partition {group.partition!r} isn't listed, although commit {requested} wrote {path}: its "
            f"{PARTITION_METADATA} is gone; restore it from a copy",
            table=store.storage.root,
            path=f"{group.partition}/{PARTITION_METADATA}",
            instant=requested,
        )
    raise NotFoundError(
        f"the file that commit {requested} wrote is gone, and no later commit replaced it: restore it from a copy, or "
        "roll back this commit and all later ones (if a cleaner just deleted it, read the table again)",
        table=store.storage.root,
        path=path,
        instant=requested,
    )


def _is_there(storage: Storage, path: str) -> bool:
    try:
        storage.head(path)
    except NotFoundError:
        return False
    return True


def replaced_since(store: TimelineStore, requested: str) -> set[FileGroupId]:
    """File groups that archived replacecommits took out of the table."""
    return {
        group
        for instant in store.archived(requested)
        if instant.action is Action.REPLACECOMMIT
        for group in store.read_commit_metadata(instant).replaced_groups
    }


def _stated(
    store: TimelineStore,
    commits: Iterable[Instant],
    partitions: Collection[str] | None,
    groups: Collection[FileGroupId] | None,
) -> Mapping[FileGroupId, _Stated]:
    found: dict[FileGroupId, _Stated] = {}
    for instant in sorted(commits, key=lambda each: each.requested, reverse=True):
        requested = instant.requested
        stats_of = store.read_commit_metadata(instant).partition_to_write_stats
        for partition in stats_of if partitions is None else stats_of.keys() & partitions:
            for stat in stats_of[partition]:
                group = FileGroupId(partition, stat.file_id or "")
                stated = found.get(group)
                if stated is not None and stated.instant > requested:  # a later base file took in what this one wrote
                    continue
                if not (stat.num_writes or stat.num_deletes) or (groups is not None and group not in groups):
                    continue  # a writer that found nothing to do may state a file that it never made
                found[group] = (stated or _Stated()).with_stat(partition, stat, requested)
    return found
