"""Translate errors of the operating system into pudi's."""

from __future__ import annotations

import errno
import os

from pudi.config import WriteOptions
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
