"""Progress of actions, reported to a receiver: a command line, a notebook, a test."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

_log = logging.getLogger(__name__)


class Progress(Protocol):
    """Receives the progress of actions, in the thread that called the verb.

    A phase is `start`, any number of `advance`, `finish`; other phases may begin and finish within it. A check advances
    without a phase. What a receiver raises is logged once, and it's not called again: an action never fails by its
    progress.
    """

    def start(self, table: str, action: str, phase: str) -> None:
        """A phase begins.

        Args:
            table: location of the table's root.
            action: what is done, such as `upsert` or `compaction`.
            phase: the phase, such as `tag`, `write` or `commit`.
        """

    def advance(self, done: int, total: int) -> None:
        """Tasks of the phase are done.

        Args:
            done: number of tasks that are done.
            total: number of tasks.
        """

    def finish(self) -> None:
        """The phase is over, with or without an error."""


class _Guarded:
    """Calls a `Progress` until it raises."""

    def __init__(self, progress: Progress) -> None:
        self.progress: Progress | None = progress

    def call(self, report: Callable[[Progress], None]) -> None:
        if self.progress is None:
            return
        try:
            report(self.progress)
        except Exception:  # noqa: BLE001 - a commit doesn't fail by what draws its progress
            self.progress = None
            _log.warning("progress is reported no more, since its receiver failed", exc_info=True)


@dataclass(frozen=True, slots=True)
class Phase:
    """Phase of an action.

    Attributes:
        table: location of the table's root.
        action: as of `Progress.start`.
        name: the phase.
    """

    table: str
    action: str
    name: str


_phase: ContextVar[Phase | None] = ContextVar("pudi_phase", default=None)


def current_phase() -> Phase | None:
    """Return the innermost phase of this thread; None outside of actions."""
    return _phase.get()


_receiver: ContextVar[_Guarded | None] = ContextVar("pudi_progress", default=None)


@contextmanager
def report_progress(progress: Progress) -> Iterator[None]:
    """Report the progress of all actions in this block, of this thread.

    Args:
        progress: receives it.
    """
    token = _receiver.set(_Guarded(progress))
    try:
        yield
    finally:
        _receiver.reset(token)


@contextmanager
def phase(table: str, action: str, name: str) -> Iterator[None]:
    """Report a phase; arguments as of `Progress.start`."""
    receiver, token = _receiver.get(), _phase.set(Phase(table, action, name))
    if receiver is not None:
        receiver.call(lambda progress: progress.start(table, action, name))
    try:
        yield
    finally:
        _phase.reset(token)
        if receiver is not None:
            receiver.call(lambda progress: progress.finish())


def advance(done: int, total: int) -> None:
    """Report that tasks of the current phase are done; arguments as of `Progress.advance`."""
    receiver = _receiver.get()
    if receiver is not None:
        receiver.call(lambda progress: progress.advance(done, total))
