"""Expressions as they are translated: DuckDB's text, Spark's type, and what may not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.statement.translate.kinds import spark_name

REFUSED = "pudi refuses: "
"""Begins the message of an error that DuckDB raises for a value that it would treat in another way than Spark."""
_ADVICE = "run the statement on Spark (pudi.spark.sql), or compute it with the scan in Python"


@dataclass(frozen=True, slots=True)
class Value:
    """A translated expression.

    Attributes:
        sql: DuckDB's expression.
        kind: Spark's type of it.
        literal: the value of a constant, of a decimal its text; None for anything else.
    """

    sql: str
    kind: pa.DataType
    literal: Any = None


Call = Callable[..., Value]
"""Makes a call of a function of the values of its arguments."""


def refused(what: str, instead: str = _ADVICE) -> NotSupportedError:
    """Return the error for what has no translation with Spark's meaning.

    Args:
        what: a function, an operator, a conversion.
        instead: what to do.
    """
    return NotSupportedError(f"SQL on one machine doesn't compute {what} as Spark does: {instead}")


def misfit(what: str, *kinds: pa.DataType) -> InvalidArgumentError:
    """Return the error for types that Spark doesn't take either."""
    return InvalidArgumentError(f"SQL: {what} doesn't take {', '.join(map(spark_name, kinds))}: CAST the values")


def text(value: str) -> str:
    """Return a constant text in DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def fails(what: str) -> str:
    """Return the expression that raises an error for a value that isn't treated as Spark treats it."""
    return f"error({text(REFUSED + what)})"


def guarded(sql: str, bad: str, what: str) -> str:
    """Return an expression that raises an error in rows where a condition holds.

    Args:
        sql: the expression.
        bad: the condition.
        what: what the error says.
    """
    return f"CASE WHEN {bad} THEN {fails(what)} ELSE {sql} END"
