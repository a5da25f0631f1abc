"""Functions of numbers, and arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.sqltypes import (
    as_decimal,
    decimal,
    decimal_product,
    decimal_sum,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
)
from pudi.statement.translate.casts import cast
from pudi.statement.translate.signatures import Function, Signature, argument, constant_int, function, given
from pudi.statement.translate.typed_values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    TEXT,
    Value,
    common_number,
    duckdb_name,
    misfit,
    refused,
    spark_name,
    widest,
)

_NAN = "CAST('nan' AS DOUBLE)"
_MOST, _LEAST = "9223372036854775807", "CAST('-9223372036854775808' AS BIGINT)"
_EXACT_DIGITS = 15


def operands(name: str, left: Value, right: Value) -> tuple[Value, Value]:
    """Return both sides of an operator as numbers: texts become doubles, nulls numbers of the other side's type.

    Raises:
        InvalidArgumentError: a side is no number.
    """
    sides = [left, right]
    for place, other in ((0, 1), (1, 0)):
        if sides[place].kind == TEXT:
            sides[place] = cast(sides[place], DOUBLE)
        elif pt.is_null(sides[place].kind):
            kind = sides[other].kind
            sides[place] = cast(sides[place], kind if is_numeric(kind) else DOUBLE)
    if not all(is_numeric(each.kind) for each in sides):
        raise misfit(name, left.kind, right.kind)
    return sides[0], sides[1]


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Translate `+`, `-`, `*`, `/`, `%` and `div` of numbers.

    Raises:
        InvalidArgumentError: a side is no number.
        NotSupportedError: decimals of more than 38 digits.
    """
    left, right = operands(operator, left, right)
    if is_decimal(left.kind) or is_decimal(right.kind):
        if not is_float(left.kind) and not is_float(right.kind):
            return _decimals(operator, _as_decimal(left), _as_decimal(right))
        left, right = cast(left, DOUBLE), cast(right, DOUBLE)
    if operator == "/":
        return Value(f"({cast(left, DOUBLE).sql} / NULLIF({cast(right, DOUBLE).sql}, 0))", DOUBLE)
    kind = common_number(left.kind, right.kind)
    assert kind is not None
    a, b = cast(left, kind).sql, cast(right, kind).sql
    if operator == "div":
        if not is_integer(kind):
            raise misfit("div", left.kind, right.kind)
        return Value(f"({cast(left, LONG).sql} // NULLIF({cast(right, LONG).sql}, 0))", LONG)
    if operator == "%":
        return Value(f"({a} % NULLIF({b}, 0))", kind)
    return Value(f"({a} {operator} {b})", kind)


def _as_decimal(value: Value) -> Value:
    """A whole number as a decimal; of a constant with the digits that it has."""
    if is_decimal(value.kind):
        return value
    if isinstance(value.literal, int):
        kind = pa.decimal128(max(len(str(abs(value.literal))), 1), 0)
        return Value(f"CAST({value.literal} AS {duckdb_name(kind)})", kind)
    return cast(value, as_decimal(value.kind))


def _decimals(operator: str, left: Value, right: Value) -> Value:
    a, b = left.kind, right.kind
    whole, scale = max(a.precision - a.scale, b.precision - b.scale), max(a.scale, b.scale)
    if operator in {"+", "-"}:
        kind = decimal_sum(a, b)
    elif operator == "*":
        kind = decimal_product(a, b)
    elif operator == "%":
        kind = decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    elif operator == "/":
        return divided(left, right)
    else:
        raise refused("div of decimals", "CAST both sides AS BIGINT")
    if kind is None or (operator == "%" and whole + scale > 38):
        raise _too_long(operator, a, b)
    if operator == "*":
        return Value(f"CAST({_product(left, right)} AS {duckdb_name(kind)})", kind)
    if operator == "%":
        sides = [f"CAST({each.sql} AS DECIMAL({whole + scale}, {scale}))" for each in (left, right)]
        return Value(f"CAST({sides[0]} % NULLIF({sides[1]}, 0) AS {duckdb_name(kind)})", kind)
    sides = [f"CAST({each.sql} AS {duckdb_name(kind)})" for each in (left, right)]
    return Value(f"CAST({sides[0]} {operator} {sides[1]} AS {duckdb_name(kind)})", kind)


def _too_long(operator: str, *kinds: pa.DataType) -> Exception:
    names = " and ".join(map(spark_name, kinds))
    return refused(
        f"{operator} of {names}, which may have more than 38 digits", "CAST them to fewer digits, or AS DOUBLE"
    )


