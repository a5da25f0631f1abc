"""Aggregates and window functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.sqltypes import decimal, is_decimal, is_integer
from pudi.statement.translate.casts import cast
from pudi.statement.translate.nested import condition
from pudi.statement.translate.numbers import divided
from pudi.statement.translate.signatures import argument
from pudi.statement.translate.typed_values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    NULL,
    Value,
    duckdb_name,
    misfit,
    refused,
    spark_name,
)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows that an aggregate is of.

    Attributes:
        distinct: whether equal values count once.
        filter: a condition on rows; None for none.
        over: the window, `OVER (…)`; None for a group.
        ignores_nulls: whether FIRST and LAST pass over nulls.
    """

    distinct: bool = False
    filter: str | None = None
    over: str | None = None
    ignores_nulls: bool = False

    def of(self, name: str, *args: str, only: str | None = None) -> str:
        """Return a call of an aggregate of DuckDB.

        Args:
            name: the aggregate.
            args: its arguments.
            only: a condition on rows besides the statement's.
        """
        conditions = [each for each in (self.filter, only) if each is not None]
        made = f"{name}({'DISTINCT ' if self.distinct else ''}{', '.join(args)})"
        if conditions:
            made += f" FILTER (WHERE {' AND '.join(f'({each})' for each in conditions)})"
        return made if self.over is None else f"{made} {self.over}"


Aggregate = Callable[[str, Sequence[Value], Group], Value]
"""Makes a call of an aggregate: of its name, its arguments and its rows."""


def _one(name: str, args: Sequence[Value]) -> Value:
    if len(args) != 1:
        raise refused(f"{name} of {len(args)} arguments")
    return args[0]


def _count(name: str, args: Sequence[Value], group: Group) -> Value:
    del name
    if not args:
        return Value(group.of("count", "*"), LONG)
    if len(args) == 1:
        return Value(group.of("count", args[0].sql), LONG)
    there = " AND ".join(f"{each.sql} IS NOT NULL" for each in args)
    counted = f"row({', '.join(each.sql for each in args)})" if group.distinct else "1"
    return Value(group.of("count", counted, only=there), LONG)


def _count_if(name: str, args: Sequence[Value], group: Group) -> Value:
    if group.distinct:
        raise refused("count_if of distinct values")
    return Value(group.of("count", "*", only=condition(name, _one(name, args))), LONG)


def _sum(name: str, args: Sequence[Value], group: Group) -> Value:
    number = argument(name, _one(name, args), "number")
    if is_decimal(number.kind):
        kind = decimal(min(number.kind.precision + 10, 38), number.kind.scale)
        assert kind is not None
        return Value(f"CAST({group.of('sum', number.sql)} AS {duckdb_name(kind)})", kind)
    if is_integer(number.kind):
        return Value(f"CAST({group.of('sum', number.sql)} AS BIGINT)", LONG)
    return Value(group.of("sum", cast(number, DOUBLE).sql), DOUBLE)


def _average(name: str, args: Sequence[Value], group: Group) -> Value:
    number = argument(name, _one(name, args), "number")
    if not is_decimal(number.kind):
        return Value(group.of("avg", number.sql if is_integer(number.kind) else cast(number, DOUBLE).sql), DOUBLE)
    kind = decimal(number.kind.precision + 4, number.kind.scale + 4)
    if kind is None:
        raise refused(f"{name} of {spark_name(number.kind)}", "CAST it to fewer digits, or AS DOUBLE")
    total = Value(group.of("sum", number.sql), pa.decimal128(number.kind.precision, number.kind.scale))
    count = Value(f"CAST({group.of('count', number.sql)} AS DECIMAL(20, 0))", pa.decimal128(20, 0))
    return divided(total, count, kind)


def _extreme(name: str, args: Sequence[Value], group: Group) -> Value:
    value = _one(name, args)
    if pt.is_nested(value.kind):
        raise refused(f"{name} of {spark_name(value.kind)}")
    return Value(group.of(name, value.sql), value.kind)


def _statistic(called: str, count: int = 1) -> Aggregate:
    def rule(name: str, args: Sequence[Value], group: Group) -> Value:
        if len(args) != count:
            raise refused(f"{name} of {len(args)} arguments")
        return Value(group.of(called, *(argument(name, each, "double").sql for each in args)), DOUBLE)

    return rule


def _every(called: str) -> Aggregate:
    def rule(name: str, args: Sequence[Value], group: Group) -> Value:
        return Value(group.of(called, condition(name, _one(name, args))), BOOLEAN)

    return rule


def _bits(name: str, args: Sequence[Value], group: Group) -> Value:
    value = _one(name, args)
    if not is_integer(value.kind):
        raise misfit(name, value.kind)
    return Value(group.of(name, value.sql), value.kind)


