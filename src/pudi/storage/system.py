"""Files of this machine's operating system: its errors as pudi's, and temporary files for what memory doesn't hold."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from pudi.config import MergeMemory, WriteOptions
from pudi.errors import PudiError, RefusedError, UnavailableError

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
