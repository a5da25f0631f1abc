"""The archived timeline: instants that left the active one, read only when a query reaches back to them.

Source: ArchivedTimelineV1, V2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import basename
from typing import Any, Final, Protocol

import pyarrow as pa

from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError, NotFoundError, cause_text
from pudi.format import (
    ARCHIVE_FILE_ID,
    HISTORY_VERSION,
    HOODIE_DIR,
    MERGE_ARCHIVE_PLAN,
    Action,
    ArchivedEntry,
    CommitMetadata,
    Layout,
    LogFileName,
    MaxBytes,
    State,
    decode_archive_log,
    decode_avro,
    decode_commit_metadata,
    history_manifest,
    history_range,
    is_instant_time,
    manifest_version,
    parse_log_file,
)
from pudi.format.parquet import open_parquet
from pudi.storage import open_input
from pudi.timeline.instant import Instant

TIMES: Final = ["instantTime", "completionTime", "action"]
_CONTENTS = frozenset({"metadata", "plan"})
ACTIONS: Final = {action.value: action for action in Action}


class Archive(Protocol):
    """The archived instants of one table. What was read is kept: archived instants never change."""

    def instants(self, since: str | None) -> tuple[Instant, ...]:
        """Completed instants requested at `since` or later, None for all; oldest first."""

    def read_commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return the commit metadata of an archived write."""

    def decoded(self, instant: Instant) -> dict[str, Any]:
        """The completed content of an archived instant that is no write, by Avro's names."""


def open_archive(storage: Storage, folder: str, layout: Layout) -> Archive:
    """The archive of a table, of the kind that its timeline's layout has; nothing is read yet."""
    return LogArchive(storage, folder) if layout == 1 else HistoryArchive(storage, folder)


def archive_logs(storage: Storage, folder: str) -> Iterator[tuple[LogFileName, FileInfo]]:
    """Yield the files of an archive of layout 1 that are in a folder, with their names."""
    for info in storage.list_dir(folder)[0]:
        name = parse_log_file(basename(info.path))
        if name is not None and name.file_id == ARCHIVE_FILE_ID and name.extension == "archive":
            yield name, info


@dataclass(frozen=True, slots=True)
class LogArchive:
    """The archive of layout 1: log files with an entry for each state of an instant (ArchivedTimelineV1).

    Hudi before 0.10 put them into the timeline's folder whatever the table's properties say, so both are looked at.

    Args:
        storage: the table's files.
        folder: the archive's folder, relative to the table's root.
    """

    storage: Storage
    folder: str
    _files: dict[str, dict[tuple[str, Action], ArchivedEntry]] = field(default_factory=dict, repr=False)

    def instants(self, since: str | None) -> tuple[Instant, ...]:
        """Completed instants requested at `since` or later.

        Files are read whole: small ones may have been merged, so that their numbers don't tell their age.

        Raises:
            CorruptError: a file is damaged.
        """
        entries = [e for e in self._entries().values() if since is None or e.requested >= since]
        found = (
            Instant(
                e.requested, e.action, State.COMPLETED, completion_time(e.transition, e.requested), 1, archived=True
            )
            for e in entries
        )
        return tuple(sorted(found))

    def read_commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return the commit metadata of an archived write."""
        return self._entry(instant).commit_metadata

    def decoded(self, instant: Instant) -> dict[str, Any]:
        """Return the metadata of an archived instant that is no write; empty for a restore, which entries lack."""
        return dict(self._entry(instant).content)

    def entries(self) -> Iterator[ArchivedEntry]:
        """All entries of the archive, in no order: of each instant one for each state that it came to.

        Raises:
            CorruptError: a file is damaged.
        """
        for path in self._paths():
            if not self._is_being_merged(path):
                yield from decode_archive_log(self.storage.read(path, MaxBytes.ARCHIVE_LOG), path=path)

    def _entry(self, instant: Instant) -> ArchivedEntry:
        key = (instant.requested, instant.action)
        known = next((entries[key] for entries in self._files.values() if key in entries), None)
        found = known or self._entries().get(key)
        if found is None:
            raise _gone(self.storage, self.folder, instant)
        return found

    def _entries(self, attempts: int = 3) -> dict[tuple[str, Action], ArchivedEntry]:
        try:
            return self._all_entries()
        except NotFoundError:  # merged into another file since the listing
            if attempts == 1:
                raise
            return self._entries(attempts - 1)

    def _all_entries(self) -> dict[tuple[str, Action], ArchivedEntry]:
        for path, size in self._paths().items():
            key = f"{path}:{size}"
            if key not in self._files:
                self._files[key] = self._read(path)
        return {key: entry for entries in self._files.values() for key, entry in entries.items()}

    def _paths(self) -> dict[str, int]:
        """The archive's files, with their sizes."""
        return {info.path: info.size for folder in self.folders for _, info in archive_logs(self.storage, folder)}

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders that may hold files; those of the table's properties come first."""
        return tuple(dict.fromkeys([self.folder, HOODIE_DIR]))

    def by_file(self) -> Iterator[dict[tuple[str, Action], ArchivedEntry]]:
        """Entries of completed instants by requested time and action, one file at a time; none of them is kept.

        Raises:
            CorruptError: a file is damaged.
            NotFoundError: a file was merged into another one since the listing.
        """
        return map(self._read, self._paths())

    def _read(self, path: str) -> dict[tuple[str, Action], ArchivedEntry]:
        try:
            entries = list(decode_archive_log(self.storage.read(path, MaxBytes.ARCHIVE_LOG), path=path))
        except CorruptError:
            if self._is_being_merged(path):
                return {}
            raise
        return {(e.requested, e.action): e for e in entries if e.state is State.COMPLETED}

    def _is_being_merged(self, path: str) -> bool:
        """Whether a file is the half-written one that others are merged to: its entries are still in those."""
        plan = f"{self.folder}/{MERGE_ARCHIVE_PLAN}"
        try:
            merged = decode_avro(self.storage.read(plan, MaxBytes.INSTANT), path=plan).get("mergedArchiveFileName")
        except (NotFoundError, CorruptError):
            return False
        return bool(merged) and merged == basename(path)


