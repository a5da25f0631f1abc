"""Several processes (or threads) that start each step together: what contract tests race with."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

START_TIMEOUT = 120.0
"""Seconds that a racer waits for the others: new processes import everything first."""


class Barrier(Protocol):
    """Point where racers wait for each other."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all are here."""


_barrier: Barrier | None = None


def race(what: Callable[..., T], arguments: tuple[Any, ...], *, racers: int = 3, processes: bool = True) -> list[T]:
    """Run `what(barrier, number, *arguments)` once per racer, concurrently; return the results by number.

    Args:
        what: what each does, a top-level function when they are processes.
        arguments: handed to each, pickled when they are processes.
        racers: how many.
        processes: new processes, or threads of this one.
    """
    if processes:
        fresh = _fresh_processes()
        pool: ProcessPoolExecutor | ThreadPoolExecutor = ProcessPoolExecutor(
            racers, mp_context=fresh, initializer=_set_barrier, initargs=(fresh.Barrier(racers),)
        )
        with pool:
            running: list[Future[T]] = [pool.submit(_run, what, n, arguments) for n in range(racers)]
            return [each.result() for each in running]
    barrier = threading.Barrier(racers)
    with ThreadPoolExecutor(racers) as pool:
        running = [pool.submit(what, barrier, n, *arguments) for n in range(racers)]
        return [each.result() for each in running]


def _fresh_processes() -> BaseContext:
    """Processes that inherit no thread and no connection: forked off a server that only did the imports, or new."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["pudi.testing"])
    return found


def _set_barrier(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603 - barriers reach processes only when these start
    _barrier = barrier


def _run(what: Callable[..., T], number: int, arguments: tuple[Any, ...]) -> T:
    return what(_barrier, number, *arguments)
