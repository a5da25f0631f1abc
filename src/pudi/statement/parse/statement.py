"""Read a statement: a text in, a value out. Queries stay texts, which sqlglot and the engine read.

sqlglot cuts the text into words. Statements are read here, since pieces go on as the user wrote them, and errors point
to their places. Module `dml` reads changes of rows, `ddl` definitions of tables; this one reads CALL, SET, USE, ATTACH
and REFRESH, and statements that Delta Lake and Iceberg have and Hudi hasn't, to say what stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.errors import InvalidArgumentError
from pudi.statement.parse import ddl, dml
from pudi.statement.parse.reader import Reader
from pudi.statement.tree import (
    TIME_ZONE,
    Argument,
    Attach,
    Call,
    Foreign,
    Query,
    Refresh,
    ResetOption,
    SetOption,
    Statement,
    TableName,
    Text,
    Use,
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
    foreign = _other_format(reader)
    if foreign is not None:
        return foreign
    read = _READERS.get(reader.word())
    if reader.sees("SHOW", "COMPACTION"):
        read = _compaction
    found = read(reader) if read is not None else None
    if found is None:
        reader.position = len(reader.tokens)
        return Query(Text(text[: reader.end], 0))
    reader.finish()
    return found


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


_HISTORY = "CALL show_commits(table => '{}')"
_DETAIL = "SHOW TBLPROPERTIES {}"
_INSTEAD: Mapping[tuple[str, ...], str] = {
    ("OPTIMIZE",): "CALL run_clustering(table => '{}', order => 'columns')",
    ("VACUUM",): "CALL run_clean(table => '{}')",
    ("RESTORE", "TABLE"): "CALL rollback_to_savepoint or rollback_to_instant(table => '{}', instant_time => '…')",
    ("DESCRIBE", "HISTORY"): _HISTORY,
    ("DESC", "HISTORY"): _HISTORY,
    ("DESCRIBE", "DETAIL"): _DETAIL,
    ("DESC", "DETAIL"): _DETAIL,
    ("COMMENT", "ON", "TABLE"): "nothing: tables keep no comments",
    ("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"): "ALTER TABLE {} ADD COLUMNS (…) before MERGE INTO",
}
_REPLACE_WHERE = "DELETE FROM {} WHERE … and INSERT INTO, or INSERT OVERWRITE {} PARTITION (…)"


def _other_format(reader: Reader) -> Foreign | None:
    """Read the beginning of such a statement, up to its table; None where it's another one."""
    begin = reader.position
    for words, instead in _INSTEAD.items():
        if reader.takes(*words):
            found = _with_table(reader, " ".join(words), instead)
            break
    else:
        found = _replace_where(reader) or _clone(reader, begin)
    reader.position = begin if found is None else len(reader.tokens)
    return found


def _with_table(reader: Reader, what: str, instead: str) -> Foreign | None:
    if not reader.more:
        return None  # a table of that name
    try:
        table = reader.table()
    except InvalidArgumentError:
        return None  # a path in quotes: none of pudi's
    return Foreign(table, what, instead.replace("{}", str(table)))


def _clone(reader: Reader, begin: int) -> Foreign | None:
    """Read CREATE TABLE name [SHALLOW | DEEP] CLONE source, which the engine would refuse in words of its own."""
    reader.position = begin
    if not reader.takes("CREATE"):
        return None
    reader.takes("OR", "REPLACE")
    if not reader.takes("TABLE"):
        return None
    reader.takes("IF", "NOT", "EXISTS")
    try:
        name = reader.table()
    except InvalidArgumentError:
        return None
    kind = next((word for word in ("SHALLOW", "DEEP") if reader.takes(word)), None)
    if not reader.takes("CLONE"):
        return None
    instead = f"CREATE TABLE {name} USING hudi AS SELECT * FROM {{}}, which copies the rows"
    return _with_table(reader, "CLONE" if kind is None else f"{kind} CLONE", instead)


def _replace_where(reader: Reader) -> Foreign | None:
    if not reader.takes("INSERT", "INTO"):
        return None
    reader.takes("TABLE")
    found = _with_table(reader, "INSERT INTO … REPLACE WHERE", _REPLACE_WHERE)
    return found if reader.takes("REPLACE", "WHERE") else None


_READERS: Mapping[str, Callable[[Reader], Statement | None]] = {
    **dml.READERS,
    **ddl.READERS,
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
