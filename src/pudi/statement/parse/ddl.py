"""Read statements about tables themselves: CREATE, DROP, ALTER, TRUNCATE, SHOW, DESCRIBE, and those about indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pudi.statement.parse.reader import Reader
from pudi.statement.tree import (
    Alter,
    Change,
    ColumnDef,
    CreateIndex,
    CreateTable,
    CreateView,
    DropIndex,
    DropTable,
    Partition,
    Show,
    Statement,
    TableName,
    Text,
    Truncate,
    Use,
)

_OF_A_COLUMN = "of a column, its type, place and comment can be changed"


def read_partition(reader: Reader) -> Partition:
    """Read `PARTITION (column = value, column)`, if it comes."""
    if not reader.takes("PARTITION"):
        return ()

    def value() -> tuple[str, Text | None]:
        column = reader.name("a partition column")
        return column, reader.until(",", what="a value") if reader.takes("=") else None

    return reader.in_parentheses(value)


def _properties(reader: Reader) -> dict[str, str]:
    """Read `(key = value, …)`; keys with dots, or in quotes."""
    found: dict[str, str] = {}

    def value() -> None:
        at, key = reader.at, _key(reader)
        if key in found:
            raise reader.wrong(f"{key} is given twice", at)
        if not reader.takes("="):
            raise reader.wrong("= is expected behind the key")
        found[key] = reader.plain()

    reader.in_parentheses(value)
    return found


def _key(reader: Reader) -> str:
    if reader.is_string():
        return reader.string()
    return reader.dotted("a key")


def _exists(reader: Reader, *words: str) -> bool:
    return reader.takes("IF", *words, "EXISTS")


def _create(reader: Reader) -> Statement | None:
    reader.need("CREATE")
    if reader.takes("INDEX"):
        return _create_index(reader)
    if reader.word() in {"DATABASE", "SCHEMA", "NAMESPACE"}:
        reader.position = len(reader.tokens)
        return Use(None)
    view = _temporary_view(reader)
    if view is not None:
        return view
    if not _by_pudi(reader):
        return None
    reader.takes("EXTERNAL")
    if reader.sees("OR", "REPLACE", "TABLE"):
        raise reader.refused(
            "CREATE OR REPLACE TABLE, which Hudi doesn't have either: DROP TABLE first, or INSERT OVERWRITE"
        )
    if not reader.takes("TABLE"):
        return None
    exists_ok = _exists(reader, "NOT")
    table = reader.table()
    like = reader.table() if reader.takes("LIKE") else None
    columns = _columns(reader) if like is None and reader.sees("(") else ()
    parts: dict[str, object] = {"location": None, "properties": {}, "partitioned_by": (), "comment": None}
    while reader.more and not (reader.sees("AS") or reader.sees("SELECT") or reader.sees("WITH")):
        _table_part(reader, parts, is_like=like is not None)
    query = None
    reader.takes("AS")
    if reader.more:
        if like is not None:
            raise reader.wrong("CREATE TABLE … LIKE takes no query: INSERT INTO it")
        query = reader.until(what="a query")
    return CreateTable(table, columns, exists_ok, query=query, like=like, **parts)  # type: ignore[arg-type]


def _temporary_view(reader: Reader) -> CreateView | None:
    begin = reader.position
    replaces, is_global = reader.takes("OR", "REPLACE"), reader.takes("GLOBAL")
    if (reader.takes("TEMPORARY") or reader.takes("TEMP")) and reader.takes("VIEW") and not reader.sees("IF"):
        name = reader.name("a view")
        columns = tuple(column.name for column in _columns(reader)) if reader.sees("(") else ()
        if reader.takes("AS"):
            return CreateView(name, reader.until(what="a query"), columns, replaces, is_global)
    reader.position = begin
    return None


def _cached_query(reader: Reader) -> CreateView | None:
    """Read CACHE TABLE name AS query; None for any other CACHE, which the engine runs."""
    reader.need("CACHE")
    reader.takes("LAZY")
    if not reader.takes("TABLE"):
        return None
    name = reader.name("a view")
    return CreateView(name, reader.until(what="a query"), cached=True) if reader.takes("AS") else None


def _by_pudi(reader: Reader) -> bool:
    """Whether a table is created USING hudi or pudi; those of other formats are the engine's."""
    words = [reader.word(n) for n in range(len(reader.tokens) - reader.position)]
    provider = words[words.index("USING") + 1 :] if "USING" in words else []
    return provider[:1] in [["HUDI"], ["PUDI"]] or provider[:5] == ["ORG", ".", "APACHE", ".", "HUDI"]


