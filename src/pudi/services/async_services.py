"""Services that run beside writes: those of one table in one thread of this process, one after the other.

A service that is asked for while it waits runs once; one that is asked for while it runs, runs once more. All writers
of the process share the thread, whatever `Table` they write with.

Source: HoodieAsyncService, AsyncCompactService and its like, which have one thread for each service.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pudi.client import MetaClient
from pudi.client.result import after_commit
from pudi.context import Background, Executor
from pudi.storage import canonical_root


@dataclass(frozen=True, slots=True)
class ServicesReport:
    """The services of a table that ran beside writes of this process.

    Attributes:
        failed: errors by service, of those that failed at their last run: the error's type and message.
        left: names of services that still run, or wait for those.
    """

    failed: Mapping[str, str]
    left: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether all have ended without an error."""
        return not self.failed and not self.left

    def __str__(self) -> str:
        """Format as one line."""
        said = [f"{name} failed: {error}" for name, error in self.failed.items()]
        said += [f"{name} is not done" for name in self.left]
        return "; ".join(said) or "no service failed, none is left"


@dataclass(slots=True)
class _Queue:
    """The services of one table that run and wait, with what each calls.

    Attributes:
        table: the table's root.
        running: the service that runs.
        waiting: the others, in the order in which they run.
        failed: errors by service.
        active: whether a thread runs them.
        thread: the last one that did.
    """

    table: str
    running: str | None = None
    waiting: dict[str, Callable[[], object]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    active: bool = False
    thread: Background | None = None

    def run(self) -> None:
        """Run what waits until nothing does."""
        try:
            while (next_one := self._next()) is not None:
                name, work = next_one
                failed: dict[str, str] = {}
                with after_commit(name, self.table, failed):
                    work()
                with _guard:
                    self.failed.pop(name, None)
                    self.failed.update(failed)
        except BaseException:  # the program ends
            with _guard:
                self.waiting.clear()
                self._next()
            raise

    def _next(self) -> tuple[str, Callable[[], object]] | None:
        with _guard:
            self.running = next(iter(self.waiting), None)
            if self.running is None:
                self.active = False
                return None
            return self.running, self.waiting.pop(self.running)


_queues: dict[tuple[str, Executor], _Queue] = {}
_guard = threading.RLock()


def begin(meta: MetaClient, service: str, work: Callable[[], object], exit_seconds: float) -> None:
    """Run a service of a table beside the caller, after those that run and wait.

    Args:
        meta: the table.
        service: the service's name; work that waits under this name is replaced.
        work: runs the service, with a client of its own. Its error is logged, and reported by `wait_for_services`.
        exit_seconds: how long the end of the program waits for it.
    """
    executor = meta.context.executor
    with _guard:
        queue = _queues.setdefault(_key(meta), _Queue(meta.storage.root))
        queue.waiting[service] = work
        if queue.active:
            return
        queue.active = True
        try:
            queue.thread = executor.begin(queue.run, "services", exit_seconds=exit_seconds)
        except BaseException:  # there's no thread to be had; the next one that asks tries again
            queue.active = False
            raise


def wait_for_services(meta: MetaClient, seconds: float | None) -> ServicesReport:
    """Wait for the services of a table that run beside writes of this process.

    Args:
        meta: the table.
        seconds: how long; None for as long as it takes.

    Returns:
        What failed, and what isn't done yet.
    """
    clock = meta.context.clock
    deadline = None if seconds is None else clock.monotonic() + seconds
    while True:
        with _guard:
            queue = _queues.get(_key(meta))
        if queue is None:
            return ServicesReport({}, ())
        thread = queue.thread if queue.active else None
        left = None if deadline is None else max(0.0, deadline - clock.monotonic())
        if thread is None or not thread.wait(left):
            with _guard:
                running = () if queue.running is None else (queue.running,)
                return ServicesReport(dict(queue.failed), (*running, *queue.waiting))


def _key(meta: MetaClient) -> tuple[str, Executor]:
    return canonical_root(meta.storage.root), meta.context.executor


def _forget() -> None:
    """In a forked process, which has no threads of its parent."""
    global _guard  # noqa: PLW0603 - another thread may have held it
    _guard = threading.RLock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