@dataclass(frozen=True, slots=True)
class HistoryArchive:
    """The archive of layout 2: Parquet files in the order of a log-structured merge tree, named by manifests.

    Source: LSMTimeline, ArchivedTimelineLoaderV2.

    Args:
        storage: the table's files.
        folder: the archive's folder, relative to the table's root.
    """

    storage: Storage
    folder: str
    _times: dict[str, tuple[Instant, ...]] = field(default_factory=dict, repr=False)
    _contents: dict[str, dict[tuple[str, Action], bytes]] = field(default_factory=dict, repr=False)

    def instants(self, since: str | None) -> tuple[Instant, ...]:
        """Return the completed instants requested at `since` or later, from the files whose range overlaps it.

        Raises:
            CorruptError: the manifest or a file is damaged.
        """
        found: set[Instant] = set()
        for name in self._manifest():
            if since is None or _range(name)[1] >= since:
                found.update(i for i in self._read_times(name) if since is None or i.requested >= since)
        return tuple(sorted(found))

    def read_commit_metadata(self, instant: Instant) -> CommitMetadata:
        """Return the commit metadata of an archived write."""
        path, content = self._content(instant)
        return decode_commit_metadata(content, path=path)

    def decoded(self, instant: Instant) -> dict[str, Any]:
        """The completed content of an archived instant, by Avro's names."""
        path, content = self._content(instant)
        return decode_avro(content, path=path)

    def rows(self) -> Iterator[tuple[dict[str, Any], Action]]:
        """All archived instants with their actions, file by file.

        Raises:
            CorruptError: the manifest or a file is damaged.
        """
        for name in self._manifest():
            for row in self._read(name, [*TIMES, "metadata", "plan"]).to_pylist():
                if row["action"] in ACTIONS and row["instantTime"] and is_instant_time(row["instantTime"]):
                    done = completion_time(row["completionTime"], row["instantTime"])
                    yield {**row, "completionTime": done}, ACTIONS[row["action"]]

    def _manifest(self) -> list[str]:
        """Names of the live files; others in the folder are leftovers of merging."""
        return sorted(read_manifest(self.storage, self.folder)[1])

    def _read_times(self, name: str) -> tuple[Instant, ...]:
        if name not in self._times:
            rows = self._read(name, TIMES).to_pydict()
            self._times[name] = tuple(
                Instant(
                    requested,
                    ACTIONS[action].comparable,
                    State.COMPLETED,
                    completion_time(done, requested),
                    archived=True,
                )
                for requested, done, action in zip(*(rows[column] for column in TIMES), strict=True)
                if requested and is_instant_time(requested) and action in ACTIONS
            )
        return self._times[name]

    def _content(self, instant: Instant) -> tuple[str, bytes]:
        """The content of a completed instant, and the file that holds it; that file's contents are kept, no other's."""
        key = (instant.requested, instant.action)
        for name, contents in self._contents.items():
            if key in contents:
                return f"{self.folder}/{name}", contents[key]
        for name in self._manifest():
            first, last = _range(name)
            if not first <= instant.requested <= last:
                continue
            rows = self._read(name, ["instantTime", "action", "metadata"]).to_pydict()
            self._contents.clear()
            self._contents[name] = {
                (requested, ACTIONS[action].comparable): content or b""
                for requested, action, content in zip(*rows.values(), strict=True)
                if requested and action in ACTIONS
            }
            if key in self._contents[name]:
                return f"{self.folder}/{name}", self._contents[name][key]
        raise _gone(self.storage, self.folder, instant)

    def _read(self, name: str, columns: list[str]) -> pa.Table:
        kinds = {column: pa.binary() if column in _CONTENTS else pa.string() for column in columns}
        return read_history(self.storage, f"{self.folder}/{name}", pa.schema(kinds.items()))


