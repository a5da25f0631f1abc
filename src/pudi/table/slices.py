"""The file slices of a table, with sizes, numbers of records, and what holds each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from posixpath import basename
from typing import Any

import pyarrow as pa

from pudi.client import TableSnapshot
from pudi.config import CleanOptions
from pudi.errors import InvalidArgumentError, PudiError
from pudi.filegroup import FileSlice, SliceFiles
from pudi.format import BaseFileName, LogFileName, file_path, parse_data_file
from pudi.format.metadata_partitions import COLUMN_STATS
from pudi.metadata import stats_of_records
from pudi.metadata.keys import column_stats_keys
from pudi.plan import Selection
from pudi.scan import snapshot_scan
from pudi.schema import COMMIT_TIME
from pudi.services.clean_plan import Holder, SliceHolders


def row_counts(snapshot: TableSnapshot, paths: Iterable[str]) -> dict[str, int]:
    """Return the number of records of base files by path, as far as it's known.

    Commits of the active timeline state it of the files that they wrote; of older files the column statistics do.

    Args:
        snapshot: the table.
        paths: base files, relative to the table's root.
    """
    wanted = {path: found.instant for path in paths if (found := parse_data_file(basename(path)))}
    written: dict[str, set[int]] = {}
    for requested in sorted(set(wanted.values())):
        commit = snapshot.timeline.commit(requested)
        if commit is None:
            continue
        for partition, stats in snapshot.meta.store.read_commit_metadata(commit).partition_to_write_stats.items():
            for stat in stats:
                name = basename(stat.path or "")
                path = file_path(partition, name)
                if wanted.get(path) == requested:
                    written.setdefault(path, set()).add(stat.num_writes)
    known = {path: next(iter(counts)) for path, counts in written.items() if len(counts) == 1}  # Flink may write twice
    lacking = wanted.keys() - known.keys()
    return known | (_by_statistics(snapshot, lacking) if lacking else {})


def _by_statistics(snapshot: TableSnapshot, paths: Collection[str]) -> dict[str, int]:
    """Return what the column statistics count, nulls included; nothing where they can't be read or lag behind."""
    if COLUMN_STATS not in snapshot.config.metadata_partitions or not snapshot.meta.reads_metadata:
        return {}
    named = list(paths)
    split = [path.rpartition("/") for path in named]
    keys = column_stats_keys(
        pa.repeat(COMMIT_TIME, len(named)),
        pa.array([partition for partition, _, _ in split], pa.string()),
        pa.array([name for _, _, name in split], pa.string()),
    )
    try:
        table = snapshot.metadata_table()
        records = table.read(COLUMN_STATS, keys=keys)
    except PudiError:  # doctor and check tell of it
        return {}
    records = records.filter(records["ColumnStatsMetadata"].is_valid())
    counts = dict(zip(records["key"].to_pylist(), stats_of_records(records)["value_count"].to_pylist(), strict=True))
    found = ((path, counts.get(key)) for path, key in zip(named, keys.to_pylist(), strict=True))
    return {path: count for path, count in found if count is not None and count > 0}


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """A file slice of a table.

    Attributes:
        partition: partition path; empty if the table isn't partitioned.
        file_id: id of its file group.
        instant: requested time of its base file; of the first log file where there is none.
        base_file: path of the base file, relative to the table's root; None without one.
        base_bytes: its bytes; 0 without one.
        rows: records of the base file, by what commits or column statistics state; None if neither does. Log files
            change them.
        log_files: paths of the log files.
        log_bytes: their bytes.
        cdc_files: paths of files of change data; only with `everything`.
        cdc_bytes: their bytes.
        current: whether it's part of the table now.
        replaced_by: requested time of the replacecommit that took its file group out of the table; None if it's in it.
        held_by: what keeps it from being cleaned; empty where the next clean deletes it, and where nothing but current
            slices was asked for.
    """

    partition: str
    file_id: str
    instant: str
    base_file: str | None
    base_bytes: int
    rows: int | None
    log_files: tuple[str, ...]
    log_bytes: int
    cdc_files: tuple[str, ...] = ()
    cdc_bytes: int = 0
    current: bool = True
    replaced_by: str | None = None
    held_by: tuple[Holder, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as values that JSON has."""
        return asdict(self)


def list_files(
    snapshot: TableSnapshot,
    *,
    everything: bool = False,
    as_of: str | datetime | None = None,
    partitions: Sequence[str] | None = None,
) -> list[SliceInfo]:
    """Return file slices by partition path, file id, and instant, newest first.

    Args:
        snapshot: the table, with the user's options: what a clean keeps.
        everything: older slices and replaced file groups too.
        as_of: instead of now, the moment at which slices are those of the table.
        partitions: partition paths; None for all.

    Raises:
        InvalidArgumentError: `everything` and `as_of` are both given, or `as_of` is no point in time.
        NotFoundError: the cleaner has removed what the table was then.
        CorruptError: the timeline, a savepoint or a pending plan can't be read.
    """
    wanted = None if partitions is None else sorted(set(partitions))
    if everything and as_of is not None:
        raise InvalidArgumentError("give either everything or as_of", table=snapshot.table)
    if everything:
        found = list(_all_slices(snapshot, wanted))
    elif as_of is not None:
        slices = snapshot_scan(snapshot, Selection(), as_of=as_of).plan.slices
        chosen = [each for each in slices if wanted is None or each.partition in wanted]
        now = _all_slices(snapshot, sorted({each.partition for each in chosen}))
        latest = {_key(each): each for each in now}
        found = [_then(each, latest) for each in map(_of_slice, chosen)]
    else:
        view = snapshot.view(sizes=False)
        found = [_of_slice(each) for each in (view.all_slices() if wanted is None else view.slices_of(wanted))]
    return _counted(snapshot, found)


def _of_slice(found: FileSlice) -> SliceInfo:
    base = found.base
    return SliceInfo(
        found.partition,
        found.file_id,
        found.instant,
        None if base is None else base.path,
        0 if base is None else base.size,
        None,
        tuple(log.path for log in found.logs),
        sum(log.size for log in found.logs),
    )


def _all_slices(snapshot: TableSnapshot, partitions: Iterable[str] | None) -> Iterator[SliceInfo]:
    """The slices of all file groups that completed commits wrote, replaced ones too, each with what holds it."""
    holders = SliceHolders.of(snapshot, CleanOptions.of(snapshot.options))
    view = snapshot.view(sizes=False)
    for group in view.groups_of(snapshot.listing().partitions() if partitions is None else partitions):
        replaced = view.replaced.get(group.id)
        for number, (files, latest) in enumerate(holders.of_slices(group, replaced)):
            info = _of_files(group.partition, group.file_id, files)
            current = not number and replaced is None
            yield replace(info, current=current, replaced_by=replaced, held_by=latest)


def _of_files(partition: str, file_id: str, found: SliceFiles) -> SliceInfo:
    bases: list[tuple[str, int]] = []
    logs: list[tuple[str, int]] = []
    changes: list[tuple[str, int]] = []
    for path, size in zip(found.files, found.sizes, strict=True):
        name = parse_data_file(basename(path))
        is_change = isinstance(name, LogFileName) and name.cdc
        kind = bases if isinstance(name, BaseFileName) else changes if is_change else logs
        kind.append((path, size))
    first = (parse_data_file(basename(path)) for path, _ in (*logs, *changes)[:1])
    return SliceInfo(
        partition,
        file_id,
        found.instant or next((name.instant for name in first if name is not None), ""),
        max((path for path, _ in bases), default=None),
        sum(size for _, size in bases),
        None,
        tuple(path for path, _ in logs),
        sum(size for _, size in logs),
        tuple(path for path, _ in changes),
        sum(size for _, size in changes),
    )


def _key(info: SliceInfo) -> tuple[str, str, str]:
    """Return what tells slices apart in every view of them: their base file, if there is one."""
    return info.partition, info.file_id, info.base_file or ""


def _then(info: SliceInfo, now: Mapping[tuple[str, str, str], SliceInfo]) -> SliceInfo:
    """A slice as it was, with what holds it now; it's current if no file came to it."""
    latest = now.get(_key(info))
    if latest is None:
        return replace(info, current=False)
    current = latest.current and latest.log_files == info.log_files
    return replace(info, current=current, replaced_by=latest.replaced_by, held_by=latest.held_by)


def _counted(snapshot: TableSnapshot, found: Sequence[SliceInfo]) -> list[SliceInfo]:
    counts = row_counts(snapshot, [each.base_file for each in found if each.base_file is not None])
    return [each if each.base_file is None else replace(each, rows=counts.get(each.base_file)) for each in found]
