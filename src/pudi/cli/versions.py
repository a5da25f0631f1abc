"""The command that brings a table to another version."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from pudi.cli.common import Json, Path, StorageOption, WriteOption, Yes, errors, opened, pairs, say
from pudi.config.table_options import NEWEST_VERSION


def upgrade(
    path: Path,
    to: Annotated[int, typer.Option(help="The version: 6, 8 or 9.")] = NEWEST_VERSION,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on although the version can't keep all that the table has.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Bring a table to another version, upwards or downwards; shows the steps, and asks first."""
    with errors():
        table = opened(path, storage_option)
        options = pairs("--option", option)
        found = table.upgrade(to, dry_run=True, options=options)
        if not as_json:
            say(str(found))
        if found.steps and not dry_run:
            if not (yes or as_json):
                typer.confirm(f"Bring {path} to version {to}? No writer may run meanwhile.", abort=True)
            found = table.upgrade(to, accept_loss=accept_loss, options=options)
            if not as_json:
                typer.echo(f"the table is of version {to}")
        if as_json:
            typer.echo(json.dumps(asdict(found)))
