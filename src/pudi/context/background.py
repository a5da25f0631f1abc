"""Functions in threads beside their caller, and what becomes of them when the program ends."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    from concurrent import futures
else:
    futures = lazy_module("concurrent.futures")

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_CLEAN_UP_S = 5.0
"""Maximum seconds that the end of a program waits for late work to clean up."""


class BackgroundThread:
    """A thread that the end of the program waits for, for some time; arguments as of `Executor.begin`.

    Attributes:
        exit_seconds: that time.
        over: whether it has passed.
    """

    def __init__(self, function: Callable[[], object], name: str, exit_seconds: float) -> None:
        self.exit_seconds = exit_seconds
        self.over = False
        self._function = function
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _program.running.add(self)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; see `Background`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        _here.background = self
        try:
            self._function()
        finally:
            _program.running.discard(self)


class _Ended:
    """A function that ran in its caller's thread, since no thread could be started."""

    def wait(self, seconds: float | None = None) -> bool:
        """It has ended."""
        del seconds
        return True


class _Program:
    """State that the end of a program needs.

    Attributes:
        running: the threads in the background.
        starts_threads: whether any can be started.
    """

    def __init__(self) -> None:
        self.running: set[BackgroundThread] = set()
        self.starts_threads = True
        self._waits = False

    def wait_at_end(self) -> None:
        """Have `end` called at the end of the program, before pools stop to take work.

        `atexit` calls too late for that: the hook that is used here is that by which `concurrent.futures` closes pools.
        """
        if not self._waits:
            self._waits = True
            _ = futures.ThreadPoolExecutor  # its module adds its hook; the last one is called first
            try:
                getattr(threading, "_register_atexit", atexit.register)(self.end)
            except RuntimeError:  # the program is ending: pools take no work any more
                self.starts_threads = False

    def end(self) -> None:
        """Wait for the threads, each for its time, and then for what is over its time to clean up."""
        self.starts_threads = sys.version_info < (3, 12)
        _wait({each: each.exit_seconds for each in list(self.running)})
        for each in list(self.running):
            each.over = True
        _wait(dict.fromkeys(list(self.running), _CLEAN_UP_S))
        self.starts_threads = False


_program = _Program()
_here = threading.local()


def _wait(seconds: dict[BackgroundThread, float]) -> None:
    began = time.monotonic()
    for thread, most in sorted(seconds.items(), key=lambda item: item[1]):
        thread.wait(max(0.0, began + most - time.monotonic()))


def begin_thread(function: Callable[[], object], name: str, exit_seconds: float) -> BackgroundThread | _Ended:
    """Run a function in a thread beside the caller; see `Executor.begin`."""
    if not threads_start():
        function()
        return _Ended()
    return BackgroundThread(function, name, exit_seconds)


def threads_start() -> bool:
    """Return whether a thread can be started: at the end of a program, from Python 3.12 on, none can."""
    _program.wait_at_end()
    return _program.starts_threads


def of_background(function: Callable[[_Item], _Answer]) -> Callable[[_Item], _Answer]:
    """Return a function for the calls of a `map`: of one in the background, they fail once its time is over."""
    background: BackgroundThread | None = getattr(_here, "background", None)
    if background is None:
        return function

    def call(item: _Item) -> _Answer:
        _here.background = background
        if background.over:
            sys.exit("the program ends")
        return function(item)

    return call
