"""The command `pudi show`: what a table is, on one screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import Json, Path, StorageOption, WriteOption, console, errors, opened, pairs, plain
from pudi.cli.reports import add, number, report, size, time
from pudi.config.checks import SAYS_ITS_KEYS

if TYPE_CHECKING:
    from pudi.table.description import TableDescription

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
    with errors():
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
    merged = f" ({found.merge_mode})" if found.merge_mode else ""
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
