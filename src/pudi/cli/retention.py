"""Commands that end the life of records."""

from __future__ import annotations

import typer

import pudi
from pudi.cli.common import Path, StorageOption, WriteOption, errors, pairs


def run_ttl(path: Path, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Delete the partitions whose days are over, by the options hoodie.partition.ttl.*."""
    with errors():
        table = pudi.Table(path, storage_options=pairs("--storage-option", storage_option) or None)
        done = table.run_ttl(options=pairs("--option", option))
        typer.echo("no partition is due" if done is None else str(done))
