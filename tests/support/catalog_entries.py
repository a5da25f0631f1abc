"""What a metastore holds of tables, as `golden/catalog_entries.jsonl` has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pudi.catalogs.catalog import CatalogColumn, CatalogTable, TableFormat

ENTRIES = Path(__file__).parents[1] / "golden" / "catalog_entries.jsonl"
ADDED = frozenset({"transient_lastDdlTime", "numFiles", "totalSize"})
"""Properties that the metastore adds."""


def entry(table: CatalogTable) -> dict[str, Any]:
    """Return a table in the form of the dumps, without its partitions."""
    return {
        "kind": table.kind,
        "location": table.location,
        "columns": _columns(table.columns),
        "partition_columns": _columns(table.partition_columns),
        "format": format_entry(table.format),
        "properties": {key: value for key, value in table.properties.items() if key not in ADDED},
    }


def format_entry(form: TableFormat) -> dict[str, Any]:
    """Return a format of files in the form of the dumps."""
    return {
        "input": form.input_format,
        "output": form.output_format,
        "serde": form.serde,
        "serde_properties": dict(form.serde_properties),
    }


def _columns(found: tuple[CatalogColumn, ...]) -> list[list[str]]:
    """Columns as a metastore shows them: names in lower case."""
    return [[each.name.lower(), each.type, each.comment] for each in found]
