"""The commands `pudi import`, `pudi export` and `pudi sync`: files in, files out, a table into a catalog."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

import pudi
from pudi.cli.common import (
    AsOf,
    Columns,
    Json,
    Merger,
    MetaFields,
    Path,
    SourceOption,
    StorageOption,
    Where,
    WriteOption,
    counted,
    errors,
    opened,
    pairs,
    say,
    split,
)


def import_table(
    source: Annotated[str, typer.Argument(help="A folder of Parquet files, Hive-style or not; it stays as it is.")],
    target: Annotated[str, typer.Argument(help="The new table's root.")],
    record_key: Annotated[
        list[str] | None, typer.Option(help="Columns of the record key, with commas between them. Default: generated.")
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(help="Columns that partition the table. Default: those of Hive-style folders."),
    ] = None,
    ordering: Annotated[list[str] | None, typer.Option(help="Columns that order versions of a record.")] = None,
    table_type: Annotated[str, typer.Option(help="cow or mor.")] = "cow",
    name: Annotated[str | None, typer.Option(help="The table's name. Default: the folder's.")] = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Rewrite all files; copy no column chunks.")] = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    source_option: SourceOption = None,
) -> None:
    """Make a Hudi table of a folder of Parquet files, in one commit."""
    with errors():
        table = pudi.import_table(
            source,
            target,
            record_key=split(record_key),
            partition_by=split(partition_by),
            ordering=split(ordering),
            table_type=table_type,
            name=name,
            copy=not rewrite,
            options=pairs("--option", option),
            storage_options=pairs("--storage-option", storage_option) or None,
            source_options=pairs("--source-option", source_option) or None,
        )
        commits = table.timeline.commits
        files = counted(len(table.file_slices()), "file")
        say(f"imported {files} by {commits[-1].requested}" if commits else "imported no rows: the files have none")


def export(
    path: Path,
    out: Annotated[str, typer.Argument(help="The folder to write to; it must be empty or not be there.")],
    format: Annotated[str, typer.Option("--format", "-f", help="parquet, orc, csv, json or arrow.")] = "parquet",
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    meta_fields: MetaFields = False,
    merger: Merger = None,
    storage_option: StorageOption = None,
    out_option: Annotated[
        list[str] | None, typer.Option(help="A setting of the other storage, where it differs, as KEY=VALUE.")
    ] = None,
) -> None:
    """Write the rows of a table as plain files."""
    with errors():
        table = opened(path, storage_option, merger)
        scan = table.scan(split(columns), where, as_of=as_of, meta_fields=meta_fields)
        storage = pairs("--out-option", out_option) or pairs("--storage-option", storage_option) or None
        done = scan.to_files(out, format=format, storage_options=storage)
        say(f"wrote {counted(done.rows, 'row')} to {counted(done.files, 'file')}")


def sync(
    path: Path,
    to: Annotated[
        str, typer.Option("--to", help="The place: hive://host:9083/db.trips, glue:db.trips, polaris:db.trips.")
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
