"""The whole timeline of a table in the other layout: written beside the old one, which stays as it is.

Source: SevenToEightUpgradeHandler, EightToSevenDowngradeHandler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice, pairwise
from posixpath import basename
from typing import TypeVar

from pudi.config import ArchiveOptions
from pudi.context import FileInfo
from pudi.errors import CorruptError
from pudi.format import (
    WRITE_ACTIONS,
    Action,
    InstantFile,
    Layout,
    MaxBytes,
    State,
    decode_commit_metadata,
    encode_archive_log,
    encode_commit_metadata,
    encode_history,
    history_file,
    history_range,
    instant_to_millis,
    is_instant_time,
    manifest_version,
    millis_to_instant,
    parse_instant_file,
    parse_log_file,
)
from pudi.format.archive import history_entry, history_row
from pudi.format.layout import ARCHIVE_FILE_ID, HISTORY_VERSION, MERGE_ARCHIVE_PLAN, MOVED, SCHEMA_DIR
from pudi.storage import stamp
from pudi.timeline.archive import HistoryArchive, LogArchive
from pudi.timeline.archiving import HistoryWriter, archive_log_name, instant_files
from pudi.timeline.store import TimelineStore

_BATCH = 100
"""Archived instants of one file."""

_MOVED_TEXT = b"The timeline of this table moves to another folder, or has moved: see hoodie.properties.\n"
_Each = TypeVar("_Each")


def convert(source: TimelineStore, target: TimelineStore, options: ArchiveOptions) -> int:
    """Write a table's active and archived timeline in the other layout; under the table's lock.

    Whatever is in the place of the new timeline goes first: an earlier attempt left it.

    Completed instants of layout 1 have no completion time but when their file was made. In layout 2 log files belong to
    slices by that time, and readers order commits by it, where those of layout 1 went by requested times. So that all
    stays as it was, a commit never completes later than the next one is requested.

    Args:
        source: the timeline; nothing is pending on it but savepoints.
        target: the same table's timeline in the other layout.
        options: how files of the archive are merged.

    Returns:
        The number of instants.

    Raises:
        CorruptError: an instant or the archive can't be read; nothing of the old timeline was touched.
    """
    discard(target)
    unmark(target)
    files = list(instant_files(source))
    for file, info in _with_completions(files, source) if source.layout == 1 else files:
        _convert_file(source, target, file, info)
    _convert_schemas(source, target)
    if target.layout == 2:
        _to_history(source, target, options)
    else:
        _to_logs(source, target)
    return len({(file.requested, file.action.comparable) for file, _ in files})


def discard(store: TimelineStore) -> None:
    """Delete the instants of a timeline and its archive; other files of its folders stay."""
    store.storage.delete([info.path for _, info in instant_files(store)])
    folders = LogArchive(store.storage, store.history).folders if store.layout == 1 else (store.history,)
    infos = (info for folder in folders for info in store.storage.list_dir(folder)[0])
    store.storage.delete([info.path for info in infos if _is_archived(info)])


def mark(store: TimelineStore) -> None:
    """Mark the folder of a timeline that moves, or has moved: a process that lists it reads the properties again."""
    store.storage.put(f"{store.folder}/{MOVED}", _MOVED_TEXT, durable=True)


def unmark(store: TimelineStore) -> None:
    """Take the mark away, where the timeline comes back."""
    store.storage.delete([f"{store.folder}/{MOVED}"])


def _is_archived(info: FileInfo) -> bool:
    name = basename(info.path)
    log = parse_log_file(name)
    own = name in {HISTORY_VERSION, MERGE_ARCHIVE_PLAN} or (log is not None and log.file_id == ARCHIVE_FILE_ID)
    return own or history_range(name) is not None or manifest_version(name) is not None


def _with_completions(
    files: Sequence[tuple[InstantFile, FileInfo]], source: TimelineStore
) -> Iterator[tuple[InstantFile, FileInfo]]:
    """Give completed instants of layout 1 their completion times, and clusterings the name that layout 2 has."""
    zone = source.timezone_name
    clusterings = {
        instant.requested
        for instant in source.load().instants
        if instant.action.comparable is Action.REPLACECOMMIT and source.is_clustering(instant)
    }
    writes = sorted({f.requested for f, _ in files if f.state is State.COMPLETED and f.action in WRITE_ACTIONS})
    following = dict(pairwise(writes))
    for file, info in files:
        if file.state is State.COMPLETED:
            done = max(millis_to_instant(info.modified_ms, zone), file.requested)
            limit = following.get(file.requested) if file.action in WRITE_ACTIONS else None
            if limit is not None and done >= limit:
                done = max(_before(limit), file.requested)
            yield replace(file, completion=done), info
        elif file.action is Action.REPLACECOMMIT and file.requested in clusterings:
            yield replace(file, action=Action.CLUSTERING), info
        else:
            yield file, info


def _before(instant: str) -> str:
    return millis_to_instant(instant_to_millis(instant, "UTC") - 1, "UTC")


def _convert_file(source: TimelineStore, target: TimelineStore, file: InstantFile, info: FileInfo) -> None:
    storage = source.storage
    content = storage.read(info.path, MaxBytes.INSTANT)
    done, completion = file.state is State.COMPLETED, file.completion
    if file.action in WRITE_ACTIONS and done and not content:
        raise CorruptError(
            "the file of a completed instant is empty, so what it wrote is unknown; restore it from a copy",
            table=storage.root,
            path=info.path,
            instant=file.requested,
        )
    if content and (file.state is State.INFLIGHT or (done and file.action in WRITE_ACTIONS)):
        content = _encoded(content, file, target.layout, info.path)
    if target.layout == 1:
        action = file.action if file.action is not Action.CLUSTERING else Action.REPLACECOMMIT
        file = replace(file, action=action, completion=None)
    path = f"{target.folder}/{file.file_name(target.layout)}"
    storage.put(path, content, durable=True)
    if target.layout == 1 and completion is not None:  # which tells those who read layout 1 when it completed
        stamp(storage, path, instant_to_millis(completion, source.timezone_name))


def _encoded(content: bytes, file: InstantFile, layout: Layout, path: str) -> bytes:
    """Encode the content of a write or clustering for a layout; that of other actions is equal in both."""
    if file.action.comparable not in WRITE_ACTIONS:
        return content
    try:
        return encode_commit_metadata(decode_commit_metadata(content, path=path), layout)
    except CorruptError:
        if file.state is State.COMPLETED:
            raise
        return content  # the plan once more


def _convert_schemas(source: TimelineStore, target: TimelineStore) -> None:
    """Give the files of schema on read the names that the layout has, too; those of the other do no harm."""
    for info in source.storage.list_dir(SCHEMA_DIR)[0]:
        file = parse_instant_file(basename(info.path), source.layout)
        if file is None or file.action is not Action.SCHEMACOMMIT:
            continue
        content = source.storage.read(info.path, MaxBytes.SCHEMAS)
        if file.state is State.COMPLETED:
            file = replace(file, completion=None if target.layout == 1 else file.completion or file.requested)
        path = f"{SCHEMA_DIR}/{file.file_name(target.layout)}"
        if path != info.path:
            source.storage.put(path, content, durable=True)


def _to_history(source: TimelineStore, target: TimelineStore, options: ArchiveOptions) -> None:
    entries = sorted(
        LogArchive(source.storage, source.history).entries(), key=lambda each: (each.requested, each.action.value)
    )
    grouped = (list(each) for _, each in groupby(entries, key=lambda each: (each.requested, each.action)))
    rows = (row for row in map(history_row, grouped) if row is not None)
    writer: HistoryWriter | None = None
    for batch in _batches(rows, _BATCH):
        for row in batch:
            if not is_instant_time(row["completionTime"]) or row["completionTime"] < row["instantTime"]:
                row["completionTime"] = row["instantTime"]
        writer = writer or HistoryWriter(target.storage, target.history, options)
        name = history_file(batch[0]["instantTime"], batch[-1]["instantTime"], 0)
        writer.add(name, encode_history(batch))
        writer.compact()


def _to_logs(source: TimelineStore, target: TimelineStore) -> None:
    rows = HistoryArchive(source.storage, source.history).rows()
    entries = (history_entry(row, action) for row, action in rows)
    for number, batch in enumerate(_batches(entries, _BATCH), 1):
        path = f"{target.history}/{archive_log_name(number)}"
        target.storage.put(path, encode_archive_log(batch), durable=True)


def _batches(items: Iterable[_Each], size: int) -> Iterator[list[_Each]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
