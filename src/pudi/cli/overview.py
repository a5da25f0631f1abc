"""Commands that show what a table is and what happened to it; they change nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Report

from pudi.cli.common import Json, Path, StorageOption, WriteOption, console, errors, opened, pairs
from pudi.cli.reports import add, number, report, size, time

if TYPE_CHECKING:
    from pudi.table.history import HistoryEntry
    from pudi.table.slices import SliceInfo

_NARROW, _WIDTH = 120, 185
"""Columns of a terminal that the reports take; the second one with what holds files."""


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
            console(_NARROW).print(_history(found))


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
            held = everything or as_of is not None
            console(_WIDTH if held else _NARROW).print(_files(found, held=held))


def _files(found: Sequence[SliceInfo], *, held: bool) -> Report:
    rows = [each.rows for each in found if each.base_file is not None]
    records = "?" if None in rows else f"{sum(count or 0 for count in rows):,}"
    logs = sum(len(each.log_files) for each in found)
    total = sum(each.base_bytes + each.log_bytes + each.cdc_bytes for each in found)
    title = f"{len(found):,} file slices, {size(total)}, {records} records in base files, {logs:,} log files"
    shown = report(
        ("partition", "file group", "instant", *(("state",) if held else ())),
        ("records", "base", "logs", "log bytes"),
        ("held by",) if held else (),
        title,
    )
    for each in found:
        state = "current" if each.current else "replaced" if each.replaced_by else "older"
        reasons = "; ".join(holder.reason for holder in each.held_by) or "nothing: the next clean deletes it"
        if each.replaced_by:
            reasons = f"replaced by {each.replaced_by}; {reasons}"
        add(
            shown,
            [
                each.partition or "-",
                each.file_id,
                each.instant,
                *([state] if held else []),
                "" if each.base_file is None else "?" if each.rows is None else f"{each.rows:,}",
                "" if each.base_file is None else size(each.base_bytes),
                number(len(each.log_files)),
                size(each.log_bytes) if each.log_files else "",
                *([reasons] if held else []),
            ],
        )
    return shown


def _history(found: Sequence[HistoryEntry]) -> Report:
    shown = report(
        ("instant", "what", "completed (UTC)"),
        ("took", "inserted", "updated", "deleted", "files", "bytes"),
        ("",),
    )
    for entry in found:
        written, deleted = entry.files_written, entry.files_deleted
        add(
            shown,
            [
                entry.instant,
                entry.operation or entry.action,
                time(entry.completed) if entry.state == "completed" else f"pending, {entry.state}",
                "" if entry.seconds is None else f"{entry.seconds:,.1f} s",
                number(entry.records_inserted),
                number(entry.records_updated),
                number(entry.records_deleted),
                f"-{deleted:,}" if written is None and deleted else number(written),
                size(entry.bytes_written),
                _more(entry),
            ],
        )
    return shown


def _more(entry: HistoryEntry) -> str:
    state = entry.action if entry.state != "completed" else "archived" if entry.archived else ""
    said = [state, entry.problem, entry.note]
    if entry.files_replaced:
        said.append(f"{entry.files_replaced:,} file groups replaced")
    if entry.min_event_time is not None and entry.max_event_time is not None:
        said.append(f"event time {time(entry.min_event_time)} to {time(entry.max_event_time)}")
    said += [f"{key}={value}" for key, value in entry.extra_metadata.items()]
    return "; ".join(text for text in said if text)
