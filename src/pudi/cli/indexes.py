"""The command `pudi index`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Report

from pudi.cli.common import Merger, Path, PlanOnly, StorageOption, console, opened, pairs
from pudi.cli.output import add
from pudi.context.runtime import lazy_module

if TYPE_CHECKING:
    from pudi.indexing import index_request
    from pudi.indexing.index_request import IndexInfo
else:
    index_request = lazy_module("pudi.indexing.index_request")


class IndexVerb(str, Enum):
    """Verbs of `pudi index`."""

    SHOW = "show"
    CREATE = "create"
    DROP = "drop"
    RUN = "run"


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
    plan_only: PlanOnly = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="A Hudi option, or a setting of the function, as KEY=VALUE."),
    ] = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Show a table's indexes, create one, drop one, or run those that are planned."""
    table, options = opened(path, storage_option, merger), pairs("--option", option)
    if action in {IndexVerb.SHOW, IndexVerb.RUN}:
        if what:
            raise typer.BadParameter(f"{action.value} takes no kind of index, and {what!r} is given")
    elif not what:
        raise typer.BadParameter(f"{action.value} what? Give the kind of index, or its name")
    if (action is not IndexVerb.CREATE or plan_only) and (column or name or expr):
        raise typer.BadParameter("--column, --name and --expr are for the index that create builds")
    if plan_only and action is not IndexVerb.CREATE:
        raise typer.BadParameter("--plan-only is for create")
    if action is IndexVerb.SHOW:
        _show(table.indexes())
    elif action is IndexVerb.DROP:
        table.drop_index(what or "", options=options)
        typer.echo(f"dropped {what}")
    elif action is IndexVerb.RUN:
        done = table.run_pending(options=options)
        typer.echo("nothing is planned" if not done else "\n".join(f"done {each.instant}" for each in done))
    elif plan_only:
        typer.echo(f"planned {table.schedule(what or '', options=options)}")
    else:
        result = table.create_index(what or "", column, name, expr, options=options)
        typer.echo(
            f"built by {result.instant}: {result.records_inserted:,} records, {result.bytes_written:,} bytes, "
            f"{result.duration:.2f} s"
        )


def _show(indexes: list[IndexInfo]) -> None:
    if not indexes:
        typer.echo("no indexes")
        return
    report = Report("index", "kind", "columns", "expression", "state", "plan")
    for each in indexes:
        columns = ", ".join(each.columns)
        add(report, [each.name, each.kind, columns, each.expr, each.state, each.instant or ""])
    console().print(report)
