"""A folder of a storage as a storage of its own: the metadata table lies in a folder of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pudi.context import Executor, FileInfo, Storage
from pudi.errors import InvalidArgumentError
from pudi.storage.capability import (
    connection_options,
    executor_of,
    is_near,
    list_names,
    local_path,
    open_local,
    read_tail,
    remove_folders,
)


class StorageBelow:
    """The files in one folder of another storage, which does the work; paths are relative to the folder.

    Args:
        inner: the storage that the folder is in.
        folder: the folder, relative to the inner root.
    """

    def __init__(self, inner: Storage, folder: str) -> None:
        self.inner = inner
        self.folder = folder

    def __repr__(self) -> str:
        return f"StorageBelow({self.inner!r}, {self.folder!r})"

    @property
    def root(self) -> str:
        """Location of the folder."""
        return f"{self.inner.root}/{self.folder}"

    @property
    def options(self) -> Mapping[str, str]:
        """Options that the user gave for the inner storage."""
        return connection_options(self.inner)

    @property
    def executor(self) -> Executor:
        """Runs tasks on the storage's files in parallel."""
        return executor_of(self.inner)

    @property
    def is_near(self) -> bool:
        """Whether calls mostly take less time than it takes to start a thread."""
        return is_near(self.inner)

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`."""
        return map(self._below, self.inner.list(self._inside(prefix)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it."""
        files, folders = self.inner.list_dir(self._inside(prefix))
        return [self._below(info) for info in files], folders

    def list_names(self, prefix: str = "") -> Sequence[str]:
        """Names of the files directly in folder `prefix`."""
        return list_names(self.inner, self._inside(prefix))

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        return self._below(self.inner.head(self._inside(path)))

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's whole content, of at most `most` bytes."""
        return self.inner.read(self._inside(path), most)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file."""
        return self.inner.read_ranges(self._inside(path), ranges)

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file, and its size."""
        return read_tail(self.inner, self._inside(path), length)

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there."""
        self.inner.create(self._inside(path), data, durable=durable)

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file."""
        self.inner.put(self._inside(path), data, durable=durable)

    def sync(self, paths: Sequence[str]) -> None:
        """Make files safe from a loss of power."""
        self.inner.sync([self._inside(path) for path in paths])

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files."""
        self.inner.delete([self._inside(path) for path in paths])

    def local_path(self, path: str) -> str | None:
        """Return the absolute path on the local file system; None in other storages."""
        return local_path(self.inner, self._inside(path))

    def open_local(self, path: str) -> int | None:
        """Open a file descriptor on the local file system; None in other storages."""
        return open_local(self.inner, self._inside(path))

    def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders in folder `prefix`, and it too."""
        remove_folders(self.inner, self._inside(prefix))

    def _inside(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise InvalidArgumentError(f"{path!r} leaves the folder {self.folder}", table=self.root)
        return f"{self.folder}/{path}" if path else self.folder

    def _below(self, info: FileInfo) -> FileInfo:
        return info._replace(path=info.path[len(self.folder) + 1 :])
