"""The command `pudi changes`: what commits changed, as a person or a script reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pudi.cli.common import Json, Path, StorageOption, errors, opened
from pudi.cli.rows import show_rows
from pudi.context.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa

    from pudi.scan import ChangeFeed, Scan
else:
    pa = lazy_module("pyarrow")


def changes(
    path: Path,
    since: Annotated[
        str | None, typer.Option(help="Completion time after which commits count; without it all commits.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Completion time up to which commits count.")] = None,
    format: Annotated[
        str, typer.Option(help="latest: records in their last version; cdc: every change, deletes too.")
    ] = "latest",
    images: Annotated[
        str, typer.Option(help="With cdc, records before and after as texts (json) or as columns (struct).")
    ] = "json",
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="How many rows at most.")] = 10,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", "-c", help="Columns to show, with commas between them; more than once for more."),
    ] = None,
    where: Annotated[str | None, typer.Option(help="SQL predicate over the rows.")] = None,
    meta_fields: Annotated[bool, typer.Option("--meta-fields", help="Hudi's own columns too.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what would be read, and read nothing.")] = False,
    as_json: Json = False,
    storage_option: StorageOption = None,
) -> None:
    """Show what commits changed: records that they brought, or with --format cdc every insert, update and delete."""
    with errors():
        named = [name.strip() for text in columns or () for name in text.split(",")]
        found = opened(path, storage_option).changes(
            since, until, columns=named or None, where=where, format=format, meta_fields=meta_fields, images=images
        )
        if explain:
            typer.echo(json.dumps({"explain": found.explain()}) if as_json else found.explain())
        else:
            show_rows(_first(found, rows), as_json=as_json)


def _first(found: Scan | ChangeFeed, count: int) -> pa.Table:
    """Return the first rows; reading ends with them."""
    batches, left = [], count
    with found.to_batches() as reader:
        for batch in reader if left else ():
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(batches, schema=reader.schema)
