"""Files in an object store, through obstore; this process's memory is one (`memory://NAME`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import basename
from typing import TYPE_CHECKING, NoReturn, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore

from pudi.context import Context, Executor, FileInfo
from pudi.errors import (
    ConflictError,
    CorruptError,
    NotFoundError,
    NotSupportedError,
    TableExistsError,
    UnavailableError,
)
from pudi.storage.checks import check_lengths, check_path, check_prefix, check_size, coalesce, cut, octets
from pudi.storage.failure import SILENT, is_no_container, may_pass, status_of, translate
from pudi.storage.stores import Place

if TYPE_CHECKING:  # obstore has these for type checkers only
    from obstore import ObjectMeta, PutMode
    from obstore.store import ObjectStore

T = TypeVar("T")

_WRITER = "pudicall"
"""Object metadata that identifies the call that wrote an object, so that a call with a lost response recognises its own
work. Azure allows only letters, digits and underscores in names; some proxies forbid underscores."""

_ATTEMPTS, _FIRST_WAIT_S, _LONGEST_WAIT_S = 6, 0.2, 10.0
"""Calls made at most, and the longest waits before the second of them, from which on it doubles, and before any."""


class ObjectStorage:
    """Files under a prefix of an object store.

    `create` and `replace` use conditional writes. obstore must not retry them itself: only this class can tell its own
    earlier attempt from another writer's object. Reads are repeated in the same way, on the context's clock.

    Args:
        place: the root, and where in the store it is.
        store: obstore's store, with its retries off.
        reopen: function and arguments that open this storage in another process, for pickling.
        context: clock and chance of the retries.
        options: what the user gave to reach the store.
    """

    def __init__(
        self,
        place: Place,
        store: ObjectStore,
        reopen: tuple[Callable[..., ObjectStorage], tuple[object, ...]],
        context: Context | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._root = place.root.rstrip("/")
        self._store = store
        self._prefix = f"{place.prefix}/" if place.prefix else ""
        self._reopen = reopen
        self._context = context or Context()
        self._options = dict(options or {})
        self._kind = place.kind

    def __reduce__(self) -> tuple[object, ...]:
        return self._reopen

    def __repr__(self) -> str:
        return f"ObjectStorage({self._root!r})"

    @property
    def root(self) -> str:
        """The root as given."""
        return self._root

    @property
    def options(self) -> Mapping[str, str]:
        """Options that the user gave for the store."""
        return self._options

    @property
    def executor(self) -> Executor:
        """The executor of the storage's context."""
        return self._context.executor

    @property
    def can_replace(self) -> bool:
        """Replace-if-unchanged is there."""
        return True

    @property
    def has_own_clock(self) -> bool:
        """All but memory is on other machines."""
        return not isinstance(self._store, MemoryStore)

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`."""
        key = self._folder(prefix)
        found = self._run(prefix, lambda: obstore.list(self._store, key, chunk_size=1000).collect())
        infos = [self._info(meta) for meta in found if meta["path"] != key]
        folders = {parent for info in infos for parent in _parents(info.path)}
        # Hadoop marks a folder by an empty object of its name, which obstore can't tell from a file.
        return iter([info for info in infos if info.size or info.path not in folders])

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it, both sorted by name."""
        key = self._folder(prefix)
        found = self._run(prefix, lambda: obstore.list_with_delimiter(self._store, key))
        folders = sorted({basename(path) for path in found["common_prefixes"]})
        marked = {key, *found["common_prefixes"]}
        infos = [self._info(meta) for meta in found["objects"] if meta["size"] or meta["path"] not in marked]
        return sorted(infos, key=lambda info: info.path), folders

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        key = self._key(path)
        return self._info(self._run(path, lambda: obstore.head(self._store, key)))

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's whole content; `CorruptError` when it has more than `most` bytes."""
        return self._get(path, most)[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file; near ones in one request, the rest side by side."""
        key = self._key(path)
        check_lengths(ranges, self._root, path)
        spans = coalesce(ranges)
        if not spans:
            self.head(path)
            return [b"" for _ in ranges]
        found = self._run(path, lambda: self._get_spans(key, spans), offset=spans[-1][0])
        for (start, length), data in zip(spans, found, strict=True):
            if len(data) != length:
                raise CorruptError(
                    f"bytes {start} to {start + length} are wanted and the file has {start + len(data)}",
                    table=self._root,
                    path=path,
                    offset=start,
                )
        return cut(ranges, spans, found)

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file (all of a shorter one), and its size; one request where the store can."""
        key = self._key(path)
        if not self._kind.has_suffix_reads:
            size = self.head(path).size
            start = max(0, size - length)
            return self.read_ranges(path, [(start, size - start)])[0], size

        def get() -> tuple[bytes, int]:
            found = obstore.get(self._store, key, options={"range": {"suffix": length}})
            return found.bytes().to_bytes(), found.meta["size"]

        try:
            return self._run(path, get)
        except CorruptError:  # stores refuse ranges of an empty file
            if self.head(path).size:
                raise
            return b"", 0

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not exist. `data` may be any buffer of bytes. It's durable on return."""
        del durable
        if self._write_if(path, data, "create") is None:
            raise TableExistsError(
                "the file must be new and is there already: another writer made it", table=self._root, path=path
            )

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file. `data` may be any buffer of bytes. It's durable on return."""
        del durable
        key = self._key(path)
        self._run(path, lambda: obstore.put(self._store, key, octets(data), use_multipart=False))

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: an object store persists what it confirms."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files, many in one request; those that are not there are no error."""
        keys = [self._key(path) for path in paths]
        if keys:
            self._run(paths[0], lambda: self._delete(keys))

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            obstore.delete(self._store, keys)
        except FileNotFoundError:  # Azure and GCS say so of the first one that isn't there, and leave others undone
            for key in keys:
                try:
                    obstore.delete(self._store, key)
                except FileNotFoundError as error:
                    if is_no_container(error):
                        raise

    def read_version(self, path: str, most: int | None = None) -> tuple[bytes, str]:
        """A file's content and its version (the ETag); `CorruptError` when it has more than `most` bytes."""
        data, version = self._get(path, most)
        return data, self._known(version, path)

    def replace(self, path: str, data: bytes, version: str) -> str:
        """Replace a file that still has the version given; its new version."""
        mode = self._kind.unchanged_since(version)
        written = self._write_if(path, data, mode) if self._kind.is_version(version) else None
        if written is None:
            raise ConflictError("the file was changed meanwhile: read it again", table=self._root, path=path)
        return written

    def _write_if(self, path: str, data: bytes, mode: PutMode) -> str | None:
        """Write under a condition; the version written, or None when the condition didn't hold."""
        key = self._key(path)
        call = self._context.writer_id()
        unanswered = False
        for attempt in _attempts(self._context):
            try:
                written = obstore.put(
                    self._store, key, octets(data), attributes={_WRITER: call}, mode=mode, use_multipart=False
                )
                return self._known(self._kind.version_of(written), path)
            except SILENT as error:
                if _is_refused(error):
                    return self._own_version(path, key, call, data) if unanswered else None
                if not may_pass(error):
                    self._fail(error, path)
                if attempt + 1 == _ATTEMPTS:
                    self._fail_unknown(error, path)
                unanswered = unanswered or status_of(error) != 409  # 409: busy with another's write, ours not done
        raise AssertionError("there is at least one attempt")

    def _own_version(self, path: str, key: str, call: str, data: bytes) -> str | None:
        """Return the version of the object if this call wrote it in an attempt with a lost response."""

        def get() -> tuple[bytes, str | None, str | None]:
            found = obstore.get(self._store, key)
            return found.bytes().to_bytes(), self._kind.version_of(found.meta), found.attributes.get(_WRITER)

        try:
            content, version, writer = self._run(path, get)
        except NotFoundError:
            return None
        # A store may drop metadata. Then equal content decides, except empty content, which another may well write.
        own = writer == call if writer is not None else bool(content) and content == octets(data)
        return self._known(version, path) if own else None

    def _get(self, path: str, most: int | None) -> tuple[bytes, str | None]:
        """A file's content and its ETag. The size comes with the answer's head, before the content is fetched."""
        key = self._key(path)

        def get() -> tuple[bytes, str | None]:
            found = obstore.get(self._store, key)
            check_size(found.meta["size"], most, self._root, path)
            return found.bytes().to_bytes(), self._kind.version_of(found.meta)

        return self._run(path, get)

    def _get_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        # obstore itself would join near ranges, but it panics where one lies past the end of a file that was cut short.
        starts, lengths = zip(*spans, strict=True)
        return [bytes(part) for part in obstore.get_ranges(self._store, key, starts=starts, lengths=lengths)]

    def _key(self, path: str) -> str:
        return self._prefix + check_path(path, self._root)

    def _folder(self, prefix: str) -> str:
        return (self._prefix + check_prefix(prefix, self._root)).rstrip("/")

    def _info(self, meta: ObjectMeta) -> FileInfo:
        modified = round(meta["last_modified"].timestamp() * 1000)
        return FileInfo(meta["path"][len(self._prefix) :], meta["size"], modified)

    def _run(self, path: str, call: Callable[[], T], offset: int | None = None) -> T:
        """Make a call that may be repeated safely until it succeeds."""
        for attempt in _attempts(self._context):
            try:
                return call()
            except SILENT as error:
                if attempt + 1 == _ATTEMPTS or not may_pass(error):
                    self._fail(error, path, offset)
        raise AssertionError("there is at least one attempt")

    def _fail(self, error: Exception, path: str, offset: int | None = None) -> NoReturn:
        raise translate(error, self._root, path, offset) from error

    def _fail_unknown(self, error: Exception, path: str) -> NoReturn:
        raise UnavailableError(
            "the store didn't answer, so it's unknown whether the file was written; look before doing it again",
            table=self._root,
            path=path,
        ) from error

    def _known(self, version: str | None, path: str) -> str:
        if not version:
            raise UnavailableError("the store gives files no version (ETag)", table=self._root, path=path)
        return version


def _attempts(context: Context) -> Iterator[int]:
    """Yield the attempts' numbers from 0, with exponential backoff and jitter between them on the context's clock."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (attempt - 1))
            context.clock.sleep(context.uniform(longest / 2, longest))
        yield attempt


def _is_refused(error: Exception) -> bool:
    """Whether the store says that the condition of a write didn't hold.

    S3 answers 409 where another write goes on, and knows of neither how it ends; Azure where the object is there.
    """
    if not isinstance(error, AlreadyExistsError | PreconditionError):
        return False
    return status_of(error) != 409 or "BlobAlreadyExists" in str(error)


def _parents(path: str) -> Iterator[str]:
    cut_at = path.rfind("/")
    while cut_at > 0:
        yield path[:cut_at]
        cut_at = path.rfind("/", 0, cut_at)


_stores: dict[str, MemoryStore] = {}
_guard = threading.Lock()


def open_memory(place: Place, context: Context | None = None) -> ObjectStorage:
    """The storage of a store in memory, which is made when it's first named and lives as long as the process.

    Args:
        place: the root, and the name of the store.
        context: clock and chance.
    """
    with _guard:
        store = _stores.setdefault(place.container, MemoryStore())
    return ObjectStorage(place, store, (_reopen, (place, os.getpid())), context)


def _reopen(place: Place, process: int) -> ObjectStorage:
    if process != os.getpid():
        raise NotSupportedError("files in memory can't be reached from another process", table=place.root)
    return open_memory(place)
