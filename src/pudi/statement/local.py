"""`pudi.sql`: statements on this machine. DuckDB runs queries; the verbs of a table do everything else."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot.errors import SqlglotError

from pudi.context.runtime import cached_property
from pudi.errors import InvalidArgumentError, SchemaError, SetupError, TableNotFoundError
from pudi.schema import normalise
from pudi.schema.arrays import one_array
from pudi.schema.java_numbers import java_float_text
from pudi.schema.spark_types import quote
from pudi.statement.host import DATABASE, DEFAULT, CataloguedEntry, MergeQuery, Settings
from pudi.statement.parse.reader import wrong
from pudi.statement.run import run
from pudi.statement.store_assignment import check_count, check_storable, stored
from pudi.statement.table_uses import TableUse, replaced
from pudi.statement.translate import JAVA_TEXT, REFUSED, Columns, refused, translate
from pudi.statement.tree import TableName, Text
from pudi.table import Table

_NO_TABLE = re.compile(r"""Table with name "?(\w+(?:\.\w+)*)"? does not exist""")
"""DuckDB's words for a table that it doesn't know."""
_KEPT = "SELECT 1 FROM duckdb_tables() WHERE NOT internal AND lower(table_name) = lower(?)"
"""Finds a table that DuckDB keeps."""
_ROW = "_pudi_row"
"""The column that numbers the rows of a merge."""


class _Settings:
    """Settings of a session, in memory."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self._values.get(key)

    def set(self, key: str, value: str) -> None:
        self._values[key] = value

    def unset(self, key: str) -> None:
        self._values.pop(key, None)

    def items(self) -> Mapping[str, str]:
        return dict(self._values)


_SETTINGS = _Settings()
"""Settings of this process: what SET sets, and the names of tables."""


@cache
def _database() -> Any:
    """Return this process's database, which is empty: connecting takes longer than most queries of it."""
    try:
        import duckdb  # noqa: PLC0415 - optional
    except ImportError:
        raise SetupError("queries on this machine need DuckDB: pip install 'pudi[duckdb]'") from None
    connection = duckdb.connect(":memory:")
    for name, kind in ((JAVA_TEXT, "DOUBLE"), (f"{JAVA_TEXT}_float", "FLOAT")):
        connection.create_function(name, _java_text, [kind], "VARCHAR", type="arrow")
    atexit.register(_database.cache_clear)  # DuckDB complains of connections that outlive the interpreter
    return connection


def _register(connection: Any, name: str, value: Any) -> None:
    """Give a user's data a name."""
    try:
        connection.register(name, value)
    except Exception as error:  # DuckDB's own classes are known only where it is installed
        raise InvalidArgumentError(
            f"{name}= is a {type(value).__name__}: give a pudi.Table, its path, or data: a pyarrow Table or Dataset, a "
            "polars or pandas DataFrame, a DuckDB relation"
        ) from error


