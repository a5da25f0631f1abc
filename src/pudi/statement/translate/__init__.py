"""Spark's SQL as DuckDB's, with Spark's meaning: equal for every value, or refused by name."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects import Spark

from pudi.statement.table_uses import EXPLAIN
from pudi.statement.translate.casts import JAVA_TEXT
from pudi.statement.translate.query import Describe, Queries
from pudi.statement.translate.scope import Columns
from pudi.statement.translate.typed_values import REFUSED, refused

__all__ = ["JAVA_TEXT", "REFUSED", "Columns", "Describe", "refused", "translate"]

_OF_GRAMMAR = {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION"}
"""Functions whose arguments have words between them."""


class _Parser(Spark.Parser):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """sqlglot's own parser makes one function of several that other dialects know by one name."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse for name, parse in Spark.Parser.FUNCTION_PARSERS.items() if name in _OF_GRAMMAR
    }


class _SparkSql(Spark):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """Spark's dialect with calls as they stand in the text."""

    Parser = _Parser


def translate(sql: str, describe: Describe) -> tuple[str, Columns | None]:
    """Translate a statement that DuckDB is to run.

    Args:
        sql: the statement in Spark's SQL.
        describe: tells the columns of tables.

    Returns:
        The statement in DuckDB's SQL, and its columns; None of a statement that is no query: it only changes its
        dialect, but for the query of CREATE TABLE and CREATE VIEW.

    Raises:
        sqlglot.errors.SqlglotError: it's no SQL.
        InvalidArgumentError: it names no column, or a function gets what Spark doesn't take either.
        NotSupportedError: a part has no translation with Spark's meaning.
    """
    explained = EXPLAIN.match(sql)
    trees = _SparkSql().parse(sql[explained.end() :] if explained else sql)
    tree = trees[0] if trees else None
    defines = isinstance(tree, exp.Create)
    query = tree.expression if isinstance(tree, exp.Create) else tree
    if tree is None or not isinstance(query, exp.Query | exp.Values):
        other = Spark().parse(sql)[0]
        return ("" if other is None else other.sql(dialect="duckdb")), None
    holder = tree if defines else exp.Subquery(this=query)  # a query may be replaced by one around it
    try:
        columns = Queries(describe).query(query)
    except RecursionError:
        raise refused("a query that is nested this deeply") from None
    made = (holder if defines else holder.this).sql(dialect="duckdb")
    return (f"EXPLAIN {made}", None) if explained else (made, None if defines else columns)
