"""SHOW and DESCRIBE."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pudi.errors import InvalidArgumentError
from pudi.schema import META_FIELDS
from pudi.schema.spark_types import arrow_to_spark_ddl, arrow_to_spark_type, quote
from pudi.statement.execute import partitions
from pudi.statement.host import Entry, result_table
from pudi.statement.session import Session, named
from pudi.statement.tree import Show
from pudi.table import Table

_Columns = tuple[tuple[str, str], ...]
_COLUMNS: _Columns = (("col_name", "string"), ("data_type", "string"), ("comment", "string"))


def show(session: Session, statement: Show) -> Any:
    """Run SHOW or DESCRIBE."""
    if statement.table is None:
        database = statement.database[-1] if statement.database else session.catalog.database
        named = [row for row in session.catalog.names() if row[0].lower() == database.lower()]
        known = {(*each, False) for each in (*named, *session.attached.tables(statement.database))}
        found = sorted(known | set(session.host.tables(statement.database)))
        pattern = (statement.like or "*").lower().replace("%", "*")
        kept = [row for row in found if any(fnmatch.fnmatch(row[1], each) for each in pattern.split("|"))]
        columns: _Columns = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))
        return session.host.result(result_table(columns, kept))
    columns, rows = _SHOWS[statement.what]
    return session.host.result(result_table(columns, rows(session, statement, session.table(statement.table))))


def _properties(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    name = statement.table
    assert name is not None
    entry = session.entry(name)
    kept = {} if entry is None else dict(entry.properties)
    found = {**dict(table.config.raw), **_short(table), **kept}
    wanted = (statement.like or "").strip("'\"`")
    if wanted and wanted not in found:
        return [(wanted, f"Table {name} does not have property: {wanted}")]  # as Spark says it
    return sorted((key, value) for key, value in found.items() if not wanted or key == wanted)


def _short(table: Table) -> dict[str, str]:
    """The properties that CREATE TABLE takes by names of its own."""
    config = table.config
    facts = {"type": "mor" if config.table_type == "MERGE_ON_READ" else "cow"}
    facts |= {"primaryKey": ",".join(config.record_key_fields)} if config.record_key_fields else {}
    return facts | ({"orderingFields": ",".join(config.ordering_fields)} if config.ordering_fields else {})


def _create(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    fields = table.config.partition_fields
    entry = _entry(session, statement, table)
    columns = ", ".join(_defined(field, entry.comments.get(field.name.lower())) for field in table.schema)
    facts = {**_short(table), **dict(sorted(entry.properties.items()))}
    pairs = ", ".join(f"{_key(key)} = {_quoted(value)}" for key, value in facts.items())
    by = f"\nPARTITIONED BY ({', '.join(fields)})" if fields else ""
    by += f"\nCOMMENT {_quoted(entry.comment)}" if entry.comment is not None else ""
    assert statement.table is not None
    name = ".".join(part if re.fullmatch(r"[A-Za-z_]\w*", part) else quote(part) for part in statement.table.parts)
    place = _quoted(table.path)
    return [(f"CREATE TABLE {name} ({columns})\nUSING hudi\nTBLPROPERTIES ({pairs}){by}\nLOCATION {place}",)]


def _entry(session: Session, statement: Show, table: Table) -> Entry:
    return (None if statement.table is None else session.entry(statement.table)) or Entry(table.path)


def _defined(field: pa.Field, comment: str | None) -> str:
    text = arrow_to_spark_ddl(pa.schema([field]))
    return text if comment is None else f"{text} COMMENT {_quoted(comment)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][\w.]*", key) else _quoted(key)


def _indexes(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    return [(each.name, each.kind, ",".join(each.columns)) for each in table.indexes()]


def _names(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    return [(name,) for name in session.shown(table)]


def _described(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    rows: list[Sequence[object]] = []
    kinds = {field.name: arrow_to_spark_type(field).lower() for field in table.schema}
    comments = _entry(session, statement, table).comments
    shown = session.shown(table)
    rows += [(name, "string" if name in META_FIELDS else kinds[name], comments.get(name.lower())) for name in shown]
    if table.config.partition_fields:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        named_by = [name for name in table.config.partition_fields if name in kinds]
        rows += [(name, kinds[name], comments.get(name.lower())) for name in named_by]
    return rows


def _column(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    wanted = str(statement.like)
    kinds = {row[0]: row[1:] for row in _described(session, Show("describe", statement.table), table)}
    known = named(session.shown(table), wanted)
    if known is None:
        there = ", ".join(table.schema.names)
        raise InvalidArgumentError(f"the table has no column {wanted}; it has {there}", table=table.path)
    kind, comment = kinds[known]
    return [("col_name", known), ("data_type", kind), ("comment", comment or "NULL")]


def _extended(session: Session, statement: Show, table: Table) -> Iterable[Sequence[object]]:
    facts = {"Name": table.config.table_name, "Provider": "hudi", "Location": table.path}
    rows = [*_described(session, statement, table), ("", "", ""), ("# Detailed Table Information", "", "")]
    return [*rows, *((key, value, "") for key, value in facts.items())]


_Rows = Callable[[Session, Show, Table], Iterable[Sequence[object]]]
_SHOWS: Mapping[str, tuple[_Columns, _Rows]] = {
    "partitions": ((("partition", "string"),), partitions.shown),
    "tblproperties": ((("key", "string"), ("value", "string")), _properties),
    "create table": ((("createtab_stmt", "string"),), _create),
    "indexes": ((("index_name", "string"), ("index_type", "string"), ("col_name", "string")), _indexes),
    "columns": ((("col_name", "string"),), _names),
    "describe": (_COLUMNS, _described),
    "extended": (_COLUMNS, _extended),
    "column": ((("info_name", "string"), ("info_value", "string")), _column),
}
