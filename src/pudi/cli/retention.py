"""Commands that end the life of records."""

from __future__ import annotations

from typing import Annotated

import typer

from pudi.cli.common import Json, Path, StorageOption, WriteOption, Yes, errors, opened, pairs, say

WRONG = 2
"""Exit code where files still hold the records."""


def run_ttl(path: Path, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Delete the partitions whose days are over, by the options hoodie.partition.ttl.*."""
    with errors():
        table = opened(path, storage_option)
        done = table.run_ttl(options=pairs("--option", option))
        say("no partition is due" if done is None else str(done))


def forget(
    path: Path,
    where: Annotated[str, typer.Option(help="SQL predicate over the records.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files with them, and change nothing.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Delete records from all files of a table; asks first. Earlier states of the table can't be read afterwards.

    Exits with 2 if files still hold some, as those of savepoints do.
    """
    with errors():
        table = opened(path, storage_option)
        if not (dry_run or yes or as_json):
            typer.confirm(f"Delete the records where {where} of {path} for good, and the table's history?", abort=True)
        done = table.forget(where, dry_run=dry_run, options=pairs("--option", option))
        say(done.to_json() if as_json else str(done))
        if not (done.ok or dry_run):
            raise typer.Exit(WRONG)
