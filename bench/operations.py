"""What is measured, and what each contestant has to offer for it."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

FILTER = "city = 'nyc' AND fare > 90"

ROUND = [
    "bulk_insert",
    "upsert_10",
    "upsert_1_new",
    "delete_1",
    "aggregate",
    "filtered",
    "incremental",
    "one_row",
    "plain_scan",
    "plain_write",
]
"""Operations of a round, in their order, on a table that is new in each round."""

TITLES = {
    "bulk_insert": "bulk_insert",
    "upsert_10": "upsert 10% over all files",
    "upsert_1_new": "upsert 1% new keys",
    "delete_1": "delete 1%",
    "aggregate": "full-scan aggregate",
    "filtered": "filtered scan",
    "incremental": "incremental",
    "one_row": "one-row upsert",
}


@dataclass
class Stopwatch:
    """Seconds of an operation: all of it, and what of it was planning (before any data is read)."""

    seconds: float = 0.0
    planning: float | None = None
    answer: Any = None
    started: float = field(default_factory=time.perf_counter)

    def planned(self) -> None:
        """Planning ends here."""
        self.planning = time.perf_counter() - self.started


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure a block."""
    watch = Stopwatch()
    yield watch
    watch.seconds = time.perf_counter() - watch.started


class Contestant(Protocol):
    """One engine, in a process of its own. An operation that it doesn't offer has no method.

    Each method does one operation within `stopwatch()` and returns it; what has to be got ready is done before.
    Reads leave `(rows, checksum)` as the answer, so that nobody is fast by being wrong.
    """

    def versions(self) -> dict[str, str]:
        """Names and versions of what does the work."""

    def open(self, data: Path, table: Path) -> None:
        """Take up new batches, and the place of a new table that isn't there yet."""

    def close(self) -> None:
        """Give back everything."""


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of installed packages."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from the source tree
            found[name] = "source tree"
    return found
