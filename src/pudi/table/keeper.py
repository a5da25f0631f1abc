"""A long-running process that maintains many tables: what `pudi services` runs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial

from pudi.context import Context
from pudi.errors import ConflictError, PudiError, cause_text
from pudi.table.table import Table
from pudi.task import Engine
from pudi.upgrade.maintenance import TABLE, MaintenanceRequest, MaintenanceStep, Outcome, maintain

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
"""Interval at which waiting workers look whether something is due, or whether they shall stop."""
_LONGEST_REST_S = 60 * 60.0
"""A table that can't be maintained is tried again at least that often."""
_SEARCH_EVERY_S = 60 * 60.0
"""Interval at which a table's folders are searched for orphaned files, which lists all of them."""


@dataclass(frozen=True, slots=True)
class ServiceAction:
    """One action on a table.

    Attributes:
        time: when it ended, in ISO format, UTC.
        table: the table's root.
        action: the service's name or that of another step of a maintenance; `maintain` where the whole one failed.
        on: `table` or `metadata table`.
        outcome: `done` or `failed`.
        reason: why it was done; of a failure the error.
        instant: requested time of its instant; None without one.
        seconds: how long it took.
    """

    time: str
    table: str
    action: str
    on: str
    outcome: str
    reason: str
    instant: str | None
    seconds: float

    def to_json(self) -> str:
        """The same as one line of JSON."""
        return json.dumps(asdict(self))


@dataclass(slots=True)
class _Turn:
    """A table, and when it has its next turn.

    Attributes:
        path: the table's root.
        due: when, by the monotonic clock.
        searched: when its folders were searched for orphaned files; None for never.
        failed: number of turns in a row that failed as a whole.
        table: the opened table; None where it's to be opened.
    """

    path: str
    due: float
    searched: float | None = None
    failed: int = 0
    table: Table | None = None


@dataclass(slots=True)
class Keeper:
    """Maintains tables: runs their pending plans and what is due, each table again and again.

    Several processes may maintain the same tables, beside writers: each plan is run by one of them. A table that
    can't be maintained, for example because it can't be read, is tried again after ever longer waits; the others go on.

    Args:
        paths: roots of the tables.
        open_table: opens a table.
        engine: runs the jobs.
        report: gets each action when it's over; called by one thread at a time.
        interval_s: seconds between the end of a table's turn and its next one.
        max_parallel: number of tables that are maintained at a time, each by one action.
        context: the clock, and the threads.
    """

    paths: Sequence[str]
    open_table: Callable[[str], Table]
    engine: Engine
    report: Callable[[ServiceAction], None]
    interval_s: float = 60.0
    max_parallel: int = 2
    context: Context = field(default_factory=Context)
    _turns: list[_Turn] = field(default_factory=list, init=False, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)
    _whole: bool = field(default=True, init=False, repr=False)

    def stop(self) -> None:
        """Begin no further action. Running ones end; plans that they don't reach stay for other processes."""
        self._stopped = True

    def run(self, *, again: bool) -> bool:
        """Give each table its turn.

        Args:
            again: go on until `stop` is called; else each table has one turn.

        Returns:
            Whether no action failed.
        """
        self._turns[:] = [_Turn(path, 0.0) for path in dict.fromkeys(self.paths)]
        workers = max(1, min(self.max_parallel, len(self._turns)))
        self.context.executor.map(lambda _: self._work(again=again), range(workers), limit=workers)
        return self._whole

    def _work(self, *, again: bool) -> None:
        clock = self.context.clock
        while not self._stopped:
            turn = self._next()
            if turn is not None:
                self._look_after(turn)
                if again:
                    with self._guard:
                        self._turns.append(turn)
            elif not again:
                return
            else:
                clock.sleep(_LOOK_S)

    def _next(self) -> _Turn | None:
        """Take the table that has waited longest, if one is due."""
        now = self.context.clock.monotonic()
        with self._guard:
            first = min(self._turns, key=lambda turn: turn.due, default=None)
            if first is None or first.due > now:
                return None
            self._turns.remove(first)
            return first

    def _look_after(self, turn: _Turn) -> None:
        clock = self.context.clock
        began, rest = clock.monotonic(), self.interval_s
        search = turn.searched is None or began - turn.searched >= _SEARCH_EVERY_S
        try:
            turn.table = turn.table or self.open_table(turn.path)
            meta, options = turn.table._for_call(None)
            report, stopping = partial(self._tell_step, turn.path), lambda: self._stopped
            request = MaintenanceRequest(orphans=search, report=report, stopping=stopping)
            maintain(meta, self.engine, options, request)
            turn.failed, turn.searched = 0, began if search else turn.searched
        except ConflictError as error:  # another process is at work
            _log.info("table %s is left until the next turn: %s", turn.path, error)
        except Exception as error:  # noqa: BLE001 - the other tables go on
            known = isinstance(error, PudiError)
            _log.warning("table %s can't be maintained: %s", turn.path, error, exc_info=not known)
            turn.table, turn.failed = None, turn.failed + 1
            rest = min(max(rest, _LOOK_S) * 2 ** min(turn.failed, 16), max(rest, _LONGEST_REST_S))
            text = f"{type(error).__name__}: {error}" if isinstance(error, PudiError) else cause_text(error)
            self._tell(
                turn.path, MaintenanceStep("maintain", TABLE, Outcome.FAILED, text, None, clock.monotonic() - began)
            )
        turn.due = clock.monotonic() + rest

    def _tell_step(self, path: str, step: MaintenanceStep) -> None:
        if step.outcome in {Outcome.DONE, Outcome.FAILED}:
            self._tell(path, step)
        else:
            _log.info("table %s: %s", path, step)

    def _tell(self, path: str, step: MaintenanceStep) -> None:
        now = datetime.fromtimestamp(self.context.clock.now_ms() / 1000, timezone.utc).isoformat()
        with self._guard:
            self._whole = self._whole and step.outcome is not Outcome.FAILED
            self.report(
                ServiceAction(
                    time=now,
                    table=path,
                    action=step.name,
                    on=step.on,
                    outcome=step.outcome.value,
                    reason=step.reason,
                    instant=step.instant,
                    seconds=round(step.seconds, 3),
                )
            )
