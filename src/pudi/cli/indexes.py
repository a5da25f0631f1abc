"""The `pudi index` commands."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import typer
from rich.table import Table as Report

import pudi
from pudi.cli.common import console
from pudi.cli.output import add

if TYPE_CHECKING:
    from pudi.indexing.index_request import IndexInfo, IndexRequest


class IndexVerb(str, Enum):
    """Verbs of `pudi index`."""

    SHOW = "show"
    CREATE = "create"
    DROP = "drop"
    RUN = "run"


def run_index(table: pudi.Table, verb: IndexVerb, asked: IndexRequest, *, plan_only: bool) -> None:
    """Do it, and say what was done.

    Args:
        table: the table.
        verb: what to do.
        asked: the index to create, as `Table.create_index` takes it; the name of one to drop as its kind.
        plan_only: whether it's only to be planned.
    """
    what, options = asked.kind, dict(asked.settings or {})
    if verb in {IndexVerb.CREATE, IndexVerb.DROP} and not what:
        raise typer.BadParameter(f"{verb.value} what? Give the kind of index, or its name")
    if verb in {IndexVerb.SHOW, IndexVerb.RUN} and what:
        raise typer.BadParameter(f"{verb.value} takes no kind of index, and {what!r} is given")
    if (verb is not IndexVerb.CREATE or plan_only) and (asked.columns or asked.name or asked.expr):
        raise typer.BadParameter("--column, --name and --expr are for the index that create builds")
    if plan_only and verb is not IndexVerb.CREATE:
        raise typer.BadParameter("--plan-only is for create")
    if verb is IndexVerb.SHOW:
        _show(table.indexes())
    elif verb is IndexVerb.DROP:
        table.drop_index(what, options=options)
        typer.echo(f"dropped {what}")
    elif verb is IndexVerb.RUN:
        done = table.run_pending(options=options)
        typer.echo("nothing is planned" if not done else "\n".join(f"done {each.instant}" for each in done))
    elif plan_only:
        typer.echo(f"planned {table.schedule(what, options=options)}")
    else:
        result = table.create_index(what, list(asked.columns) or None, asked.name, asked.expr, options=options)
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