def read_history(storage: Storage, path: str, columns: pa.Schema | None = None) -> pa.Table:
    """Read a file of an archive of layout 2.

    Args:
        storage: the table's files.
        path: the file.
        columns: the columns to read, in their types; None for all as they are stored.

    Raises:
        CorruptError: it's damaged.
    """
    try:
        with open_input(storage, path) as source:
            table = open_parquet(source).read(None if columns is None else columns.names)
        return table if columns is None else table.select(columns.names).cast(columns)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptError(f"a file of the archived timeline can't be read: {error}", path=path) from error


def read_manifest(storage: Storage, folder: str, version: int | None = None) -> tuple[int, dict[str, int]]:
    """A manifest of an archive of layout 2: its version, -1 for none, and the size of each live file by name.

    The newest is found by a listing: a manifest counts from when it's there, and `_version_`, which is written after
    it, says only whether one was lost.

    Args:
        storage: the table's files.
        folder: the archive's folder.
        version: which one; None for the newest.

    Raises:
        CorruptError: it's damaged or gone, or a file that it names is.
    """
    if version is not None:
        return version, _manifest(storage, folder, version)
    for _ in range(_ATTEMPTS - 1):
        try:
            return _newest_manifest(storage, folder)
        except (NotFoundError, CorruptError):  # another one came, and this one's files went, since the listing
            continue
    return _newest_manifest(storage, folder)


_ATTEMPTS = 2


def _newest_manifest(storage: Storage, folder: str) -> tuple[int, dict[str, int]]:
    names = {basename(info.path) for info in storage.list_dir(folder)[0]}
    version = max((v for name in names if (v := manifest_version(name)) is not None), default=-1)
    ranges = {name: found for name in names if (found := history_range(name)) is not None}
    try:
        files = _manifest(storage, folder, version) if version >= 0 else {}
    except CorruptError:
        stated = _stated_version(storage, folder)
        if stated is None or stated >= version or history_manifest(stated) not in names:
            raise
        version, files = stated, _manifest(storage, folder, stated)  # the newest one's writer died at it
    last = max((_range(name)[1] for name in files), default="")
    if any(found[1] > last for found in ranges.values()):  # a writer died before its manifest, or that is lost
        stated = _stated_version(storage, folder)
        if stated is not None and stated > version:
            raise CorruptError(
                f"the newest manifest of the archived timeline is gone: {HISTORY_VERSION} says that it's "
                f"{history_manifest(stated)}, and the newest one there is {version}; restore it from a copy",
                path=f"{folder}/{history_manifest(stated)}",
            )
    lacking = sorted(files.keys() - ranges.keys())
    if lacking:
        raise CorruptError(
            f"the manifest of the archived timeline names {lacking[0]}, which isn't there: one of the two is damaged "
            "or gone; restore it from a copy",
            path=f"{folder}/{history_manifest(version)}",
        )
    return version, files


def _manifest(storage: Storage, folder: str, version: int) -> dict[str, int]:
    path = f"{folder}/{history_manifest(version)}"
    try:
        entries = json.loads(storage.read(path, MaxBytes.MANIFEST))["files"]
        files = {entry["fileName"]: int(entry.get("fileLen") or 0) for entry in entries}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(
            f"the manifest of the archived timeline can't be read: {cause_text(error)}", path=path
        ) from error
    strange = [name for name in files if not isinstance(name, str) or history_range(name) is None]
    if strange:
        raise CorruptError(f"the manifest of the archived timeline names {strange[0]!r:.80}", path=path)
    return files


def _stated_version(storage: Storage, folder: str) -> int | None:
    """The version of the newest manifest as a file says it; None where none does."""
    try:
        return int(storage.read(f"{folder}/{HISTORY_VERSION}", MaxBytes.NOTE).decode("ascii"))
    except (NotFoundError, ValueError):  # between two versions, or never archived
        return None


def _gone(storage: Storage, folder: str, instant: Instant) -> NotFoundError:
    return NotFoundError(
        "the instant is gone from the archived timeline", table=storage.root, path=folder, instant=instant.requested
    )


def _range(name: str) -> tuple[str, str]:
    found = history_range(name)
    assert found is not None, "names of manifests are checked"
    return found


def completion_time(time: str | None, requested: str) -> str:
    """Return the completion time of an archived instant; where the archive has none, Hudi takes the requested time."""
    return time if time is not None and is_instant_time(time) else requested
