"""A folder of a storage as a storage of its own: the metadata table, which is a table within a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pudi.context import FileInfo, Storage
from pudi.storage.path import check_path, check_prefix
from pudi.storage.wrapper import StorageWrapper


class FolderStorage(StorageWrapper):
    """What lies in one folder of another storage, which can do here what it can do there.

    Args:
        inner: the storage.
        folder: path of the folder, relative to the inner storage's root.
    """

    def __init__(self, inner: Storage, folder: str) -> None:
        super().__init__(inner)
        self.folder = check_path(folder, inner.root)

    def __repr__(self) -> str:
        return f"FolderStorage({self.inner!r}, {self.folder!r})"

    @property
    def root(self) -> str:
        """Location of the folder."""
        return f"{self.inner.root}/{self.folder}"

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`."""
        return (self._outer(info) for info in super().list(self._below(prefix)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it."""
        files, folders = super().list_dir(self._below(prefix))
        return [self._outer(info) for info in files], folders

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        return self._outer(super().head(self._inner(path)))

    def read(self, path: str) -> bytes:
        """A file's whole content."""
        return super().read(self._inner(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file."""
        return super().read_ranges(self._inner(path), ranges)

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not be there."""
        super().create(self._inner(path), data)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace a file."""
        super().put(self._inner(path), data)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files."""
        super().delete([self._inner(path) for path in paths])

    def local_path(self, path: str) -> str | None:
        """Absolute path on this machine's file system, or None where there is none."""
        return super().local_path(self._inner(path))

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file, and its size."""
        return super().read_tail(self._inner(path), length)

    def read_version(self, path: str) -> tuple[bytes, str]:
        """A file's content and its version."""
        return super().read_version(self._inner(path))

    def replace(self, path: str, data: bytes, version: str) -> str:
        """Replace a file that still has the version given; its new version."""
        return super().replace(self._inner(path), data, version)

    def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders in folder `prefix`, and it too."""
        super().remove_folders(self._below(prefix))

    def _inner(self, path: str) -> str:
        return f"{self.folder}/{check_path(path, self.root)}"

    def _below(self, prefix: str) -> str:
        return f"{self.folder}/{check_prefix(prefix, self.root)}" if prefix else self.folder

    def _outer(self, info: FileInfo) -> FileInfo:
        return replace(info, path=info.path[len(self.folder) + 1 :])
