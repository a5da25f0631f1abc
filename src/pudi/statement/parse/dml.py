"""Read INSERT, UPDATE, DELETE and MERGE INTO, and WITH before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

from pudi.statement.parse.ddl import read_partition
from pudi.statement.parse.reader import Reader
from pudi.statement.tree import (
    Delete,
    Foreign,
    Insert,
    Merge,
    MergeAction,
    Statement,
    Text,
    Update,
    When,
)


def read_with(reader: Reader) -> Statement | None:
    """`WITH … INSERT INTO …`; the names go with the query. None for a query.

    Of other changes only the table is read: what they compute has no place for the names.
    """
    begin = reader.position
    start = reader.at
    reader.until("INSERT", "MERGE", "UPDATE", "DELETE", what="a query")
    if reader.word(-1) != ")":  # a column of that name
        reader.position = begin
        return None
    readers: Mapping[str, Callable[[Reader], Update | Delete | Merge]]
    readers = {"UPDATE": read_update, "DELETE": read_delete, "MERGE": read_merge_into}
    read = readers.get(reader.word())
    if read is not None:
        what = f"WITH … {reader.word()}"
        return Foreign(read(reader).table, what, "the statement with the query in it, or over a temporary view")
    if not reader.sees("INSERT"):
        reader.position = begin
        return None
    named = reader.text[start : reader.at]
    found = read_insert(reader)
    assert isinstance(found, Insert)
    return replace(found, query=Text(f"{named}{found.query}", start))


def read_insert(reader: Reader) -> Statement | None:
    """Read `INSERT INTO | OVERWRITE`; None for one into a directory, which the engine runs."""
    reader.need("INSERT")
    overwrite = reader.one_of("INTO", "OVERWRITE") == "OVERWRITE"
    reader.takes("TABLE")
    if overwrite and reader.word() in {"DIRECTORY", "LOCAL"}:
        return None
    table = reader.table()
    partition = read_partition(reader)
    columns: tuple[str, ...] = ()
    by_name = reader.takes("BY", "NAME")
    if not by_name and reader.sees("(") and reader.word(1) not in {"SELECT", "WITH", "VALUES", "FROM", "("}:
        columns = reader.names()
    if reader.takes("TABLE"):
        at = reader.at
        query = Text(f"SELECT * FROM {reader.until(what='a table')}", at)
    else:
        query = reader.until(what="a query")
    return Insert(table, query, columns, partition, overwrite, by_name)


def read_update(reader: Reader) -> Update:
    """Read UPDATE."""
    reader.need("UPDATE")
    table = reader.table()
    alias = _alias(reader, "SET")
    reader.need("SET")
    values = _assignments(reader, "WHERE")
    where = reader.until(what="a condition") if reader.takes("WHERE") else None
    return Update(table, values, where, alias)


def read_delete(reader: Reader) -> Delete:
    """Read DELETE FROM."""
    reader.need("DELETE")
    reader.need("FROM")
    table = reader.table()
    alias = _alias(reader, "WHERE")
    where = reader.until(what="a condition") if reader.takes("WHERE") else None
    return Delete(table, where, alias)


def read_merge_into(reader: Reader) -> Merge:
    """Read MERGE INTO."""
    reader.need("MERGE")
    reader.need("INTO")
    table = reader.table()
    alias = _alias(reader, "USING")
    reader.need("USING")
    if reader.sees("("):
        source = reader.inside("a query")
        source = Text(f"({source})", source.at - 1)
    else:
        begin = reader.at
        reader.table()
        source = Text(reader.text[begin : reader.tokens[reader.position - 1].end + 1], begin)
    source_alias = _alias(reader, "ON")
    reader.need("ON")
    on = reader.until("WHEN", what="a condition")
    clauses = []
    while reader.sees("WHEN"):
        clauses.append(_when(reader))
    if not clauses:
        raise reader.wrong("WHEN [NOT] MATCHED is expected")
    for before, clause in pairwise(clauses):
        _check_order(reader, before, clause)
    return Merge(table, source, on, tuple(clauses), alias, source_alias)


def _when(reader: Reader) -> MergeAction:
    at = reader.at
    reader.need("WHEN")
    when = When.MATCHED
    if reader.takes("NOT"):
        when = When.NOT_MATCHED
    reader.need("MATCHED")
    if reader.takes("BY"):
        if when is When.MATCHED:
            raise reader.wrong("BY follows NOT MATCHED only")
        if reader.one_of("SOURCE", "TARGET") == "SOURCE":
            when = When.NOT_MATCHED_BY_SOURCE
    condition = reader.until("THEN", what="a condition") if reader.takes("AND") else None
    reader.need("THEN")
    allowed = ("INSERT",) if when is When.NOT_MATCHED else ("UPDATE", "DELETE")
    action = reader.one_of(*allowed)
    values: tuple[tuple[str, Text], ...] | None = ()
    if action == "UPDATE":
        reader.need("SET")
        values = None if reader.takes("*") else _assignments(reader, "WHEN")
        if values is None and when is When.NOT_MATCHED_BY_SOURCE:
            raise reader.wrong("rows that the source lacks have no values in it: name them, UPDATE SET column = value")
    elif action == "INSERT":
        values = None if reader.takes("*") else _inserted(reader)
    return MergeAction(when, action.lower(), at, condition, values)


def _inserted(reader: Reader) -> tuple[tuple[str, Text], ...]:
    if not reader.sees("("):
        raise reader.wrong("INSERT * or INSERT (columns) VALUES (values) is expected")
    columns = reader.names()
    reader.need("VALUES")
    reader.need("(")
    values = reader.listed(lambda: reader.until(",", what="a value"))
    if len(values) != len(columns):
        raise reader.wrong(f"there are {len(columns)} columns, and {len(values)} values")
    reader.need(")")
    return tuple((name.rpartition(".")[2], value) for name, value in zip(columns, values, strict=True))


def _check_order(reader: Reader, before: MergeAction, clause: MergeAction) -> None:
    """See that a clause may take rows, and comes where Spark's grammar has it."""
    if clause.when is before.when and before.condition is None:
        raise reader.wrong("this clause takes no row: the one before it has no condition", clause.at)
    order = list(When)
    if order.index(clause.when) < order.index(before.when):
        kinds = ", WHEN ".join(each.value.upper() for each in order)
        raise reader.wrong(f"clauses come in the order WHEN {kinds}", clause.at)


def _assignments(reader: Reader, *ends: str) -> tuple[tuple[str, Text], ...]:
    def value() -> tuple[str, Text]:
        column = reader.dotted()
        reader.need("=")
        return column, reader.until(",", *ends, what="a value")

    return reader.listed(value)


def _alias(reader: Reader, *keywords: str) -> str | None:
    if reader.takes("AS"):
        return reader.name("an alias")
    return None if not reader.more or reader.word() in {*keywords, "(", ")"} else reader.name("an alias")


READERS: Mapping[str, Callable[[Reader], Statement | None]] = {
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE": read_delete,
    "MERGE": read_merge_into,
    "WITH": read_with,
}
"""Readers of statements by the first word; one returns None for a statement that the engine is to run."""
