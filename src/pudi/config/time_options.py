"""The options by which times of instants are made (HoodieTimeGeneratorConfig)."""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope

WAIT_TO_ADJUST_SKEW = "WAIT_TO_ADJUST_SKEW"
_USUAL_SKEW_MS, _SKEW_IN_PROCESS_MS = 200, 1

_option = Declare(Scope.WRITE)


class TimeOptions(OptionsView):
    """Options of instant times; `pudi.timeline.InstantTimes` makes them."""

    __slots__ = ()

    generator = _option(
        "hoodie.time.generator.type",
        f"Who makes the times of instants: {WAIT_TO_ADJUST_SKEW}, which waits as Hudi's writers do, or a name given to "
        "`pudi.register_time_generator`. By default pudi makes them from its clock and the timeline, and doesn't wait: "
        "see [times and clocks](concurrency.md#times-and-clocks).",
        kind=str,
    )
    skew_ms = _option(
        "hoodie.time.generator.max_expected_clock_skew_ms",
        "Milliseconds by which the clocks of two writers may differ: a writer waits so long under the lock whenever it "
        f"has made a time. 0 by default; with {WAIT_TO_ADJUST_SKEW} {_USUAL_SKEW_MS}, or {_SKEW_IN_PROCESS_MS} with "
        "InProcessLockProvider, as in Hudi.",
        kind=int,
        minimum=0,
    )

    def wait_ms(self, *, in_process: bool) -> int:
        """Return how long to wait after a time was made.

        Args:
            in_process: whether the lock provider is one for the threads of a process.
        """
        if self.skew_ms is not None:
            return int(self.skew_ms)
        if self.generator != WAIT_TO_ADJUST_SKEW:
            return 0
        return _SKEW_IN_PROCESS_MS if in_process else _USUAL_SKEW_MS