def _table_part(reader: Reader, parts: dict[str, object], *, is_like: bool) -> None:
    for word, part in (("LOCATION", "location"), ("COMMENT", "comment"), ("PARTITIONED", "partitioned_by")):
        if parts[part] and reader.word().partition(" ")[0] == word:
            raise reader.wrong(f"{word} is given twice")
    if reader.takes("USING"):
        reader.table()
    elif reader.takes("LOCATION"):
        parts["location"] = reader.string("a path in quotes")
    elif not is_like and reader.takes("COMMENT"):
        parts["comment"] = reader.string()
    elif reader.takes("TBLPROPERTIES") or reader.takes("OPTIONS"):
        known = parts["properties"]
        assert isinstance(known, dict)
        parts["properties"] = known | _properties(reader)
    elif not is_like and (reader.takes("PARTITIONED", "BY") or reader.takes("PARTITIONED BY")):
        parts["partitioned_by"] = _columns(reader)
    elif is_like:
        raise reader.wrong("CREATE TABLE … LIKE takes USING, TBLPROPERTIES and LOCATION")
    else:
        raise reader.wrong("USING, TBLPROPERTIES, PARTITIONED BY, LOCATION, COMMENT or AS is expected")


def _columns(reader: Reader) -> tuple[ColumnDef, ...]:
    """Columns in parentheses; those of PARTITIONED BY may have no type."""
    return reader.in_parentheses(lambda: _column(reader))


def _column(reader: Reader) -> ColumnDef:
    at, name = reader.at, reader.dotted()
    kind = "" if reader.word() in {",", ")"} else _type(reader)
    nullable = not reader.takes("NOT", "NULL")
    comment = reader.string() if reader.takes("COMMENT") else None
    after = _after(reader)
    if reader.word() in {"DEFAULT", "GENERATED"}:
        raise reader.refused(f"columns with {reader.word()}")
    return ColumnDef(name, kind, at, nullable, after, comment)


def _after(reader: Reader) -> str | None:
    """Read `AFTER column`, if it comes."""
    if reader.sees("FIRST"):
        raise reader.refused("FIRST: meta fields are the first columns of a table; use AFTER")
    return reader.name("a column") if reader.takes("AFTER") else None


def _type(reader: Reader) -> str:
    """A type as it's written; sqlglot may read `>>` as one word."""
    begin, depth = reader.at, 0
    while reader.more:
        word = reader.word()
        if depth <= 0 and word in {",", ")", "NOT", "COMMENT", "FIRST", "AFTER", "DEFAULT", "GENERATED"}:
            break
        depth += word.count("<") + word.count("(") - word.count(">") - word.count(")")
        reader.position += 1
    end = int(reader.tokens[reader.position - 1].end) + 1
    return reader.text[begin:end]


def _create_index(reader: Reader) -> Statement:
    exists_ok = _exists(reader, "NOT")
    name, table = _index_of_table(reader)
    kind = reader.name("a kind of index") if reader.takes("USING") else ""
    columns = reader.names() if reader.sees("(") else ()
    options = _properties(reader) if reader.takes("OPTIONS") else {}
    return CreateIndex(name, table, kind.lower(), columns, options, exists_ok)


