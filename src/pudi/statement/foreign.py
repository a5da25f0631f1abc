"""Read statements that Delta Lake and Iceberg have and Hudi hasn't, to say what stands for them."""

from __future__ import annotations

from collections.abc import Mapping

from pudi.errors import InvalidArgumentError
from pudi.statement.reader import Reader
from pudi.statement.tree import Foreign

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


def read_foreign(reader: Reader) -> Foreign | None:
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
