"""Files of a dead writer without markers: a loss of power may delete a marker and keep the file.

Only on local disks. They are found by listing all folders, whether they are known as partitions or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup.committed_logs import stated_sizes
from pudi.filegroup.log_scan import read_blocks
from pudi.filegroup.markers import Markers
from pudi.filegroup.nested import own_files
from pudi.filegroup.slices import UNNAMED, LogFile
from pudi.format import HOODIE_DIR, Layout, LogFileName, parse_data_file
from pudi.format.log_block import BlockKind
from pudi.format.timeline_rules import rules_of
from pudi.storage import local_path
from pudi.timeline import TimelineStore


def unmarked_files(storage: Storage, instant: str, layout: Layout) -> list[str]:
    """Paths of the data files that bear an instant and have no marker of it.

    In layout 1 base files alone: a log file bears its slice's instant there.

    Args:
        storage: the table's files.
        instant: requested time of a writer that is dead.
        layout: of the timeline.
    """
    found = []
    for info in _files(storage):
        name = parse_data_file(info.path.rpartition("/")[2])
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
    listed = ((info.path.rpartition("/")[0], info) for info in _files(store.storage))
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


def _files(storage: Storage) -> Iterator[FileInfo]:
    if local_path(storage, HOODIE_DIR) is None:
        return
    files, folders = storage.list_dir("")
    yield from files
    for folder in folders:
        if folder != HOODIE_DIR:
            yield from own_files(storage.list(folder))