def divided(left: Value, right: Value, kind: pa.DataType | None = None) -> Value:
    """Return a quotient of decimals, rounded once, away from zero at the half; null for a division by zero.

    Args:
        left: a decimal.
        right: another, without aggregates twice.
        kind: the type of the quotient; None for Spark's.
    """
    a, b = left.kind, right.kind
    if kind is None:
        scale = max(6, a.scale + b.precision + 1)
        kind = decimal(a.precision - a.scale + b.scale + scale, scale)
    shift = 0 if kind is None else kind.scale - a.scale + b.scale
    if kind is None or shift < 0 or a.precision + shift > 37 or kind.precision + kind.scale + 1 > 38:
        raise _too_long("/", a, b)
    over, under = _unscaled(left), _unscaled(right)
    over = f"({over} * {10**shift})"
    rounded = f"((2 * abs({over}) + abs({under})) // NULLIF(2 * abs({under}), 0))"
    signed = f"CASE WHEN ({over} < 0) <> ({under} < 0) THEN -{rounded} ELSE {rounded} END"
    whole, unit = pa.decimal128(kind.precision, 0), pa.decimal128(kind.scale + 1, kind.scale)
    made = _product(
        Value(f"CAST({signed} AS {duckdb_name(whole)})", whole),
        Value(f"CAST('1e-{kind.scale}' AS {duckdb_name(unit)})", unit),
    )
    return Value(f"CAST({made} AS {duckdb_name(kind)})", kind)


def _product(left: Value, right: Value) -> str:
    """A product of decimals, in as many digits as it needs: DuckDB stays at 18 if both sides have no more."""
    a = left.kind
    is_short = max(a.precision, right.kind.precision) <= 18 < a.precision + right.kind.precision
    sql = f"CAST({left.sql} AS DECIMAL(19, {a.scale}))" if is_short else left.sql
    return f"({sql} * {right.sql})"


def _unscaled(value: Value) -> str:
    return f"CAST(replace(CAST({value.sql} AS VARCHAR), '.', '') AS HUGEINT)"


def negated(value: Value) -> Value:
    """Translate a minus sign."""
    number = argument("-", value, "number")
    return Value(f"(-{number.sql})", number.kind)


def _absolute(name: str, args: Sequence[Value]) -> Value:
    number = argument(name, args[0], "number")
    return Value(f"abs({number.sql})", number.kind)


def _as_long(double: str) -> str:
    """A double without fraction as BIGINT: the nearest there is, 0 for NaN."""
    return (
        f"CASE WHEN isnan({double}) THEN 0 WHEN {double} >= 9223372036854775807 THEN {_MOST} "
        f"WHEN {double} <= -9223372036854775808 THEN {_LEAST} ELSE CAST({double} AS BIGINT) END"
    )


def _whole(name: str, args: Sequence[Value]) -> Value:
    """CEIL and FLOOR."""
    called = "floor" if name == "floor" else "ceil"
    number = argument(name, args[0], "number")
    if is_integer(number.kind):
        return cast(number, LONG)
    if is_float(number.kind):
        return Value(_as_long(f"{called}({cast(number, DOUBLE).sql})"), LONG)
    kind = decimal(number.kind.precision - number.kind.scale + 1, 0)
    if kind is None:
        raise _too_long(name, number.kind)
    return Value(f"CAST({called}({number.sql}) AS {duckdb_name(kind)})", kind)


def _rounded(name: str, args: Sequence[Value]) -> Value:
    number = argument(name, args[0], "number")
    places = constant_int(name, args[1]) if len(args) > 1 else 0
    kind = number.kind
    if is_integer(kind) and places >= 0:
        return number
    if is_integer(kind) or not 0 <= places <= _EXACT_DIGITS:
        raise refused(f"{name} to {places} digits")
    if is_decimal(kind):
        scale = min(kind.scale, places)
        found = decimal(kind.precision - kind.scale + 1 + scale, scale)
        if found is None:
            raise _too_long(name, kind)
        return Value(f"CAST({number.sql} AS {duckdb_name(found)})", found)
    double = cast(number, DOUBLE).sql
    # Spark rounds the decimal that is printed: 1.005 to 1.01. Numbers of 16 digits have no fraction to round.
    exact = f"CAST(CAST(CAST({double} AS VARCHAR) AS DECIMAL(38, {places})) AS VARCHAR)"
    made = f"CASE WHEN abs({double}) < 1e15 THEN CAST({exact} AS DOUBLE) ELSE {double} END"
    return cast(Value(made, DOUBLE), kind)


def _rounded_to_even(name: str, args: Sequence[Value]) -> Value:
    number = argument(name, args[0], "number")
    if is_integer(number.kind):
        return number
    if number.kind != DOUBLE or (len(args) > 1 and constant_int(name, args[1]) != 0):
        raise refused(f"{name} but to whole numbers of doubles", "use round")
    return Value(f"(round_even({number.sql}, 0) + 0)", DOUBLE)


def _positive_modulo(name: str, args: Sequence[Value]) -> Value:
    left, right = operands(name, *args)
    if is_decimal(left.kind) or is_decimal(right.kind):
        raise refused("pmod of decimals", "use %, or CAST them AS DOUBLE")
    rest = arithmetic("%", left, right)
    divisor = f"NULLIF({cast(right, rest.kind).sql}, 0)"
    made = f"CASE WHEN {rest.sql} < 0 THEN ({rest.sql} + {divisor}) % {divisor} ELSE {rest.sql} END"
    return Value(made, rest.kind)


