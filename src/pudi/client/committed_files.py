"""Verify that the files in commit metadata exist in the listing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.errors import NotFoundError
from pudi.filegroup import FileSlice, FileSystemView
from pudi.format import FileGroupId, parse_log_file
from pudi.timeline import Instant


def files_written(
    meta: MetaClient, instants: Sequence[Instant], groups: Collection[FileGroupId] | None = None
) -> dict[FileGroupId, str]:
    """Return the last commit that wrote to each file group, by partition path and file id.

    For a log file named by another instant than the commit's (below version 8), it is that instant.

    Args:
        meta: the table.
        instants: the commits.
        groups: the file groups to look for; None for all.
    """
    found: dict[FileGroupId, str] = {}
    for instant in instants:
        for partition, stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                group = FileGroupId(partition, stat.file_id or "")
                if (groups is None or group in groups) and (stat.num_writes or stat.num_deletes):
                    found[group] = _in_name(stat.path) or instant.requested
    return found


def verify_committed_files(
    meta: MetaClient, view: FileSystemView, slices: Sequence[FileSlice], written: Mapping[FileGroupId, str]
) -> None:
    """Raise an error if a committed base file is missing: it was lost, or cleaned.

    Reads and writes verify the newest commit, whose metadata they read for the schema anyway. Verifying every commit
    would cost one request each.

    Args:
        meta: the table.
        view: the view that the slices come from.
        slices: the latest slices of at least the file groups in `written`.
        written: the result of `files_written`.

    Raises:
        NotFoundError: the newest slice of a file group is older than the commit.
    """
    found = {group: s.newest for s in slices if (group := (s.partition, s.file_id)) in written}
    for group, requested in written.items():
        partition, file_id = group
        if found.get(group, "") < requested and not view.is_replaced(group):
            raise NotFoundError(
                f"the file that commit {requested} wrote to file group {file_id} of partition {partition!r} is gone: "
                "restore it if it's the newest commit; an old one was cleaned, then read changes since a later time. "
                "(If it's there, the metadata table doesn't list it: `pudi check` tells, `pudi repair` mends that.)",
                table=meta.storage.root,
                instant=requested,
            )


def verify_committed_logs(
    meta: MetaClient,
    view: FileSystemView,
    slices: Sequence[FileSlice],
    newest: Sequence[Instant],
    groups: Collection[FileGroupId] | None = None,
) -> None:
    """Raise an error if a committed log file is missing that no compaction has merged.

    Args:
        meta: the table.
        view: the view that the slices come from.
        slices: the latest slices of all partitions that the commits wrote to.
        newest: completed commits.
        groups: the file groups of `slices`; None for all.

    Raises:
        NotFoundError: a log file is missing.
    """
    by_group = {s.group: s for s in slices}
    for instant in newest:
        for partition, stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.items():
            for stat in stats:
                group = FileGroupId(partition, stat.file_id or "")
                if groups is not None and group not in groups:
                    continue
                name = basename(stat.path or "")
                log = parse_log_file(name)
                found = by_group.get(group)
                if log is None or log.cdc or view.is_replaced(group):
                    continue
                compacted = found is not None and found.base is not None and found.base.instant > instant.requested
                if not compacted and (found is None or all(each.name.name != name for each in found.logs)):
                    raise NotFoundError(
                        f"the log file that commit {instant.requested} wrote is gone: restore it or roll back",
                        table=meta.storage.root,
                        path=stat.path,
                        instant=instant.requested,
                    )


def _in_name(path: str | None) -> str | None:
    log = parse_log_file(basename(path or ""))
    return None if log is None else log.instant
