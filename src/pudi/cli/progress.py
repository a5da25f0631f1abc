"""Progress of commands as a bar, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    from rich import progress as rich_progress

    from pudi.context import progress
else:
    progress = lazy_module("pudi.context.progress")
    rich_progress = lazy_module("rich.progress")


class Bars:
    """Draws each phase as a line that goes when the phase is over (`pudi.Progress`).

    Args:
        drawn: where it's drawn.
    """

    def __init__(self, drawn: rich_progress.Progress) -> None:
        self._drawn = drawn
        self._tasks: list[rich_progress.TaskID] = []

    def start(self, table: str, action: str, phase: str) -> None:
        """Draw a line."""
        self._tasks.append(self._drawn.add_task(f"{action}: {phase}", total=None))

    def advance(self, done: int, total: int) -> None:
        """Fill the newest line."""
        if self._tasks:
            self._drawn.update(self._tasks[-1], completed=done, total=total)

    def finish(self) -> None:
        """Take the newest line away."""
        self._drawn.remove_task(self._tasks.pop())


@contextmanager
def progress_bars() -> Iterator[None]:
    """Draw what the commands in this block do, if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with rich_progress.Progress(console=console, transient=True) as drawn, progress.report_progress(Bars(drawn)):
        yield
