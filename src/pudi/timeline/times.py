"""Times of instants: greater than all others of the table, whoever made them (TrueTime, HoodieInstantTimeGenerator)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pudi.config import Options, TimeOptions, WriteOptions
from pudi.config.lock_settings import WAIT_TO_ADJUST_SKEW
from pudi.config.option import checked_name
from pudi.context import Clock
from pudi.errors import InvalidArgumentError, NotSupportedError, UnavailableError, cause_text
from pudi.format import TimelineZone
from pudi.timeline.instant import next_instant

TimeGenerator: TypeAlias = Callable[[], int]
"""Returns milliseconds since the epoch, UTC, for an instant that is made now; called under the table's lock."""

_REGISTERED: dict[str, TimeGenerator] = {}
_IN_PROCESS = "InProcessLockProvider"


def register_time_generator(name: str, generator: TimeGenerator) -> None:
    """Make a source of times of your own known to this process, such as a service that all writers ask.

    Tables that are opened with `hoodie.time.generator.type=NAME` take the times of instants from it. pudi calls it
    under the table's lock, and still gives each instant a later time than all that the timeline has.

    Args:
        name: the name in the option; any but those of Hudi's. One registered before under the same name is replaced for
            tables that are opened from now on.
        generator: returns milliseconds since the epoch, UTC.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is Hudi's, or `generator` can't be called.
    """
    name = checked_name("time generator", name, generator)
    if name == WAIT_TO_ADJUST_SKEW:
        raise InvalidArgumentError(f"{name!r} is Hudi's name of a time generator: take one of your own")
    _REGISTERED[name] = generator


@dataclass(frozen=True, slots=True)
class InstantTimes:
    """Makes times of instants, under a table's lock (TimeGenerator, SkewAdjustingTimeGenerator).

    Attributes:
        wait_ms: how long to wait after a time was made, so that other writers' clocks have passed it.
        generator: gives the time in place of this machine's clock; None for that.
    """

    wait_ms: int = 0
    generator: TimeGenerator | None = None

    @classmethod
    def of(cls, options: Options, table: str) -> InstantTimes:
        """Return what a writer's options say.

        Raises:
            NotSupportedError: they name a generator that nobody registered.
        """
        view, provider = TimeOptions.of(options), str(options[WriteOptions.lock_provider] or "")
        name = view.generator
        if name is not None and name != WAIT_TO_ADJUST_SKEW and name not in _REGISTERED:
            raise NotSupportedError(
                f"{TimeOptions.generator}={name} is not supported; known are {WAIT_TO_ADJUST_SKEW} and names given to "
                "pudi.register_time_generator in this process",
                table=table,
            )
        wait_ms = view.wait_ms(in_process=provider.rpartition(".")[2] == _IN_PROCESS)
        return cls(wait_ms, None if name is None else _REGISTERED.get(name))

    def next(self, clock: Clock, newest: str | None, timezone_name: TimelineZone) -> str:
        """Return a time that is greater than `newest`, the newest requested or completion time on the timeline.

        Raises:
            UnavailableError: the user's generator failed.
        """
        made = next_instant(self._now_ms(clock), newest, timezone_name)
        if self.wait_ms:
            clock.sleep(self.wait_ms / 1000)
        return made

    def _now_ms(self, clock: Clock) -> int:
        if self.generator is None:
            return clock.now_ms()
        try:
            return int(self.generator())
        except Exception as error:
            raise UnavailableError(f"the time generator failed: {cause_text(error)}; nothing was committed") from error
