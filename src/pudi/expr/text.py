"""Parse and bind the text of a `where`; the parser loads with sqlglot at first use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pudi.context.lazy import lazy_module
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError, naming
from pudi.expr.binder import bind
from pudi.expr.tree import Expr

if TYPE_CHECKING:
    from pudi.expr import parser
else:
    parser = lazy_module("pudi.expr.parser")

_MAX_LENGTH = 1_000_000


def parse(sql: str) -> Expr:
    """Read one SQL expression into an unbound tree.

    It takes Spark's syntax with two additional rules: a doubled quote inside a text is one quote, as in standard SQL,
    and chained comparisons need parentheses.

    Args:
        sql: for example "city = 'nyc' AND fare BETWEEN 10 AND 20.5".

    Raises:
        InvalidArgumentError: not a single well-formed expression.
        NotSupportedError: SQL outside the subset; the message names it.
    """
    if not isinstance(sql, str):
        raise InvalidArgumentError(f"where must be SQL text, not {type(sql).__name__}")
    if len(sql) > _MAX_LENGTH:
        raise InvalidArgumentError(f"where has {len(sql)} characters; at most {_MAX_LENGTH} are read")
    if any("\ud800" <= character <= "\udfff" for character in sql):
        raise InvalidArgumentError("where has half of a surrogate pair, which is no character: correct the text")
    return parser.read_sql(sql)


def bind_where(where: str, schema: pa.Schema, table: str) -> Expr:
    """Read a predicate and bind it to the columns of a table.

    Args:
        where: SQL text, see `parse`.
        schema: the columns, see `bind`.
        table: location of the table, for errors.

    Raises:
        InvalidArgumentError: not a well-formed predicate over these columns.
        NotSupportedError: SQL outside the subset; the message names it.
    """
    with naming(None, table):
        return bind(parse(where), schema)


def outside_where(error: PudiError) -> str:
    """Return the error message for an expression outside of `where`, whose messages name `where`."""
    message = re.sub(r"^where (?=is |must |has |can't )|(?: named)? in `?where`?(?![\w(])", "", error.message)
    return f"not supported: {message}" if isinstance(error, NotSupportedError) else message
