"""Draw the output of commands: tables without lines, numbers, sizes and times in them, progress as a bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import plain
from pudi.context.runtime import lazy_module

if TYPE_CHECKING:
    from rich import progress as rich_progress

    from pudi.client import result
    from pudi.context import progress
else:
    result = lazy_module("pudi.client.result")
    progress = lazy_module("pudi.context.progress")
    rich_progress = lazy_module("rich.progress")


def report(left: Sequence[str], right: Sequence[str] = (), last: Sequence[str] = (), title: str = "") -> Report:
    """A report without lines between its columns: those to the left, numbers, and texts that may be long."""
    found = Report(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in left:
        found.add_column(name, no_wrap=True)
    for name in right:
        found.add_column(name, justify="right", no_wrap=True)
    for name in last:
        found.add_column(name, overflow="fold", min_width=30)
    return found


def add(report: Report, cells: Sequence[str]) -> None:
    """Add a row of texts that tables hold; nothing in them is markup."""
    report.add_row(*(Text(plain(cell)) for cell in cells))


def time(at: datetime | None) -> str:
    """A moment in UTC; nothing where there is none."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def number(value: int | None) -> str:
    """A number for people; nothing where there is none."""
    return "" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """A number of bytes for people; nothing where there is none."""
    return "" if value is None else result.size_text(value)


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
