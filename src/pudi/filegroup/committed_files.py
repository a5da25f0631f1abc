"""Compare data files with those that completed commits name: missing, replaced and unnamed files.

Commits state which files must be there, and how large base files are. Every read and write verifies the newest commit,
whose metadata it has read anyway (`verify_committed_files`, `verify_committed_logs`). Folder listings are compared with
all commits on the timeline (`check_stated`): a metadata table lists stated sizes already. Archived commits are not
read.

Files that no commit names are left by processes that were taken for dead: one may write its file after another run of
its plan has completed, and die before it deletes the file. Beside the file that the commit names, readers pass over it.
The commit may also name none of the file group, if that was replaced meanwhile. A loss of power may delete a marker and
keep the file, on local disks only. Such files are found by listing all folders, whether they are known as partitions or
not.

Source: HoodieWriteStat (path, and fileSizeInBytes: the length of the file when its writer closed it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.committed_logs import stated_sizes
from pudi.filegroup.listing import own_files
from pudi.filegroup.log_scan import read_blocks
from pudi.filegroup.markers import Markers
from pudi.filegroup.slices import UNNAMED, FileSlice, LogFile
from pudi.format import (
    HOODIE_DIR,
    PARTITION_METADATA,
    Action,
    BaseFileName,
    FileGroupId,
    Layout,
    LogFileName,
    WriteStat,
    file_path,
    parse_data_file,
    parse_log_file,
)
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind
from pudi.storage import is_near, local_path
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
        path = file_path(partition, name.name)
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
    if not is_near(store.storage):
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
            for stat in store.read_commit_metadata(instant).stats:
                if wanted.get(stat.path or "") == instant.requested:
                    found.setdefault(stat.path or "", set()).add(stat.file_size_in_bytes or 0)
    return {path: size for path, sizes in found.items() if len(sizes) == 1 and (size := next(iter(sizes)))}


@dataclass(frozen=True, slots=True)
class ListedSlices:
    """The latest slices of some file groups as a reader sees them, to be compared with what commits and cleans did.

    Attributes:
        slices: the slices.
        replaced: file groups that were out of the table already.
        partitions: partitions that `slices` are of; None for all.
        groups: file groups that they are of; None for all of the partitions.
    """

    slices: Sequence[FileSlice]
    replaced: Collection[FileGroupId]
    partitions: Collection[str] | None = None
    groups: Collection[FileGroupId] | None = None

    @property
    def by_group(self) -> Mapping[FileGroupId, FileSlice]:
        """The slices by file group."""
        return {each.group: each for each in self.slices}

    def covers(self, group: FileGroupId) -> bool:
        """Return whether a file group that isn't replaced was listed."""
        if self.partitions is not None and group.partition not in self.partitions:
            return False
        return group not in self.replaced and (self.groups is None or group in self.groups)


def check_stated(store: TimelineStore, seen: Timeline, listed: ListedSlices) -> None:
    """Refuse slices that lack a file of a completed commit, or whose base file differs from the committed one.

    A base file is superseded by one of a later commit, a log file by a base file that was requested after its commit:
    only then, or when its file group was replaced, cleaners take it away.

    Args:
        store: the timeline in storage.
        seen: the part of the timeline that the reader sees.
        listed: the slices.

    Raises:
        NotFoundError: a file is gone.
        CorruptError: a base file has another size than its commit states, or a partition's metadata file is gone.
    """
    found = listed.by_group
    for group, stated in _stated(store, _commits_to_ask(store, seen), listed).items():
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


