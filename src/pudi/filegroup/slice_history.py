"""All file slices of a file group, old ones too: those that a cleaner chooses from, and those before single commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

from pudi.context import FileInfo
from pudi.errors import NotFoundError
from pudi.filegroup.slices import BaseFile, FileSlice, LogFile
from pudi.format import BaseFileName, FileGroupId, LogFileName, WriteStat, is_instant_time, parse_data_file
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True, slots=True)
class SliceFiles:
    """The files of one file slice, base file, log files and CDC files.

    Attributes:
        instant: the requested time of its base file; empty for log files without one, which are the oldest slice.
        files: paths relative to the table's root.
        sizes: bytes of each file.
    """

    instant: str
    files: tuple[str, ...]
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileGroup:
    """A file group with all its slices.

    Attributes:
        partition: partition path.
        file_id: its id.
        slices: the newest one first.
    """

    partition: str
    file_id: str
    slices: tuple[SliceFiles, ...]

    @property
    def id(self) -> FileGroupId:
        """The file group's id: its partition and its own id."""
        return FileGroupId(self.partition, self.file_id)


def file_groups(
    partition: str,
    files: Iterable[FileInfo],
    is_seen: Callable[[str], bool],
    done: Callable[[str], str],
    *,
    logs_name_their_slice: bool,
) -> list[FileGroup]:
    """Divide the files of a partition into file groups and slices.

    Files of instants that didn't complete belong to no slice. A log file belongs to the newest slice whose base was
    requested before the log file's delta commit completed; below version 8 before the instant in its name. So log
    files that a pending compaction's instant is the name of belong to the slice that it compacts, which readers need.

    Args:
        partition: partition path.
        files: its files.
        is_seen: whether an instant completed.
        done: gives the completion time of an instant that did.
        logs_name_their_slice: whether names of log files have the instant of the slice's base.

    Returns:
        The file groups, by file id.
    """
    bases: dict[str, dict[str, list[tuple[str, int]]]] = {}
    logs: dict[str, list[tuple[str, str, int]]] = {}
    for info in files:
        name = parse_data_file(basename(info.path))
        if name is None or not is_instant_time(name.instant):
            continue
        if isinstance(name, BaseFileName):
            if is_seen(name.instant):
                bases.setdefault(name.file_id, {}).setdefault(name.instant, []).append((info.path, info.size))
        elif logs_name_their_slice or is_seen(name.instant):
            logs.setdefault(name.file_id, []).append((_time(name, done, logs_name_their_slice), info.path, info.size))
    groups = []
    for file_id in sorted({*bases, *logs}):
        slices = {instant: list(found) for instant, found in bases.get(file_id, {}).items()}
        begins = list(slices)
        for time, path, size in sorted(logs.get(file_id, [])):
            own = max((each for each in begins if each <= time), default="")
            slices.setdefault(own, []).append((path, size))
        ordered = sorted(slices.items(), reverse=True)
        found = tuple(SliceFiles(each, *zip(*files, strict=True)) for each, files in ordered)
        groups.append(FileGroup(partition, file_id, found))
    return groups


def _time(name: LogFileName, done: Callable[[str], str], logs_name_their_slice: bool) -> str:
    return name.instant if logs_name_their_slice else done(name.instant)


