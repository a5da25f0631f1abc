"""INSERT, UPDATE and DELETE, by the verbs of a table.

What may mean something else in the language of `where` than in the session, the engine computes: such an UPDATE or
DELETE is a query over the table as of an instant, with the session's settings, and an upsert or delete that is refused
if the table has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult
from pudi.config import Options, SqlOptions, WriteOptions, resolve_only
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import leaf_columns, parse
from pudi.expr.tree import find_column
from pudi.plan import Operation
from pudi.schema import RECORD_KEY, with_meta_fields
from pudi.schema.spark_types import quote
from pudi.statement.execute.partitions import constants_of, partitions_with
from pudi.statement.session import Session, named
from pudi.statement.shared_meaning import is_read_differently, parts_of, shared_condition, shared_parts, shared_value
from pudi.statement.tree import Delete, Insert, Text, Update
from pudi.table import Table

_SETTINGS = (*SqlOptions.declared, WriteOptions.operation, WriteOptions.overwrite_mode)


def insert(session: Session, statement: Insert) -> Any:
    """Run INSERT INTO or INSERT OVERWRITE."""
    table = session.table(statement.table)
    told = resolve_only({**table.options, **session.catalog.options()}, _SETTINGS)
    with session.at(statement.table):
        operation = _overwriting(session, statement, table, told) if statement.overwrite else _inserting(table, told)
    frame = _rows(session, statement, table)
    if statement.overwrite or operation.replaces:
        static = {} if _is_dynamic(session, told) else constants_of(session, table, statement.partition)
        return session.changed(_overwrite(table, frame, operation, static))
    return session.changed(table.write(frame, operation))


def _inserting(table: Table, told: Options) -> Operation:
    """Return the operation of INSERT INTO: the writer's, if an option names one, before the statement's own.

    Source: ProvidesHoodieConfig.buildHoodieInsertConfig.

    Raises:
        NotSupportedError: an upsert into a table without a record key.
    """
    key, name = WriteOptions.operation, told.explicit(WriteOptions.operation)
    if name is None:
        key, name = SqlOptions.insert_operation, told[SqlOptions.insert_operation]
    operation = Operation[str(name).upper()]
    if operation is Operation.UPSERT and not table.config.record_key_fields:
        raise NotSupportedError(f"{key}=upsert: the table has no record key", table=table.path)
    return operation


def _overwriting(session: Session, statement: Insert, table: Table, told: Options) -> Operation:
    """Return the operation of INSERT OVERWRITE, which replaces partitions or the whole table.

    The writer's operation decides, if an option names one that overwrites; then the values in PARTITION (…), then the
    mode. Source: ProvidesHoodieConfig.deduceOverwriteConfig.
    """
    name = str(told.explicit(WriteOptions.operation)).upper()
    if name in {Operation.INSERT_OVERWRITE.value, Operation.INSERT_OVERWRITE_TABLE.value}:
        return Operation[name]
    by_partition = _is_dynamic(session, told) and table.config.partition_fields
    if by_partition or constants_of(session, table, statement.partition):
        return Operation.INSERT_OVERWRITE
    return Operation.INSERT_OVERWRITE_TABLE


def _is_dynamic(session: Session, told: Options) -> bool:
    """Whether an overwrite replaces the partitions of its rows, by Hudi's mode or else Spark's."""
    spark = session.host.settings.get("spark.sql.sources.partitionOverwriteMode")
    return str(told.explicit(WriteOptions.overwrite_mode) or spark).upper() == "DYNAMIC"


def _rows(session: Session, statement: Insert, table: Table) -> Any:
    """The rows of the query with the table's names and types; static partition columns are constants."""
    static = constants_of(session, table, statement.partition)
    missing_parts = set(table.config.partition_fields) - {
        str(named(table.config.partition_fields, name)) for name, _ in statement.partition
    }
    if statement.partition and missing_parts:
        raise session.wrong(statement.table.at, f"PARTITION (…) lacks {min(missing_parts)}: name all partition columns")
    columns = session.data_columns(table)
    given = [field for field in columns if field.name not in static]
    if statement.columns:
        spelt = [named([field.name for field in columns], name) for name in statement.columns]
        for name, known in zip(statement.columns, spelt, strict=True):
            if known is None:
                raise session.wrong(statement.table.at, f"the table has no column {name}")
        given = [table.schema.field(str(name)) for name in spelt]
    frame = session.data(statement.query)
    by_name = statement.by_name or _has_names(session, statement, frame, given)
    if by_name:
        given = _by_name(session, statement, frame, given)
    missing = [field for field in columns if field.name not in static and field not in given]
    constants = {**static, **{field.name: None for field in missing}}
    pairs = [(table.schema.field(name), value) for name, value in constants.items()]
    with session.at(statement.query):
        return session.host.fitted(frame, given, pairs, by_name=by_name)


