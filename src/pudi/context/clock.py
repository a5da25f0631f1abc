"""Clock, ids and chance, with the executor the only sources of non-determinism: tests hand in others and replay."""

from __future__ import annotations

import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Protocol

from pudi.context.executor import Executor, ThreadExecutor
from pudi.context.workers import bounded


class Clock(Protocol):
    """Wall time, durations and sleeping."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(bounded(seconds))


class ManualClock:
    """A clock that moves only when a test advances it or somebody sleeps on it.

    Args:
        start_ms: first answer of `now_ms`.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._guard = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds; consistent with `now_ms`."""
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`."""
        with self._guard:
            self._now_ms += round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Context:
    """Everything non-deterministic that pudi uses.

    Attributes:
        clock: the time.
        seed: seed of ids and chance; None takes them from the operating system.
        executor: runs functions in parallel and at times.
        alone: whether no other writer has this seed, so that even `writer_id` may follow from it.
    """

    clock: Clock = field(default_factory=SystemClock)
    seed: int | None = None
    executor: Executor = field(default_factory=ThreadExecutor)
    alone: bool = False
    _chance: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        chance = random.SystemRandom() if self.seed is None else random.Random(self.seed)
        object.__setattr__(self, "_chance", chance)

    def new_id(self) -> str:
        """A new random UUID as text.

        Its first eight characters are never all digits: as a file id it would look like that of a bucket, which the
        next writer could only rule out by reading keys.
        """
        while True:
            found = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
            if not found[:8].isdigit():
                return found

    def writer_id(self) -> str:
        """A new UUID as text that tells this writer, or one call of it, from all others, even those with its seed."""
        return self.new_id() if self.alone else str(uuid.uuid4())

    def uniform(self, low: float, high: float) -> float:
        """A random number between `low` and `high`."""
        return self._chance.uniform(low, high)
