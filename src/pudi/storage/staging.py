"""Files that appear whole or not at all on a local disk: staged out of sight, then linked or renamed into place."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from pudi.context import Context
from pudi.storage.flush import Flusher
from pudi.storage.ranges import octets

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
