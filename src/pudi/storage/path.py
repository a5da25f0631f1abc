"""Validation of paths inside a root: a path that would leave the root raises a typed error."""

from __future__ import annotations

import re

from pudi.errors import InvalidArgumentError

_ILLEGAL = re.compile(r"[\\\0]|^/|/$|//|(?:^|/)\.\.?(?:/|$)")
"""NUL and backslash, a leading or trailing slash, an empty segment, the segments `.` and `..`."""


def check_path(path: str, root: str) -> str:
    """Return a file's path relative to a root; refuse one that leaves the root.

    Raises:
        InvalidArgumentError: it is empty, absolute, climbs out, or holds an empty segment, a backslash or NUL.
    """
    if not path or _ILLEGAL.search(path) is not None:
        raise InvalidArgumentError(
            f"{path!r} is not a path inside the table: it must be relative, `/` separated, with no empty segment, "
            "`.`, `..`, backslash or NUL",
            table=root,
        )
    return path


def check_prefix(prefix: str, root: str) -> str:
    """A folder's path relative to a root, where the empty one is the root itself.

    Raises:
        InvalidArgumentError: as in `check_path`.
    """
    return check_path(prefix, root) if prefix else prefix
