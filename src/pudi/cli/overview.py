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

from pudi.cli.common import Json, Path, StorageOption, WriteOption, console, errors, opened, pairs, plain

if TYPE_CHECKING:
    from pudi.table.history import HistoryEntry
    from pudi.table.slices import SliceInfo

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


def files(
    path: Path,
    everything: Annotated[
        bool, typer.Option("--all", help="Older slices and replaced file groups too, with what holds them.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="The moment at which slices are those of the table: instant or time.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="Partition path to list; may be given several times. Default: all.")
    ] = None,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Show a table's file slices: files, sizes, records, and what holds older ones."""
    with errors():
        table = opened(path, storage_option)
        found = table.files(
            everything=everything, as_of=as_of, partitions=partition or None, options=pairs("--option", option)
        )
        if as_json:
            typer.echo(json.dumps([each.to_dict() for each in found], indent=2))
        elif not found:
            typer.echo("no files")
        else:
            console(_WIDTH).print(_files(found, held=everything or as_of is not None))


def _files(found: Sequence[SliceInfo], *, held: bool) -> Report:
    rows = [each.rows for each in found if each.base_file is not None]
    told = "?" if None in rows else f"{sum(count or 0 for count in rows):,}"
    logs = sum(len(each.log_files) for each in found)
    size = sum(each.base_bytes + each.log_bytes + each.cdc_bytes for each in found)
    title = f"{len(found):,} file slices, {_bytes(size)}, {told} records in base files, {logs:,} log files"
    report = _report(
        ("partition", "file group", "instant", *(("state",) if held else ())),
        ("records", "base", "logs", "log bytes"),
        ("held by",) if held else ("first file",),
        title,
    )
    for each in found:
        state = "current" if each.current else "replaced" if each.replaced_by else "older"
        reasons = "; ".join(holder.reason for holder in each.held_by) or "nothing: the next clean deletes it"
        if each.replaced_by:
            reasons = f"replaced by {each.replaced_by}; {reasons}"
        first = each.base_file or next(iter(each.log_files), "")
        _add(
            report,
            [
                each.partition or "-",
                each.file_id,
                each.instant,
                *([state] if held else []),
                "" if each.base_file is None else "?" if each.rows is None else f"{each.rows:,}",
                "" if each.base_file is None else _bytes(each.base_bytes),
                _number(len(each.log_files)),
                _bytes(each.log_bytes) if each.log_files else "",
                reasons if held else first.rpartition("/")[2],
            ],
        )
    return report


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