@dataclass(frozen=True, slots=True)
class PastSlices:
    """Finds file slices as readers saw them just before a commit.

    What commits on the timeline wrote is known from their statistics, also what a cleaner has removed since, so that a
    missing file is noticed. Files of older commits are known from the listing.

    Args:
        timeline: the table's timeline.
        files: the listed files by path.
        archived: gives the completion time of an archived instant; None for instants that never completed.
        states: whether listed sizes are those that commits state.
    """

    timeline: Timeline
    files: Mapping[str, FileInfo]
    archived: Callable[[str], str | None]
    states: bool
    _bases: dict[FileGroupId, dict[str, BaseFile]] = field(default_factory=dict)
    _logs: dict[FileGroupId, dict[str, LogFile]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        listed: Mapping[str, Sequence[FileInfo]],
        stats: Iterable[WriteStat],
        archived: Callable[[str], str | None],
        *,
        states: bool,
    ) -> PastSlices:
        """Return the slices of some partitions.

        Args:
            timeline: the table's timeline.
            listed: the files of the partitions.
            stats: what the commits on the timeline wrote there.
            archived: see the class.
            states: see the class.
        """
        found = cls(timeline, {info.path: info for infos in listed.values() for info in infos}, archived, states)
        for stat in stats:
            if stat.path and stat.num_writes + stat.num_deletes + stat.file_size_in_bytes > 0:
                partition, _, name = stat.path.rpartition("/")
                found._add(partition, FileInfo(stat.path, stat.file_size_in_bytes, 0), parse_data_file(name))
        by_slice = timeline.rules.logs_name_their_slice
        for partition, infos in listed.items():
            for info in infos:
                parsed = parse_data_file(basename(info.path))
                known = parsed is not None and timeline.commit(parsed.instant) is not None
                if not known or (by_slice and isinstance(parsed, LogFileName)):
                    found._add(partition, info, parsed)
        return found

    def _add(self, partition: str, info: FileInfo, parsed: BaseFileName | LogFileName | None) -> None:
        if parsed is None:
            return
        group = FileGroupId(partition, parsed.file_id)
        info = self.files.get(info.path, info)
        if isinstance(parsed, BaseFileName):
            base = BaseFile.of(partition, info)
            if base is not None:
                self._bases.setdefault(group, {})[base.instant] = base
        elif not parsed.cdc:
            log = LogFile.of(partition, info, states=self.states)
            if log is not None:
                self._logs.setdefault(group, {})[log.path] = log

    def before(self, group: FileGroupId, instant: Instant) -> FileSlice | None:
        """Return the slice of a file group that readers saw just before a commit completed; None for a new group.

        Raises:
            NotFoundError: a file of it is gone.
        """
        limit = self.timeline.order(instant)
        done = {i: order for i in self._bases.get(group, {}) if (order := self._order(i)) is not None and order < limit}
        newest = max(done, default=None)
        base = None if newest is None else self._bases[group][newest]
        logs = sorted(self._logs_over(group, base, limit), key=lambda log: log.name.sort_key)
        if base is None and not logs:
            return None
        for path in (*(log.path for log in logs), *([] if base is None else [base.path])):
            self.check_there(path, instant)
        return FileSlice(*group, base, tuple(logs))

    def _logs_over(self, group: FileGroupId, base: BaseFile | None, limit: str) -> list[LogFile]:
        """Return the log files over a base file; see `FileSystemView`."""
        found = self._logs.get(group, {}).values()
        if self.timeline.rules.logs_name_their_slice:  # their blocks tell which of them count
            return [log for log in found if base is None or log.instant >= base.instant]
        orders = [(log, self._order(log.instant)) for log in found]
        return [
            log
            for log, order in orders
            if order is not None
            and order < limit
            and (base is None or log.instant >= base.instant or order >= base.instant)
        ]

    def base_at(self, group: FileGroupId, requested: str | None, instant: Instant) -> BaseFile:
        """Return the base file that a commit replaced.

        Args:
            group: the file group.
            requested: requested time of what wrote it.
            instant: the commit.

        Raises:
            NotFoundError: it's gone.
        """
        found = self._bases.get(group, {}).get(requested or "")
        if found is None:
            raise self.gone(f"the base file that {requested} wrote to file group {group[1]} of {group[0]!r}", instant)
        self.check_there(found.path, instant)
        return found

    def base_of(self, stat: WriteStat, instant: Instant) -> BaseFile:
        """Return the base file that a commit wrote; raises as `base_at`."""
        assert stat.path is not None
        self.check_there(stat.path, instant)
        base = BaseFile.of(stat.path.rpartition("/")[0], self.files[stat.path])
        assert base is not None
        return base

    def log_at(self, path: str, size: int, instant: Instant) -> LogFile:
        """Return a log file, of change data too, that a commit wrote; raises as `base_at`."""
        self.check_there(path, instant)
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file(name)
        if not isinstance(parsed, LogFileName):
            raise self.gone(f"a log file in {path!r}", instant)
        return LogFile(partition, parsed, self.files[path].size, size or None)

    def check_there(self, path: str, instant: Instant) -> None:
        """Raise an error if a file that the changes of a commit need is gone."""
        if path not in self.files:
            raise self.gone(f"file {path}", instant)

    @staticmethod
    def gone(what: str, instant: Instant) -> NotFoundError:
        """Return the error for something that's gone."""
        return NotFoundError(
            f"{what} is gone, which the changes of commit {instant.requested} are read from: the cleaner removed it; "
            "read changes since a later commit, and let cleans keep more commits than readers fall behind",
            instant=instant.requested,
        )

    def _order(self, requested: str) -> str | None:
        """Return the time from which readers see what an instant wrote; None if they never do."""
        known = self.timeline.commit(requested)
        return self.archived(requested) if known is None else self.timeline.order(known)
