"""PARTITION (…) in statements: its values and paths, and the statements that add, drop and show partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pudi.errors import InvalidArgumentError
from pudi.expr import bind_value, parse
from pudi.expr.tree import Literal
from pudi.record import DEFAULT_PARTITION, matching_paths
from pudi.statement.session import Session, named
from pudi.statement.tree import Alter, Partition, Show, Text
from pudi.table import Table


def constants_of(session: Session, table: Table, partition: Partition) -> dict[str, object]:
    """The values of PARTITION (…) by column, in the types of the columns.

    Raises:
        InvalidArgumentError: a column is none of the table's partition columns, or a value none of its type.
    """
    _check_once(session, partition)
    found: dict[str, object] = {}
    for name, value in partition:
        known = named(table.config.partition_fields, name)
        if known is None:
            there = ", ".join(table.config.partition_fields) or "none"
            raise _wrong(session, f"{name} is no partition column: these are {there}")
        if value is not None:
            found[known] = _constant(session, table, value, table.schema.field(known).type)
    return found


def _wrong(session: Session, message: str) -> InvalidArgumentError:
    return session.wrong(session.text.upper().find("PARTITION"), message)


def _constant(session: Session, table: Table, value: Text, kind: pa.DataType) -> object:
    """Return a constant in the type of its column; texts become numbers and truth values, as Spark casts them."""
    text = _text_in(value)
    if text and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        try:
            return pa.scalar(text.strip()).cast(kind).as_py()
        except pa.ArrowInvalid as error:
            raise session.wrong(value.at, f"{text!r} is no {kind}") from error
    if pa.types.is_timestamp(kind) and session.host.spark is not None:
        return _moment(session, value, kind)
    with session.at(value):
        bound = bind_value(parse(value.text), table.schema, kind)
    if not isinstance(bound, Literal):
        raise session.wrong(value.at, "the value of a partition column is a constant")
    return bound.value


def _moment(session: Session, value: Text, kind: pa.DataType) -> object:
    """Return a moment in the session's time zone, as the engine reads it."""
    query = Text(f"SELECT unix_micros(CAST(({value.text}) AS TIMESTAMP)) AS micros", value.at)
    with session.at(value):
        micros = session.host.query(query, [], []).first()[0]
    if micros is None and value.text.strip().upper() != "NULL":
        raise session.wrong(value.at, f"{value.text} is no {kind}")
    return pa.scalar(micros, pa.timestamp("us", kind.tz)).cast(kind).as_py()


def _check_once(session: Session, partition: Partition) -> None:
    names = [name.lower() for name, _ in partition]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(session, f"PARTITION (…) has {name} twice")


def path_pattern(session: Session, table: Table, partition: Partition) -> str:
    """Return the path of PARTITION (…), in which `*` of a text stands for any text.

    Source: AlterHoodieTableDropPartitionCommand.

    Raises:
        InvalidArgumentError: not all partition columns have a value; see also `constants_of`.
    """
    _check_once(session, partition)
    patterns = {name: text for name, value in partition if value is not None and "*" in (text := _text_in(value))}
    exact = constants_of(session, table, tuple(pair for pair in partition if pair[0] not in patterns))
    fields = table.config.partition_fields
    by_field = {str(named(fields, name) or name): text for name, text in patterns.items()}
    missing = [name for name in fields if name not in exact and name not in by_field]
    unknown = [name for name in by_field if name not in fields]
    if missing or unknown:
        why = f"lacks {missing[0]}" if missing else f"has {unknown[0]}"
        raise _wrong(session, f"PARTITION (…) {why}: partition columns are {', '.join(fields) or 'none'}")
    folders = table.partition_path({**dict.fromkeys(fields), **exact}).split("/")
    for place, name in enumerate(fields):
        if name in by_field:
            folders[place] = folders[place].replace(DEFAULT_PARTITION, by_field[name])
    return "/".join(folders)


def _text_in(value: Text) -> str:
    """Return the text of a constant; empty for any other constant."""
    try:
        found = parse_one(value.text, dialect="spark")
    except SqlglotError:
        return ""  # `constants_of` says what is wrong with it
    return str(found.this) if isinstance(found, exp.Literal) and found.is_string else ""


def partitions_with(table: Table, values: Mapping[str, object]) -> list[str]:
    """Return the paths of a table's partitions that have these values of some partition columns."""
    return having(table, values, table.partitions())


def having(table: Table, values: Mapping[str, object], paths: Sequence[str]) -> list[str]:
    """Return which paths of partitions have these values of some partition columns."""
    fields = table.config.partition_fields
    folders = table.partition_path({**dict.fromkeys(fields), **values}).split("/")
    places = [number for number, name in enumerate(fields) if name in values]
    found = [(path, path.split("/")) for path in paths]
    return [path for path, parts in found if all(parts[place : place + 1] == [folders[place]] for place in places)]


def add(session: Session, statement: Alter, table: Table) -> None:
    """Run ALTER TABLE … ADD PARTITION: partitions without records, as Hudi's AlterHoodieTableAddPartitionCommand."""
    fields = table.config.partition_fields
    paths = []
    for each in statement.partitions:
        values = constants_of(session, table, each)
        missing = [name for name in fields if name not in values]
        if missing:
            raise _wrong(session, f"PARTITION (…) lacks {missing[0]}: it names all of {', '.join(fields)}")
        paths.append(table.partition_path(values))
    table.add_partitions(paths, exists_ok=statement.exists_ok)


def drop(session: Session, statement: Alter, table: Table) -> None:
    """Drop the partitions that match; `*` in a value stands for any text, and no match is no error, as in Hudi."""
    patterns = [path_pattern(session, table, each) for each in statement.partitions]
    paths = matching_paths(patterns, table.partitions(empty=True))
    if paths:
        table.delete_partitions(paths)


def shown(session: Session, statement: Show, table: Table) -> Sequence[Sequence[object]]:
    """Return the rows of SHOW PARTITIONS: those with the given values; none where a column isn't the table's."""
    for name, value in statement.partition:
        if value is None:
            raise _wrong(session, f"PARTITION (…): {name} has no value")
    found = [path for path in table.partitions(empty=True) if path]
    if not statement.partition:
        return [(path,) for path in found]
    if any(named(table.config.partition_fields, name) is None for name, _ in statement.partition):
        return []
    try:
        values = constants_of(session, table, statement.partition)
    except InvalidArgumentError:
        return []  # no partition has a value that its column can't hold
    return [(path,) for path in having(table, values, found)]
