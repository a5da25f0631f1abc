"""Predicates: as SQL, and as what they are of a row of the model, with SQL's three values."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from support.histories.values import Columns, is_nested, random_value, sql

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_FUNCTIONS: dict[str, tuple[Callable[[pa.DataType], bool], pa.DataType | None, Callable[[Any, ZoneInfo], Any]]] = {
    "lower": (pa.types.is_string, None, lambda text, _: text.lower()),
    "upper": (pa.types.is_string, None, lambda text, _: text.upper()),
    "length": (pa.types.is_string, pa.int32(), lambda text, _: len(text)),
    "abs": (pa.types.is_integer, None, lambda number, _: abs(number)),
    "year": (pa.types.is_date, pa.int32(), lambda day, _: day.year),
    "day": (pa.types.is_date, pa.int32(), lambda day, _: day.day),
    "hour": (pa.types.is_timestamp, pa.int32(), lambda moment, zone: moment.astimezone(zone).hour),
    "to_date": (pa.types.is_timestamp, pa.date32(), lambda moment, zone: moment.astimezone(zone).date()),
}
"""Functions by name: the types that they take, the type that they give if it's another, and what they do."""
_PATTERNS = ("x%", "%", "_", "1_", "%s", "a_b", "%é%", "")


def functions_of(kind: pa.DataType) -> list[str]:
    """Return the functions that take a type."""
    return [name for name, (takes, _, _) in _FUNCTIONS.items() if takes(kind)]


@dataclass(frozen=True)
class Predicate:
    """A condition; `parts` depends on `kind`.

    Attributes:
        kind: a comparison's sign, `in`, `not in`, `between`, `like`, `null`, `not null`, `not`, `and`, `or`.
        parts: an operand and a value or values, or predicates. An operand is a column path, or a function of one.
        zone: the session's time zone, of a statement's predicate; empty for the API's, which is in UTC.
    """

    kind: str
    parts: tuple[Any, ...]
    zone: str = ""

    def sql(self, prefix: str = "") -> str:
        """Return it as SQL; columns have the prefix."""
        if self.kind in {"and", "or"}:
            return f"({self.parts[0].sql(prefix)} {self.kind.upper()} {self.parts[1].sql(prefix)})"
        if self.kind == "not":
            return f"NOT {self.parts[0].sql(prefix)}"
        function, path = _function_and_path(self.parts[0])
        name = f"{function}({prefix}{path})" if function else prefix + path
        if self.kind in {"null", "not null"}:
            return f"{name} IS {self.kind.upper()}"
        if self.kind in {"in", "not in"}:
            return f"{name} {self.kind.upper()} ({', '.join(self._literal(each) for each in self.parts[1])})"
        if self.kind == "between":
            return f"{name} BETWEEN {self._literal(self.parts[1][0])} AND {self._literal(self.parts[1][1])}"
        return f"{name} {self.kind.upper()} {self._literal(self.parts[1])}"

    def _literal(self, value: Any) -> str:
        return sql(value, self.zone)

    def of(self, row: Mapping[str, Any]) -> bool | None:
        """Return what it is of a row: true, false or unknown."""
        if self.kind in {"and", "or"}:
            known, decides = [part.of(row) for part in self.parts], self.kind == "or"
            if decides in known:
                return decides
            return None if None in known else not decides
        if self.kind == "not":
            value = self.parts[0].of(row)
            return None if value is None else not value
        value = value_at(row, self.parts[0], self.zone)
        if self.kind in {"null", "not null"}:
            return (value is None) == (self.kind == "null")
        if self.kind == "<=>":
            return value == self.parts[1]  # type: ignore[no-any-return]
        return None if value is None else self._of_known(value)

    def _of_known(self, value: Any) -> bool:
        if self.kind in {"in", "not in"}:
            return (value in self.parts[1]) == (self.kind == "in")
        if self.kind == "between":
            return self.parts[1][0] <= value <= self.parts[1][1]  # type: ignore[no-any-return]
        if self.kind == "like":
            pattern = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in self.parts[1])
            return re.fullmatch(pattern, value, re.DOTALL) is not None
        return _COMPARED[self.kind](value, self.parts[1])

    def columns(self) -> set[str]:
        """Return the columns that it's about."""
        if self.kind in {"and", "or", "not"}:
            return set().union(*(part.columns() for part in self.parts))
        return {_function_and_path(self.parts[0])[1].partition(".")[0]}


def _function_and_path(operand: str) -> tuple[str, str]:
    function, _, path = operand.rstrip(")").rpartition("(")
    return function, path


def value_at(row: Mapping[str, Any], operand: str, zone: str = "") -> Any:
    """Return a row's value of a column or a field of one, or of a function of that in a time zone."""
    function, path = _function_and_path(operand)
    value: Any = row
    for name in path.split("."):
        value = None if value is None else value[name]
    return _FUNCTIONS[function][2](value, ZoneInfo(zone or "UTC")) if function and value is not None else value


def random_predicate(
    chance: random.Random, columns: Columns, rows: list[dict[str, Any]], zone: str = "", depth: int = 0
) -> Predicate:
    """Return a predicate over some columns, with values that rows have mostly; `zone` as of `Predicate`."""
    draw = chance.random()
    if depth < 2 and draw < 0.25:
        both = [random_predicate(chance, columns, rows, zone, depth + 1) for _ in range(2)]
        return Predicate(chance.choice(["and", "or"]), tuple(both))
    if depth < 2 and draw < 0.35:
        return Predicate("not", (random_predicate(chance, columns, rows, zone, depth + 1),))
    paths = dict(_paths(columns))
    path = chance.choice(list(paths))
    kind = paths[path]
    if is_nested(kind) or chance.random() < 0.12:
        return Predicate(chance.choice(["null", "not null"]), (path,))
    functions = functions_of(kind)
    if functions and path != "p" and chance.random() < 0.15:
        function = chance.choice(functions)
        path, kind = f"{function}({path})", _FUNCTIONS[function][1] or kind

    def value() -> Any:
        there = [found for row in rows if (found := value_at(row, path, zone)) is not None]
        return chance.choice(there) if there and chance.random() < 0.8 else random_value(chance, kind, 0)

    if pa.types.is_string(kind) and chance.random() < 0.12:
        return Predicate("like", (path, chance.choice(_PATTERNS)), zone)
    if pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return Predicate(chance.choice(["=", "=", "=", "<>", "<=>"]), (path, value()), zone)
    if chance.random() < 0.2 and not pa.types.is_floating(kind):
        return Predicate(chance.choice(["in", "in", "not in", "between"]), (path, (value(), value())), zone)
    return Predicate(chance.choice(["=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>"]), (path, value()), zone)


def _paths(columns: Columns) -> list[tuple[str, pa.DataType]]:
    paths = []
    for name, kind in columns.items():
        paths.append((name, kind))
        if pa.types.is_struct(kind):
            paths += [(f"{name}.{path}", inner) for path, inner in _paths({field.name: field.type for field in kind})]
    return paths
