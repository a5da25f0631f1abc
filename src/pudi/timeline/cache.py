"""Caches of a timeline in storage: its last listing by names of files, and the commit metadata that was read last."""

from __future__ import annotations

import threading
from copy import copy
from dataclasses import dataclass, field, replace

from pudi.context import Storage
from pudi.format import CommitMetadata, Layout
from pudi.format.layout import MOVED
from pudi.storage import list_names
from pudi.timeline.timeline import Timeline


class ListedTimeline:
    """The timeline in a folder as it was last listed: a writer lists it some ten times and mostly finds the same.

    A pickled copy has listed nothing.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[frozenset[str], Timeline] | None = None  # one value, since threads share it

    def __reduce__(self) -> tuple[object, ...]:
        return (ListedTimeline, ())

    def list(self, storage: Storage, folder: str, layout: Layout) -> Timeline:
        """Return the timeline now, by one listing, as a value of its own.

        In layout 1, and for instants that an upgrade brought from there, the times of files are read too.

        Args:
            storage: the table's files.
            folder: the timeline's folder.
            layout: the layout of the timeline.
        """
        if layout == 1:
            return _listed_with_times(storage, folder, layout)
        names = frozenset(list_names(storage, folder))
        last = self._last or (frozenset(), Timeline(layout=layout))
        if names == last[0]:
            return copy(last[1])
        timeline = _parsed(names, *last)
        if any(instant.layout != layout for instant in timeline.instants):
            return _listed_with_times(storage, folder, layout)
        self._last = names, timeline
        return copy(timeline)


def _parsed(names: frozenset[str], known: frozenset[str], before: Timeline) -> Timeline:
    """Parse the names that were added since another listing, or all of them if some are gone."""
    if known <= names:
        timeline = before.with_files(sorted(names - known))
    else:
        timeline = Timeline.from_names(sorted(names), before.layout)
    return replace(timeline, is_moving=True) if MOVED in names else timeline


def _listed_with_times(storage: Storage, folder: str, layout: Layout) -> Timeline:
    files, _ = storage.list_dir(folder)
    timeline = Timeline.from_files(files, layout)
    return replace(timeline, is_moving=any(info.path == f"{folder}/{MOVED}" for info in files))


MOST_STATS = 100_000
"""Upper bound of cached file statistics: 850 bytes each, plus texts that commits share."""


@dataclass(frozen=True, slots=True)
class RecentCommits:
    """Cache of commit metadata by file name; drops the least recently used.

    Args:
        most: the number of file statistics to cache at most; the newest commit is always cached.
    """

    most: int = MOST_STATS
    _kept: dict[str, tuple[int, CommitMetadata]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return (RecentCommits, (self.most,))

    def get(self, name: str) -> CommitMetadata | None:
        """Return the cached metadata of a commit, if any."""
        with self._guard:
            found = self._kept.pop(name, None)
            if found is None:
                return None
            self._kept[name] = found  # behind all others
        return found[1]

    def keep(self, name: str, metadata: CommitMetadata) -> CommitMetadata:
        """Cache the metadata of a commit and evict older entries that exceed the limit."""
        with self._guard:
            self._kept.pop(name, None)
            self._kept[name] = _weight(metadata), metadata
            total = sum(weight for weight, _ in self._kept.values())
            while total > self.most and len(self._kept) > 1:
                total -= self._kept.pop(next(iter(self._kept)))[0]
        return metadata


def _weight(metadata: CommitMetadata) -> int:
    """Statistics that a commit holds; its schema and the like count as one."""
    return 1 + sum(len(stats) for stats in metadata.partition_to_write_stats.values())