class LocalHost:
    """Runs queries by DuckDB, over Arrow.

    Args:
        tables: tables and other data by name.
        settings: the session's.
    """

    spark = None

    def __init__(self, tables: Mapping[str, Any], settings: Settings) -> None:
        self.settings: Settings = settings
        self._tables = {name.lower(): _opened(value) for name, value in tables.items()}

    @cached_property
    def _engine(self) -> Any:
        connection = _database().cursor()  # what it registers is its own
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        for name, value in self._tables.items():
            if not isinstance(value, Table):
                _register(connection, name, value)
        return connection

    def query(self, text: Text, uses: Sequence[TableUse], tables: Sequence[Any]) -> pa.Table:
        """Run a query in DuckDB; see `Host`."""
        spark_sql = replaced(text, uses, lambda number: f"_pudi_{number}", lambda piece: piece)
        known = {f"_pudi_{number}": found.schema for number, found in enumerate(tables)}
        engine = self._engine
        try:
            with _errors():
                sql, columns = translate(spark_sql, lambda name: known.get(name) or _columns(engine, name))
                for name, found in zip(known, tables, strict=True):
                    engine.register(name, found if isinstance(found, pa.Table) else found.to_arrow())
                rows = engine.sql(sql)
                return pa.table({}) if rows is None else _plain(rows.to_arrow_table(), columns)
        except SqlglotError as error:
            raise _of_parser(error, text) from error
        finally:
            for name in known:
                engine.unregister(name)

    @staticmethod
    def result(rows: pa.Table) -> pa.Table:
        """Few rows; see `Host`."""
        return rows

    @staticmethod
    def columns(frame: pa.Table) -> list[str]:
        """The names of a query's columns."""
        return list(frame.column_names)

    def computed(
        self, rows: pa.Table, sides: Mapping[str, str], values: Mapping[str, tuple[str, pa.Field]], query: MergeQuery
    ) -> pa.Table:
        """Rows of a merge with further columns; see `Host`."""
        numbers = pa.array(np.arange(rows.num_rows))
        others = [name for name in rows.column_names if name not in sides]
        tables: dict[str, pa.Table] = {}
        froms: list[str] = []
        for side in sides:
            flat = pa.Table.from_batches(
                [pa.RecordBatch.from_struct_array(chunk) for chunk in rows[side].chunks],
                pa.schema(list(rows.schema.field(side).type)),
            )
            for name in others if not tables else ():
                flat = flat.append_column(name, rows[name])
            tables[f"__{side}"] = flat.append_column(_ROW, numbers)
            alias = quote(sides[side])
            on = f" ON {alias}.{_ROW} = {quote(next(iter(sides.values())))}.{_ROW}" if froms else ""
            froms.append(f"__{side} AS {alias}{on}")
        chosen = ", ".join(f"{sql} AS _{number}" for number, (sql, _) in enumerate(values.values()))
        order = f"{quote(next(iter(sides.values())))}.{_ROW}"
        found = query(f"SELECT {chosen} FROM {' JOIN '.join(froms)} ORDER BY {order}", tables)
        made = self.fitted(found, [field for _, field in values.values()], casts=True)
        for name, column in zip(values, made.columns, strict=True):
            rows = rows.append_column(name, column)
        return rows

    @staticmethod
    def schema(frame: pa.Table) -> pa.Schema:
        """The types of a query's columns."""
        return normalise(frame.schema)

    @staticmethod
    def chosen(frame: pa.Table, names: Sequence[str]) -> pa.Table:
        """Some columns of a query."""
        return frame.select(list(names))

    @staticmethod
    def fitted(
        frame: pa.Table,
        columns: Sequence[pa.Field],
        constants: Sequence[tuple[pa.Field, object]] = (),
        *,
        casts: bool = False,
        by_name: bool = False,
    ) -> pa.Table:
        """The columns of a query as columns of a table; see `Host`."""
        check_count(columns, frame.num_columns)
        for field, column in zip(columns, frame.columns, strict=True):
            if not casts and column.null_count < len(column):  # DuckDB's nulls are integers
                check_storable(column.type, field, by_name=by_name)
        made = [stored(column, f, by_name=by_name) for f, column in zip(columns, frame.columns, strict=True)]
        made += [pa.repeat(pa.scalar(value, field.type), frame.num_rows) for field, value in constants]
        return pa.table(made, [f.name for f in (*columns, *(field for field, _ in constants))])  # names may repeat

    def known(self, name: TableName) -> Table | None:
        """A table that was given by name."""
        found = self._tables.get(name.parts[0].lower()) if len(name.parts) == 1 else None
        return found if isinstance(found, Table) else None

    def has(self, name: TableName) -> bool:
        """Whether data was given by that name, or DuckDB keeps it."""
        return (len(name.parts) == 1 and name.parts[0].lower() in self._tables) or self.keeps(name)

    @staticmethod
    def keeps(name: TableName) -> bool:
        """Whether a statement of this process has created a table of that name in DuckDB's memory."""
        if len(name.parts) != 1 or name.path is not None or not _database.cache_info().currsize:
            return False
        found = _database().cursor().execute(_KEPT, [name.parts[0]]).fetchone()
        return found is not None

    @staticmethod
    def registered(name: TableName) -> CataloguedEntry | None:
        """DuckDB has no Hudi tables."""
        del name
        return None

    @staticmethod
    def metastore() -> str | None:
        """DuckDB has no catalog of its own that others see."""
        return None

    @staticmethod
    def check_registrable(name: TableName) -> None:
        """Any name may be known in this process alone."""

    @staticmethod
    def tables(database: tuple[str, ...]) -> list[tuple[str, str, bool]]:
        """DuckDB's tables aren't shown."""
        del database
        return []

    @staticmethod
    def folder(database: str) -> str | None:
        """A setting alone says where tables are."""
        del database
        return None

    @staticmethod
    def warehouse() -> str | None:
        """There is none but what a setting says."""
        return None

    def database(self) -> str:
        """The database that USE chose in this process."""
        return self.settings.get(DATABASE) or DEFAULT


