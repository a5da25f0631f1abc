"""Commands that show what a table is and what happened to it; they change nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import Json, Path, StorageOption, console, errors, opened, plain

if TYPE_CHECKING:
    from pudi.table.history import HistoryEntry

_WIDTH = 185
"""Columns of a terminal that the reports take."""


def history(
    path: Path,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="How many; archived ones too, where that reaches them."),
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Without a limit, all of the archive too.")] = False,
    as_json: Json = False,
    storage_option: StorageOption = None,
) -> None:
    """Show what happened to a table: its instants, newest first."""
    with errors():
        found = opened(path, storage_option).history(limit, archived=archived)
        if as_json:
            typer.echo(json.dumps([entry.to_dict() for entry in found], indent=2))
        elif not found:
            typer.echo("nothing has happened to this table")
        else:
            console(_WIDTH).print(_history(found))


def _report(left: Sequence[str], right: Sequence[str] = (), last: Sequence[str] = (), title: str = "") -> Report:
    """A report without lines between its columns: those to the left, numbers, and texts that may be long."""
    report = Report(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in left:
        report.add_column(name, no_wrap=True)
    for name in right:
        report.add_column(name, justify="right", no_wrap=True)
    for name in last:
        report.add_column(name, overflow="fold", min_width=30)
    return report


def _add(report: Report, cells: Sequence[str]) -> None:
    """Add a row of texts that tables hold; nothing in them is markup."""
    report.add_row(*(Text(plain(cell)) for cell in cells))


def _history(found: Sequence[HistoryEntry]) -> Report:
    report = _report(
        ("instant", "action", "state", "operation", "requested (UTC)", "completed"),
        ("took", "inserted", "updated", "deleted", "files", "bytes"),
        ("",),
    )
    for entry in found:
        written, deleted = entry.files_written, entry.files_deleted
        _add(
            report,
            [
                entry.instant,
                entry.action,
                _state(entry),
                entry.operation,
                _time(entry.requested),
                _time(entry.completed, entry.requested),
                "" if entry.seconds is None else f"{entry.seconds:,.1f} s",
                _number(entry.records_inserted),
                _number(entry.records_updated),
                _number(entry.records_deleted),
                f"-{deleted:,}" if written is None and deleted else _number(written),
                _bytes(entry.bytes_written),
                _more(entry),
            ],
        )
    return report


def _state(entry: HistoryEntry) -> str:
    if entry.state != "completed":
        return f"pending, {entry.state}"
    return "archived" if entry.archived else entry.state


def _more(entry: HistoryEntry) -> str:
    said = [entry.problem, entry.note]
    if entry.files_replaced:
        said.append(f"{entry.files_replaced:,} file groups replaced")
    said += [f"{key}={value}" for key, value in entry.extra_metadata.items()]
    return "; ".join(text for text in said if text)


def _time(at: datetime | None, after: datetime | None = None) -> str:
    """A moment in UTC; the time of day alone if it's on the day of another one."""
    if at is None:
        return ""
    return f"{at:%H:%M:%S}" if after is not None and at.date() == after.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    """A number of bytes for people."""
    if value is None or value < 1000:
        return "" if value is None else f"{value} B"
    shown = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if shown < 1000:
            return f"{shown:.1f} {unit}"
        shown /= 1000
    return f"{shown:,.1f} TB"