def _collected(name: str, args: Sequence[Value], group: Group) -> Value:
    value = _one(name, args)
    rows = Group(True, group.filter, group.over) if name == "collect_set" else group
    kind = pa.list_(value.kind)
    made = rows.of("list", value.sql, only=f"{value.sql} IS NOT NULL")
    return Value(f"coalesce({made}, CAST([] AS {duckdb_name(kind)}))", kind)


def _first(called: str) -> Aggregate:
    def rule(name: str, args: Sequence[Value], group: Group) -> Value:
        if len(args) > 1 and not isinstance(args[1].literal, bool):
            raise refused(f"{name} with a second argument that is no constant")
        value = args[0]
        ignores = group.ignores_nulls or (len(args) > 1 and args[1].literal is True)
        window = {"first": "first_value", "last": "last_value"}[called]
        if group.over is not None:
            if group.filter is not None:
                raise refused(f"{name} over a window with a FILTER")
            nulls = " IGNORE NULLS" if ignores else ""
            return Value(f"{window}({value.sql}{nulls}) {group.over}", value.kind)
        return Value(group.of(called, value.sql, only=f"{value.sql} IS NOT NULL" if ignores else None), value.kind)

    return rule


def _by(called: str) -> Aggregate:
    def rule(name: str, args: Sequence[Value], group: Group) -> Value:
        if len(args) != 2 or pt.is_nested(args[1].kind):
            raise refused(f"{name} of {len(args)} arguments, or by a nested value")
        if args[0].kind == NULL:
            raise misfit(name, args[0].kind)
        held = group.of(called, f"{{'v': {args[0].sql}}}", args[1].sql)
        return Value(f"struct_extract({held}, 'v')", args[0].kind)

    return rule


def _percentile(name: str, args: Sequence[Value], group: Group) -> Value:
    part = "0.5" if name == "median" and len(args) == 1 else None
    if part is None and len(args) == 2 and isinstance(args[1].literal, str | int):
        part = str(args[1].literal)
    if part is None or group.distinct:
        raise refused(f"{name} but of a column and a constant")
    return Value(group.of("quantile_cont", argument(name, args[0], "double").sql, part), DOUBLE)


AGGREGATES: Mapping[str, Aggregate] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extreme,
    "max": _extreme,
    "stddev": _statistic("stddev_samp"),
    "stddev_samp": _statistic("stddev_samp"),
    "std": _statistic("stddev_samp"),
    "stddev_pop": _statistic("stddev_pop"),
    "variance": _statistic("var_samp"),
    "var_samp": _statistic("var_samp"),
    "var_pop": _statistic("var_pop"),
    "covar_pop": _statistic("covar_pop", 2),
    "covar_samp": _statistic("covar_samp", 2),
    "every": _every("bool_and"),
    "bool_and": _every("bool_and"),
    "bool_or": _every("bool_or"),
    "any": _every("bool_or"),
    "some": _every("bool_or"),
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "collect_list": _collected,
    "array_agg": _collected,
    "collect_set": _collected,
    "first": _first("first"),
    "first_value": _first("first"),
    "any_value": _first("first"),
    "last": _first("last"),
    "last_value": _first("last"),
    "max_by": _by("arg_max"),
    "min_by": _by("arg_min"),
    "median": _percentile,
    "percentile": _percentile,
}
"""Aggregates by name; each takes OVER too."""


def _rank(kind: pa.DataType) -> Aggregate:
    def rule(name: str, args: Sequence[Value], group: Group) -> Value:
        if args:
            raise misfit(name, *(each.kind for each in args))
        return Value(f"CAST({group.of(name)} AS {duckdb_name(kind)})", kind)

    return rule


def _ntile(name: str, args: Sequence[Value], group: Group) -> Value:
    return Value(f"CAST({group.of(name, argument(name, _one(name, args), 'int').sql)} AS INTEGER)", INT)


def _neighbour(name: str, args: Sequence[Value], group: Group) -> Value:
    if not 1 <= len(args) <= 3 or group.ignores_nulls:
        raise refused(f"{name} with IGNORE NULLS, or of {len(args)} arguments")
    value = args[0]
    rest = [argument(name, args[1], "int").sql] if len(args) > 1 else []
    if len(args) > 2:
        rest.append(cast(args[2], value.kind).sql)
    return Value(group.of(name, value.sql, *rest), value.kind)


def _nth(name: str, args: Sequence[Value], group: Group) -> Value:
    if len(args) != 2 or group.ignores_nulls:
        raise refused(f"{name} with IGNORE NULLS, or of {len(args)} arguments")
    return Value(group.of(name, args[0].sql, argument(name, args[1], "int").sql), args[0].kind)


WINDOWS: Mapping[str, Aggregate] = {
    "row_number": _rank(INT),
    "rank": _rank(INT),
    "dense_rank": _rank(INT),
    "percent_rank": _rank(DOUBLE),
    "cume_dist": _rank(DOUBLE),
    "ntile": _ntile,
    "lag": _neighbour,
    "lead": _neighbour,
    "nth_value": _nth,
}
"""Functions of windows alone, by name."""