def _stated(store: TimelineStore, commits: Iterable[Instant], listed: ListedSlices) -> Mapping[FileGroupId, _Stated]:
    found: dict[FileGroupId, _Stated] = {}
    for instant in sorted(commits, key=lambda each: each.requested, reverse=True):
        requested = instant.requested
        stats_of = store.read_commit_metadata(instant).partition_to_write_stats
        for partition in stats_of if listed.partitions is None else stats_of.keys() & listed.partitions:
            for stat in stats_of[partition]:
                group = FileGroupId(partition, stat.file_id or "")
                stated = found.get(group)
                if stated is not None and stated.instant > requested:  # a later base file took in what this one wrote
                    continue
                if not (stat.num_writes or stat.num_deletes) or not listed.covers(group):
                    continue  # a writer that found nothing to do may state a file that it never made
                found[group] = (stated or _Stated()).with_stat(partition, stat, requested)
    return found


def files_written(
    store: TimelineStore, instants: Sequence[Instant], groups: Collection[FileGroupId] | None = None
) -> dict[FileGroupId, str]:
    """Return the last commit that wrote to each file group, by partition path and file id.

    For a log file named by another instant than the commit's (below version 8), it is that instant.

    Args:
        store: the timeline in storage.
        instants: the commits.
        groups: the file groups to look for; None for all.
    """
    found: dict[FileGroupId, str] = {}
    for instant in instants:
        for partition, stats in store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                group = FileGroupId(partition, stat.file_id or "")
                if (groups is None or group in groups) and (stat.num_writes or stat.num_deletes):
                    found[group] = _in_name(stat.path) or instant.requested
    return found


def verify_committed_files(store: TimelineStore, written: Mapping[FileGroupId, str], listed: ListedSlices) -> None:
    """Raise an error if a committed base file is missing: it was lost, or cleaned.

    Reads and writes verify the newest commit, whose metadata they read for the schema anyway. Verifying every commit
    would cost one request each.

    Args:
        store: the timeline in storage.
        written: the result of `files_written`.
        listed: the latest slices of at least the file groups in `written`.

    Raises:
        NotFoundError: the newest slice of a file group is older than the commit.
    """
    found = {each.group: each.newest for each in listed.slices if each.group in written}
    for group, requested in written.items():
        if found.get(group, "") < requested and group not in listed.replaced:
            raise NotFoundError(
                f"the file that commit {requested} wrote to {group.text} is gone: restore it if it's the newest "
                "commit; an old one was cleaned, then read changes since a later time. (If it's there, the metadata "
                "table doesn't list it: `pudi check` tells, `pudi repair` mends that.)",
                table=store.storage.root,
                instant=requested,
            )


def verify_committed_logs(store: TimelineStore, newest: Sequence[Instant], listed: ListedSlices) -> None:
    """Raise an error if a committed log file is missing that no compaction has merged.

    Args:
        store: the timeline in storage.
        newest: completed commits.
        listed: the latest slices of all partitions that the commits wrote to.

    Raises:
        NotFoundError: a log file is missing.
    """
    by_group = listed.by_group
    for instant in newest:
        for partition, stats in store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                group = FileGroupId(partition, stat.file_id or "")
                if not listed.covers(group):
                    continue
                name = basename(stat.path or "")
                log = parse_log_file(name)
                found = by_group.get(group)
                if log is None or log.cdc:
                    continue
                compacted = found is not None and found.base is not None and found.base.instant > instant.requested
                if not compacted and (found is None or all(each.name.name != name for each in found.logs)):
                    raise NotFoundError(
                        f"the log file that commit {instant.requested} wrote is gone: restore it or roll back",
                        table=store.storage.root,
                        path=stat.path,
                        instant=instant.requested,
                    )


