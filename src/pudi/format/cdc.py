"""Contents of CDC files: logging modes, columns, and the Avro schema of their records (HoodieCDCUtils)."""

from __future__ import annotations

import json
from enum import Enum

from pudi.schema import TableSchema
from pudi.schema.table_schema import json_text

OP, TS_MS, BEFORE, AFTER = "op", "ts_ms", "before", "after"
"""Columns of change data."""
CDC_RECORD_KEY = "record_key"
"""Column of CDC files that hold no records, or only those before."""
INSERT, UPDATE, DELETE = "i", "u", "d"
"""Operations (HoodieCDCOperation)."""


class LoggingMode(str, Enum):
    """Logging mode of CDC files (HoodieCDCSupplementalLoggingMode).

    OP_KEY_ONLY: operation and record key. DATA_BEFORE: also the record before. DATA_BEFORE_AFTER: operation, instant,
    the record before and after.
    """

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields of a record in a CDC file."""
        if self is LoggingMode.DATA_BEFORE_AFTER:
            return (OP, TS_MS, BEFORE, AFTER)
        return (OP, CDC_RECORD_KEY) if self is LoggingMode.OP_KEY_ONLY else (OP, CDC_RECORD_KEY, BEFORE)


def change_record_schema(schema: TableSchema, mode: LoggingMode) -> str:
    """Return the Avro schema of the records in CDC files, as Hudi writes it (schemaBySupplementalLoggingMode).

    Args:
        schema: the schema of the table.
        mode: what the files hold.
    """
    if mode is LoggingMode.OP_KEY_ONLY:
        fields = [{"name": name, "type": ["string", "null"]} for name in mode.columns]
        return json_text({"type": "record", "name": "Record", "fields": fields})
    record = json.loads(schema.avro)
    namespace = record.get("namespace")
    inner = {key: value for key, value in record.items() if key != "namespace"}
    types: dict[str, object] = {BEFORE: inner, AFTER: record["name"]}
    named = {"name": "CDC"} if namespace is None else {"name": "CDC", "namespace": namespace}
    columns: list[dict[str, object]] = [
        {"name": name, "type": ["null", types.get(name, "string")], "doc": "", "default": None} for name in mode.columns
    ]
    return json_text({"type": "record", **named, "doc": "", "fields": columns})