def _index_of_table(reader: Reader) -> tuple[str, TableName]:
    """Read `name ON [TABLE] table`."""
    name = reader.name("the index's name")
    reader.need("ON")
    reader.takes("TABLE")
    return name, reader.table()


def _drop(reader: Reader) -> Statement | None:
    reader.need("DROP")
    if reader.takes("INDEX"):
        exists_ok = _exists(reader)
        return DropIndex(*_index_of_table(reader), exists_ok)
    if not reader.takes("TABLE"):
        return None
    exists_ok = _exists(reader)
    table = reader.table()
    return DropTable(table, exists_ok, purge=reader.takes("PURGE"))


def _truncate(reader: Reader) -> Statement:
    reader.need("TRUNCATE")
    reader.need("TABLE")
    return Truncate(reader.table(), read_partition(reader))


def _repair_partitions(reader: Reader) -> Statement:
    """Read `MSCK REPAIR TABLE t [ADD | DROP | SYNC PARTITIONS]`."""
    reader.need("MSCK REPAIR")
    reader.need("TABLE")
    table = reader.table()
    if reader.more:
        reader.one_of("ADD", "DROP", "SYNC")
        reader.need("PARTITIONS")
    return Alter(table, Change.RECOVER_PARTITIONS)


def _recover(reader: Reader, table: TableName) -> Alter:
    reader.need("PARTITIONS")
    return Alter(table, Change.RECOVER_PARTITIONS)


def _alter(reader: Reader) -> Statement | None:
    reader.need("ALTER")
    if not reader.takes("TABLE"):
        return None
    table = reader.table()
    begin = reader.at
    word = reader.word()
    reader.position += 1
    read = _CHANGES.get(word)
    if read is None:
        raise reader.wrong("ADD, RENAME, DROP, ALTER, CHANGE, SET, UNSET or RECOVER is expected", begin)
    return read(reader, table)


def _add(reader: Reader, table: TableName) -> Alter:
    if reader.takes("COLUMNS"):
        return Alter(table, Change.ADD_COLUMNS, columns=_columns(reader))
    if reader.takes("COLUMN"):
        inside = reader.sees("(")
        return Alter(table, Change.ADD_COLUMNS, columns=_columns(reader) if inside else (_column(reader),))
    exists_ok = _exists(reader, "NOT")
    if not reader.sees("PARTITION"):
        raise reader.wrong("COLUMNS or PARTITION is expected")
    partitions = []
    while reader.sees("PARTITION"):
        partitions.append(read_partition(reader))
        if reader.sees("LOCATION"):
            raise reader.refused(
                "LOCATION of a partition: Hudi keeps a table's partitions below the table; leave it out"
            )
    return Alter(table, Change.ADD_PARTITION, partitions=tuple(partitions), exists_ok=exists_ok)


def _rename(reader: Reader, table: TableName) -> Alter:
    if reader.takes("COLUMN"):
        old = reader.dotted()
        reader.need("TO")
        return Alter(table, Change.RENAME_COLUMN, names=(old, reader.dotted()))
    reader.need("TO")
    return Alter(table, Change.RENAME, names=reader.table().parts)


def _drop_part(reader: Reader, table: TableName) -> Alter:
    exists_ok = _exists(reader)
    if reader.sees("PARTITION"):
        partitions = [read_partition(reader)]
        while reader.takes(","):
            if not reader.sees("PARTITION"):
                raise reader.wrong("PARTITION (…) is expected")
            partitions.append(read_partition(reader))
        reader.takes("PURGE")
        return Alter(table, Change.DROP_PARTITION, partitions=tuple(partitions), exists_ok=exists_ok)
    reader.one_of("COLUMN", "COLUMNS")
    exists_ok = exists_ok or _exists(reader)
    names = reader.names() if reader.sees("(") else (reader.dotted(),)
    return Alter(table, Change.DROP_COLUMNS, names=names, exists_ok=exists_ok)


