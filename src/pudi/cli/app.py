"""The commands. Each calls one verb of `pudi.Table` and prints the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Report

import pudi
from pudi.cli.common import Merger, Path, StorageOption, WriteOption, console, errors, opened, pairs, say
from pudi.cli.exchange import export, import_table, sync
from pudi.cli.indexes import IndexVerb, run_index
from pudi.cli.ingest import ingest
from pudi.cli.maintenance import check, doctor, forget, maintain, repair, run_ttl, services
from pudi.cli.mergers import register
from pudi.cli.output import progress_bars
from pudi.cli.overview import files, history, show
from pudi.cli.recovery import restore, rollback, savepoint, upgrade
from pudi.cli.rows import changes, head
from pudi.context.lazy import lazy_module
from pudi.version import __version__

if TYPE_CHECKING:
    from pudi import config
    from pudi.indexing import index_request
else:
    config = lazy_module("pudi.config")
    index_request = lazy_module("pudi.indexing.index_request")

app = typer.Typer(
    name="pudi", help="Apache Hudi tables in Python.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Show the progress of every command."""
    context.with_resource(progress_bars())


@app.command()
def compact(
    path: Path,
    merger: Merger = None,
    log: Annotated[
        bool, typer.Option("--log", help="Merge log files among themselves, leave base files alone.")
    ] = False,
    strategy: Annotated[
        str | None, typer.Option(help="Which file groups to take: a strategy of Hudi's, such as LogFileNumBased.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the written files back and compare them before the commit.")
    ] = False,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Plan, for another process to run.")] = False,
    run_only: Annotated[bool, typer.Option("--run-only", help="Run existing plans, plan nothing.")] = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    with errors():
        if plan_only and run_only:
            raise typer.BadParameter("--plan-only and --run-only exclude each other")
        if run_only and strategy is not None:
            raise typer.BadParameter("--strategy is for a new plan, and --run-only makes none")
        if merger is not None:
            register(merger)
        options = pairs("--option", option)
        if strategy is not None:
            options[config.CompactionOptions.strategy.key] = strategy
        if verify:
            options[config.CompactionOptions.verify.key] = "true"
        table = opened(path, storage_option)
        if plan_only:
            instant = table.schedule("log_compaction" if log else "compaction", options=options)
            typer.echo("nothing to compact" if instant is None else f"planned {instant}")
        elif run_only:
            _report(table.run_pending(service="log_compaction" if log else "compaction", options=options))
        else:
            done = table.compact(log_compaction=log, options=options)
            _report([] if done is None else [done])


@app.command()
def cluster(
    path: Path,
    order_by: Annotated[
        list[str] | None, typer.Option("--order-by", help="Column to order records by; may be given several times.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="linear, or along a curve through all columns: zorder, hilbert.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="Partition path to take; may be given several times. Default: all.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Instead: a predicate over partition columns.")] = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Bring records in order, and small files to size."""
    with errors():
        table = opened(path, storage_option)
        options = pairs("--option", option)
        done = table.cluster(order_by=order_by, layout=layout, partitions=partition, where=where, options=options)
        _report([] if done is None else [done], none="nothing to cluster")


@app.command()
def clean(
    path: Path,
    policy: Annotated[
        config.CleanPolicy | None, typer.Option(help="What stays; by default what the last commits saw.")
    ] = None,
    retain: Annotated[
        int | None, typer.Option(min=1, help="Number of commits, hours or file slices that stay, by the policy.")
    ] = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Delete old file slices that no retained commit needs."""
    with errors():
        options = pairs("--option", option)
        if policy is not None:
            options[config.CleanOptions.policy.key] = policy.value
        if retain is not None:
            chosen = config.CleanPolicy(config.resolve(options)[config.CleanOptions.policy])
            options[chosen.retained().key] = str(retain)
        table = opened(path, storage_option)
        done = table.clean(options=options)
        say("nothing to clean" if done is None else str(done))


@app.command()
def archive(path: Path, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Move old commits from the active timeline to the archive."""
    with errors():
        table = opened(path, storage_option)
        moved = table.archive(options=pairs("--option", option))
        typer.echo(f"archived {moved} instants" if moved else "nothing to archive")


@app.command()
def schedule(
    path: Path,
    service: Annotated[
        str, typer.Argument(help="compaction, log_compaction, clustering, clean, or a kind of index to build.")
    ],
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Plan a table service, for any process to run."""
    with errors():
        table = opened(path, storage_option)
        instant = table.schedule(service, options=pairs("--option", option))
        typer.echo("nothing to do" if instant is None else f"planned {instant}")


@app.command()
def run_pending(
    path: Path,
    merger: Merger = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Run the planned table services that no other process runs."""
    with errors():
        if merger is not None:
            register(merger)
        table = opened(path, storage_option)
        _report(table.run_pending(options=pairs("--option", option)), none="nothing to run")


for command in (
    check,
    maintain,
    services,
    repair,
    doctor,
    savepoint,
    rollback,
    restore,
    forget,
    run_ttl,
    upgrade,
    sync,
):
    app.command()(command)

for shows in (show, head, changes, history, files):
    app.command()(shows)

app.command(name="import")(import_table)
app.command()(export)
app.command()(ingest)


@app.command()
def index(
    path: Path,
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
    storage_option: StorageOption = None,
) -> None:
    """Show a table's indexes, create one, drop one, or run those that are planned."""
    with errors():
        run_index(
            opened(path, storage_option),
            action,
            index_request.IndexRequest(what or "", tuple(column or ()), name, expr, pairs("--option", option)),
            plan_only=plan_only,
        )


def _report(results: Sequence[pudi.CommitResult], *, none: str = "nothing to compact") -> None:
    if not results:
        typer.echo(none)
        return
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
    console().print(report)
