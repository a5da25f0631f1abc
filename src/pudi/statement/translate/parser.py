"""Reads Spark's SQL: every call of a function keeps its own name, which the tables of functions know."""

from __future__ import annotations

from typing import Any

from sqlglot.dialects import Spark

_OF_GRAMMAR = {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION"}
"""Functions whose arguments have words between them."""


class _Parser(Spark.Parser):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """sqlglot's own parser makes one function of several that other dialects know by one name."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse for name, parse in Spark.Parser.FUNCTION_PARSERS.items() if name in _OF_GRAMMAR
    }


class SparkSql(Spark):  # type: ignore[misc]  # sqlglot doesn't tell its type
    """Spark's dialect with calls as they stand in the text."""

    Parser = _Parser