def _change_column(reader: Reader, table: TableName) -> Alter:
    """`ALTER COLUMN a TYPE t` and `CHANGE COLUMN a b t`."""
    reader.takes("COLUMN")
    at, name = reader.at, reader.dotted()
    if reader.takes("TYPE"):
        return Alter(table, Change.CHANGE_TYPE, columns=(ColumnDef(name, _type(reader), at),))
    after = _after(reader)
    if after is not None:
        return Alter(table, Change.MOVE_COLUMN, names=(name, after))
    if reader.takes("COMMENT"):
        return Alter(table, Change.COMMENT, columns=(ColumnDef(name, "", at, comment=reader.string()),))
    if reader.word() in {"SET", "DROP"}:
        raise reader.refused(f"{_OF_A_COLUMN}: TYPE …, AFTER …, COMMENT …")
    new = _column(reader)
    if new.name.lower() != name.lower():
        raise reader.refused("to rename a column, write RENAME COLUMN a TO b", at)
    if not new.nullable:
        raise reader.refused(f"{_OF_A_COLUMN}, not whether it takes nulls", at)
    return Alter(table, Change.CHANGE_TYPE, columns=(replace(new, name=name),))


def _set(reader: Reader, table: TableName) -> Alter:
    if not reader.takes("TBLPROPERTIES"):
        raise reader.wrong("TBLPROPERTIES is expected")
    return Alter(table, Change.SET_PROPERTIES, properties=_properties(reader))


def _unset(reader: Reader, table: TableName) -> Alter:
    if not reader.takes("TBLPROPERTIES"):
        raise reader.wrong("TBLPROPERTIES is expected")
    exists_ok = _exists(reader)
    names = reader.in_parentheses(lambda: _key(reader))
    return Alter(table, Change.UNSET_PROPERTIES, names=names, exists_ok=exists_ok)


_CHANGES: Mapping[str, Callable[[Reader, TableName], Alter]] = {
    "ADD": _add,
    "RENAME": _rename,
    "DROP": _drop_part,
    "RECOVER": _recover,
    "ALTER": _change_column,
    "CHANGE": _change_column,
    "SET": _set,
    "UNSET": _unset,
}


def _show(reader: Reader) -> Statement | None:
    reader.need("SHOW")
    if reader.takes("TABLES"):
        database: tuple[str, ...] = ()
        if reader.word() in {"FROM", "IN"}:
            reader.position += 1
            database = tuple(part.lower() for part in reader.table().parts)
        like = reader.string() if reader.takes("LIKE") or reader.is_string() else None
        return Show("tables", like=like, database=database)
    if reader.takes("PARTITIONS"):
        table = reader.table()
        return Show("partitions", table, read_partition(reader))
    if reader.word() in {"INDEXES", "INDEX"}:
        reader.position += 1
        reader.one_of("FROM", "IN", "ON")
        return Show("indexes", reader.table())
    if reader.takes("TBLPROPERTIES"):
        return Show("tblproperties", reader.table(), like=reader.inside("a key").text if reader.sees("(") else None)
    if reader.takes("CREATE", "TABLE"):
        return Show("create table", reader.table())
    if reader.takes("COLUMNS"):
        reader.one_of("FROM", "IN")
        return Show("columns", reader.table())
    return None


def _describe(reader: Reader) -> Statement | None:
    reader.position += 1
    if reader.word() in {"QUERY", "FUNCTION", "DATABASE", "SCHEMA", "HISTORY", "SELECT", "WITH"}:
        return None
    reader.takes("TABLE")
    extended = reader.takes("EXTENDED") or reader.takes("FORMATTED")
    table = reader.table()
    if reader.more and not reader.sees("PARTITION"):
        return Show("column", table, like=reader.name("a column"))
    return Show("extended" if extended else "describe", table)


READERS: Mapping[str, Callable[[Reader], Statement | None]] = {
    "CREATE": _create,
    "CACHE": _cached_query,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "ALTER": _alter,
    "MSCK REPAIR": _repair_partitions,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
}
"""Readers of statements by the first word; one returns None for a statement that the engine is to run."""
