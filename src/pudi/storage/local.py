"""Files on this machine's disks, by the operating system's own calls; its errors as pudi's, and temporary files.

Names are written byte for byte as Hadoop's local file system writes them (UTF-8), including special characters.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from posixpath import basename
from typing import BinaryIO, TypeAlias, cast

from pudi.config import MergeMemory, WriteOptions
from pudi.context import Context, FileInfo
from pudi.errors import (
    NO_FILE,
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    PudiError,
    RefusedError,
    TableExistsError,
    UnavailableError,
)
from pudi.storage.checks import check_lengths, check_path, check_prefix, check_size
from pudi.storage.staging import HIDDEN, Flush, Flusher, Stager, drop_checksum, flush_descriptor

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Not blocking, so that a FIFO under a data file's name can't hang a reader."""

_Listing: TypeAlias = tuple[list[FileInfo], list[str]]
_NOT_A_FILE = {errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP}
"""Errors of opening a socket or device."""
_ADVICE = {
    errno.ENOSPC: "the disk is full: make room, then call again",
    errno.EDQUOT: "the user's quota on the disk is used up: make room, then call again",
    errno.EFBIG: "the file is larger than the file system or the process's limit (ulimit -f) allows: raise the limit, "
    f"or write smaller files ({WriteOptions.max_file_size})",
    errno.EROFS: "the file system is read-only: mount it for writing",
    errno.EACCES: "{user} has no rights there: grant them, or run as another user",
    errno.EPERM: "{user} has no rights there: grant them, or run as another user",
}
"""Advice for errors of the operating system that every attempt repeats."""
_UNUSABLE_NAME = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}