def _has_names(session: Session, statement: Insert, frame: Any, wanted: list[pa.Field]) -> bool:
    """Whether a query has the names of all columns that it is to fill: then columns meet by name, else by place.

    Rows of VALUES have no names, and columns that the statement lists come in the order of the list.
    Source: InsertIntoHoodieTableCommand.coerceQueryOutputColumns.

    Raises:
        InvalidArgumentError: the query has the name of a column twice.
    """
    if statement.columns or statement.query.text.lstrip("( \n")[:6].upper() == "VALUES":
        return False
    names = [name.lower() for name in session.host.columns(frame)]
    found = [names.count(field.name.lower()) for field in wanted]
    if max(found, default=0) > 1:
        twice = wanted[found.index(max(found))].name
        raise session.wrong(statement.query.at, f"the query has column {twice} twice: give one another name")
    return bool(wanted) and min(found) == 1


def _by_name(session: Session, statement: Insert, frame: Any, wanted: list[pa.Field]) -> list[pa.Field]:
    """The table's columns in the order in which a query has them: all of them, and no other."""
    names = session.host.columns(frame)
    unknown = [name for name in names if named([field.name for field in wanted], name) is None]
    missing = [field.name for field in wanted if named(names, field.name) is None]
    if unknown or missing or len(names) > len(wanted):
        why = f"the table has no column {unknown[0]}" if unknown else f"the query has no column {missing[0]}"
        twice = len(names) > len(wanted) and not unknown
        problem = "the query has a column twice" if twice else why
        raise session.wrong(statement.query.at, f"columns meet by name: {problem}")
    by_name = {field.name.lower(): field for field in wanted}
    return [by_name[name.lower()] for name in names]


def _overwrite(table: Table, frame: Any, operation: Operation, static: Mapping[str, object]) -> CommitResult | None:
    """Replace partitions: those with the values of PARTITION (…), if there are any, else those of the rows."""
    if operation is Operation.DELETE_PARTITION:
        return table.delete_partitions(table.partitions_of(frame))
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return table.insert_overwrite_table(frame)
    if not static:
        return table.insert_overwrite(frame, options={WriteOptions.overwrite_mode.key: "DYNAMIC"})
    if len(static) == len(table.config.partition_fields):
        return table.insert_overwrite(frame, partitions=[table.partition_path(static)])
    return table.insert_overwrite(
        frame, partitions=sorted({*partitions_with(table, static), *table.partitions_of(frame)})
    )


def update(session: Session, statement: Update) -> Any:
    """Run UPDATE."""
    rows = _Rows.of(session, statement)
    table, alias = rows.table, rows.alias
    values: dict[str, Text] = {}
    for name, value in statement.values:
        column = _column(session, table, name, value, alias)
        if column in values:
            raise session.wrong(value.at, f"column {column} is set twice")
        values[column] = value
    fixed = {*table.config.record_key_fields, *table.config.partition_fields}
    for name, value in values.items():
        if name in fixed:
            what = "part of the record key" if name in table.config.record_key_fields else "a partition column"
            raise session.wrong(
                value.at,
                f"column {name} is {what}, which UPDATE can't set: delete the rows and insert others",
            )
    schema = with_meta_fields(table.schema)
    shared = {
        name: shared_value(session.host, value.text, alias, schema, table.schema.field(name))
        for name, value in values.items()
    }
    where = _shared(session, rows, schema)
    if where is not None and all(value is not None for value in shared.values()):
        with session.at(rows.at):
            condition = None if statement.where is None else where
            return session.changed(table.update(shared, condition, spark=session.host.spark))
    _check_columns(session, rows)
    found = _compute(session, rows, [*_stored_key(table), *table.schema], values)
    return session.changed(table.upsert(found.rows, if_unchanged_since=found.instant))


