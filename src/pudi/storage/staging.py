"""Files that appear whole or not at all on a local disk: staged out of sight, linked into place, and flushed.

A file is safe when its content is, its name in its folder, and so on up to the root of the disk. The system keeps all
of them in memory for a while, and writes them in any order.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pudi.context import Context, Executor
from pudi.storage.checks import octets

if sys.platform == "darwin":
    import fcntl

Flush: TypeAlias = Callable[[int], None]

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_GONE = {errno.ENOENT, errno.ENOTDIR}
_CANNOT = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS}
"""Error codes of file systems that can't flush a folder: they keep no names that could be lost."""
_NOT_OURS = {errno.EACCES, errno.EPERM}


_THREADS = 4
"""Number of files flushed in parallel: a disk confirms several together, and more threads cost more than they gain."""


class Flusher:
    """Flushes files and folders below one folder.

    That a folder's own name is safe is remembered, until it's made again.

    Args:
        base: absolute path of the folder, symlinks resolved.
        flush: brings an open file or folder to the disk.
        executor: flushes in parallel: the disk has other files to write while it confirms one.

    Attributes:
        open_file: the same function.
    """

    def __init__(self, base: str, flush: Flush, executor: Executor) -> None:
        self._base = base
        self._executor = executor
        self.open_file = flush
        self._safe: dict[str, tuple[int, int]] = {}

    def flush(self, paths: Sequence[str]) -> None:
        """Flush files, with their names and the names of the folders that they lie in.

        Of a path that leads to a folder, all files directly in it; of one where nothing is any more, that it's gone.

        Args:
            paths: absolute paths, below the base.

        Raises:
            OSError: the disk failed; what was to be flushed may be lost.
        """
        files, folders = list[str](), set[str]()
        for path in dict.fromkeys(paths):
            if Path(path).is_dir():
                folders.add(path)
                with os.scandir(path) as entries:
                    files += [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
            else:
                files.append(path)
                folders.add(path.rpartition("/")[0])
        self._flush_all(files, folders)

    def make_folder(self, folder: str) -> None:
        """Create a folder and its parents; forget that they were durable.

        Folders that other processes recreate don't matter: they make them durable before anybody relies on them.

        Raises:
            OSError: the system says no.
        """
        made, at = [], folder
        while at and not Path(at).is_dir():
            made.append(at)
            at = at.rpartition("/")[0]
        Path(folder).mkdir(parents=True, exist_ok=True)
        for each in made:
            self._safe.pop(each, None)

    def flush_folders(self, folders: Collection[str]) -> None:
        """Flush the names of the files in some folders, and the folders' own names.

        Args:
            folders: absolute paths, the base or below. In the place of one that is gone, the one that it was in.

        Raises:
            OSError: the disk failed.
        """
        self._flush_all((), folders)

    def _flush_all(self, files: Sequence[str], folders: Collection[str]) -> None:
        """Flush files, and folders as `flush_folders` does, in any order: all are durable on return."""
        due, entered = dict[str, None](), dict[str, tuple[int, int]]()
        for folder in sorted({self._present(each) for each in folders}, key=len, reverse=True):
            due[folder] = None
            while True:
                facts = os.stat(folder)  # noqa: PTH116 - a Path object costs as much as the call
                key = facts.st_dev, facts.st_ino
                if self._safe.get(folder) == key or folder in entered:
                    break
                entered[folder] = key
                if folder == self._base:
                    break
                folder = folder.rpartition("/")[0] or "/"  # noqa: PLW2901
                due[folder] = None
        flushes = [*(partial(self._flush_file, each) for each in files), *(partial(self._flush_folder, f) for f in due)]
        self._executor.map(lambda flush: flush(), flushes, limit=_THREADS)
        if self._base in entered:
            self._flush_above()
        self._safe.update(entered)

    def _present(self, folder: str) -> str:
        while folder != self._base and not Path(folder).is_dir():
            folder = folder.rpartition("/")[0]
        return folder

    def _flush_file(self, path: str) -> None:
        try:
            descriptor = os.open(path, _READ)
        except OSError as error:
            if error.errno in _GONE | {errno.ELOOP}:  # what a symlink leads to was not written here
                return
            raise
        try:
            self.open_file(descriptor)
        finally:
            os.close(descriptor)

    def _flush_folder(self, path: str) -> None:
        try:
            descriptor = os.open(path, _FOLDER)
        except OSError as error:
            if error.errno in _GONE:  # another process removed it meanwhile
                return
            raise
        try:
            self.open_file(descriptor)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        finally:
            os.close(descriptor)

    def _flush_above(self) -> None:
        """Flush the folders that lead to the base, up to the root of its disk or where the user may not look."""
        device = os.stat(self._base).st_dev  # noqa: PTH116
        for parent in Path(self._base).parents:
            try:
                if parent.stat().st_dev != device:
                    return
                self._flush_folder(str(parent))
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise
                return


def flush_descriptor(descriptor: int) -> None:
    """Flush an open file or folder, out of the disk's own memory too.

    Raises:
        OSError: the disk failed.
    """
    if sys.platform == "darwin":  # where fsync leaves it in the disk's memory
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _CANNOT | {errno.ENOTTY}:
                raise
        else:
            return
    os.fsync(descriptor)


HIDDEN = re.compile(r"\.[0-9a-f-]{36}\.pudi-staged|\..*\.crc", re.DOTALL)
"""Names of files that don't belong to the table: staged files, and the checksum files (`.name.crc`) that Hadoop's local
file system keeps beside each file and hides from its listings. Folders of these names are ordinary folders."""

_WRITE = os.O_WRONLY | os.O_CLOEXEC
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_OPEN_FILES = "/proc/self/fd"
_UNABLE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV, errno.EPERM, errno.ENOSYS}
"""Error codes of file systems that can't open or link a file without a name."""


