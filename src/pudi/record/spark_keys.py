"""Keys and paths as Spark SQL, for the types where that equals the Arrow code: a key generator in, SQL text out."""

from __future__ import annotations

import pyarrow as pa

from pudi.record.key_generator import EMPTY_KEY, NULL_KEY, KeyGenerator, check_key_types
from pudi.record.key_text import field_of
from pudi.record.partition_path import DEFAULT_PARTITION, EMPTY_SEGMENT, SPECIAL, escaped_characters
from pudi.schema import META_FIELDS
from pudi.schema.spark_types import quote_path

SPARK_ERROR_MARK = "[pudi] "
"""Prefix of error messages raised inside this SQL; the rest names the column or path."""

_EQUAL_TYPES = (pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.date32())


def spark_key_columns(keys: KeyGenerator, schema: pa.Schema) -> tuple[str, str] | None:
    """SQL expressions for record key and partition path that equal `KeyGenerator`'s answers row for row.

    Where the Arrow code raises, the SQL fails by `raise_error`, with `SPARK_ERROR_MARK` in the message; but for unsafe
    partition paths, which `check_paths` finds among the distinct ones: a regular expression on every record takes as
    long as all the rest.

    Args:
        keys: the table's key generator.
        schema: the table schema, in pudi's types; the expressions are for a DataFrame that has it.

    Returns:
        The two expressions, or None where Spark's functions can't say it (types other than string,
        int, long, boolean and date; folders named by time; keys of either spelling): then the Arrow code must run in
        `mapInArrow`.

    Raises:
        NotSupportedError, InvalidArgumentError, SchemaError: as `check_key_types`.
    """
    check_key_types(keys, schema)
    names = (*keys.record_key_fields, *keys.partition_fields)
    if any(field_of(schema, name).type not in _EQUAL_TYPES or name in META_FIELDS for name in names):
        return None
    if any(keys.moments_of(position) is not None for position in range(len(keys.partition_fields))):
        return None
    if keys.either_spelling and not keys.names_keys:  # values need a look
        return None
    return _record_key(keys, schema), _partition_path(keys, schema)


def _record_key(keys: KeyGenerator, schema: pa.Schema) -> str:
    if keys.generates:  # number of the Spark partition, and of the row in it
        number = "monotonically_increasing_id()"
        return f"CONCAT('_', SHIFTRIGHT({number}, 33), '_', {number} & {(1 << 33) - 1}L)"
    texts = {name: _text(name, schema) for name in keys.record_key_fields}
    lost = " AND ".join(_blank(text) for text in texts.values())
    if not keys.names_keys:
        key = next(iter(texts.values()))
    else:
        parts = [
            f"CONCAT('{name}:', CASE WHEN {text} IS NULL THEN '{NULL_KEY}' WHEN {text} = '' THEN '{EMPTY_KEY}' "
            f"ELSE {text} END)"
            for name, text in texts.items()
        ]
        key = f"CONCAT_WS(',', {', '.join(parts)})"
    message = f"{SPARK_ERROR_MARK}the record key ({', '.join(texts)}) is null or empty"
    outer = sorted({name.rpartition(".")[0] for name in texts} - {""})
    if outer:
        message += ", or lies in a struct that is null"
        lost = " OR ".join([f"({lost})", *(f"{quote_path(name)} IS NULL" for name in outer)])
    return f"CASE WHEN {lost} THEN RAISE_ERROR('{message}') ELSE {key} END"


def _partition_path(keys: KeyGenerator, schema: pa.Schema) -> str:
    if not keys.partition_fields:
        return "''"
    texts = {name: _text(name, schema) for name in keys.partition_fields}
    folders = []
    for name, text in texts.items():
        value = _escaped(text) if keys.url_encode and field_of(schema, name).type == pa.string() else text
        folder = f"CASE WHEN {_blank(text)} THEN '{DEFAULT_PARTITION}' ELSE {value} END"
        folders.append(f"CONCAT('{name}=', {folder})" if keys.hive_style else folder)
    path = folders[0] if len(folders) == 1 else f"CONCAT_WS('/', {', '.join(folders)})"
    strings = [text for name, text in texts.items() if field_of(schema, name).type == pa.string()]
    if (
        not strings or not keys.hive_style or keys.url_encode
    ):  # without column names in the path, an invalid value is visible in the path itself
        return path
    # Raw literals, since a session may set how backslashes in others are read.
    unsafe = [f"({text} LIKE '%/%' AND {text} RLIKE r'{EMPTY_SEGMENT}')" for text in strings]
    message = f"CONCAT('{SPARK_ERROR_MARK}not a folder of the table: partition path ', {path})"
    return f"CASE WHEN {' OR '.join(unsafe)} THEN RAISE_ERROR({message}) ELSE {path} END"


def _text(name: str, schema: pa.Schema) -> str:
    column, kind = quote_path(name), field_of(schema, name).type
    if kind == pa.string():
        return column
    text = f"CAST({column} AS STRING)"
    if kind != pa.date32():
        return text
    message = f"{SPARK_ERROR_MARK}key column {name} has a date outside the years 1 to 9999"
    return f"CASE WHEN {text} NOT RLIKE '^[0-9]{{4}}-' THEN RAISE_ERROR('{message}') ELSE {text} END"


def _escaped(text: str) -> str:
    """The text with %XX for special characters: replacements are made only where there is one to make."""
    made = text
    for char in escaped_characters():
        made = f"REPLACE({made}, CHR({ord(char)}), '%{ord(char):02X}')"
    return f"CASE WHEN {text} RLIKE r'{SPECIAL}' THEN {made} ELSE {text} END"


def _blank(text: str) -> str:
    return f"({text} IS NULL OR {text} = '')"
