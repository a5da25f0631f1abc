"""INSERT INTO and INSERT OVERWRITE, by the verbs of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult
from pudi.config import Options, SqlOptions, WriteOptions, resolve_only
from pudi.errors import NotSupportedError
from pudi.plan import Operation
from pudi.statement.execute.partitions import constants_of, partitions_with
from pudi.statement.parse.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import Insert
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
        raise wrong(
            session.text, statement.table.at, f"PARTITION (…) lacks {min(missing_parts)}: name all partition columns"
        )
    columns = session.data_columns(table)
    given = [field for field in columns if field.name not in static]
    if statement.columns:
        spelt = [named([field.name for field in columns], name) for name in statement.columns]
        for name, known in zip(statement.columns, spelt, strict=True):
            if known is None:
                raise wrong(session.text, statement.table.at, f"the table has no column {name}")
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
        raise wrong(session.text, statement.query.at, f"the query has column {twice} twice: give one another name")
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
        raise wrong(session.text, statement.query.at, f"columns meet by name: {problem}")
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
