"""Find the path and options that a table of Spark's catalog keeps.

Spark stores the schema that a Python data source states, and hands readers and writers of the table this schema, but
neither location nor options (tried with 4.3). So the options are put into the metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pudi.config import FormatOptions
from pudi.config.option import text_of
from pudi.errors import InvalidArgumentError
from pudi.spark.read_request import ReadRequest

_KEY = "pudi"
_RAW_TYPE, _LONGEST = "__CHAR_VARCHAR_TYPE_STRING", "varchar(2147483647)"
"""Marks a text column as a varchar (CharVarcharUtils)."""


def with_options(fields: list[dict[str, Any]], given: Mapping[str, str]) -> None:
    """Put the options of a catalog's table into the metadata of its columns.

    An INSERT hands the metadata over only if its query's types aren't the table's very types. So the first text column
    is declared a varchar of any length, which no query has.

    Args:
        fields: the columns, as Spark's JSON schema has them; they're changed.
        given: the options.
    """
    fields[0]["metadata"] = {**fields[0].get("metadata", {}), _KEY: json.dumps(given)}
    text = next((field for field in fields if field["type"] == "string"), None)
    if text is not None:
        text["metadata"] = {**text.get("metadata", {}), _RAW_TYPE: _LONGEST}


def options_of(given: Mapping[str, str], schema: Any) -> dict[str, str]:
    """Return options as given, over those that the schema of a catalog's table keeps.

    Raises:
        InvalidArgumentError: no location is known.
    """
    kept = next((field.metadata[_KEY] for field in schema.fields if _KEY in (field.metadata or {})), None)
    both = {**({} if kept is None else json.loads(kept)), **given}
    if not both.get("path"):
        raise InvalidArgumentError(
            "Spark doesn't tell a Python data source where this table is. If it's a table of the catalog: create it "
            "without columns for a Hudi table that exists, CREATE TABLE name USING pudi LOCATION 'path' (not AS "
            "SELECT, not by saveAsTable); or state the path, INSERT INTO name WITH (path='path') …, SELECT … FROM "
            "name WITH (path='path'). Otherwise give it to .load(path) or .save(path)"
        )
    return both


def kept_options(given: Mapping[str, str], request: ReadRequest) -> dict[str, str]:
    """Return the options that a catalog's table keeps."""
    storage = {key: text for key, text in given.items() if key.startswith("storage.")}
    view = {key: text_of(value) for key, value in request.view.given.items()}
    meta_fields = {FormatOptions.meta_fields.key: text_of(request.meta_fields)}
    return {"path": request.path, **request.options, **view, **storage, **meta_fields}
