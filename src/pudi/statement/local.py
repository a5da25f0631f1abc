"""`pudi.sql`: statements on this machine. DuckDB runs queries; the verbs of a table do everything else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import transpile
from sqlglot.errors import SqlglotError

from pudi.context.cached import cached_property
from pudi.errors import InvalidArgumentError, PudiError, SchemaError, SetupError
from pudi.scan import ChangeFeed, Scan
from pudi.schema import normalise
from pudi.statement.assignment import check_storable, stored
from pudi.statement.host import Settings
from pudi.statement.names import TableUse, replaced
from pudi.statement.reader import wrong
from pudi.statement.run import run
from pudi.statement.tree import TableName, Text
from pudi.table import Table


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
"""Those of this process: what SET sets, and the names of tables."""


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
        try:
            import duckdb  # noqa: PLC0415 - optional
        except ImportError:
            raise SetupError("queries on this machine need DuckDB: pip install 'pudi[duckdb]'") from None
        connection = duckdb.connect(":memory:")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        for name, value in self._tables.items():
            if not isinstance(value, Table):
                connection.register(name, value)
        return connection

    def query(self, text: Text, uses: Sequence[TableUse], tables: Sequence[Scan | ChangeFeed | pa.Table]) -> pa.Table:
        """Run a query in DuckDB; see `Host`."""
        spark_sql = replaced(text, uses, lambda number: f"_pudi_{number}", lambda piece: piece)
        try:
            sql = transpile(spark_sql, read="spark", write="duckdb")[0]
        except SqlglotError as error:
            raise _of_parser(error, text) from error
        engine = self._engine
        for number, found in enumerate(tables):
            engine.register(f"_pudi_{number}", found if isinstance(found, pa.Table) else found.to_arrow())
        try:
            found = engine.sql(sql)
            return pa.table({}) if found is None else _plain(found.to_arrow_table())
        except PudiError:
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0].lstrip("_") not in {"duckdb", "duckdb_core"}:
                raise
            raise InvalidArgumentError(f"SQL: {str(error).splitlines()[0]}") from error
        finally:
            for number in range(len(tables)):
                engine.unregister(f"_pudi_{number}")

    @staticmethod
    def result(rows: pa.Table) -> pa.Table:
        """Few rows; see `Host`."""
        return rows

    @staticmethod
    def columns(frame: pa.Table) -> list[str]:
        """The names of a query's columns."""
        return list(frame.column_names)

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
    ) -> pa.Table:
        """The columns of a query as columns of a table; see `Host`."""
        if frame.num_columns != len(columns):
            raise InvalidArgumentError(
                f"the table takes {len(columns)} columns ({', '.join(f.name for f in columns)}), "
                f"the query has {frame.num_columns}"
            )
        for field, column in zip(columns, frame.columns, strict=True):
            if not casts and column.null_count < len(column):  # DuckDB's nulls are integers
                check_storable(column.type, field)
        made = {field.name: stored(column, field) for field, column in zip(columns, frame.columns, strict=True)}
        made |= {field.name: pa.repeat(pa.scalar(value, field.type), frame.num_rows) for field, value in constants}
        return pa.table(made)

    def known(self, name: TableName) -> Table | None:
        """A table that was given by name."""
        found = self._tables.get(name.parts[0].lower()) if len(name.parts) == 1 else None
        return found if isinstance(found, Table) else None

    @staticmethod
    def warehouse() -> str | None:
        """There is none but what a setting says."""
        return None


def _opened(value: Any) -> Any:
    """A table for a path; any other data as it is."""
    return Table(value) if isinstance(value, str | os.PathLike) else value


def _plain(rows: pa.Table) -> pa.Table:
    """A result without views and other layouts that are DuckDB's."""
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
    return wrong(text.text, min(at, len(text.text)), str(details.get("description", "this is no SQL")))


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
