"""Compare the entry of a table in a catalog with what is to be registered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from pudi.catalogs import CatalogColumn, CatalogTable
from pudi.catalogs.registered import LAST_COMMIT, LAST_COMPLETION

Times: TypeAlias = tuple[str | None, str | None]
"""The requested time of the newest commit that is registered, and the greatest completion time."""
_SCHEMA_PART = "spark.sql.sources.schema.part."
_S3 = re.compile(r"^s3[an]:")


def registered_times(table: CatalogTable) -> Times:
    """Return the times up to which a table is registered."""
    return table.properties.get(LAST_COMMIT), table.properties.get(LAST_COMPLETION)


def altered(known: CatalogTable, wanted: CatalogTable, *, comments: bool) -> CatalogTable:
    """Return a registered table as it's to be; what the catalog or others added stays."""
    properties = {**known.properties, **wanted.properties}
    if wanted.properties.get("spark.sql.sources.schema.numParts"):
        parts = {key for key in wanted.properties if key.startswith(_SCHEMA_PART)}
        properties = {k: v for k, v in properties.items() if k in parts or not k.startswith(_SCHEMA_PART)}
    said = {column.name.lower(): column.comment for column in known.columns}
    columns = tuple(
        CatalogColumn(each.name.lower(), each.type, each.comment if comments else said.get(each.name.lower(), ""))
        for each in wanted.columns
    )
    now = tuple(CatalogColumn(each.name.lower(), each.type, each.comment) for each in known.columns)
    serde = {**known.format.serde_properties, **wanted.format.serde_properties}
    form = replace(wanted.format, serde_properties=serde)
    return replace(known, columns=known.columns if columns == now else columns, format=form, properties=properties)


def one_spelling(location: str) -> str:
    """Return a location in one spelling: catalogs change schemes and slashes."""
    location = _S3.sub("s3:", location.rstrip("/"))
    return "file:/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def lower_columns(columns: Iterable[CatalogColumn]) -> list[tuple[str, str]]:
    """Return names, in lower case as metastores store them, and types."""
    return [(each.name.lower(), each.type) for each in columns]
