"""The commands `pudi head` and `pudi changes`, and how commands show rows to a person or a script."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import (
    AsOf,
    Columns,
    Json,
    Merger,
    MetaFields,
    Path,
    Rows,
    StorageOption,
    Where,
    console,
    opened,
    plain,
    split,
)
from pudi.context.runtime import lazy_module

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from pudi.scan import ChangeFeed, Scan
else:
    np = lazy_module("numpy")
    pa = lazy_module("pyarrow")

_LONGEST = 40
"""Characters of a value in a column; where records are printed one by one, values are whole."""


def head(
    path: Path,
    rows: Rows = 10,
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    meta_fields: Annotated[
        bool, typer.Option("--meta-fields", help="Hudi's own columns too, if no columns are named.")
    ] = False,
    merger: Merger = None,
    as_json: Json = False,
    storage_option: StorageOption = None,
) -> None:
    """Show some rows of a table, whichever are found first; reads no more files than it takes to find them."""
    found = opened(path, storage_option, merger).head(rows, split(columns), where, as_of=as_of, meta_fields=meta_fields)
    show_rows(found, as_json=as_json)


def show_rows(found: pa.Table, *, as_json: bool) -> None:
    """Print a few rows, as a table or as JSON."""
    records = _records(found)
    if as_json:
        typer.echo(json.dumps([_json(each) for each in records], indent=2))
    elif not records:
        typer.echo("no rows")
    else:
        _show(found.column_names, records)


def _records(found: pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts; of a moment that Python's types don't have, a text."""
    columns = {name: found[name] for name in found.column_names}
    try:
        values = [column.to_pylist() for column in columns.values()]
    except (ValueError, OverflowError):
        values = [[_value(scalar) for scalar in column] for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _value(scalar: pa.Scalar) -> Any:
    """A value; a day or moment outside of the years 1 to 9999 as numpy's text, Arrow's counts to the year 32767."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        unit: Any = getattr(scalar.type, "unit", "D")
        number = getattr(scalar, "value", None)
        return f"a {scalar.type}" if number is None else str(np.datetime64(number, unit))


def _show(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> None:
    """Print records as a table, or one by one where a table of them is too wide."""
    out = console()
    cells = [[_shown(record[name]) for name in names] for record in records]
    titles = [plain(name) for name in names]
    widths = [
        max(cell_len(titles[at]), *(min(cell_len(row[at]), _LONGEST) for row in cells)) for at in range(len(titles))
    ]
    if sum(widths) + 2 * len(widths) <= out.width:
        numeric = [all(_is_number(record[name]) for record in records) for name in names]
        report = Report(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for title, right in zip(titles, numeric, strict=True):
            report.add_column(Text(title), no_wrap=True, justify="right" if right else "left")
        for row in cells:
            report.add_row(*(Text(_cut(cell)) for cell in row))
        out.print(report)
        return
    longest = max(map(cell_len, titles))
    for number, row in enumerate(cells):
        if number:
            out.print()
        for title, cell in zip(titles, row, strict=True):
            out.print(Text(f"{title}{' ' * (longest - cell_len(title))}  {cell}"), soft_wrap=True)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _shown(value: object) -> str:
    """A value as text in which nothing reaches the terminal but characters that can be printed."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, dict | list):
        return plain(json.dumps(_json(value), ensure_ascii=False))
    return plain(str(value))


def _json(value: Any) -> Any:
    """A value in JSON's types: times as ISO text, decimals as text, bytes in base64, NaN and infinities as text."""
    if isinstance(value, Mapping):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):  # a map
            return {str(_json(key)): _json(each) for key, each in value}
        return [_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


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
    rows: Rows = 10,
    columns: Columns = None,
    where: Annotated[str | None, typer.Option(help="SQL predicate over the rows.")] = None,
    meta_fields: MetaFields = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what would be read, and read nothing.")] = False,
    merger: Merger = None,
    as_json: Json = False,
    storage_option: StorageOption = None,
) -> None:
    """Show what commits changed: records that they brought, or with --format cdc every insert, update and delete."""
    found = opened(path, storage_option, merger).changes(
        since, until, columns=split(columns), where=where, format=format, meta_fields=meta_fields, images=images
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