class LocalStorage:
    """A folder on a local (or mounted) disk.

    A file appears whole or not at all, see `Stager`. Symlinks to files are followed as long as they stay inside the
    root. Listings don't enter folders by symlinks: they list these as files.
    A pickled copy has a context of its own.

    Args:
        root: the folder as the user named it, a path or a `file:` URL; it need not be there.
        context: source of staged files' names.
        flush: brings an open file or folder to the disk.
    """

    def __init__(self, root: str, context: Context | None = None, flush: Flush = flush_descriptor) -> None:
        path = re.sub(r"^file:(//)?(?=/)", "", root, flags=re.IGNORECASE)
        self._base = os.path.realpath(path)
        self._root = (root if path != root else str(Path(path).absolute())).rstrip("/") or "/"
        context = context or Context()
        self.executor = context.executor
        self._flusher = Flusher(self._base, flush, self.executor)
        self._stager = Stager(context, self._flusher)
        self._inside: set[str] = set()
        self._linked: set[str] = set()

    def __reduce__(self) -> tuple[object, ...]:
        return (LocalStorage, (self._root,))

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def root(self) -> str:
        """The root as given: a `file:` URL, or a path, made absolute."""
        return self._root

    @property
    def local_root(self) -> str:
        """The root's absolute path, symlinks resolved."""
        return self._base

    @property
    def is_near(self) -> bool:
        """Whether calls are quick; threads are started where they turn out not to be, as on a mounted disk."""
        return True

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Every file below folder `prefix`. A missing folder has no files."""
        folders = [check_prefix(prefix, self._root)]
        while folders:
            folder = folders.pop()
            files, names = self._scan(folder)
            yield from files
            folders += [_join(folder, name) for name in names]

    def list_dir(self, prefix: str = "") -> tuple[Sequence[FileInfo], Sequence[str]]:
        """Files directly in folder `prefix`, and the names of the folders directly in it, both sorted by name."""
        files, names = self._scan(check_prefix(prefix, self._root))
        return sorted(files, key=lambda info: info.path), sorted(names)

    def list_names(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Names of the files directly in folder `prefix`, and of the folders, both in no order."""
        folder = check_prefix(prefix, self._root)
        names: list[str] = []
        others: _Listing = ([], [])

        def visit(entries: Sequence[os.DirEntry[str]]) -> None:
            names.extend([entry.name for entry in entries if entry.is_file(follow_symlinks=False)])
            if len(names) < len(entries):
                for entry in entries:
                    if not entry.is_file(follow_symlinks=False):
                        self._sort_in(entry, folder, others)

        self._visit(folder, visit)
        return [*names, *(basename(info.path) for info in others[0])], others[1]

    def head(self, path: str) -> FileInfo:
        """Facts about one file."""
        full = self._locate(path)
        try:
            facts = os.lstat(full)
            if stat.S_ISLNK(facts.st_mode):
                facts = os.lstat(self._follow(full, path))
        except OSError as error:
            raise self._failure(error, path) from error
        self._check_regular(facts, path)
        return _info(path, facts)

    def read(self, path: str, most: int | None = None) -> bytes:
        """A file's whole content; `CorruptError` when it has more than `most` bytes."""
        descriptor, size = self._open(path)
        try:
            check_size(size, most, self._root, path)
        except CorruptError:
            os.close(descriptor)
            raise
        try:
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                return file.read()
        except OSError as error:
            raise self._failure(error, path) from error

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The byte ranges `(start, length)` of a file."""
        check_lengths(ranges, self._root, path)
        descriptor, size = self._open(path)
        try:
            return [self._pread(descriptor, size, path, start, length) for start, length in ranges]
        except OSError as error:
            raise self._failure(error, path) from error
        finally:
            os.close(descriptor)

    def read_tail(self, path: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of a file (all of a shorter one), and its size."""
        descriptor, size = self._open(path)
        start = max(0, size - length)
        try:
            return self._pread(descriptor, size, path, start, size - start), size
        except OSError as error:
            raise self._failure(error, path) from error
        finally:
            os.close(descriptor)

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create a file that must not be there, and the folders it lies in. `data` may be any buffer of bytes."""
        folder, full = self._target(path)
        try:
            self._stager.create(folder, full, data, durable=durable)
        except FileExistsError as error:
            raise TableExistsError(
                "the file must be new and is there already: another writer made it", table=self._root, path=path
            ) from error
        except OSError as error:
            raise self._failure(error, path) from error
        if durable:
            self._flush_folder(folder, path)

    def put(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create or replace a file, and the folders it lies in. `data` may be any buffer of bytes."""
        folder, full = self._target(path)
        try:
            self._stager.replace(folder, full, data, durable=durable)
        except OSError as error:
            raise self._failure(error, path) from error
        if durable:
            self._flush_folder(folder, path)

    def sync(self, paths: Sequence[str]) -> None:
        """Make files safe from a loss of power, with the folders that they lie in, up to the root of the disk."""
        if not paths:
            return
        try:
            self._flusher.flush([self._locate(path) for path in paths])
        except OSError as error:
            raise self._lost(error, paths[0]) from error

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files; those that are not there are no error."""
        for path in paths:
            folder, full = self._target(path)
            try:
                os.unlink(full)  # noqa: PTH108 - a Path object costs as much as the call
                drop_checksum(folder, full)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            except OSError as error:
                raise self._failure(error, path) from error

    def local_path(self, path: str) -> str | None:
        """Absolute path of a file on this machine."""
        full = self._locate(path)
        try:
            return self._follow(full, path) if Path(full).is_symlink() else full
        except OSError as error:
            raise self._failure(error, path) from error

    def open_local(self, path: str) -> int | None:
        """Descriptor of a regular file, open for reading; the caller closes it."""
        return self._open(path)[0]

    @property
    def keeps_folders(self) -> bool:
        """True."""
        return True

    def delete_folder(self, prefix: str) -> int:
        """Delete every file below folder `prefix`, and the folder; how many files there were."""
        doomed = [info.path for info in self.list(prefix)]
        self.delete(doomed)
        self.remove_folders(prefix)
        return len(doomed)

    def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders in folder `prefix`, and it too when nothing is left in it. The root stays."""
        top = self._locate(prefix) if prefix else self._base
        for folder, _, names in os.walk(top, topdown=False):
            for name in names:  # of files
                if HIDDEN.fullmatch(name):
                    Path(folder, name).unlink(missing_ok=True)
            if folder == self._base:
                continue
            try:
                Path(folder).rmdir()
            except OSError:  # not empty, or another removed it: both are as wished
                continue

    def _locate(self, path: str) -> str:
        """Return the full name of a checked path; its folder, with symlinks resolved, lies in the root."""
        check_path(path, self._root)
        self._folder(path.rpartition("/")[0])
        return _join(self._base, path)

    def _folder(self, folder: str) -> str:
        full = _join(self._base, folder)
        if folder not in self._inside:  # resolving costs a system call for each level
            if self._follow(full, folder) != full.rstrip("/") and folder:
                self._linked.add(folder)
            self._inside.add(folder)
        return full

    def _target(self, path: str) -> tuple[str, str]:
        full = self._locate(path)
        return full.rpartition("/")[0] or "/", full

    def _follow(self, full: str, path: str) -> str:
        """Resolve the symlinks of a path; refuse one that leads out of the root."""
        real = os.path.realpath(full)
        if real != self._base and not real.startswith(f"{self._base.rstrip('/')}/"):
            raise InvalidArgumentError(
                f"a symlink leads out of the table, to {real}; files outside the root are never touched",
                table=self._root,
                path=path,
            )
        return real

    def _open(self, path: str) -> tuple[int, int]:
        """Descriptor and size of a regular file."""
        full = self._locate(path)
        try:
            try:
                descriptor = os.open(full, _READ)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                descriptor = os.open(self._follow(full, path), _READ)
            facts = os.fstat(descriptor)
        except OSError as error:
            raise self._failure(error, path) from error
        try:
            self._check_regular(facts, path)
        except PudiError:
            os.close(descriptor)
            raise
        return descriptor, facts.st_size

    def _check_regular(self, facts: os.stat_result, path: str) -> None:
        """Refuse anything but a regular file: reading a FIFO blocks forever, a device may never end."""
        if stat.S_ISREG(facts.st_mode):
            return
        if stat.S_ISDIR(facts.st_mode):
            raise self._not_found(path)
        kinds = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket", stat.S_IFLNK: "symlink"}
        raise self._irregular(kinds.get(stat.S_IFMT(facts.st_mode), "device"), path)

    def _pread(self, descriptor: int, size: int, path: str, start: int, length: int) -> bytes:
        if start + length > size:
            raise CorruptError(
                f"bytes {start} to {start + length} are wanted and the file has {size}",
                table=self._root,
                path=path,
                offset=start,
            )
        found = os.pread(descriptor, length, start)
        while len(found) < length:  # the system reads 2 GB at most in one call
            more = os.pread(descriptor, length - len(found), start + len(found))
            if not more:
                raise CorruptError("the file was cut while it was read", table=self._root, path=path, offset=start)
            found += more
        return found

    def _scan(self, folder: str) -> _Listing:
        """Files and folder names directly in a folder."""
        files: _Listing = ([], [])

        def visit(entries: Sequence[os.DirEntry[str]]) -> None:
            for entry in entries:
                self._sort_in(entry, folder, files)

        self._visit(folder, visit)
        return files

    def _visit(self, folder: str, visit: Callable[[Sequence[os.DirEntry[str]]], None]) -> None:
        """Pass what lies directly in a folder to a function, without hidden files."""
        try:
            full = self._folder(folder)
            if folder in self._linked:
                return
            with os.scandir(full) as entries:
                found = list(entries)
                visit([e for e in found if e.name[0] != "." or not HIDDEN.fullmatch(e.name) or e.is_dir()])
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failure(error, folder) from error

    def _sort_in(self, entry: os.DirEntry[str], folder: str, listing: _Listing) -> None:
        files, names = listing
        path = _join(folder, entry.name)
        linked = False
        plain = entry.is_file(follow_symlinks=False)  # nearly all are, and the system has said so already
        if not plain and entry.is_dir():
            if not entry.is_symlink():
                names.append(entry.name)
                return
            linked = True  # what it leads to is listed where it lies, or isn't the table's
        elif not plain and entry.is_symlink():
            self._follow(entry.path, path)
        try:
            facts = entry.stat(follow_symlinks=not (plain or linked))
        except FileNotFoundError:  # deleted since the folder was read
            return
        files.append(_info(path, facts))  # a FIFO or device too: a reader of that file gets an error

    def _failure(self, error: OSError, path: str) -> PudiError:
        if isinstance(error, FileNotFoundError):
            return self._not_found(path)
        if error.errno in _NOT_A_FILE:
            return self._irregular("socket, or a device without a driver,", path)
        if error.errno in _UNUSABLE_NAME:
            return InvalidArgumentError(f"the path can't be used here: {error}", table=self._root, path=path)
        return system_error(error, "the disk gave an error", table=self._root, path=path)

    def _flush_folder(self, folder: str, path: str) -> None:
        try:
            self._flusher.flush_folders([folder])
        except OSError as error:
            raise self._lost(error, path) from error

    def _lost(self, error: OSError, path: str) -> PudiError:
        """Return the error for a failed flush: the file exists now, and may be lost with the power."""
        what = f"the disk didn't confirm what was written ({type(error).__name__}), a loss of power may take it"
        return UnavailableError(f"{what}: {error}", table=self._root, path=path)

    def _irregular(self, kind: str, path: str) -> CorruptError:
        return CorruptError(
            f"there is a {kind} where a file of the table must be: remove it, and restore the file",
            table=self._root,
            path=path,
        )

    def _not_found(self, path: str) -> NotFoundError:
        return NotFoundError(NO_FILE, table=self._root, path=path)