def _extreme(name: str, args: Sequence[Value]) -> Value:
    """GREATEST and LEAST: nulls don't count, NaN is greater than any number."""
    if len(args) < 2:
        raise misfit(name, *(each.kind for each in args))
    kind = widest(each.kind for each in args)
    mixed = any(each.kind == TEXT for each in args) and kind != args[0].kind
    if kind is None or pt.is_nested(kind) or (mixed and len({each.kind for each in args}) > 1):
        raise misfit(name, *(each.kind for each in args))
    return Value(f"{name}({', '.join(cast(each, kind).sql for each in args)})", kind)


def _hexadecimal(name: str, args: Sequence[Value]) -> Value:
    value = args[0]
    return Value(f"hex({cast(value, LONG).sql if is_integer(value.kind) else value.sql})", TEXT)


def _operator(operator: str) -> Function:
    return function(of_2=lambda name, args: arithmetic(operator, args[0], args[1]))


def _bits(name: str, args: Sequence[Value]) -> Value:
    if not (is_integer(args[0].kind) or args[0].kind == BOOLEAN):
        raise misfit(name, args[0].kind)
    return Value(f"CAST(bit_count({cast(args[0], LONG).sql}) AS INTEGER)", INT)


def bitwise(operator: str, left: Value, right: Value) -> Value:
    """Translate `&`, `|` and `^` of whole numbers."""
    if not (is_integer(left.kind) and is_integer(right.kind)):
        raise misfit(operator, left.kind, right.kind)
    kind = common_number(left.kind, right.kind)
    assert kind is not None
    a, b = cast(left, kind).sql, cast(right, kind).sql
    return Value(f"xor({a}, {b})" if operator == "^" else f"({a} {operator} {b})", kind)


def _of_positive(called: str) -> Signature:
    return given("double", DOUBLE, f"CASE WHEN {{0}} <= 0 THEN NULL ELSE {called}({{0}}) END")


def _of_finite(called: str) -> Function:
    return function(given("double", DOUBLE, f"CASE WHEN isinf({{0}}) THEN {_NAN} ELSE {called}({{0}}) END"))


_OF_BASE = "CASE WHEN {0} <= 0 OR {1} <= 0 THEN NULL ELSE ln({1}) / ln({0}) END"
_SIGN = f"CASE WHEN isnan({{0}}) THEN {_NAN} WHEN {{0}} > 0 THEN 1e0 WHEN {{0}} < 0 THEN -1e0 ELSE {{0}} END"
_ROUND = function(of_1=_rounded, of_2=_rounded)

NUMBERS: Mapping[str, Function] = {
    "abs": function(of_1=_absolute),
    "negative": function(of_1=lambda _, args: negated(args[0])),
    "positive": function(of_1=lambda name, args: argument(name, args[0], "number")),
    "ceil": function(of_1=_whole),
    "ceiling": function(of_1=_whole),
    "floor": function(of_1=_whole),
    "round": _ROUND,
    "bround": function(of_1=_rounded_to_even, of_2=_rounded_to_even),
    "sqrt": function(given("double", DOUBLE, f"CASE WHEN {{0}} < 0 THEN {_NAN} ELSE sqrt({{0}}) END")),
    "cbrt": function(given("double", DOUBLE, "cbrt({0})")),
    "exp": function(given("double", DOUBLE, "exp({0})")),
    "ln": function(_of_positive("ln")),
    "log": function(_of_positive("ln"), given("double double", DOUBLE, _OF_BASE)),
    "log10": function(_of_positive("log10")),
    "log2": function(_of_positive("log2")),
    "pow": function(given("double double", DOUBLE, "pow({0}, {1})")),
    "power": function(given("double double", DOUBLE, "pow({0}, {1})")),
    "sign": function(given("double", DOUBLE, _SIGN)),
    "signum": function(given("double", DOUBLE, _SIGN)),
    "sin": _of_finite("sin"),
    "cos": _of_finite("cos"),
    "tan": _of_finite("tan"),
    "atan": function(given("double", DOUBLE, "atan({0})")),
    "atan2": function(given("double double", DOUBLE, "atan2({0}, {1})")),
    "degrees": function(given("double", DOUBLE, "degrees({0})")),
    "radians": function(given("double", DOUBLE, "radians({0})")),
    "pi": function(given("", DOUBLE, "pi()")),
    "e": function(given("", DOUBLE, "exp(1e0)")),
    "greatest": function(of_any=_extreme),
    "least": function(of_any=_extreme),
    "pmod": function(of_2=_positive_modulo),
    "mod": _operator("%"),
    "isnan": function(given("double", BOOLEAN, "coalesce(isnan({0}), FALSE)")),
    "nanvl": function(given("double double", DOUBLE, "CASE WHEN isnan({0}) THEN {1} ELSE {0} END")),
    "hex": function(of_1=_hexadecimal),
    "bit_count": function(of_1=_bits),
}
"""Functions of numbers by name."""
