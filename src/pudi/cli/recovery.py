"""Commands that bring a table back to an earlier commit, or to another version."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pudi.cli.common import (
    DryRun,
    Json,
    Merger,
    Path,
    StorageOption,
    WriteOption,
    Yes,
    asks,
    counted,
    opened,
    pairs,
    say,
)
from pudi.config.table_options import NEWEST_VERSION
from pudi.context.runtime import lazy_module

if TYPE_CHECKING:
    from pudi.table import recovery
else:
    recovery = lazy_module("pudi.table.recovery")


class SavepointVerb(str, Enum):
    """Verbs of `pudi savepoint`."""

    LIST = "list"
    CREATE = "create"
    DELETE = "delete"


def savepoint(
    path: Path,
    action: Annotated[SavepointVerb, typer.Argument(help="What to do.")] = SavepointVerb.LIST,
    instant: Annotated[
        str | None, typer.Argument(help="Requested time of the commit; create: the newest one by default.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Why the savepoint is made.")] = "",
    user: Annotated[str, typer.Option(help="Who makes it.")] = "",
    as_json: Json = False,
    storage_option: StorageOption = None,
) -> None:
    """Keep the files of a commit from being cleaned, so that the table can be restored to it."""
    if action is SavepointVerb.LIST and instant is not None:
        raise typer.BadParameter(f"list takes no instant, and {instant!r} is given")
    if action is not SavepointVerb.CREATE and (comment or user):
        raise typer.BadParameter("--comment and --user are for create")
    table = opened(path, storage_option)
    if action is SavepointVerb.DELETE:
        if instant is None:
            raise typer.BadParameter("delete needs the instant of the savepoint")
        table.delete_savepoint(instant)
        typer.echo(json.dumps({"deleted": instant}) if as_json else f"deleted the savepoint of {instant}")
        return
    made = action is SavepointVerb.CREATE
    found = [table.savepoint(instant, user=user, comment=comment)] if made else table.savepoints()
    if as_json:
        typer.echo(json.dumps([asdict(each) | {"made": each.made.isoformat()} for each in found], indent=2))
        return
    for each in found:
        by = f" by {each.user}" if each.user else ""
        why = f": {each.comment}" if each.comment else ""
        say(f"{each.instant}, made {each.made:%Y-%m-%d %H:%M} UTC{by}, {counted(each.files, 'file')}{why}")
    if not found:
        typer.echo("no savepoints")


def rollback(
    path: Path,
    instant: Annotated[str, typer.Argument(help="Requested time of the newest commit, or of a pending clustering.")],
    yes: Yes = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Roll back the newest commit, or the pending plan of a clustering or log compaction; asks first."""
    asking = asks(yes=yes, as_json=as_json, or_dry_run=False)
    table, options = opened(path, storage_option, merger), pairs("--option", option)
    if asking:
        recovery.check_rollback(table, instant)
        typer.confirm(f"Roll back {instant} of {path}? Its files are deleted.", abort=True)
    _report(table.rollback(instant, options=options), as_json)


def restore(
    path: Path,
    to: Annotated[
        str | None, typer.Argument(help="Requested time of the commit; without it, a pending restore is completed.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Restore a table to what it was when a commit completed; asks first."""
    asking = to is not None and asks(yes=yes, as_json=as_json, or_dry_run=False)
    table, options = opened(path, storage_option, merger), pairs("--option", option)
    if asking and to is not None:
        recovery.check_restore(table, to)
        typer.confirm(f"Roll back all commits after {to} of {path}? Their files are deleted.", abort=True)
    _report(table.restore(to, options=options), as_json)


def _report(done: Any, as_json: bool) -> None:
    say(json.dumps(asdict(done)) if as_json else str(done))


def upgrade(
    path: Path,
    to: Annotated[int, typer.Option(help="The version: 6, 8 or 9.")] = NEWEST_VERSION,
    dry_run: DryRun = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on although the version can't keep all that the table has.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Bring a table to another version, upwards or downwards; shows the steps, and asks first."""
    asking = not dry_run and asks(yes=yes, as_json=as_json)
    table = opened(path, storage_option, merger)
    options = pairs("--option", option)
    found = table.upgrade(to, dry_run=True, options=options)
    if not as_json:
        say(str(found))
    if found.steps and not dry_run:
        if asking:
            typer.confirm(f"Bring {path} to version {to}? No writer may run meanwhile.", abort=True)
        found = table.upgrade(to, accept_loss=accept_loss, options=options)
        if not as_json:
            typer.echo(f"the table is of version {to}")
    if as_json:
        typer.echo(json.dumps(asdict(found)))
