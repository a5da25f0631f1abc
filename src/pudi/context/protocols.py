"""The protocols of storage and locks: where a table's bytes live, and what keeps its writers apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, runtime_checkable


class FileInfo(NamedTuple):
    """One stored file: a tuple, since a table may have a million of them.

    Attributes:
        path: path relative to the table's root, `/` separated, without a leading slash.
        size: length in bytes.
        modified_ms: time of last modification, milliseconds since the epoch, UTC.
    """

    path: str
    size: int
    modified_ms: int


@runtime_checkable
class Storage(Protocol):
    """Files under one root. Paths are relative to it; no path ever leaves it.

    Every method raises `UnavailableError` when the store does not answer after retries, `RefusedError` where it won't
    however often it's asked (a full disk, no rights), `NotFoundError` where a file must be there and is not, and
    `InvalidArgumentError` for a path that is absolute or climbs out of the root.
    Implementations can be pickled: a copy opens its own connection.
    """

    @property
    def root(self) -> str:
        """Location of the root as given by the user, without a trailing slash: a local path or `scheme://bucket/…`."""

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`, at any depth, in no order. A missing folder has no files."""

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names (not paths) of the folders directly in it."""

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's whole content.

        Args:
            path: the file.
            most: bytes that it has at most, None for any number; a larger one isn't read.

        Raises:
            CorruptError: it has more than `most` bytes, or is no regular file.
        """

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file, each whole; ranges past the end raise `CorruptError`."""

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not exist, atomically: all of `data` or nothing. Of several writers one succeeds.

        Args:
            path: the file.
            data: its content.
            durable: whether the whole file survives a loss of power once this call returns. Otherwise it's safe only
                after `sync`; stores that persist what they confirm are always durable.

        Raises:
            TableExistsError: the file is there already (with other content than this very call wrote).
        """

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file, atomically for readers; `durable` as for `create`."""

    def sync(self, paths: Sequence[str]) -> None:
        """Make files safe from a loss of power, with the folders that they lie in; their content first.

        For a folder, flushes all files directly in it; for a deleted file, flushes the deletion. A no-op in stores that
        persist what they confirm.
        """

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files; those that are not there are no error."""


@runtime_checkable
class Lock(Protocol):
    """A table's lock, used as a context manager and held only around timeline changes, not while data is written.

    Entering waits until the lock is free and raises `UnavailableError` when that takes too long. It's reentrant
    for the thread that holds it.
    """

    def __enter__(self) -> Lock:
        """Acquire the lock."""

    def verify(self) -> None:
        """Make sure that the lock is still held, just before the step that it protects.

        Raises:
            ConflictError: it expired or was taken meanwhile.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock."""


@runtime_checkable
class OneProcessLock(Lock, Protocol):
    """A lock that keeps out the threads of this process only, and so remembers which instants the process made.

    Under this lock the timeline refuses to complete an action if an instant of another process appeared meanwhile:
    nothing orders the two.
    """

    def note_own(self, instant: str) -> None:
        """Remember an instant that this process has put on the timeline, by requested time and action."""

    def is_own(self, instant: str) -> bool:
        """Whether this process has put the instant on the timeline."""


@runtime_checkable
class ServiceLock(Lock, Protocol):
    """A lock that a service outside of the table keeps."""

    def check_ready(self) -> None:
        """Make sure, before any work is done, that the lock can be asked for.

        Raises:
            SetupError: a package is missing.
            UnavailableError: the service doesn't answer.
        """