class Stager:
    """Creates and replaces files under one root.

    On Linux a new file is written without a name (`O_TMPFILE`), so that nothing is left when the process is killed.
    Elsewhere, and on file systems that lack it, the staged file has a hidden name.

    Args:
        context: source of the hidden names.
        flusher: brings files to the disk.
    """

    def __init__(self, context: Context, flusher: Flusher) -> None:
        self._context = context
        self._flusher = flusher
        self._nameless = bool(_NAMELESS) and Path(_OPEN_FILES).is_dir()

    def create(self, folder: str, full: str, data: bytes, *, durable: bool = False) -> None:
        """Make the file `full` in `folder`, which is made too when it isn't there.

        Args:
            folder: the folder.
            full: the file.
            data: its content.
            durable: whether the content is brought to the disk before the file gets its name.

        Raises:
            FileExistsError: `full` is there.
            OSError: the system says no.
        """
        if self._nameless:
            try:
                return self._link_nameless(folder, full, data, durable)
            except FileExistsError:
                raise
            except OSError as error:
                if error.errno not in _UNABLE:
                    raise
                self._nameless = False
        return self._link_named(folder, full, data, durable)

    def replace(self, folder: str, full: str, data: bytes, *, durable: bool = False) -> None:
        """Make or replace the file `full` in `folder`, which is made too when it isn't there; arguments as of `create`.

        Raises:
            OSError: the system says no.
        """
        staged = self._stage(folder, data, durable)
        try:
            drop_checksum(folder, full)
            Path(staged).replace(full)
        except BaseException:
            Path(staged).unlink(missing_ok=True)
            raise

    def _link_nameless(self, folder: str, full: str, data: bytes, durable: bool) -> None:
        descriptor = self._open(folder, ".", _WRITE | _NAMELESS)
        try:
            self._write(descriptor, data, durable)
            drop_checksum(folder, full)
            try:
                # With a descriptor given, Python calls linkat(), which follows the link that /proc keeps to the file.
                os.link(f"{_OPEN_FILES}/{descriptor}", full, src_dir_fd=descriptor, follow_symlinks=True)
            except FileExistsError:
                if os.fstat(descriptor).st_nlink == 0:  # else it was linked, and the answer was lost on the way
                    raise
        finally:
            os.close(descriptor)

    def _link_named(self, folder: str, full: str, data: bytes, durable: bool) -> None:
        staged = self._stage(folder, data, durable)
        try:
            drop_checksum(folder, full)
            try:
                os.link(staged, full)
            except FileExistsError:
                if os.lstat(staged).st_nlink == 1:  # else it was linked, and the answer was lost on the way
                    raise
        finally:
            Path(staged).unlink(missing_ok=True)

    def _stage(self, folder: str, data: bytes, durable: bool) -> str:
        name = f".{self._context.new_id()}.pudi-staged"
        descriptor = self._open(folder, name, _WRITE | os.O_CREAT | os.O_EXCL)
        staged = f"{folder}/{name}"
        try:
            self._write(descriptor, data, durable)
        except BaseException:
            Path(staged).unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return staged

    def _open(self, folder: str, name: str, flags: int) -> int:
        try:
            return os.open(f"{folder}/{name}", flags, 0o666)
        except FileNotFoundError:
            self._flusher.make_folder(folder)
            return os.open(f"{folder}/{name}", flags, 0o666)

    def _write(self, descriptor: int, data: bytes, durable: bool) -> None:
        rest = whole = octets(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable and whole:
            self._flusher.open_file(descriptor)


def drop_checksum(folder: str, full: str) -> None:
    """Remove the checksum file of a file about to change: Hadoop would compare the new bytes with the old checksum."""
    name = full[len(folder) + 1 :]
    try:
        os.unlink(f"{folder}/.{name}.crc")  # noqa: PTH108 - a Path object costs as much as the call
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then Hadoop can't have made one
            raise
