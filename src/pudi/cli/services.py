"""The command `pudi services`, a long-running process that maintains tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import pudi
from pudi.cli.common import StorageOption, WriteOption, errors, pairs, spark_session, stopping_at_signals
from pudi.cli.health import WRONG
from pudi.cli.mergers import register
from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    from pudi.table import keeper, verbs
else:
    keeper = lazy_module("pudi.table.keeper")
    verbs = lazy_module("pudi.table.verbs")


def services(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Roots of tables: folders, or URLs such as s3://bucket/table."),
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Go on until SIGTERM or SIGINT.")] = False,
    interval: Annotated[float, typer.Option(min=0, help="Seconds between two turns of a table, with --watch.")] = 60.0,
    max_at_once: Annotated[int, typer.Option(min=1, help="Number of tables that are worked on at a time.")] = 2,
    on_spark: Annotated[bool, typer.Option("--spark", help="Run the work on a Spark session.")] = False,
    merger: Annotated[
        str | None, typer.Option(help="Merger of the tables' records, as module:Class; imported and registered.")
    ] = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Maintain tables: run pending plans and what is due; print each action as a line of JSON.

    A signal ends it after the running actions; a second one immediately; the next process takes over their plans. With
    --watch it exits with 0; without, each table has one turn, and it exits with 2 if an action failed.
    """
    with errors():
        if merger is not None:
            register(merger)
        options, storage_options = pairs("--option", option), pairs("--storage-option", storage_option) or None
        session, end = spark_session("pudi services") if on_spark else (None, lambda: None)
        kept = keeper.Keeper(
            paths,
            lambda path: pudi.Table(path, options=options, storage_options=storage_options),
            verbs.engine_of(None, session),
            _print,
            interval,
            max_at_once,
        )
        with stopping_at_signals(kept.stop):
            whole = kept.run(again=watch)
        end()
        if not whole and not watch:
            raise typer.Exit(WRONG)


def _print(action: keeper.ServiceAction) -> None:
    typer.echo(action.to_json())  # which flushes
