"""The command that registers a table in a catalog."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from pudi.cli.common import Json, Path, StorageOption, WriteOption, errors, opened, pairs, say


def sync(
    path: Path,
    to: Annotated[
        str, typer.Option("--to", help="The place: hive://host:9083/db.trips, glue:db.trips, sqlite:/file.db/db.trips.")
    ],
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Compare all partitions, not only those that changed since the last sync."),
    ] = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Register a table in a catalog, where engines find it by name; later only what changed since."""
    with errors():
        table = opened(path, storage_option)
        done = table.sync(to, complete=complete, options=pairs("--option", option))
        say(json.dumps(asdict(done)) if as_json else str(done))
