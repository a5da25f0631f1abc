"""Storages around a storage: wrappers that see every call, and a folder of it as a storage of its own.

The metadata table lies in a folder of its table. Through `StorageWrapper` each call passes one point, where it can be
counted, made to fail or watched.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pudi.context import Executor, FileInfo, Storage
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.storage.capability import (
    LocalFiles,
    Replaces,
    connection_options,
    delete_folder,
    executor_of,
    has_own_clock,
    is_near,
    keeping_folders,
    list_names,
    local_path,
    open_local,
    read_tail,
    remove_folders,
    replacing,
)

T = TypeVar("T")


class StorageWrapper:
    """A storage that does what another one does; subclasses see each call in `_call`.

    Kinds of calls are the names of the methods of `Storage` and, where the inner storage has them, of `LocalFiles`
    (`local_path`: the name is asked for, `open_local`: the file is opened), `TailReads`, `Replaces` and `Folders`. A
    listing of names is a `list_dir`.

    Args:
        inner: the storage that does the work.
    """

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        """Make one call. `path` is the file or folder concerned, the first of several."""
        del kind, path
        return do()

    @property
    def root(self) -> str:
        """Location of the root."""
        return self.inner.root

    @property
    def options(self) -> Mapping[str, str]:
        """Options that the user gave for the inner storage."""
        return connection_options(self.inner)

    @property
    def executor(self) -> Executor:
        """Runs tasks on the storage's files in parallel."""
        return executor_of(self.inner)

    @property
    def can_replace(self) -> bool:
        """Whether the inner storage has replace-if-unchanged."""
        return replacing(self.inner) is not None

    @property
    def keeps_folders(self) -> bool:
        """Whether the inner storage's folders stay when their last file goes."""
        return keeping_folders(self.inner) is not None

    @property
    def has_own_clock(self) -> bool:
        """Whether the inner storage keeps time by itself."""
        return has_own_clock(self.inner)

    @property
    def is_near(self) -> bool:
        """Whether calls mostly take less time than it takes to start a thread."""
        return is_near(self.inner)

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`."""
        return self._call("list", prefix, lambda: self.inner.list(self._inside(prefix)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it."""
        return self._call("list_dir", prefix, lambda: self.inner.list_dir(self._inside(prefix)))

    def list_names(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Names of the files directly in folder `prefix`, and of the folders."""
        return self._call("list_dir", prefix, lambda: list_names(self.inner, self._inside(prefix)))

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        return self._call("head", path, lambda: self.inner.head(self._inside(path)))

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's whole content, of at most `most` bytes."""
        return self._call("read", path, lambda: self.inner.read(self._inside(path), most))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file."""
        return self._call("read_ranges", path, lambda: self.inner.read_ranges(self._inside(path), ranges))

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there."""
        return self._call("create", path, lambda: self.inner.create(self._inside(path), data, durable=durable))

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file."""
        return self._call("put", path, lambda: self.inner.put(self._inside(path), data, durable=durable))

    def sync(self, paths: Sequence[str]) -> None:
        """Make files safe from a loss of power. It's a call only where there's something to do."""
        if paths and _is_local(self.inner):
            self._call("sync", paths[0], lambda: self.inner.sync([self._inside(path) for path in paths]))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files."""
        return self._call(
            "delete", paths[0] if paths else "", lambda: self.inner.delete([self._inside(path) for path in paths])
        )

    def local_path(self, path: str) -> str | None:
        """Return the absolute path on the local file system; None in other storages."""
        if not _is_local(self.inner):
            return None
        return self._call("local_path", path, lambda: local_path(self.inner, self._inside(path)))

    def open_local(self, path: str) -> int | None:
        """Open a file descriptor on the local file system; None in other storages."""
        if not _is_local(self.inner):
            return None
        return self._call("open_local", path, lambda: open_local(self.inner, self._inside(path)))

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file, and its size."""
        return self._call("read_tail", path, lambda: read_tail(self.inner, self._inside(path), length))

    def read_version(self, path: str, most: int | None = None) -> tuple[bytes, str]:
        """A file's content, of at most `most` bytes, and its version."""
        return self._call("read_version", path, lambda: self._replacing().read_version(self._inside(path), most))

    def replace(self, path: str, data: bytes, version: str) -> str:
        """Replace a file that still has the version given; its new version."""
        return self._call("replace", path, lambda: self._replacing().replace(self._inside(path), data, version))

    def delete_folder(self, prefix: str) -> int:
        """Delete every file below folder `prefix`, and the folder; how many files there were."""
        return self._call("delete_folder", prefix, lambda: delete_folder(self.inner, self._inside(prefix)))

    def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders in folder `prefix`, and it too."""
        return self._call("remove_folders", prefix, lambda: remove_folders(self.inner, self._inside(prefix)))

    def _inside(self, path: str) -> str:
        """Return the path of a file or folder in the inner storage."""
        return path

    def _replacing(self) -> Replaces:
        able = replacing(self.inner)
        if able is None:
            raise NotSupportedError("the storage has no replace-if-unchanged", table=self.root)
        return able


def _is_local(storage: Storage) -> bool:
    """Return whether the storage behind all wrappers has files that programs on this machine can open by name."""
    while isinstance(storage, StorageWrapper):
        storage = storage.inner
    return isinstance(storage, LocalFiles)


class UnsyncedStorage(StorageWrapper):
    """A storage that never flushes: the operating system writes files to disk when it likes."""

    def __repr__(self) -> str:
        return f"UnsyncedStorage({self.inner!r})"

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there; a loss of power may take it."""
        del durable
        self.inner.create(path, data)

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file; a loss of power may take it."""
        del durable
        self.inner.put(path, data)

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing."""


def synced(storage: Storage, wanted: bool) -> Storage:
    """Return the storage with flushing on or off.

    Args:
        storage: the storage, or what this function made of it before.
        wanted: whether.
    """
    plain = storage.inner if isinstance(storage, UnsyncedStorage) else storage
    return plain if wanted else UnsyncedStorage(plain)


class CountingStorage(StorageWrapper):
    """A storage that counts its calls by kind, so that a test can hold a request budget.

    A pickled copy counts for itself, from zero.

    Args:
        inner: the storage that does the work.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._guard = threading.Lock()
        self._counter: Counter[str] = Counter()

    def __reduce__(self) -> tuple[object, ...]:
        return (CountingStorage, (self.inner,))

    def __repr__(self) -> str:
        return f"CountingStorage({self.inner!r})"

    @property
    def calls(self) -> dict[str, int]:
        """Calls made so far by kind; kinds never called are left out."""
        with self._guard:
            return dict(self._counter)

    @property
    def requests(self) -> int:
        """The number of requests that an object store would have received: `sync` is none there."""
        return sum(count for kind, count in self.calls.items() if kind != "sync")

    def reset(self) -> None:
        """Count from zero again."""
        with self._guard:
            self._counter.clear()

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        with self._guard:
            self._counter[kind] += 1
        return super()._call(kind, path, do)


class StorageBelow(StorageWrapper):
    """The files in one folder of another storage, which does the work; paths are relative to the folder.

    Args:
        inner: the storage that the folder is in.
        folder: the folder, relative to the inner root.
    """

    def __init__(self, inner: Storage, folder: str) -> None:
        super().__init__(inner)
        self.folder = folder

    def __repr__(self) -> str:
        return f"StorageBelow({self.inner!r}, {self.folder!r})"

    @property
    def root(self) -> str:
        """Location of the folder."""
        return f"{self.inner.root}/{self.folder}"

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`."""
        return map(self._below, super().list(prefix))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it."""
        files, folders = super().list_dir(prefix)
        return [self._below(info) for info in files], folders

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        return self._below(super().head(path))

    def _inside(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise InvalidArgumentError(f"{path!r} leaves the folder {self.folder}", table=self.root)
        return f"{self.folder}/{path}" if path else self.folder

    def _below(self, info: FileInfo) -> FileInfo:
        return info._replace(path=info.path[len(self.folder) + 1 :])
