"""INSERT, UPDATE, DELETE and MERGE INTO, by the verbs of a table.

What the language of `where` can't say, the engine computes: then a change is a query over the table as of an instant
and an upsert that is refused if the table has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pudi.action import CommitResult
from pudi.config import SqlOptions, WriteOptions, resolve_only
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import bind, bind_value, parse
from pudi.expr.tree import Literal
from pudi.plan import Operation
from pudi.plan.change import bind_one
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.statement.host import Rows
from pudi.statement.merges import merge_into
from pudi.statement.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import Delete, Insert, Merge, Partition, Text, Update
from pudi.table import Table

RESULT = (
    ("instant", "string"),
    ("operation", "string"),
    ("records_inserted", "bigint"),
    ("records_updated", "bigint"),
    ("records_deleted", "bigint"),
)
"""The columns of what a change returns."""


def changed(session: Session, result: CommitResult | None) -> Any:
    """The result of a change as rows: one, or none where nothing was to be done."""
    rows = []
    if result is not None:
        rows.append((result.instant, result.operation, *_counts(result)))
    return session.host.result(Rows.table(RESULT, rows))


def _counts(result: CommitResult) -> tuple[int, int, int]:
    return result.records_inserted, result.records_updated, result.records_deleted


def insert(session: Session, statement: Insert) -> Any:
    """Run INSERT INTO or INSERT OVERWRITE."""
    spark = session.host.spark
    if spark is not None and session.find(statement.table) is None and spark.catalog.tableExists(str(statement.table)):
        return session.query(Text(session.text, 0))  # a table of another format
    table = session.table(statement.table)
    frame = _rows(session, statement, table)
    if statement.overwrite:
        return changed(session, _overwrite(session, statement, table, frame))
    options = resolve_only({**table.options, **session.catalog.options()}, (SqlOptions.insert_operation,))
    named_operation = str(options[SqlOptions.insert_operation]).upper()
    if named_operation == "UPSERT" and not table.config.record_key_fields:
        raise NotSupportedError(f"{SqlOptions.insert_operation}=upsert: the table has no record key", table=table.path)
    return changed(session, table.write(frame, Operation[named_operation]))


def _rows(session: Session, statement: Insert, table: Table) -> Any:
    """The rows of the query with the table's names and types; static partition columns are constants."""
    static = constants_of(session, table, statement.partition)
    columns = session.data_columns(table)
    given = [field for field in columns if field.name not in static]
    if statement.columns:
        spelt = [named([field.name for field in columns], name) for name in statement.columns]
        for name, known in zip(statement.columns, spelt, strict=True):
            if known is None:
                raise wrong(session.text, statement.table.at, f"the table has no column {name}")
        given = [table.schema.field(str(name)) for name in spelt]
    frame = session.data(statement.query)
    if statement.by_name:
        given = _by_name(session, statement, frame, given)
    missing = [field for field in columns if field.name not in static and field not in given]
    constants = {**static, **{field.name: None for field in missing}}
    with session.at(statement.query):
        return session.host.fitted(frame, given, [(table.schema.field(name), v) for name, v in constants.items()])


def _by_name(session: Session, statement: Insert, frame: Any, wanted: list[pa.Field]) -> list[pa.Field]:
    """The table's columns in the order in which a query has them: all of them, and no other."""
    names = session.host.columns(frame)
    unknown = [name for name in names if named([field.name for field in wanted], name) is None]
    missing = [field.name for field in wanted if named(names, field.name) is None]
    if unknown or missing or len(names) > len(wanted):
        why = f"the table has no column {unknown[0]}" if unknown else f"the query has no column {missing[0]}"
        twice = len(names) > len(wanted) and not unknown
        raise wrong(session.text, statement.query.at, "BY NAME: " + ("the query has a column twice" if twice else why))
    by_name = {field.name.lower(): field for field in wanted}
    return [by_name[name.lower()] for name in names]


def constants_of(session: Session, table: Table, partition: Partition) -> dict[str, object]:
    """The values of PARTITION (…) by column, in the types of the columns.

    Raises:
        InvalidArgumentError: a column is none of the table's partition columns, or a value none of its type.
    """
    found: dict[str, object] = {}
    for name, value in partition:
        known = named(table.config.partition_fields, name)
        if known is None:
            there = ", ".join(table.config.partition_fields) or "none"
            raise wrong(session.text, session.text.upper().find("PARTITION"), f"{name}: partition columns are {there}")
        if value is not None:
            with session.at(value):
                bound = bind_value(parse(value.text), table.schema, table.schema.field(known).type)
            if not isinstance(bound, Literal):
                raise wrong(session.text, value.at, "the value of a partition column is a constant")
            found[known] = bound.value
    return found