def _java_text(numbers: pa.ChunkedArray) -> pa.Array:
    """Floating point numbers as Java prints them."""
    return java_float_text(one_array(numbers))


def _opened(value: Any) -> Any:
    """A table for a path; any other data as it is."""
    return Table(value) if isinstance(value, str | os.PathLike) else value


@contextmanager
def _errors() -> Iterator[None]:
    """Raise DuckDB's errors as pudi's."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0].lstrip("_") not in {"duckdb", "duckdb_core"}:
            raise
        message = str(error).splitlines()[0]
        if REFUSED in message:
            raise refused(message.partition(REFUSED)[2]) from error
        lost = _NO_TABLE.search(message)
        if lost is not None:
            name = lost[1]
            other = "ATTACH the catalog that has it" if "." in name else f"give it by name: pudi.sql(text, {name}=…)"
            raise TableNotFoundError(
                f"SQL: there is no table {name}: create it with its LOCATION, name it by its path, hudi.`/path`, or "
                f"{other}"
            ) from error
        raise InvalidArgumentError(f"SQL: {message}") from error


def _columns(engine: Any, name: str) -> pa.Schema:
    """The columns of a table, view or function that DuckDB knows."""
    found = engine.sql(f"SELECT * FROM {name} LIMIT 0")
    assert found is not None
    return found.to_arrow_table().schema


def _plain(rows: pa.Table, columns: Columns | None) -> pa.Table:
    """A result with the names that Spark gives it, without views and other layouts that are DuckDB's."""
    if columns is not None:
        rows = rows.rename_columns([name for name, _ in columns])
    try:
        schema = normalise(rows.schema)
        return rows if schema == rows.schema else rows.cast(schema)
    except (SchemaError, pa.ArrowException):
        return rows


def _of_parser(error: SqlglotError, text: Text) -> InvalidArgumentError:
    details = (getattr(error, "errors", None) or [{}])[0]
    if "line" not in details:
        return InvalidArgumentError(f"SQL: {str(error).splitlines()[0]}")
    lines = text.text.splitlines(keepends=True)
    at = sum(map(len, lines[: details["line"] - 1])) + max(
        details.get("col", 1) - len(details.get("highlight") or " "), 0
    )
    what = str(details.get("description", "this is no SQL"))
    what = "a value is missing" if what.startswith("Required keyword") else what  # which names sqlglot's classes
    return wrong(text.text, min(at, len(text.text)), what)


def sql(text: str, /, **tables: Any) -> pa.Table:
    """Run a statement of Hudi's Spark SQL on this machine: queries by DuckDB, all else by the verbs of a table.

    `pudi.sql("SELECT city, sum(fare) FROM trips GROUP BY city", trips=pudi.Table(path))`. CREATE TABLE, INSERT, MERGE
    INTO, UPDATE, DELETE, ALTER, CALL and the like are those of Hudi. Tables are those given by name, paths
    (``hudi.`/data/trips` ``), and what CREATE TABLE has named in this process.

    Args:
        text: one statement.
        tables: by name, a `pudi.Table`, the path of one, or any data that DuckDB reads: pyarrow, polars, pandas.

    Returns:
        The rows of a query; of a change one row that says what was done, or none.

    Raises:
        InvalidArgumentError: the statement is wrong; the message names line and column.
        NotSupportedError: it's beyond what pudi runs; the message names it.
        TableNotFoundError: it names no table.
        SetupError: DuckDB isn't installed.
    """
    found = run(LocalHost(tables, _SETTINGS), text)
    assert isinstance(found, pa.Table)
    return found
