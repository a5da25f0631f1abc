"""Values that were used recently, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """Cache that drops the least recently used values; threads may share it. A pickled copy begins empty.

    Args:
        most: maximum total weight of the values. The newest one is kept whatever its weight.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._total = 0
        self._kept: dict[K, tuple[V, int]] = {}
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return (RecentValues, (self.most,))

    def get(self, key: K) -> V | None:
        """Return the value of a key, if it's still kept."""
        with self._guard:
            found = self._kept.pop(key, None)
            if found is None:
                return None
            self._kept[key] = found  # behind all others
        return found[0]

    def keep(self, key: K, value: V, weight: int) -> None:
        """Keep a value, which nobody may change from then on, and drop older ones that exceed the limit."""
        with self._guard:
            self._drop(key)
            self._kept[key] = value, weight
            self._total += weight
            while self._total > self.most and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def forget(self, keys: Iterable[K]) -> None:
        """Drop the values of some keys."""
        with self._guard:
            for key in keys:
                self._drop(key)

    def _drop(self, key: K) -> None:
        self._total -= self._kept.pop(key, (None, 0))[1]
