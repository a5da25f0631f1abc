"""All file slices of a file group, old ones too: what a cleaner chooses from (HoodieFileGroup)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pudi.context import FileInfo
from pudi.format import BaseFileName, LogFileName, is_instant_time, parse_data_file


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
        name = parse_data_file(info.path.rpartition("/")[2])
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
