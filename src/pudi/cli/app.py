"""The commands: arguments in, verbs of `pudi.Table` called, a table of what was done out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Report

import pudi
from pudi.action import CommitResult
from pudi.action.index_request import IndexRequest
from pudi.cli.indexes import IndexVerb, run_index
from pudi.cli.mergers import register
from pudi.errors import PudiError
from pudi.version import __version__

_LEAST_WIDTH = 110
"""Columns that a report takes; on a narrower terminal it's wrapped rather than cut."""

app = typer.Typer(
    name="pudi", help="Apache Hudi tables in Python.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and leave.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Keep this a command with subcommands, also while there is one."""


@app.command()
def compact(
    path: Annotated[str, typer.Argument(help="The table's root: a folder, or a URL such as s3://bucket/table.")],
    merger: Annotated[
        str | None, typer.Option(help="Merger of the table's records, as module:Class; imported and registered.")
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Merge log files among themselves, leave base files alone.")
    ] = False,
    strategy: Annotated[
        str | None, typer.Option(help="Which file groups to take: a strategy of Hudi's, such as LogFileNumBased.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare what was written before it's published.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Plan, for another process to run.")] = False,
    run_only: Annotated[bool, typer.Option("--run-only", help="Run what is planned already, plan nothing.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="A Hudi option as KEY=VALUE; more than once for more.")
    ] = None,
    storage_option: Annotated[
        list[str] | None, typer.Option(help="A setting of the storage as KEY=VALUE; more than once for more.")
    ] = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    with _errors():
        if plan_only and run_only:
            raise typer.BadParameter("--plan-only and --run-only exclude each other")
        if merger is not None:
            register(merger)
        options = _pairs("--option", option)
        if strategy is not None:
            options["hoodie.compaction.strategy"] = strategy
        if verify:
            options["pudi.compaction.verify"] = "true"
        table = pudi.Table(path, storage_options=_pairs("--storage-option", storage_option) or None)
        if plan_only:
            instant = table.schedule("log_compaction" if log else "compaction", options=options)
            typer.echo("nothing to compact" if instant is None else f"planned {instant}")
        elif run_only:
            _report(table.run_pending(options=options))
        else:
            done = table.compact(log_compaction=log, options=options)
            _report([] if done is None else [done])


@app.command()
def check(
    path: Annotated[str, typer.Argument(help="The table's root: a folder, or a URL such as s3://bucket/table.")],
    storage_option: Annotated[
        list[str] | None, typer.Option(help="A setting of the storage as KEY=VALUE; more than once for more.")
    ] = None,
) -> None:
    """Compare a table's metadata table with its files; leaves with 2 where they differ."""
    with _errors():
        found = pudi.Table(path, storage_options=_pairs("--storage-option", storage_option) or None).check()
        typer.echo(str(found))
        if not found.ok:
            raise typer.Exit(2)


@app.command()
def index(
    path: Annotated[str, typer.Argument(help="The table's root: a folder, or a URL such as s3://bucket/table.")],
    action: Annotated[IndexVerb, typer.Argument(help="What to do.")] = IndexVerb.SHOW,
    what: Annotated[
        str | None, typer.Argument(help="create: record_index, column_stats, …; drop: the index's name.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column of the index; more than once for more.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of a secondary or expression index.")] = None,
    expr: Annotated[str | None, typer.Option(help="Function of an expression index, such as from_unixtime.")] = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Plan, for another process to run.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="A Hudi option, or a setting of the function, as KEY=VALUE."),
    ] = None,
    storage_option: Annotated[
        list[str] | None, typer.Option(help="A setting of the storage as KEY=VALUE; more than once for more.")
    ] = None,
) -> None:
    """Show a table's indexes, create one, drop one, or run those that are planned."""
    with _errors():
        run_index(
            pudi.Table(path, storage_options=_pairs("--storage-option", storage_option) or None),
            action,
            IndexRequest(what or "", tuple(column or ()), name, expr, _pairs("--option", option)),
            plan_only=plan_only,
        )


def _pairs(name: str, given: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{name} {text!r}: give it as KEY=VALUE")
        found[key] = value
    return found


def _report(results: Sequence[CommitResult]) -> None:
    if not results:
        typer.echo("nothing to compact")
        return
    console = Console()
    console.width = max(_LEAST_WIDTH, console.width)
    report = Report("instant", "operation", "files", "updated", "deleted", "inserted", "bytes", "seconds")
    for done in results:
        report.add_row(
            done.instant,
            done.operation,
            f"{done.files_written:,}",
            f"{done.records_updated:,}",
            f"{done.records_deleted:,}",
            f"{done.records_inserted:,}",
            f"{done.bytes_written:,}",
            f"{done.duration:.2f}",
        )
    console.print(report)


@contextmanager
def _errors() -> Iterator[None]:
    """Errors that are told on purpose are a line, not a traceback."""
    try:
        yield
    except PudiError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from error
