"""Format reports: tables without lines, and numbers, sizes and times in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.box import SIMPLE_HEAD
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import plain


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


def time(at: datetime | None, after: datetime | None = None) -> str:
    """A moment in UTC; the time of day alone if it's on the day of another one."""
    if at is None:
        return ""
    return f"{at:%H:%M:%S}" if after is not None and at.date() == after.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def number(value: int | None) -> str:
    """A number for people; nothing where there is none."""
    return "" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """A number of bytes for people."""
    if value is None or value < 1000:
        return "" if value is None else f"{value} B"
    shown = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if shown < 1000:
            return f"{shown:.1f} {unit}"
        shown /= 1000
    return f"{shown:,.1f} TB"
