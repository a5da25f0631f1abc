"""Read a statement: a text in, a value out. Queries stay texts, which sqlglot and the engine read.

sqlglot cuts the text into words. Statements are read here, since pieces go on as the user wrote them, and errors point
to their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

from pudi.errors import InvalidArgumentError
from pudi.statement import definitions
from pudi.statement.foreign import read_foreign
from pudi.statement.reader import Reader
from pudi.statement.tree import (
    TIME_ZONE,
    Argument,
    Attach,
    Call,
    Delete,
    Foreign,
    Insert,
    Merge,
    MergeAction,
    Query,
    Refresh,
    ResetOption,
    SetOption,
    Statement,
    TableName,
    Text,
    Update,
    Use,
    When,
)

_MAX_LENGTH = 1_000_000


def parse_statement(text: str, *, names_in_double_quotes: bool = False) -> Statement:
    """Read one statement of Hudi's Spark SQL.

    Args:
        text: the statement.
        names_in_double_quotes: whether double quotes hold names, not texts.

    Raises:
        InvalidArgumentError: it's none; the message names line and column.
        NotSupportedError: it's one that pudi doesn't run; the message names it.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f"a statement is SQL text, not {type(text).__name__}")
    if len(text) > _MAX_LENGTH:
        raise InvalidArgumentError(f"the statement has {len(text)} characters; at most {_MAX_LENGTH} are read")
    reader = Reader(text, names_in_double_quotes=names_in_double_quotes)
    if not reader.more:
        raise InvalidArgumentError("SQL: the statement is empty")
    reader.check_single()
    foreign = read_foreign(reader)
    if foreign is not None:
        return foreign
    read = _READERS.get(reader.word()) or definitions.READERS.get(reader.word())
    if reader.sees("SHOW", "COMPACTION"):
        read = _compaction
    found = read(reader) if read is not None else None
    if found is None:
        reader.position = len(reader.tokens)
        return Query(Text(text[: reader.end], 0))
    reader.finish()
    return found


def _alias(reader: Reader, *keywords: str) -> str | None:
    if reader.takes("AS"):
        return reader.name("an alias")
    return None if not reader.more or reader.word() in {*keywords, "(", ")"} else reader.name("an alias")


def _insert(reader: Reader) -> Statement | None:
    reader.need("INSERT")
    overwrite = reader.one_of("INTO", "OVERWRITE") == "OVERWRITE"
    reader.takes("TABLE")
    if overwrite and reader.word() in {"DIRECTORY", "LOCAL"}:
        return None
    table = reader.table()
    partition = definitions.partition(reader)
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


def _update(reader: Reader) -> Update:
    reader.need("UPDATE")
    table = reader.table()
    alias = _alias(reader, "SET")
    reader.need("SET")
    values = _assignments(reader, "WHERE")
    where = reader.until(what="a condition") if reader.takes("WHERE") else None
    return Update(table, values, where, alias)


def _assignments(reader: Reader, *ends: str) -> tuple[tuple[str, Text], ...]:
    found: list[tuple[str, Text]] = []
    while not found or reader.takes(","):
        column = reader.dotted()
        reader.need("=")
        found.append((column, reader.until(",", *ends, what="a value")))
    return tuple(found)


def _delete(reader: Reader) -> Delete:
    reader.need("DELETE")
    reader.need("FROM")
    table = reader.table()
    alias = _alias(reader, "WHERE")
    where = reader.until(what="a condition") if reader.takes("WHERE") else None
    return Delete(table, where, alias)


def _merge(reader: Reader) -> Merge:
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


def _check_order(reader: Reader, before: MergeAction, clause: MergeAction) -> None:
    """See that a clause may take rows, and comes where Spark's grammar has it."""
    if clause.when is before.when and before.condition is None:
        raise reader.wrong("this clause takes no row: the one before it has no condition", clause.at)
    order = list(When)
    if order.index(clause.when) < order.index(before.when):
        kinds = ", WHEN ".join(each.value.upper() for each in order)
        raise reader.wrong(f"clauses come in the order WHEN {kinds}", clause.at)


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
    values = [reader.until(",", what="a value")]
    while reader.takes(","):
        values.append(reader.until(",", what="a value"))
    if len(values) != len(columns):
        raise reader.wrong(f"there are {len(columns)} columns, and {len(values)} values")
    reader.need(")")
    return tuple((name.rpartition(".")[2], value) for name, value in zip(columns, values, strict=True))


def _with(reader: Reader) -> Statement | None:
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
    readers = {"UPDATE": _update, "DELETE": _delete, "MERGE": _merge}
    read = readers.get(reader.word())
    if read is not None:
        what = f"WITH … {reader.word()}"
        return Foreign(read(reader).table, what, "the statement with the query in it, or over a temporary view")
    if not reader.sees("INSERT"):
        reader.position = begin
        return None
    named = reader.text[start : reader.at]
    found = _insert(reader)
    assert isinstance(found, Insert)
    return replace(found, query=Text(f"{named}{found.query}", start))


