"""Commands that run table services, one or all that are due, and those that end the life of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Report

import pudi
from pudi.cli.common import (
    WRONG,
    DryRun,
    Json,
    Merger,
    Path,
    PlanOnly,
    StorageOption,
    WriteOption,
    Yes,
    asks,
    console,
    opened,
    pairs,
    say,
    say_json,
    spark_session,
    stopping_at_signals,
)
from pudi.cli.user_code import register
from pudi.context.runtime import lazy_module

if TYPE_CHECKING:
    from pudi import config
    from pudi.table import base, keeper
else:
    config = lazy_module("pudi.config")
    base = lazy_module("pudi.table.base")
    keeper = lazy_module("pudi.table.keeper")


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
    plan_only: PlanOnly = False,
    run_only: Annotated[bool, typer.Option("--run-only", help="Run existing plans, plan nothing.")] = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    if plan_only and run_only:
        raise typer.BadParameter("--plan-only and --run-only exclude each other")
    if run_only and strategy is not None:
        raise typer.BadParameter("--strategy is for a new plan, and --run-only makes none")
    options = pairs("--option", option)
    if strategy is not None:
        options[config.CompactionOptions.strategy.key] = strategy
    if verify:
        options[config.CompactionOptions.verify.key] = "true"
    table = opened(path, storage_option, merger)
    if plan_only:
        instant = table.schedule("log_compaction" if log else "compaction", options=options)
        typer.echo("nothing to compact" if instant is None else f"planned {instant}")
    elif run_only:
        _report(table.run_pending(service="log_compaction" if log else "compaction", options=options))
    else:
        done = table.compact(log_compaction=log, options=options)
        _report([] if done is None else [done])


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
    merger: Merger = None,
) -> None:
    """Bring records in order, and small files to size."""
    table = opened(path, storage_option, merger)
    options = pairs("--option", option)
    done = table.cluster(order_by=order_by, layout=layout, partitions=partition, where=where, options=options)
    _report([] if done is None else [done], none="nothing to cluster")


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
    options = pairs("--option", option)
    if policy is not None:
        options[config.CleanOptions.policy.key] = policy.value
    if retain is not None:
        chosen = config.CleanPolicy(config.resolve(options)[config.CleanOptions.policy])
        options[chosen.retained().key] = str(retain)
    table = opened(path, storage_option)
    done = table.clean(options=options)
    say("nothing to clean" if done is None else str(done))


def archive(path: Path, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Move old commits from the active timeline to the archive."""
    table = opened(path, storage_option)
    moved = table.archive(options=pairs("--option", option))
    typer.echo(f"archived {moved} instants" if moved else "nothing to archive")


def run_ttl(path: Path, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Delete the partitions whose days are over, by the options hoodie.partition.ttl.*."""
    table = opened(path, storage_option)
    done = table.run_ttl(options=pairs("--option", option))
    say("no partition is due" if done is None else str(done))


def forget(
    path: Path,
    where: Annotated[str, typer.Option(help="SQL predicate over the records.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files with them, and change nothing.")] = False,
    yes: Yes = False,
    merger: Merger = None,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Delete records from all files of a table; asks first. Earlier states of the table can't be read afterwards.

    Exits with 2 if files still hold some, as those of savepoints do.
    """
    asking = not dry_run and asks(yes=yes, as_json=as_json)
    table, options = opened(path, storage_option, merger), pairs("--option", option)
    if asking:
        table.scan(where=where)  # refuses a wrong predicate
        typer.confirm(f"Delete the records where {where} of {path} for good, and the table's history?", abort=True)
    done = table.forget(where, dry_run=dry_run, options=options)
    say(done.to_json() if as_json else str(done))
    if not (done.ok or dry_run):
        raise typer.Exit(WRONG)


def schedule(
    path: Path,
    service: Annotated[
        str, typer.Argument(help="compaction, log_compaction, clustering, clean, or a kind of index to build.")
    ],
    option: WriteOption = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Plan a table service, for any process to run."""
    table = opened(path, storage_option, merger)
    instant = table.schedule(service, options=pairs("--option", option))
    typer.echo("nothing to do" if instant is None else f"planned {instant}")


def run_pending(
    path: Path,
    merger: Merger = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Run the planned table services that no other process runs."""
    table = opened(path, storage_option, merger)
    _report(table.run_pending(options=pairs("--option", option)), none="nothing to run")


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


def maintain(
    path: Path,
    dry_run: DryRun = False,
    merger: Merger = None,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Do all that a table needs: run the services that are due, and delete what dead writers left.

    Exits with 2 if a step failed.
    """
    done = opened(path, storage_option, merger).maintain(dry_run=dry_run, options=pairs("--option", option))
    say_json(done.to_json() if as_json else str(done))
    if not done.ok:
        raise typer.Exit(WRONG)


def services(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Roots of tables: folders, or URLs such as s3://bucket/table."),
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Go on until SIGTERM or SIGINT.")] = False,
    interval: Annotated[float, typer.Option(min=0, help="Seconds between two turns of a table, with --watch.")] = 60.0,
    max_at_once: Annotated[int, typer.Option(min=1, help="Number of tables that are worked on at a time.")] = 2,
    on_spark: Annotated[bool, typer.Option("--spark", help="Run the work on a Spark session.")] = False,
    merger: Merger = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Maintain tables: run pending plans and what is due; print each action as a line of JSON.

    A signal ends it after the running actions; a second one immediately; the next process takes over their plans. With
    --watch it exits with 0; without, each table has one turn, and it exits with 2 if an action failed.
    """
    register(merger)
    options, storage_options = pairs("--option", option), pairs("--storage-option", storage_option) or None
    session, end = spark_session("pudi services") if on_spark else (None, lambda: None)
    kept = keeper.Keeper(
        paths,
        lambda path: pudi.Table(path, options=options, storage_options=storage_options),
        base.engine_of(None, session),
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