def _in_name(path: str | None) -> str | None:
    log = parse_log_file(basename(path or ""))
    return None if log is None else log.instant


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that commits name, of the active timeline and of the archive.

    Attributes:
        store: the timeline in storage.
        timeline: the active timeline.
    """

    store: TimelineStore
    timeline: Timeline
    _known: dict[str, frozenset[str] | None] = field(default_factory=dict, repr=False)

    def of(self, instant: str) -> frozenset[str] | None:
        """Return the names of the files that a commit names, without their folders.

        None where neither the timeline nor the archive tells.
        """
        if instant not in self._known:
            self._known[instant] = self._read(instant)
        return self._known[instant]

    def _read(self, instant: str) -> frozenset[str] | None:
        try:
            commit = self.timeline.commit(instant) or self._archived(instant)
            if commit is None:
                return None
            stats = self.store.read_commit_metadata(commit).partition_to_write_stats
        except (CorruptError, NotFoundError):  # a reader that needs the commit reports it
            return None
        return frozenset(basename(path) for group in stats.values() for stat in group for path in stat.paths)

    def _archived(self, instant: str) -> Instant | None:
        if self.timeline.start is None or instant >= self.timeline.start:
            return None
        found = self.store.archived(instant)
        return next((each for each in found if each.requested == instant and each.is_write), None)


def unnamed_files(
    folders: Mapping[str, Sequence[FileInfo]], named: NamedFiles, listed: Mapping[str, Sequence[FileInfo]] | None
) -> set[str]:
    """Return paths of base files that the commits of their instants don't name.

    Of the files that a metadata table lists, and of all where there's none, only those are looked at that share their
    file group and instant with another one: others would cost the metadata of each commit.

    Args:
        folders: the data files by partition path.
        named: the files that commits name.
        listed: the files that the metadata table lists, by partition path; None where there's none.
    """
    known = None if listed is None else {info.path for infos in listed.values() for info in infos}
    found: set[str] = set()
    for infos in folders.values():
        twins: dict[tuple[str, str], list[str]] = {}
        for info in infos:
            name = parse_data_file(basename(info.path))
            if isinstance(name, BaseFileName):
                twins.setdefault((name.file_id, name.instant), []).append(info.path)
        for (_, instant), paths in twins.items():
            if len(paths) > 1 or (known is not None and paths[0] not in known):
                ours = named.of(instant)
                found.update(path for path in paths if ours is not None and basename(path) not in ours)
    return found


def unmarked_files(storage: Storage, instant: str, layout: Layout) -> list[str]:
    """Paths of the data files that bear an instant and have no marker of it.

    In layout 1 base files alone: a log file bears its slice's instant there.

    Args:
        storage: the table's files.
        instant: requested time of a writer that is dead.
        layout: of the timeline.
    """
    found = []
    for info in _table_files(storage):
        name = parse_data_file(basename(info.path))
        if (
            name is not None
            and name.instant == instant
            and not (rules_of(layout).logs_name_their_slice and isinstance(name, LogFileName))
        ):
            found.append(info.path)
    return sorted(set(found) - set(Markers(storage, instant).all_files())) if found else []


def unmarked_logs(store: TimelineStore, instant: str) -> list[str]:
    """In layout 1, paths of log files that no completed commit states, with blocks of an instant or no whole one.

    Args:
        store: the timeline in storage.
        instant: requested time of a writer that is dead.
    """
    if store.rules.logs_name_their_commit:
        return []
    listed = ((info.path.rpartition("/")[0], info) for info in _table_files(store.storage))
    logs = {log.path: log for log in (LogFile.of(folder, info) for folder, info in listed) if log is not None}
    sizes = stated_sizes(store, store.load(), logs.values()) if logs else {}
    return [
        path for path in sorted(logs) if sizes.get(path) == UNNAMED and _may_hold(store.storage, logs[path], instant)
    ]


def _may_hold(storage: Storage, log: LogFile, instant: str) -> bool:
    try:
        blocks = read_blocks(storage, log)
    except CorruptError:
        return True
    except NotFoundError:
        return False
    return not blocks or any(block.instant == instant and block.kind is not BlockKind.COMMAND for block in blocks)


def _table_files(storage: Storage) -> Iterator[FileInfo]:
    """Yield the files below the table's root, without other tables and Hudi's own folder; on local disks only."""
    if local_path(storage, HOODIE_DIR) is None:
        return
    files, folders = storage.list_dir("")
    yield from files
    for folder in folders:
        if folder != HOODIE_DIR:
            yield from own_files(storage.list(folder))