def quoted(name: str) -> str:
    """A name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def _overwrite(session: Session, statement: Insert, table: Table, frame: Any) -> CommitResult | None:
    static = constants_of(session, table, statement.partition)
    if static:
        if len(static) < len(table.config.partition_fields):
            raise NotSupportedError(
                "INSERT OVERWRITE of a part of the partition columns: name all of them, or none", table=table.path
            )
        return table.insert_overwrite(frame, partitions=[table.partition_path(static)])
    dynamic = str(session.host.settings.get("spark.sql.sources.partitionOverwriteMode") or "").upper() == "DYNAMIC"
    mode = resolve_only({**table.options, **session.catalog.options()}, (WriteOptions.overwrite_mode,))
    explicit = mode.explicit(WriteOptions.overwrite_mode)
    by_partition = explicit == "DYNAMIC" if explicit is not None else dynamic
    if by_partition and table.config.partition_fields:
        return table.insert_overwrite(frame)
    return table.insert_overwrite_table(frame)


def update(session: Session, statement: Update) -> Any:
    """Run UPDATE."""
    table = session.table(statement.table)
    alias = statement.alias or statement.table.parts[-1]
    values = {_column(session, table, name, value): value for name, value in statement.values}
    if _understood(session, table, statement.where, values, alias):
        texts = {name: _plain(value.text, alias) for name, value in values.items()}
        where = None if statement.where is None else _plain(statement.where.text, alias)
        with session.at(statement.where or statement.table):
            return changed(session, table.update(texts, where, spark=session.host.spark))
    scan = session.scan(table)
    fixed = {*table.config.record_key_fields, *table.config.partition_fields}
    for name, value in values.items():
        if name in fixed:
            raise wrong(session.text, value.at, f"column {name} says which record a row is: it can't be set")
    fields = [*_stored_key(table), *table.schema]
    chosen = ", ".join(
        f"{values[f.name].text if f.name in values else quoted(f.name)} AS {quoted(f.name)}" for f in fields
    )
    rows = session.host.fitted(_computed(session, statement, chosen, alias, scan), fields, casts=True)
    return changed(session, table.upsert(rows, if_unchanged_since=scan.instant))


def delete(session: Session, statement: Delete) -> Any:
    """Run DELETE FROM; without a condition it deletes all records."""
    table = session.table(statement.table)
    alias = statement.alias or statement.table.parts[-1]
    if statement.where is None:
        return changed(session, table.delete(where="TRUE", spark=session.host.spark))
    if _understood(session, table, statement.where, {}, alias):
        with session.at(statement.where):
            where = _plain(statement.where.text, alias)
            return changed(session, table.delete(where=where, spark=session.host.spark))
    scan = session.scan(table)
    names = dict.fromkeys((*table.config.record_key_fields, *table.config.partition_fields))
    fields = [*_stored_key(table), *(table.schema.field(name) for name in names)]
    chosen = ", ".join(quoted(field.name) for field in fields)
    rows = session.host.fitted(_computed(session, statement, chosen, alias, scan), fields)
    return changed(session, table.delete(rows, if_unchanged_since=scan.instant))


def _stored_key(table: Table) -> list[pa.Field]:
    """The column that says which record a row is, where the table generates its keys."""
    return [] if table.config.record_key_fields else [pa.field(RECORD_KEY, pa.string())]


def _computed(session: Session, statement: Update | Delete, chosen: str, alias: str, scan: Any) -> Any:
    """A query over the table at the instant of a scan."""
    where = f" WHERE {statement.where.text}" if statement.where is not None else ""
    text = Text(f"SELECT {chosen} FROM __changed AS {quoted(alias)}{where}", statement.table.at)
    with session.at(statement.where or statement.table):
        return session.query(text, {"__changed": scan})


def _column(session: Session, table: Table, name: str, value: Text) -> str:
    plain = name.rpartition(".")[2] if name not in table.schema.names else name
    known = named(table.schema.names, plain)
    if known is None:
        raise wrong(session.text, value.at, f"the table has no column {name}; it has {', '.join(table.schema.names)}")
    return known


def _understood(session: Session, table: Table, where: Text | None, values: Mapping[str, Text], alias: str) -> bool:
    """Whether the language of `where` has all that the statement asks for.

    Raises:
        InvalidArgumentError: a condition names a column that isn't there; the message names its place.
    """
    try:
        for name, value in values.items():
            bind_one(parse(_plain(value.text, alias)), table.schema, table.schema.field(name), table.path)
        if where is not None:
            condition = parse(_plain(where.text, alias))
            with session.at(where):
                bind(condition, with_meta_fields(table.schema))
    except NotSupportedError:
        return False
    except InvalidArgumentError:
        if "SELECT" in session.text.upper() and where is not None:
            return False  # a condition with a query in it
        raise
    return True


def _plain(text: str, alias: str) -> str:
    """An expression without the table's alias before its columns, which the language of `where` doesn't have."""
    if f"{alias}." not in text and f"{alias}`." not in text:
        return text
    try:
        tree = parse_one(text, dialect="spark")
    except SqlglotError:
        return text
    places = [node.args["table"].meta for node in tree.find_all(exp.Column) if node.table.lower() == alias.lower()]
    for span in sorted(places, key=lambda each: -each["start"]):
        start, end = span["start"], span["end"] + 1
        dot = text.index(".", end - 1)
        text = text[:start] + text[dot + 1 :]
    return text


def merge(session: Session, statement: Merge) -> Any:
    """Run MERGE INTO."""
    return changed(session, merge_into(session, statement, session.table(statement.table)))
