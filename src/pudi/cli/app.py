"""The command `pudi`: its commands, one a verb of `pudi.Table`, and what all of them share."""

from __future__ import annotations

from typing import Annotated

import typer

from pudi.cli.common import errors
from pudi.cli.exchange import export, import_table, ingest, sync
from pudi.cli.health import check, doctor, repair
from pudi.cli.indexes import index
from pudi.cli.output import progress_bars
from pudi.cli.overview import files, history, show
from pudi.cli.recovery import restore, rollback, savepoint, upgrade
from pudi.cli.rows import changes, head
from pudi.cli.services import (
    archive,
    clean,
    cluster,
    compact,
    forget,
    maintain,
    run_pending,
    run_ttl,
    schedule,
    services,
)
from pudi.version import __version__

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


for command in (
    compact,
    cluster,
    clean,
    archive,
    schedule,
    run_pending,
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
    show,
    head,
    changes,
    history,
    files,
    import_table,
    export,
    ingest,
    index,
):
    app.command("import" if command is import_table else None)(errors()(command))
