"""Commit metadata that was read last: kept for the next reader, in bounded memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pudi.format import CommitMetadata

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
