"""An object store in memory whose files have the world's time, and the view of it that one process has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pudi.context import Executor, FileInfo
from pudi.errors import ConflictError, CorruptError, NotFoundError, TableExistsError
from support.simulated.world import Process


class Disk:
    """Files by path, each with its time and version.

    Args:
        root: the location that it stands for, `memory://…`.
        files: what is there at first.
    """

    def __init__(self, root: str, files: dict[str, bytes], modified_ms: int) -> None:
        self.root = root
        self.files: dict[str, tuple[bytes, int, int]] = {}
        self._folders: dict[str, dict[str, bool]] = {}
        self._versions = 0
        for path, data in files.items():
            self._enter(path, data, modified_ms)

    def write(self, path: str, data: bytes, now_ms: float) -> str:
        """Write a file; its new version."""
        self._versions += 1
        self._enter(path, bytes(data), int(now_ms))
        return str(self._versions)

    def remove(self, path: str) -> None:
        """Delete a file, if it's there; a folder goes with its last file."""
        if self.files.pop(path, None) is None:
            return
        while path:
            path, _, name = path.rpartition("/")
            del self._folders[path][name]
            if self._folders[path]:
                return
            del self._folders[path]

    def folder(self, prefix: str) -> tuple[list[FileInfo], list[str]]:
        """The files and the folders directly in a folder, by name."""
        there = sorted(self._folders.get(prefix, {}).items())
        start = f"{prefix}/" if prefix else ""
        files = []
        for name, is_file in there:
            if is_file:
                data, at, _ = self.files[start + name]
                files.append(FileInfo(start + name, len(data), at))
        return files, [name for name, is_file in there if not is_file]

    def _enter(self, path: str, data: bytes, at_ms: int) -> None:
        self.files[path] = data, at_ms, self._versions
        is_file = True
        while path:
            path, _, name = path.rpartition("/")
            names = self._folders.setdefault(path, {})
            if name in names:
                return
            names[name], is_file = is_file, False

    def get(self, path: str) -> tuple[bytes, int, int]:
        """A file's content, time and version."""
        try:
            return self.files[path]
        except KeyError:
            raise NotFoundError("there is no such file", table=self.root, path=path) from None


class ProcessStorage:
    """The storage of one process; see `pudi.context.Storage`, `Replaces` and `TailReads`."""

    def __init__(self, disk: Disk, process: Process, executor: Executor) -> None:
        self.disk, self.process, self.executor = disk, process, executor

    @property
    def root(self) -> str:
        """Location of the root."""
        return self.disk.root

    @property
    def can_replace(self) -> bool:
        """Replace-if-unchanged is there."""
        return True

    def _call(self, kind: str, path: str, do: Callable[[], Any], data: bytes | None = None) -> Any:
        return self.process.call(kind, path, do, data)

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below a folder."""
        start = f"{prefix}/" if prefix else ""

        def do() -> list[FileInfo]:
            found = [(p, f) for p, f in self.disk.files.items() if p.startswith(start)]
            return sorted(FileInfo(path, len(data), at) for path, (data, at, _) in found)

        return iter(self._call("list", prefix, do))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in a folder, and the names of the folders in it."""
        return self._call("list_dir", prefix, lambda: self.disk.folder(prefix))  # type: ignore[no-any-return]

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""

        def do() -> FileInfo:
            data, at, _ = self.disk.get(path)
            return FileInfo(path, len(data), at)

        return self._call("head", path, do)  # type: ignore[no-any-return]

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's content."""
        del most
        return self._call("read", path, lambda: self.disk.get(path)[0])  # type: ignore[no-any-return]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Ranges of a file."""

        def do() -> list[bytes]:
            data = self.disk.get(path)[0]
            if any(start + length > len(data) for start, length in ranges):
                raise CorruptError("the file ends before the range", table=self.root, path=path)
            return [data[start : start + length] for start, length in ranges]

        return self._call("read_ranges", path, do)  # type: ignore[no-any-return]

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The end of a file, and its size."""

        def do() -> tuple[bytes, int]:
            data = self.disk.get(path)[0]
            return data[-length:], len(data)

        return self._call("read_tail", path, do)  # type: ignore[no-any-return]

    def read_version(self, path: str, most: int | None = None) -> tuple[bytes, str]:
        """A file's content, and its version."""
        del most

        def do() -> tuple[bytes, str]:
            data, _, version = self.disk.get(path)
            return data, str(version)

        return self._call("read_version", path, do)  # type: ignore[no-any-return]

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there."""
        del durable

        def do() -> None:
            if path in self.disk.files:
                raise TableExistsError("the file is there already", table=self.root, path=path)
            self.disk.write(path, data, self.process.world.now_ms)

        self._call("create", path, do, data)

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file."""
        del durable
        self._call("put", path, lambda: self.disk.write(path, data, self.process.world.now_ms), data)

    def replace(self, path: str, data: bytes, version: str) -> str:
        """Replace a file that still has a version."""

        def do() -> str:
            if path not in self.disk.files or str(self.disk.files[path][2]) != version:
                raise ConflictError("the file was changed meanwhile", table=self.root, path=path)
            return self.disk.write(path, data, self.process.world.now_ms)

        return self._call("replace", path, do, data)  # type: ignore[no-any-return]

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files."""

        def do() -> None:
            for path in paths:
                self.disk.remove(path)

        if paths:
            self._call("delete", "\n".join(paths), do)

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing: what an object store confirms is safe."""