def delete(session: Session, statement: Delete) -> Any:
    """Run DELETE FROM; without a condition it deletes all records."""
    rows = _Rows.of(session, statement)
    table = rows.table
    where = _shared(session, rows, with_meta_fields(table.schema))
    if where is not None:
        with session.at(rows.at):
            return session.changed(table.delete(where=where, spark=session.host.spark))
    _check_columns(session, rows)
    names = dict.fromkeys((*table.config.record_key_fields, *table.config.partition_fields))
    fields = [*_stored_key(table), *(table.schema.field(name) for name in names)]
    found = _compute(session, rows, fields, {})
    return session.changed(table.delete(found.rows, if_unchanged_since=found.instant))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that a statement changes.

    Attributes:
        table: their table.
        alias: what the statement calls it.
        where: the condition; None for all rows.
        at: a place of the statement, for errors.
    """

    table: Table
    alias: str
    where: Text | None
    at: int

    @classmethod
    def of(cls, session: Session, statement: Update | Delete) -> _Rows:
        """Return those of a statement; raises as `Session.changeable`."""
        table = session.changeable(statement.table)
        at = (statement.where or statement.table).at
        return cls(table, statement.alias or statement.table.parts[-1], statement.where, at)


def _shared(session: Session, rows: _Rows, schema: pa.Schema) -> str | None:
    """The condition in the language of `where`, TRUE for all rows; None if the engine must compute it."""
    return "TRUE" if rows.where is None else shared_condition(session.host, rows.where.text, rows.alias, schema)


def _check_columns(session: Session, rows: _Rows) -> None:
    """See that a condition that pudi can read names columns of the table; engines don't say where they miss one."""
    where = rows.where
    if where is None or is_read_differently(where.text):
        return
    try:
        expr = parse(where.text)
    except (NotSupportedError, InvalidArgumentError):
        return
    with session.at(where):
        for column in leaf_columns(expr):
            if len(column.path) == 1:
                find_column(column.path, with_meta_fields(rows.table.schema))


def _column(session: Session, table: Table, name: str, value: Text, alias: str) -> str:
    """The column that SET names, as the table spells it."""
    first, dot, rest = name.partition(".")
    plain = rest if dot and name not in table.schema.names and first.lower() == alias.lower() else name
    known = named(table.schema.names, plain)
    exact = str(session.host.settings.get("spark.sql.caseSensitive")).lower() == "true"
    whole = named(table.schema.names, plain.partition(".")[0])
    if known is None and whole is not None and "." in plain:
        raise session.wrong(
            value.at, f"{plain} is a field of column {whole}: SET gives whole columns, {whole} = named_struct(…)"
        )
    if known is None or (exact and known != plain):
        raise session.wrong(value.at, f"the table has no column {name}; it has {', '.join(table.schema.names)}")
    return known


_TARGET = "__changed"
"""The name by which a query finds the table that a statement changes, at one instant."""


@dataclass(frozen=True, slots=True)
class _Computed:
    """Rows that the engine has computed.

    Attributes:
        rows: the rows, with the table's names and types; a DataFrame on Spark.
        instant: the instant that the table was read at, for `if_unchanged_since`.
    """

    rows: Any
    instant: str


def _compute(session: Session, rows: _Rows, fields: Sequence[pa.Field], values: Mapping[str, Text]) -> _Computed:
    """Let the engine find the rows of a table that match a condition, and compute new values of their columns.

    Files that can't match aren't read, as in a query.

    Args:
        session: the statement's.
        rows: the rows.
        fields: the columns of the rows that come back.
        values: expressions by column; a column without one keeps its value.

    Raises:
        InvalidArgumentError: the engine refuses an expression, or a value doesn't fit its column.
    """
    table, alias, where, kept = rows.table, rows.alias, rows.where, None
    if where is not None:  # the engine has subqueries
        kept = shared_parts(session.host, parts_of(where.text), alias, with_meta_fields(table.schema))
    scan = table.scan(session.shown(table), kept)
    chosen = ", ".join(
        f"{values[each.name].text if each.name in values else quote(each.name)} AS {quote(each.name)}"
        for each in fields
    )
    condition = "" if where is None else f" WHERE {where.text}"
    query = Text(f"SELECT {chosen} FROM {_TARGET} AS {quote(alias)}{condition}", rows.at)
    with session.at(rows.at):
        frame = session.query(query, {_TARGET: scan})
        return _Computed(session.host.fitted(frame, fields, casts=bool(values)), scan.instant)


def _stored_key(table: Table) -> list[pa.Field]:
    """The column that says which record a row is, where the table generates its keys."""
    return [] if table.config.record_key_fields else [pa.field(RECORD_KEY, pa.string())]
