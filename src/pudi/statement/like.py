"""CREATE TABLE … LIKE: the columns, partition columns, keys and options of another table, as Hudi takes them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pudi.config import KEY_PREFIXES, TimebasedOptions, find_option
from pudi.config.option import Option
from pudi.config.read_options import FormatOptions
from pudi.config.table_options import OtherTableOptions, TableOptions
from pudi.schema import without_meta_fields
from pudi.schema.spark_types import arrow_to_spark_type, quote
from pudi.statement.session import Session
from pudi.statement.tree import ColumnDef, CreateTable, TableName, Text
from pudi.table import Table

_KEYS = {
    "primarykey": TableOptions.record_key,
    "precombinefield": TableOptions.ordering,
    "orderingfields": TableOptions.ordering,
    "type": TableOptions.table_type,
}
_TAKEN: tuple[Option[Any], ...] = (
    TableOptions.hive_style,
    TableOptions.url_encode,
    TableOptions.slash_separated_dates,
    TableOptions.base_file_format,
    TableOptions.populate_meta_fields,
    TableOptions.partial_update_mode,
    TableOptions.cdc_enabled,
    TableOptions.cdc_logging_mode,
    TableOptions.logical_timestamps,
    OtherTableOptions.merge_property,
    *TimebasedOptions.declared,
)
"""The options of a table that one like it shares, whatever its keys are."""
_TAKEN_WITH = {
    TableOptions.record_key: (TableOptions.key_generator,),
    TableOptions.ordering: (
        TableOptions.record_merge_mode,
        TableOptions.merge_strategy_id,
        TableOptions.compaction_payload_class,
    ),
}
"""Options that fit the columns of the other table only: they are left out where the statement names its own."""


def filled_in(session: Session, statement: CreateTable) -> CreateTable:
    """Return the statement with what it takes over (CreateHoodieTableLikeCommand).

    Columns come with their comments. Properties that the statement names win; properties that are no options, and the
    table's comment, aren't taken over.

    Raises:
        SchemaError, NotSupportedError: the other table isn't one of Hudi, and has a type that no table can hold.
    """
    assert statement.like is not None
    source = session.find(statement.like)
    if source is None:
        with session.at(statement.like):
            return _like_foreign(session, statement, statement.like)
    entry = session.entry(statement.like)
    comments = {} if entry is None else entry.comments
    columns = _columns(session.data_columns(source), statement.like, comments)
    partitions = tuple(column for column in columns if column.name in source.config.partition_fields)
    named = {key: value for key, value in ({} if entry is None else entry.properties).items() if _is_option(key)}
    properties = {**named, **_of_table(source, statement.properties), **statement.properties}
    return replace(statement, columns=columns, partitioned_by=_untyped(partitions), properties=properties)


def _is_option(key: str) -> bool:
    return key.startswith(KEY_PREFIXES) and key != FormatOptions.as_read_optimized.key


def _of_table(source: Table, given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that make a table like another one, without those that the statement replaces."""
    replaced = {_KEYS.get(key.lower()) or find_option(key) for key in given}
    config = source.config
    left_out = {each for option, with_it in _TAKEN_WITH.items() if option in replaced for each in with_it}
    taken = {*_TAKEN, *(each for with_it in _TAKEN_WITH.values() for each in with_it)} - left_out - replaced
    found = {key: value for key, value in config.raw.items() if find_option(key) in taken}
    if ":" in config.raw.get(TableOptions.partition_by.key, "") and TableOptions.partition_by not in replaced:
        found[TableOptions.partition_by.key] = config.raw[TableOptions.partition_by.key]
    names = {TableOptions.record_key: config.record_key_fields, TableOptions.ordering: config.ordering_fields}
    texts = {option.key: ",".join(names[option]) for option in names if names[option] and option not in replaced}
    if TableOptions.table_type not in replaced:
        texts[TableOptions.table_type.key] = config.table_type
    return {**found, **texts}


def _like_foreign(session: Session, statement: CreateTable, name: TableName) -> CreateTable:
    """Return the statement with the columns of a table that the engine knows, as Spark's catalog describes it."""
    quoted = ".".join(map(quote, name.parts))
    frame = session.query(Text(f"SELECT * FROM {quoted} LIMIT 0", name.at))
    columns = _columns(list(without_meta_fields(session.host.schema(frame))), name, {})
    spark = session.host.spark
    if spark is None:
        return replace(statement, columns=columns)
    known = {each.name: each for each in spark.catalog.listColumns(quoted)}
    described = [
        replace(each, comment=known[each.name].description) if each.name in known else each for each in columns
    ]
    partitions = tuple(each for each in described if each.name in known and known[each.name].isPartition)
    return replace(statement, columns=tuple(described), partitioned_by=_untyped(partitions))


def _columns(fields: list[pa.Field], name: TableName, comments: Mapping[str, str]) -> tuple[ColumnDef, ...]:
    return tuple(
        ColumnDef(f.name, arrow_to_spark_type(f), name.at, f.nullable, comment=comments.get(f.name.lower()))
        for f in fields
    )


def _untyped(columns: tuple[ColumnDef, ...]) -> tuple[ColumnDef, ...]:
    return tuple(replace(column, type="") for column in columns)
