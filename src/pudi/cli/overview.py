"""Commands that show what a table is and what happened to it; they change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import Json, Path, StorageOption, WriteOption, console, opened, pairs, plain
from pudi.cli.output import add, number, report, size, time
from pudi.config.checks import SAYS_ITS_KEYS

if TYPE_CHECKING:
    from pudi.table.description import TableDescription
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


_COLUMNS = 30
"""Columns that are shown; the rest is a number."""
_NAMED = 10
"""Savepoints, pending instants and problems that are shown; the rest is a number."""


def show(
    path: Path,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Show what a table is: properties, columns, indexes, sizes, last commits, what is pending and what is due."""
    found = opened(path, storage_option).describe(options=pairs("--option", option))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found, console())


def _show(found: TableDescription, out: Console) -> None:
    facts = Report(show_header=False, show_edge=False, box=None, padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(found):
        add(facts, [name, value])
    out.print(facts)
    _commits(found, out)
    if found.pending:
        pending = report(("pending", "action", "state", "writer"), ("age",), ("blocks",))
        for each in found.pending[:_NAMED]:
            add(pending, [each.instant, each.action, each.state, each.writer, f"{each.age_seconds:,} s", each.blocks])
        out.print(pending)
        _rest(out, len(found.pending), "pending instants")
    _services(found, out)
    for problem in found.problems:
        out.print(Text(f"can't be read: {plain(problem)}"))


def _facts(found: TableDescription) -> Iterator[tuple[str, str]]:
    yield "table", f"{found.name}, at {found.path}"
    yield "type", f"{found.table_type} of version {found.version}, {found.base_file_format}, time zone {found.timezone}"
    said = found.version >= SAYS_ITS_KEYS
    yield "record key", f"{_listed(found.record_key) or ('generated' if said else 'not said')} ({found.key_generator})"
    yield "partitioned by", _listed(found.partition_fields) or ("nothing" if said else "not said")
    merged = f" ({found.merge_mode})"
    yield "ordering", (_listed(found.ordering_fields) or "none, the later commit wins") + merged
    yield "columns", _listed([f"{each.name} {each.type}" for each in found.columns], _COLUMNS)
    indexes = [each.name if each.state == "ready" else f"{each.name} ({each.state})" for each in found.indexes]
    yield "indexes", _listed(indexes) or "none"
    yield "metadata table", _listed(found.metadata_table) or "none"
    files = found.size
    if files is not None:
        records = "records not stated" if files.records is None else f"{files.records:,} records"
        records += " in base files" if files.log_files else ""
        yield "size", f"{records}; {files.file_groups:,} file groups in {files.partitions:,} partitions"
        logs = f", {files.log_files:,} log files of {size(files.log_bytes)}" if files.log_files else ""
        yield "files", f"{files.base_files:,} base files of {size(files.base_bytes)}{logs}"
    yield "commits", f"{found.commits:,} on the active timeline"
    if found.savepoints:
        yield "savepoints", _listed(found.savepoints, _NAMED)


def _commits(found: TableDescription, out: Console) -> None:
    if not found.last_commits:
        return
    commits = report(
        ("last commits", "operation", "completed (UTC)"), ("took", "inserted", "updated", "deleted", "files", "bytes")
    )
    for each in found.last_commits:
        at = time(each.completed or each.requested)
        took = "" if each.seconds is None else f"{each.seconds:,.1f} s"
        rows = map(number, (each.records_inserted, each.records_updated, each.records_deleted, each.files_written))
        add(commits, [each.instant, each.operation or each.problem, at, took, *rows, size(each.bytes_written)])
    out.print(commits)


def _services(found: TableDescription, out: Console) -> None:
    """Print the services that are due, fail or wait for an instant, and the names of the others."""
    services = report(("services", "of the", ""), (), ("reason",))
    others: dict[str, list[str]] = {}
    for step in found.services:
        if step.outcome.value == "left" and step.instant is None:
            others.setdefault("" if step.on == "table" else f"of the {step.on}: ", []).append(step.name)
        else:
            add(services, [step.name, step.on, step.outcome.value, step.reason])
    if services.row_count:
        out.print(services)
    if others:
        out.print(Text(f"not due: {'; '.join(f'{on}{_listed(names)}' for on, names in others.items())}"))


def _listed(names: Iterable[str], most: int | None = None) -> str:
    known: Sequence[str] = list(names)
    more = 0 if most is None else len(known) - most
    return ", ".join(known[:most]) + (f" and {more:,} more" if more > 0 else "")


def _rest(out: Console, count: int, what: str) -> None:
    if count > _NAMED:
        out.print(f"{count - _NAMED:,} more {what}")
