"""Checks of arguments that storages share: paths inside the root, and byte ranges, which are combined into requests."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from pudi.errors import CorruptError, InvalidArgumentError

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


GAP = 1 << 20
"""Ranges at most this many bytes apart are read in one request: a request costs about as much as a megabyte."""


def octets(data: bytes) -> memoryview:
    """Any buffer as plain unsigned bytes, without a copy; Arrow's buffers call theirs signed."""
    return memoryview(data).cast("B")


def check_lengths(ranges: Sequence[tuple[int, int]], root: str, path: str) -> None:
    """Refuse negative starts and lengths.

    Raises:
        InvalidArgumentError: there is one.
    """
    for start, length in ranges:
        if start < 0 or length < 0:
            raise InvalidArgumentError(f"({start}, {length}) is no byte range", table=root, path=path)


def check_size(size: int, most: int | None, root: str, path: str) -> None:
    """Refuse a file with more bytes than a file of its kind can have.

    Raises:
        CorruptError: it has more than `most`.
    """
    if most is not None and size > most:
        raise CorruptError(
            f"the file has {size} bytes, and files of its kind have at most {most}: it isn't what the table's writers "
            "made; restore it",
            table=root,
            path=path,
        )


def coalesce(ranges: Sequence[tuple[int, int]], gap: int = GAP) -> list[tuple[int, int]]:
    """The fewest ranges `(start, length)` that cover the given ones, sorted, more than `gap` bytes apart."""
    spans: list[tuple[int, int]] = []
    for start, length in sorted(r for r in ranges if r[1]):
        if spans and start - sum(spans[-1]) <= gap:
            first, known = spans[-1]
            spans[-1] = (first, max(known, start + length - first))
        else:
            spans.append((start, length))
    return spans


def cut(ranges: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], found: Sequence[bytes]) -> list[bytes]:
    """The bytes of each range, out of the spans that `coalesce` made and what was read for them."""
    starts = [start for start, _ in spans]
    parts = []
    for start, length in ranges:
        if not length:
            parts.append(b"")
            continue
        at = bisect_right(starts, start) - 1
        inner = start - starts[at]
        parts.append(found[at][inner : inner + length])  # of the whole span Python makes no copy
    return parts
