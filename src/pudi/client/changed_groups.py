"""The file groups that a commit changes, before and after it, for updates of record-level indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import basename

from pudi.client.schema_history import read_history
from pudi.client.settings import merging_of
from pudi.client.snapshot import TableSnapshot
from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format import CommitMetadata, FileGroupId, WriteStat, parse_base_file, parse_log_file
from pudi.schema import with_meta_fields
from pudi.task.index_keys import KeyReading


@dataclass(frozen=True, slots=True)
class ChangedGroup:
    """A file group that a commit changes.

    Attributes:
        partition: partition path.
        file_id: the file group's id.
        stats: what the commit wrote to it; empty if the commit replaces the file group.
        before: its slice before the commit; None if there was none, or it wasn't requested.
        after: its slice after the commit; None if the commit replaces the file group.
        logs: the log files that the commit wrote.
    """

    partition: str
    file_id: str
    stats: tuple[WriteStat, ...]
    before: FileSlice | None
    after: FileSlice | None
    logs: tuple[LogFile, ...] = ()

    @property
    def id(self) -> FileGroupId:
        """The file group's id: its partition and its own id."""
        return FileGroupId(self.partition, self.file_id)


def may_change_keys(written: CommitMetadata) -> bool:
    """Return whether an action adds keys to file groups or removes some."""
    if written.is_compaction:
        return False
    return bool(written.partition_to_write_stats or written.partition_to_replace_file_ids)


def key_reading(snapshot: TableSnapshot) -> KeyReading:
    """Return how the keys of a table's slices are read."""
    schema = with_meta_fields(snapshot.schema.columns)
    return KeyReading(schema, merging_of(snapshot), history=read_history(snapshot))


def data_file(stat: WriteStat) -> BaseFile | LogFile | None:
    """Return the data file of write statistics; None for a change data file."""
    partition, name = stat.partition_path or "", basename(stat.path or "")
    base, log = parse_base_file(name), parse_log_file(name)
    if log is not None:
        return None if log.cdc else LogFile(partition, log, stat.file_size_in_bytes, stat.file_size_in_bytes or None)
    return None if base is None else BaseFile(partition, base, stat.file_size_in_bytes)


def changed_groups(
    snapshot: TableSnapshot,
    written: CommitMetadata,
    counts: Callable[[WriteStat], bool] = lambda stat: True,
    asks_before: Callable[[WriteStat], bool] = lambda stat: True,
) -> Iterator[ChangedGroup]:
    """Find the file groups that a commit changes; those that it writes to come first.

    Args:
        snapshot: the table when the commit was planned.
        written: the commit's metadata.
        counts: whether a file may change index entries.
        asks_before: whether the slice before a file is needed; if so, its partition is listed.
    """
    groups: dict[FileGroupId, list[WriteStat]] = {}
    for partition, stats in written.partition_to_write_stats.items():
        for stat in stats:
            if stat.path and stat.file_id and counts(stat):
                groups.setdefault(FileGroupId(partition, stat.file_id), []).append(stat)
    gone = written.replaced_groups
    listed = {group.partition for group, stats in groups.items() if any(map(asks_before, stats))}
    listed |= {group.partition for group in gone}
    slices = snapshot.view().slices_of(sorted(listed)) if listed else ()
    before = {each.group: each for each in slices}
    for group, of_group in groups.items():
        files = [file for stat in of_group if (file := data_file(stat)) is not None]
        older = before.get(group)
        base = next((file for file in reversed(files) if isinstance(file, BaseFile)), None)
        logs = tuple(file for file in files if isinstance(file, LogFile)) if base is None else ()
        after = (older or FileSlice(*group, None)).with_logs(logs) if base is None else FileSlice(*group, base)
        yield ChangedGroup(*group, tuple(of_group), older, after, logs)
    for group in sorted(gone):
        if group in before:
            yield ChangedGroup(*group, (), before[group], None)
