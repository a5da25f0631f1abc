"""This writer's clock against the storage's: instants that lie in the future mislead every reader by wall time."""

from __future__ import annotations

from pudi.config import WriteOptions
from pudi.context import Context, Storage
from pudi.errors import RefusedError
from pudi.storage import has_own_clock


class ClockCheck:
    """Compares this machine's clock with that of the storage, by a file that is created in between.

    The time that a storage gives to the file must lie between the clock's readings before and after, give or take the
    tolerance. Where files' times come from this machine's own clock (local disks, memory), there is nothing to compare.

    Args:
        storage: the table's files.
        context: the clock.
        tolerance_ms: how far the clocks may be apart, milliseconds; 0 compares nothing.
    """

    def __init__(self, storage: Storage, context: Context, tolerance_ms: int) -> None:
        self._storage = storage
        self._clock = context.clock
        self._tolerance_ms = tolerance_ms
        self._before_ms = self._clock.now_ms()

    def compare(self, path: str) -> None:
        """Compare the clocks, once the file at `path` has been created.

        Raises:
            RefusedError: they are too far apart.
        """
        if not self._tolerance_ms or not has_own_clock(self._storage):
            return
        after_ms, stored_ms = self._clock.now_ms(), self._storage.head(path).modified_ms
        ahead_ms = max(self._before_ms - stored_ms, 0) or min(after_ms - stored_ms, 0)
        if abs(ahead_ms) > self._tolerance_ms:
            raise RefusedError(
                f"this machine's clock is {_duration(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} the "
                "storage's, so that reads by time (as_of, since) would be misled by what it writes; nothing was "
                f"written: set the clock, or allow for the difference with {WriteOptions.clock_tolerance_ms}",
                table=self._storage.root,
            )


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