def _join(folder: str, name: str) -> str:
    if not folder or not name:
        return folder or name
    return f"{folder}{name}" if folder == "/" else f"{folder}/{name}"


def _info(path: str, facts: os.stat_result) -> FileInfo:
    return FileInfo(path, facts.st_size, facts.st_mtime_ns // 1_000_000)


def system_error(error: OSError, what: str, *, table: str | None = None, path: str | None = None) -> PudiError:
    """Translate an error of the operating system into one of pudi, by whether a later attempt may succeed.

    Args:
        error: what the system raised.
        what: what couldn't be done, the message's beginning.
        table: the table's root.
        path: the file concerned.
    """
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return UnavailableError(f"{what}: {error}", table=table, path=path)
    return RefusedError(f"{what}: {error}; {advice.format(user=f'user {os.geteuid()}')}", table=table, path=path)


def temporary_file(folder: str | None) -> BinaryIO:
    """Open a file without a name; it is deleted when it is closed or the process ends.

    Args:
        folder: where; None for the system's temporary folder.

    Raises:
        RefusedError: the folder does not exist or is full.
    """
    with temporary_errors(folder):
        return cast("BinaryIO", tempfile.TemporaryFile(dir=folder, prefix="pudi-"))


@contextmanager
def temporary_errors(folder: str | None) -> Iterator[None]:
    """Errors of the system while a temporary file is used, as pudi's."""
    try:
        yield
    except OSError as error:
        raise RefusedError(
            "what doesn't fit in memory while a file slice is merged can't be kept in "
            f"{folder or tempfile.gettempdir()}: {error}; set {MergeMemory.spillable_map_path} to a folder with room, "
            f"or {MergeMemory.limit} higher"
        ) from error
