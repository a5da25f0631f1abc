"""Instants move from the active timeline to the archive: first written there, then deleted here.

A crash between the two steps leaves instants in both places. Readers count them once, and the next archiving deletes
what was already written.

Source: TimelineArchiverV1, TimelineArchiverV2, LSMTimelineWriter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from posixpath import basename
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.config import ArchiveOptions
from pudi.context import FileInfo, Storage
from pudi.errors import ConflictError, TableExistsError
from pudi.format import (
    ARCHIVE_FILE_ID,
    HISTORY_VERSION,
    Action,
    InstantFile,
    LogFileName,
    MaxBytes,
    State,
    archived_entry,
    decode_archive_log,
    decode_avro,
    decode_json_commit,
    encode_archive_log,
    encode_history,
    encode_history_table,
    history_file,
    history_level,
    history_manifest,
    history_range,
    manifest_version,
    millis_to_instant,
    parse_instant_file,
)
from pudi.storage import delete_for_good
from pudi.timeline.archive import archive_logs, read_history, read_manifest
from pudi.timeline.instant import Instant
from pudi.timeline.store import TimelineStore

_TOKEN = "1-0-1"
"""The write token of archive files of layout 1 (HoodieLogFormat.UNKNOWN_WRITE_TOKEN)."""

Files: TypeAlias = "dict[tuple[str, Action], list[tuple[InstantFile, FileInfo]]]"
"""The files of the active timeline by requested time and comparable action, those of each instant by state."""


def archive(store: TimelineStore, instants: Sequence[Instant], options: ArchiveOptions) -> None:
    """Move completed instants to the archive; under the table's lock.

    Args:
        store: the timeline.
        instants: completed instants, oldest first; nothing that a reader needs of the active timeline.
        options: how the files of the archive are merged, in layout 2.

    Raises:
        CorruptError: a file of the archive, or an instant to be moved, can't be read.
    """
    if not instants:
        return
    files = _files(store)
    chosen = [files[key] for key in ((i.requested, i.action.comparable) for i in instants) if key in files]
    if store.layout == 1:
        _to_log(store, chosen)
    else:
        _to_history(store, chosen, options)
    pending = [info.path for each in chosen for file, info in each if file.state is not State.COMPLETED]
    delete_for_good(store.storage, pending)  # none comes back without the completed one
    for each in chosen:  # oldest first: what is missing for a moment is always the beginning
        store.storage.delete([info.path for file, info in each if file.state is State.COMPLETED])


def _files(store: TimelineStore) -> Files:
    found: Files = {}
    for file, info in instant_files(store):
        found.setdefault((file.requested, file.action.comparable), []).append((file, info))
    return {key: sorted(each, key=lambda pair: pair[0].state) for key, each in found.items()}


def instant_files(store: TimelineStore) -> Iterator[tuple[InstantFile, FileInfo]]:
    """Yield the files of the active timeline, in no order."""
    for info in store.storage.list_dir(store.folder)[0]:
        file = parse_instant_file(basename(info.path), store.layout)
        if file is not None:
            yield file, info


def _to_log(store: TimelineStore, chosen: Iterable[list[tuple[InstantFile, FileInfo]]]) -> None:
    """Write an archive file of layout 1, with an entry for each state of each instant."""
    newest, known = _newest_log(store)
    entries = [
        archived_entry(
            file.requested,
            file.action,
            file.state,
            millis_to_instant(info.modified_ms, "LOCAL"),
            _content(store.storage, file, info),
        )
        for each in chosen
        for file, info in each
        if (file.requested, file.action.comparable) not in known
    ]
    if not entries:
        return
    path = f"{store.history}/{archive_log_name(newest + 1)}"
    try:
        store.storage.create(path, encode_archive_log(entries), durable=True)
    except TableExistsError as error:
        raise ConflictError(
            "another process archives the timeline at the same time, by a lock that it has lost or taken over: nothing "
            "was archived here, the next archiving goes on",
            table=store.storage.root,
            path=path,
        ) from error


def archive_log_name(number: int) -> str:
    """The name of an archive file of layout 1."""
    return LogFileName(ARCHIVE_FILE_ID, "", number, _TOKEN, extension="archive").name


def _content(storage: Storage, file: InstantFile, info: FileInfo) -> Mapping[str, Any]:
    data = storage.read(info.path, MaxBytes.INSTANT)
    if not data:
        return {}
    if data.startswith(b"{"):
        return decode_json_commit(data, path=info.path)
    return decode_avro(data, path=info.path)


def _newest_log(store: TimelineStore) -> tuple[int, set[tuple[str, Action]]]:
    """Return the number and the entries of the newest archive file; a run that died wrote to that file."""
    numbers = {name.version: info.path for name, info in archive_logs(store.storage, store.history)}
    if not numbers:
        return 0, set()
    number, path = max(numbers.items())
    entries = decode_archive_log(store.storage.read(path, MaxBytes.ARCHIVE_LOG), path=path)
    return number, {(e.requested, e.action) for e in entries if e.state is State.COMPLETED}


def _to_history(
    store: TimelineStore, chosen: Sequence[list[tuple[InstantFile, FileInfo]]], options: ArchiveOptions
) -> None:
    """Write a file of the archived timeline of layout 2, with a row for each instant."""
    if not chosen:
        return
    known = {(i.requested, i.action) for i in store.archived(chosen[0][0][0].requested)}
    rows = [
        _row(store.storage, each)
        for each in chosen
        if (each[0][0].requested, each[0][0].action.comparable) not in known
    ]
    if not rows:
        return
    history = HistoryWriter(store.storage, store.history, options, store.lock.verify)
    history.add(history_file(rows[0]["instantTime"], rows[-1]["instantTime"], 0), encode_history(rows))
    history.compact()


def _row(storage: Storage, files: Sequence[tuple[InstantFile, FileInfo]]) -> dict[str, Any]:
    """The row of one instant (MetadataConversionUtils.createLSMTimelineInstant)."""
    done, info = files[-1]
    plan = None
    for file, pending in files[:-1]:
        planned = file.action in {Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION}
        replaces = file.action in {Action.REPLACECOMMIT, Action.CLUSTERING}
        if (planned and file.state is State.REQUESTED) or replaces:
            plan = storage.read(pending.path, MaxBytes.INSTANT) or plan
    return {
        "instantTime": done.requested,
        "completionTime": done.completion or millis_to_instant(info.modified_ms, "LOCAL"),
        "action": done.action.value,
        "metadata": storage.read(info.path, MaxBytes.INSTANT) or None,
        "plan": plan,
    }


class HistoryWriter:
    """The archived timeline of layout 2, changed manifest by manifest.

    Args:
        storage: the table's files.
        folder: its folder.
        options: how files are merged.
        verify: makes sure that the table's lock is still held; called before what another process may have changed.
    """

    def __init__(
        self, storage: Storage, folder: str, options: ArchiveOptions, verify: Callable[[], None] = lambda: None
    ) -> None:
        self.storage, self.folder, self.options, self._verify = storage, folder, options, verify
        version, self.files = read_manifest(storage, folder)  # the size of each live file by name
        self.version = max(version, 0)

    def add(self, name: str, content: bytes, instead: Iterable[str] = ()) -> None:
        """Put a file in the archive, in the place of some; what a run that died left under the name goes first."""
        path = f"{self.folder}/{name}"
        self.storage.put(path, content, durable=True)
        gone = set(instead)
        self.files = {**{each: size for each, size in self.files.items() if each not in gone}, name: len(content)}
        self.version += 1
        entries = [{"fileName": each, "fileLen": size} for each, size in self.files.items()]
        manifest = json.dumps({"files": entries}, indent=2)
        self._verify()  # who lost the lock would put its manifest in the place of a newer one
        self.storage.put(f"{self.folder}/{history_manifest(self.version)}", manifest.encode(), durable=True)
        self._verify()
        self.storage.put(f"{self.folder}/{HISTORY_VERSION}", str(self.version).encode(), durable=True)

    def compact(self) -> None:
        """Make one file of many of a level, level by level, and delete what no manifest names that stays."""
        level = 0
        while names := self._due(level):
            ranges = [history_range(name) or ("", "") for name in names]
            merged = pa.concat_tables([self._read(name) for name in names])
            name = history_file(min(r[0] for r in ranges), max(r[1] for r in ranges), level + 1)
            self.add(name, encode_history_table(merged), names)
            level += 1
        self._clean(self.options.manifests_retained + level)

    def _due(self, level: int) -> list[str]:
        """Return the oldest files of a level once there are enough to merge (LSMTimelineWriter.getCandidateFiles)."""
        names = sorted(name for name in self.files if history_level(name) == level)
        most = self.options.files_to_compact
        if len(names) < most or level == 9:  # a name has one digit for its level
            return []
        chosen: list[str] = []
        for name in names[:most]:
            chosen.append(name)
            if sum(self.files[each] for each in chosen) > self.options.compacted_file_size:
                if len(chosen) > 1:
                    break
                chosen = []
        return chosen if len(chosen) > 1 else []

    def _read(self, name: str) -> pa.Table:
        return read_history(self.storage, f"{self.folder}/{name}")

    def _clean(self, kept: int) -> None:
        infos = [info.path for info in self.storage.list_dir(self.folder)[0]]
        versions = {path: manifest_version(basename(path)) for path in infos}
        numbers = sorted(number for number in versions.values() if number is not None)
        if len(numbers) <= kept:
            return
        stay = set(numbers[-kept:])
        live: set[str] = set()
        for number in stay:
            live.update(read_manifest(self.storage, self.folder, number)[1])
        doomed = [path for path, number in versions.items() if number is not None and number not in stay]
        names = ((path, basename(path)) for path in infos)
        doomed += [path for path, name in names if history_range(name) is not None and name not in live]
        self._verify()
        self.storage.delete(doomed)
