"""Small files of a metadata table in memory: what was read or written last isn't read again while it's the same.

No file changes once its instant has completed. One that was damaged or replaced since has another time of modification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pudi.context import RecentValues, Storage
from pudi.storage import StorageWrapper

MOST_BYTES = 4 << 20
"""Maximum bytes of small files that an open metadata table keeps."""


class FileStamp(NamedTuple):
    """Facts by which a file is the one that was read before.

    Attributes:
        size: its length in bytes.
        completion: completion time of the instant that wrote it.
        modified_ms: time of its last modification, by the listing that showed it; None if none did.
    """

    size: int
    completion: str
    modified_ms: int | None


class KeptFile(NamedTuple):
    """The content of a small file.

    Attributes:
        data: the content.
        stamp: the file's stamp when it was read or written.
        until_ms: where no listing told when it was modified, a time when it had been; None for any time.
    """

    data: bytes
    stamp: FileStamp
    until_ms: int | None = None

    def is_still(self, now: FileStamp) -> bool:
        """Return whether a file of that stamp has this content."""
        before, modified_ms = self.stamp, now.modified_ms
        if (now.size, now.completion) != (before.size, before.completion):
            return False
        if before.modified_ms is None:
            return self.until_ms is None or modified_ms is None or modified_ms <= self.until_ms
        return modified_ms in {None, before.modified_ms}


SmallFiles: TypeAlias = RecentValues[str, KeptFile]
"""Small files that were read last, by path."""


def content_of(files: SmallFiles, path: str, stamp: FileStamp, read: Callable[[], bytes]) -> bytes:
    """Return the content of a file, read now unless it is known and the file's stamp says that it's the same."""
    known = files.get(path)
    if known is None or not known.is_still(stamp):
        known = KeptFile(read(), stamp)
    elif known.stamp.modified_ms is None and stamp.modified_ms is not None:
        known = KeptFile(known.data, stamp)
    else:
        return known.data
    files.keep(path, known, len(known.data))
    return known.data


class ReadOnce(StorageWrapper):
    """A metadata table's folder of which some files are read once: those with a stamp, by path."""

    def __init__(self, inner: Storage, files: SmallFiles, stamps: Mapping[str, FileStamp]) -> None:
        super().__init__(inner)
        self._files = files
        self._stamps = stamps

    def read(self, path: str, most: int | None = None) -> bytes:
        """Return a file's whole content."""
        stamp = self._stamps.get(path)
        if stamp is None:
            return self.inner.read(path, most)
        return content_of(self._files, path, stamp, lambda: self.inner.read(path, most))
