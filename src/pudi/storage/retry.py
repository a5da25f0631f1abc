"""Trying again: how often and how long after a failure that may pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pudi.context import Context

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded.

    Attributes:
        attempts: calls made at most, the first included.
        first_wait: longest wait before the second attempt, seconds; it doubles from then on.
        longest_wait: cap of the waits, seconds.
    """

    attempts: int = 6
    first_wait: float = 0.2
    longest_wait: float = 10.0

    def pauses(self, context: Context) -> Iterator[int]:
        """The attempts' numbers, from 0, sleeping on the context's clock between them."""
        for attempt in range(self.attempts):
            if attempt:
                longest = min(self.longest_wait, self.first_wait * 2 ** (attempt - 1))
                context.clock.sleep(context.uniform(longest / 2, longest))
            yield attempt

    def run(self, context: Context, call: Callable[[], T], passing: Callable[[Exception], bool]) -> T:
        """Make a call that may be repeated safely until it succeeds.

        Args:
            context: clock and chance.
            call: what to do.
            passing: whether a failure may pass. Any other, and the last, is raised as it is.
        """
        for attempt in self.pauses(context):
            try:
                return call()
            except Exception as error:
                if attempt + 1 >= self.attempts or not passing(error):
                    raise
        raise AssertionError("a retry policy has at least one attempt")
