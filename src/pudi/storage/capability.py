"""Optional abilities of storages beyond the `Storage` protocol; a wrapper has those of its inner storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from posixpath import basename
from typing import Any, Protocol, TypeGuard, TypeVar, cast, runtime_checkable

from pudi.context import Executor, Storage, ThreadExecutor
from pudi.context.executor import WAITING

_Ability = TypeVar("_Ability")

_asked: dict[tuple[type, object], bool] = {}

_MANY = 4 * WAITING
"""Number of calls above which the first one may wait for the store before others begin."""


@runtime_checkable
class LocalFiles(Protocol):
    """Files that programs on this machine can open by name."""

    def local_path(self, path: str) -> str | None:
        """Return the absolute path on the local file system, inside the root; None in other storages."""

    def open_local(self, path: str) -> int | None:
        """Descriptor of a regular file, open for reading, that the caller closes; None where files aren't local.

        Raises:
            NotFoundError: the file does not exist.
            CorruptError: it is a FIFO, a socket or a device.
        """


@runtime_checkable
class NameListing(Protocol):
    """A listing of names alone, where sizes and times cost a system call for each file."""

    def list_names(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Names (not paths) of the files directly in folder `prefix`, and of the folders, both in no order."""


@runtime_checkable
class TailReads(Protocol):
    """A file's end and its size in one request."""

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file (all of a shorter one), and the file's size in bytes."""


@runtime_checkable
class Replaces(Protocol):
    """Replace-if-unchanged (compare and swap) of one file."""

    @property
    def can_replace(self) -> bool:
        """Whether the store really can."""

    def read_version(self, path: str, most: int | None = None) -> tuple[bytes, str]:
        """A file's content, of at most `most` bytes, and its version, an opaque text that changes with every write."""

    def replace(self, path: str, data: bytes, version: str) -> str:
        """Replace a file that still has the version given; its new version.

        Raises:
            ConflictError: the file has another version, or is gone.
        """


@runtime_checkable
class Connected(Protocol):
    """A storage that is reached by options."""

    @property
    def options(self) -> Mapping[str, str]:
        """Options that the user gave for the store, under obstore's names."""


@runtime_checkable
class KeepsTime(Protocol):
    """A store that stamps files with its own clock."""

    @property
    def has_own_clock(self) -> bool:
        """Whether that clock is another one than this machine's."""


@runtime_checkable
class NearFiles(Protocol):
    """A storage that may be on this machine."""

    @property
    def is_near(self) -> bool:
        """Whether calls mostly take less time than it takes to start a thread."""


@runtime_checkable
class Folders(Protocol):
    """Folders that stay when their last file goes."""

    @property
    def keeps_folders(self) -> bool:
        """Whether they really stay."""

    def delete_folder(self, prefix: str) -> int:
        """Delete every file below folder `prefix`, and the folder; how many files there were."""

    def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders in folder `prefix`, and it too when nothing is left in it."""


@runtime_checkable
class Parallel(Protocol):
    """A storage that was opened with an executor."""

    @property
    def executor(self) -> Executor:
        """Runs tasks on the storage's files in parallel."""


def _can(storage: Storage, ability: Callable[..., _Ability]) -> TypeGuard[_Ability]:
    """Return whether a storage has an ability; a protocol, which answers slowly, is asked once for each class."""
    key = type(storage), ability
    known = _asked.get(key)
    if known is None:
        known = _asked[key] = isinstance(storage, cast(Any, ability))
    return known


def executor_of(storage: Storage) -> Executor:
    """Return the executor that a storage was opened with: for tasks, which know no context. Threads by default."""
    return storage.executor if _can(storage, Parallel) else ThreadExecutor()


def is_near(storage: Storage) -> bool:
    """Whether calls mostly take less time than it takes to start a thread."""
    return _can(storage, NearFiles) and storage.is_near


def tries_alone(storage: Storage, count: int) -> bool:
    """Return whether to begin in one thread and go on there as long as calls are quick: near files, or many of them."""
    return count > _MANY or is_near(storage)


def local_path(storage: Storage, path: str) -> str | None:
    """Absolute path of a file on this machine's file system, or None where the storage isn't local.

    Raises:
        InvalidArgumentError: the path leaves the root, by its text or through a symlink.
    """
    return storage.local_path(path) if _can(storage, LocalFiles) else None


def stamp(storage: Storage, path: str, modified_ms: int) -> None:
    """Set the modification time of a file, where the storage is a local file system; others keep their own.

    Args:
        storage: the files.
        path: the file.
        modified_ms: milliseconds since the epoch.
    """
    local = local_path(storage, path)
    if local is not None:
        os.utime(local, ns=(modified_ms * 1_000_000,) * 2)


def open_local(storage: Storage, path: str) -> int | None:
    """Descriptor of a regular file on this machine's file system, or None where the storage isn't local.

    Raises:
        NotFoundError: the file does not exist.
        CorruptError: it is a FIFO, a socket or a device.
        InvalidArgumentError: the path leaves the root, by its text or through a symlink.
    """
    return storage.open_local(path) if _can(storage, LocalFiles) else None


def has_own_clock(storage: Storage) -> bool:
    """Whether files get their times from another clock than this machine's."""
    return _can(storage, KeepsTime) and storage.has_own_clock


def connection_options(storage: Storage) -> Mapping[str, str]:
    """Return the user's `storage_options`, for libraries that open the storage themselves."""
    return storage.options if _can(storage, Connected) else {}


def read_tail(storage: Storage, path: str, length: int) -> tuple[bytes, int]:
    """The last `length` bytes of a file (all of a shorter one), and its size; one request where the store can.

    Raises:
        NotFoundError: the file does not exist.
    """
    if _can(storage, TailReads):
        return storage.read_tail(path, length)
    size = storage.head(path).size
    start = max(0, size - length)
    return storage.read_ranges(path, [(start, size - start)])[0], size


def list_names(storage: Storage, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
    """Names of the files directly in a folder, and of the folders, both in no order; a missing folder has none."""
    if _can(storage, NameListing):
        return storage.list_names(prefix)
    files, folders = storage.list_dir(prefix)
    return [basename(info.path) for info in files], folders


def replacing(storage: Storage) -> Replaces | None:
    """The storage's replace-if-unchanged, or None where it has none (local disks)."""
    return storage if _can(storage, Replaces) and storage.can_replace else None


def keeping_folders(storage: Storage) -> Folders | None:
    """The storage's work on folders, or None where folders are just names of files."""
    return storage if _can(storage, Folders) and storage.keeps_folders else None


def remove_folders(storage: Storage, prefix: str) -> None:
    """Remove the empty folders in folder `prefix`, and it too; nothing to do where folders are just names."""
    able = keeping_folders(storage)
    if able is not None:
        able.remove_folders(prefix)


def delete_for_good(storage: Storage, paths: Sequence[str]) -> None:
    """Delete files so that a loss of power doesn't bring them back."""
    if paths:
        storage.delete(paths)
        storage.sync(paths)


def delete_folder(storage: Storage, prefix: str, known: Sequence[str] | None = None) -> int:
    """Delete every file below a folder, and the folder; how many files there were.

    Args:
        storage: where the folder is.
        prefix: the folder.
        known: the files below it, by a listing of the caller's; None lists them where the storage needs their names.
    """
    able = keeping_folders(storage)
    if able is not None:
        return able.delete_folder(prefix)
    doomed = [info.path for info in storage.list(prefix)] if known is None else known
    if doomed:
        storage.delete(doomed)
    return len(doomed)
