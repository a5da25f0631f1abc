"""What no reader can tell from a file that says so, and the cases that are open: all else is a failure."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

import pudi
from support.matrix.judge import Case, WrongRows

_OPEN = Path(__file__).with_name("open.txt")


@dataclass(frozen=True)
class Limit:
    """Cases whose damage the format keeps nothing to tell by.

    Attributes:
        kinds: shell patterns of `table | kind of file`.
        damages: what happened to it.
        reason: why nobody can tell.
        promise: words of docs/promises.md, "What can't be detected", that say so.
    """

    kinds: tuple[str, ...]
    damages: tuple[str, ...]
    reason: str
    promise: str

    def holds(self, case: Case) -> bool:
        """Whether a case is one of them."""
        where = f"{case.table} | {case.kind}"
        return case.damage in self.damages and any(fnmatch.fnmatchcase(where, kind) for kind in self.kinds)


LIMITS = [
    Limit(
        (
            "* | completed *commit",
            "mor9 hashing | older completed deltacommit",
            "mor9 indexed | older completed deltacommit",
            "mor6 unlisted | older completed deltacommit",
            "v?_mor_basic | older completed deltacommit",
            "cow_v9_clustered | older completed replacecommit",
        ),
        ("gone",),
        "nothing was built on it, or only what doesn't say so: it looks like a write that died",
        "A deleted completed file of an instant on which no later instant builds",
    ),
    Limit(
        ("* | completed *commit", "* | older completed *commit"),
        ("flip content", "flip middle"),
        "instants are Avro or JSON, which keep no checksum of their content",
        "a flipped bit in the content of an instant",
    ),
    Limit(
        ("*log avro", "*log hfile", "*log delete"),
        ("flip content", "flip header text"),
        "these blocks keep no checksum of their content, nor of the text of their header",
        "a flipped bit in the content of an Avro, HFile or delete block of a log file",
    ),
    Limit(
        ("*base parquet",),
        ("flip footer",),
        "Parquet keeps no checksum of its footer",
        "a flipped bit in the footer of a Parquet file",
    ),
    Limit(
        ("mor6* | log delete", "mor_v6_* | log *"),
        ("replaced by one of its size", "replaced"),
        "names of log files of version 6 don't say their instants, and their blocks are another file group's",
        "there also a log file that was replaced by one of another file group, or by a longer one",
    ),
    Limit(
        ("* | base *", "* | older base *"),
        ("replaced by one of its size",),
        "commits state sizes of files, and names don't stand in base files",
        "A base file that was replaced by another one of the same size",
    ),
]


def limit_of(case: Case, found: BaseException) -> Limit | None:
    """The limit that excuses an outcome; an untyped error, a hang or a lack of memory never is."""
    if not isinstance(found, (WrongRows, pudi.PudiError)):
        return None
    return next((limit for limit in LIMITS if limit.holds(case)), None)


def still_open(case: Case) -> bool:
    """Whether a case is known to be wrong: its outcome must be, so that the list can only get shorter."""
    return str(case) in _OPEN_CASES


def _open_cases() -> frozenset[str]:
    lines = _OPEN.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


_OPEN_CASES = _open_cases()
