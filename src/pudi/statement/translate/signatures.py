"""Signatures: the types that a function takes and gives, and its expression in DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.sqltypes import is_numeric
from pudi.statement.translate.casts import cast
from pudi.statement.translate.typed_values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    TEXT,
    TIME,
    Value,
    misfit,
    refused,
)

Rule = Callable[[str, Sequence[Value]], Value]
"""Makes a call of a function: of its name, for messages, and its arguments."""

_KINDS = {"text": TEXT, "int": INT, "long": LONG, "double": DOUBLE, "date": DATE, "time": TIME, "bool": BOOLEAN}


def argument(name: str, value: Value, wanted: str) -> Value:
    """Convert an argument to the type that a function takes, as Spark does by itself.

    Args:
        name: the function.
        value: the argument.
        wanted: `text`, `int`, `long`, `double`, `date`, `time`, `bool`, `number` (as it is), or `any`.

    Raises:
        InvalidArgumentError: Spark takes no such value there.
        NotSupportedError: the value isn't converted as Spark does.
    """
    kind = value.kind
    if wanted == "any":
        return value
    if pt.is_null(kind):
        return cast(value, _KINDS.get(wanted, DOUBLE))
    if wanted == "number":
        if kind == TEXT:
            return cast(value, DOUBLE)
        if not is_numeric(kind):
            raise misfit(name, kind)
        return value
    if wanted == "text" and kind == BINARY:
        raise refused(f"{name} of BINARY", "CAST it AS STRING")
    takes = {
        "text": not pt.is_nested(kind),
        "bool": kind in {BOOLEAN, TEXT},
        "date": kind in {DATE, TIME, TEXT},
        "time": kind in {DATE, TIME, TEXT},
    }.get(wanted, is_numeric(kind) or kind == TEXT)
    if not takes:
        raise misfit(name, kind)
    return cast(value, _KINDS[wanted])


@dataclass(frozen=True, slots=True)
class Signature:
    """A function whose calls are one expression of DuckDB.

    Attributes:
        takes: the types of the arguments, as `argument` has them.
        gives: the type of the result.
        sql: the expression; `{0}` stands for the first argument.
    """

    takes: tuple[str, ...]
    gives: pa.DataType
    sql: str

    def __call__(self, name: str, args: Sequence[Value]) -> Value:
        """Make a call."""
        given = [argument(name, each, kind).sql for each, kind in zip(args, self.takes, strict=True)]
        made = self.sql.format(*given)
        return Value(made, self.gives)


@dataclass(frozen=True, slots=True)
class Function:
    """A function by the numbers of arguments that it takes."""

    rules: Mapping[int, Rule] = field(default_factory=dict)
    any_number: Rule | None = None

    def __call__(self, name: str, args: Sequence[Value]) -> Value:
        """Make a call.

        Raises:
            InvalidArgumentError: there are too many or too few arguments.
        """
        rule = self.rules.get(len(args), self.any_number)
        if rule is None:
            counts = " or ".join(map(str, sorted(self.rules)))
            raise refused(f"{name} of {len(args)} arguments; {counts} are")
        return rule(name, args)


def given(takes: str, gives: pa.DataType, sql: str) -> Signature:
    """Return a signature; see `Signature`."""
    return Signature(tuple(takes.split()), gives, sql)


def function(*rules: Signature, **others: Rule) -> Function:
    """Return a function of signatures, and of other rules by the number of arguments: `of_2`."""
    found: dict[int, Rule] = {len(each.takes): each for each in rules}
    found |= {int(key.removeprefix("of_")): rule for key, rule in others.items() if key != "of_any"}
    return Function(found, others.get("of_any"))


def constant_int(name: str, value: Value) -> int:
    """Return a constant whole number.

    Raises:
        NotSupportedError: it's none.
    """
    if not isinstance(value.literal, int) or isinstance(value.literal, bool):
        raise refused(f"{name} with a number that is no constant", "write the number")
    return value.literal


def constant_text(name: str, value: Value) -> str:
    """Return a constant text.

    Raises:
        NotSupportedError: it's none.
    """
    if not isinstance(value.literal, str) or value.kind != TEXT:
        raise refused(f"{name} with a text that is no constant", "write the text in quotes")
    return value.literal


def from_zero(sql: str) -> str:
    """Return a number, or 0 if it's below that; null if it's null, as greatest() isn't."""
    return f"(CASE WHEN {sql} < 0 THEN 0 ELSE {sql} END)"
