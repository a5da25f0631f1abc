"""Translate a bound tree to Spark SQL with the same result in and out of ANSI mode, in any session time zone."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import NotSupportedError
from pudi.expr import sqltypes
from pudi.expr.arrow import may_be_nan, may_fail
from pudi.expr.like import with_backslash
from pudi.expr.sqltypes import CastKind, cast_kind, integer_suffix, sql_name
from pudi.expr.table import ARITHMETIC, ARITHMETIC_ERROR, COMPARISONS, FUNCTIONS
from pudi.expr.tree import (
    And,
    Arith,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Neg,
    Not,
    Or,
    children,
    type_of,
    walk,
)
from pudi.schema.spark_types import quote_path

# Text that every Spark setting reads the same: no quotes, no backslash, no ${variable}, printable ASCII.
_HARMLESS = re.compile(r"[ !#%&(-\[\]^_`a-z{|}~]*", re.ASCII)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_spark_sql(expr: Expr) -> str:
    """Return SQL for `DataFrame.filter` that keeps the same rows as `to_arrow`, on Spark 3.5 and 4.

    Errors of ANSI mode occur out of it too, by `raise_error` with `ARITHMETIC_ERROR`. Predicates that NaN satisfies are
    written so that Spark doesn't push them down to Parquet statistics, which ignore NaN.

    Args:
        expr: a bound expression.

    Raises:
        NotSupportedError: a column's name contains "${", which Spark would substitute.
    """
    return _condition(expr, "")


def _condition(expr: Expr, guard: str) -> str:
    match expr:
        case And(args):
            return _connect(args, guard, " AND ")
        case Or(args):
            return _connect(args, guard, " OR ")
        case Not(IsNull(arg)):
            return f"({_any(arg, guard)} IS NOT NULL)"
        case Not(Compare("<=>") as compare):
            return _compare(compare, guard, negated=True)
        case Not(arg):
            return f"(NOT {_condition(arg, guard)})"
        case IsNull(arg):
            return f"({_any(arg, guard)} IS NULL)"
        case Compare():
            return _compare(expr, guard, negated=False)
        case In(arg, values):
            return f"({_any(arg, guard)} IN ({', '.join(_any(value, guard) for value in values)}))"
        case Like(arg, pattern, escape):
            return f"({_any(arg, guard)} LIKE {_text(with_backslash(pattern, escape))})"
    return _any(expr, guard)


def _connect(args: Sequence[Expr], guard: str, word: str) -> str:
    done: list[str] = []
    for arg in args:
        inner = guard
        if done and _fails(arg):
            # Spark may compute operands in any order, so the check itself contains the order of evaluation.
            so_far = f"({word.join(done)})" if word == " AND " else f"(NOT ({word.join(done)}))"
            inner = f"{guard} AND coalesce({so_far}, TRUE)"
        done.append(_condition(arg, inner))
    return f"({word.join(done)})"


def _fails(expr: Expr) -> bool:
    return any(map(_may_fail, walk(expr)))


def _steps(expr: Expr) -> list[Expr]:
    """The nodes of a computation, those inside of a CASE left out: it checks its own."""
    inner = () if isinstance(expr, Case) else children(expr)
    return [expr, *(step for each in inner for step in _steps(each))]


def _any(expr: Expr, guard: str) -> str:
    if isinstance(expr, Case):
        return _case(expr, guard)
    if not isinstance(expr, Column | Literal | Arith | Neg | Cast | Call):
        return _condition(expr, guard)
    sql = _value(expr, guard)
    steps = _steps(expr)
    if not any(map(_may_fail, steps)):
        return sql
    # Every step is NULL if it fails, so one check is enough: NULL although no operand is NULL.
    operands = dict.fromkeys(_value(step, guard) for step in steps if isinstance(step, Column | Case))
    present = " AND ".join(f"{operand} IS NOT NULL" for operand in operands)
    failure = f"CAST(raise_error({_text(ARITHMETIC_ERROR + str(expr))}) AS {_type(type_of(expr))})"
    return f"coalesce({sql}, CASE WHEN {present}{guard} THEN {failure} END)"


def _may_fail(expr: Expr) -> bool:
    # Arrow handles changes of unit: Spark's timestamps are in microseconds already.
    return may_fail(expr) and not (isinstance(expr, Cast) and sqltypes.is_timestamp(expr.type))


def _case(expr: Case, guard: str) -> str:
    whens = [
        f"WHEN {_condition(condition, guard)} THEN {_any(value, guard)}"
        for condition, value in zip(expr.conditions, expr.values, strict=False)
    ]
    return f"CASE {' '.join(whens)} ELSE {_any(expr.values[-1], guard)} END"


def _value(expr: Expr, guard: str = "") -> str:
    match expr:
        case Column():
            return _column(expr)
        case Case():
            return _case(expr, guard)
        case Literal(value, type_):
            return _literal(value, type_)
        case Call(name, arg):
            return FUNCTIONS[name].spark(expr, _value(arg, guard), _text)
        case Neg(arg, type_) if sqltypes.is_integer(type_):
            return f"try_subtract({_literal(0, type_)}, {_value(arg, guard)})"
        case Neg(arg):
            return f"(- {_value(arg, guard)})"
        case Arith(op, left, right):
            if _may_fail(expr):
                return ARITHMETIC[op].spark.format(_value(left, guard), _value(right, guard))
            return f"({_value(left, guard)} {op} {_value(right, guard)})"
        case Cast(arg, target):
            source = type_of(arg)
            if sql_name(source) == sql_name(target) or cast_kind(source, target) is CastKind.SAME:
                return _value(arg, guard)
            return f"{'try_cast' if _may_fail(expr) else 'CAST'}({_value(arg, guard)} AS {_type(target)})"
    raise TypeError(f"{expr} is no value")


def _compare(expr: Compare, guard: str, *, negated: bool) -> str:
    left, right, op = expr.left, expr.right, expr.op
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, right, op = right, left, COMPARISONS[op].mirrored
    value = _any(left, guard)
    if not COMPARISONS[op].null and _fails(right):
        guard = f"{guard} AND {value} IS NOT NULL"
    sql = f"({value} {op} {_any(right, guard)})"
    constant = right.value if isinstance(right, Literal) else None
    if not isinstance(constant, float) or not _reaches_the_files(left):
        return f"(NOT {sql})" if negated else sql
    if constant == 0 and op in ("=", "<=>"):
        # A Parquet dictionary distinguishes -0.0 from 0.0.
        sql = f"({sql} OR ({value} {op} {_literal(-0.0, type_of(right))}))"
    sql = f"(NOT {sql})" if negated else sql
    if may_be_nan(left) and _holds_for_nan(op, constant) != negated:
        sql = f"({sql} OR isnan({value}))"
    return sql


def _reaches_the_files(expr: Expr) -> bool:
    # Spark pushes down comparisons of a column, and removes casts to do so.
    return isinstance(expr, Column) or (isinstance(expr, Cast) and _reaches_the_files(expr.arg))


def _holds_for_nan(op: str, constant: float) -> bool:
    return COMPARISONS[op].equal if math.isnan(constant) else COMPARISONS[op].greater


def _column(column: Column) -> str:
    if any("${" in name for name in column.path):
        raise NotSupportedError(f"the column name {column} in where: Spark substitutes ${{…}} in SQL")
    return quote_path(column.path)


def _type(type_: pa.DataType) -> str:
    name = sql_name(type_)
    if name is None:
        raise NotSupportedError(f"the type {type_} in where on Spark")
    return name


def _text(value: str) -> str:
    if _HARMLESS.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode('utf-8').hex()}' AS STRING)"


def _literal(value: object, type_: pa.DataType) -> str:
    match value:
        case None:
            return f"CAST(NULL AS {_type(type_)})"
        case bool():
            return str(value).upper()
        case int():
            sql = f"{value}{integer_suffix(type_)}"
            return sql if value >= 0 else f"({sql})"
        case float():
            return _float(value, type_)
        case Decimal():
            return f"CAST('{value:f}' AS {_type(type_)})"
        case str():
            return _text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            if value.tzinfo:
                return f"timestamp_micros({(value - _EPOCH) // _MICROSECOND}L)"
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
    raise NotSupportedError(f"the constant {value!r} in where on Spark")


def _float(value: float, type_: pa.DataType) -> str:
    if math.isfinite(value):
        sql = f"({value!r}D)"
    else:
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        sql = f"CAST('{name}' AS DOUBLE)"
    return f"CAST({sql} AS FLOAT)" if pt.is_float32(type_) else sql
