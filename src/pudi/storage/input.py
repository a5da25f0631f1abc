"""Files opened for random access, as pyarrow reads them: by name where they are local, by byte ranges elsewhere."""

from __future__ import annotations

import io
import os
import pathlib
import threading
import weakref
from bisect import insort
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, TypeAlias, cast

import pyarrow as pa

from pudi.context import Storage
from pudi.storage.capability import open_local, read_tail
from pudi.storage.checks import coalesce
from pudi.storage.local import system_error
from pudi.storage.wrapper import StorageWrapper

TAIL = 64 << 10
"""Bytes fetched from a file's end when it's opened: a Parquet footer as a rule, and what pyarrow asks for first."""

SMALL = 1 << 20
"""Files up to this many bytes are fetched in one piece: a second request costs more than the bytes."""


class RangedFile(io.RawIOBase):
    """A read-only file object over byte ranges of a stored file.

    What was fetched stays in memory until the file is closed. Open, the footer, and the ranges given to `prefetch`
    cost one request each, near ranges together.

    Args:
        storage: where the file is.
        path: the file.
        size: its length in bytes, where it's known.
    """

    def __init__(self, storage: Storage, path: str, size: int | None = None) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._parts: list[tuple[int, bytes]] = []
        self._at = 0
        tail = TAIL if size is None or size > SMALL else max(size, 1)
        data, self._size = read_tail(storage, path, tail)
        self._keep(self._size - len(data), data)

    def size(self) -> int:
        """Length in bytes."""
        return self._size

    def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch byte ranges `(start, length)` that will be read, those not fetched yet, in as few requests as can be.

        Raises:
            CorruptError: a range lies past the file's end.
        """
        # Near ranges are kept as the one span they are read as: pyarrow joins some of them before it asks.
        spans = coalesce([(start, length) for start, length in ranges if self._find(start, length) is None])
        if spans:
            for (start, _), data in zip(spans, self._storage.read_ranges(self._path, spans), strict=True):
                self._keep(start, data)

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes, fewer at the end; all that follow without a size."""
        rest = max(0, self._size - self._at)
        length = rest if size is None or size < 0 else min(size, rest)
        if not length:
            return b""
        found = self._find(self._at, length)
        if found is None:
            found = self._storage.read_ranges(self._path, [(self._at, length)])[0]
            self._keep(self._at, found)
        self._at += length
        return found

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer with the next bytes; how many there were."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a byte offset."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """The byte offset of the next read."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Release the fetched bytes."""
        self._parts.clear()
        super().close()

    def _keep(self, start: int, data: bytes) -> None:
        if data:
            insort(self._parts, (start, data), key=lambda part: part[0])

    def _find(self, start: int, length: int) -> bytes | None:
        for first, data in reversed(self._parts):
            if first <= start and start + length <= first + len(data):
                return data[start - first : start - first + length]
        return None


_KEPT_OPEN = 16
"""Number of files that `OpenFiles` keeps at most; on this machine each takes a descriptor."""
_OPENS_ANEW = pathlib.Path("/proc/self/fd").is_dir()
"""Whether opening `/dev/fd/N` gives a position of its own. Elsewhere (macOS) it shares that of descriptor N."""


class OpenFiles(StorageWrapper):
    """A storage in which a file that was opened for random access is opened a second time without a call.

    It's for files that never change, such as base files of completed commits, and for as long as one write takes. Local
    files stay open where each reader gets a position of its own, so on Linux; small files of other storages that were
    fetched whole stay in memory.

    Args:
        inner: the storage that does the work.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._guard = threading.Lock()
        self._open: dict[str, int] = {}
        self._whole: dict[str, bytes] = {}
        weakref.finalize(self, _close, self._open)

    def __reduce__(self) -> tuple[object, ...]:
        return (OpenFiles, (self.inner,))

    def open_local(self, path: str) -> int | None:
        """Return a descriptor of a file on this machine; None in other storages."""
        with self._guard, suppress(OSError):  # without a descriptor left, the storage opens the file or reports it
            if path in self._open:
                return os.dup(self._open[path])
        found = open_local(self.inner, path)
        with self._guard, suppress(OSError):  # and the file isn't kept
            if _OPENS_ANEW and found is not None and len(self._open) < _KEPT_OPEN and path not in self._open:
                self._open[path] = os.dup(found)
        return found

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file, and its size."""
        known = self._whole.get(path)
        if known is not None:
            return known[max(0, len(known) - length) :], len(known)
        data, size = read_tail(self.inner, path, length)
        if len(data) == size <= SMALL and len(self._whole) < _KEPT_OPEN:
            self._whole[path] = data
        return data, size


def _close(descriptors: dict[str, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])


InputFile: TypeAlias = "pa.NativeFile | IO[bytes]"
"""Sources that `pyarrow.parquet.ParquetFile` and similar classes take."""


def open_input(storage: Storage, path: str, size: int | None = None) -> InputFile:
    """Open a file for random access.

    Local files are opened by the operating system, for pyarrow to read with its own threads. Others are a `RangedFile`.

    Args:
        storage: where the file is.
        path: the file.
        size: its length in bytes, if known: small files are then fetched in one request.

    Raises:
        NotFoundError: the file does not exist.
        CorruptError: it is a FIFO, a socket or a device.
        RefusedError: this user may not read it.
        UnavailableError: it can't be opened for another reason.
    """
    descriptor = open_local(storage, path)
    if descriptor is None:
        return cast("IO[bytes]", RangedFile(storage, path, size))
    try:
        return _as_arrow_file(descriptor)
    except OSError as error:
        raise system_error(error, "the file can't be opened", table=storage.root, path=path) from error
    finally:
        os.close(descriptor)


def _as_arrow_file(descriptor: int) -> InputFile:
    """A file of pyarrow's own for an open descriptor: pyarrow opens names only, and the name may mean another file."""
    try:
        return pa.OSFile(f"/dev/fd/{descriptor}", "rb")
    except OSError:  # without /proc: read through Python, which is slower
        return os.fdopen(os.dup(descriptor), "rb")


def prefetch(file: object, ranges: Sequence[tuple[int, int]]) -> None:
    """Fetch byte ranges `(start, length)` of an open file before they are read; does nothing for local files."""
    if isinstance(file, RangedFile):
        file.prefetch(ranges)