def _call(reader: Reader) -> Statement:
    reader.need("CALL")
    at = reader.at
    name = reader.dotted("a procedure").rpartition(".")[2].lower()
    if not reader.more:
        return Call(name, (), at)
    reader.need("(")
    arguments: list[Argument] = []
    while not reader.takes(")"):
        if arguments:
            reader.need(",")
        place = reader.at
        named = ""
        if reader.word(1) in {"=>", "="}:
            named = reader.name("a parameter")
            reader.position += 1
        elif arguments and arguments[-1].name:
            raise reader.wrong("an argument without a name stands behind one with a name")
        arguments.append(Argument(named.lower(), _constant(reader), place))
    return Call(name, tuple(arguments), at)


def _compaction(reader: Reader) -> Statement | None:
    """Read `SCHEDULE | RUN COMPACTION ON table [AT instant]` and `SHOW COMPACTION ON table [LIMIT n]` as calls.

    The table is a name, or a path in quotes.
    """
    if not reader.sees(reader.word(), "COMPACTION", "ON"):
        return None
    at, verb = reader.at, reader.one_of("SCHEDULE", "RUN", "SHOW")
    reader.position += 2
    place = reader.at
    name = reader.string() if reader.is_string() else _called(reader.table())
    arguments = [Argument("table", name, place)]
    if verb == "SHOW":
        if reader.takes("LIMIT"):
            arguments.append(Argument("limit", reader.whole_number(), place))
        return Call("show_compaction", tuple(arguments), at)
    arguments.append(Argument("op", verb.lower(), at))
    if reader.takes("AT"):
        place = reader.at
        arguments.append(Argument("timestamp", reader.whole_number(), place))
    return Call("run_compaction", tuple(arguments), at)


def _called(table: TableName) -> str:
    return table.path or str(table)


def _constant(reader: Reader) -> object:
    if reader.is_string():
        return reader.string()
    word = reader.word()
    if word in {"TRUE", "FALSE", "NULL"}:
        reader.position += 1
        return {"TRUE": True, "FALSE": False}.get(word)
    at, text = reader.at, reader.plain("a constant")
    digits = text[:-1] if text[-1] in "lL" else text
    if not digits.removeprefix("-").isdecimal():
        raise reader.wrong("an argument is a text in quotes, a whole number, TRUE, FALSE or NULL", at)
    return int(digits)


def _set(reader: Reader) -> Statement | None:
    reader.need("SET")
    if not reader.more:
        return SetOption(None)
    if reader.word() in {"CATALOG", "VARIABLE", "VAR", "-"}:
        return None
    zone = reader.takes("TIME", "ZONE")
    rest = reader.text[reader.at : reader.end]
    reader.position = len(reader.tokens)
    key, equals, value = (TIME_ZONE, "=", rest) if zone else (part.strip() for part in rest.partition("="))
    if value[:1] in {"'", '"'} and value[-1:] == value[:1]:
        value = value[1:-1]
    return SetOption(key.strip("`"), value if equals else None)


def _use(reader: Reader) -> Statement:
    reader.need("USE")
    for word in ("DATABASE", "SCHEMA", "NAMESPACE"):
        if reader.takes(word):
            break
    *_, database = reader.table().parts
    return Use(database)


def _reset(reader: Reader) -> Statement:
    reader.need("RESET")
    key = reader.text[reader.at : reader.end].strip().strip("`")
    reader.position = len(reader.tokens)
    return ResetOption(key or None)


def _attach(reader: Reader) -> Statement:
    reader.need("ATTACH")
    at, address = reader.at, reader.string("the address of a catalog in quotes")
    reader.need("AS")
    return Attach(reader.name("a name for the catalog"), at, address)


def _detach(reader: Reader) -> Statement:
    reader.need("DETACH")
    at = reader.at
    return Attach(reader.name("the name of a catalog"), at)


def _refresh(reader: Reader) -> Statement | None:
    reader.position += 1
    if not reader.takes("TABLE"):
        return None
    table = reader.table()
    reader.position = len(reader.tokens)
    return Refresh(table)


_READERS: Mapping[str, Callable[[Reader], Statement | None]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "WITH": _with,
    "CALL": _call,
    "SET": _set,
    "RESET": _reset,
    "USE": _use,
    "ATTACH": _attach,
    "DETACH": _detach,
    "REFRESH": _refresh,
    "ANALYZE": _refresh,
    "SCHEDULE": _compaction,
    "RUN": _compaction,
}
