"""The table of functions and operators: the parser, binder, Arrow, Spark SQL, pruning and indexes are made from it.

Functions have Spark's semantics. To add one, add an entry to `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import moments
from pudi.expr.moments import DEFAULT_FORMAT, Moment
from pudi.expr.sqltypes import (
    common_type,
    decimal_product,
    decimal_sum,
    is_binary,
    is_integer,
    is_numeric,
    is_string,
    is_timestamp,
    plain,
    sql_name,
)
from pudi.expr.tree import Call, Column, Expr, type_of
from pudi.schema.arrays import one_array

ARITHMETIC_ERROR: Final = "pudi: overflow or division by zero in where: "
"""Prefix of the message of Spark's error for a row that can't be computed."""

Constants = tuple[object, ...]
_Quote = Callable[[str], str]
_Sql = Callable[[Call, str, _Quote], str]
_Result = Callable[[pa.DataType, Constants], pa.DataType | None]
_Common = Callable[[pa.DataType, pa.DataType], pa.DataType | None]


def _plain_sql(call: Call, arg: str, _: _Quote) -> str:
    return f"{call.name}({', '.join([arg, *map(str, call.options)])})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of one value and constants after it.

    Attributes:
        result: the result type for the value's type and the constants; None if it doesn't take them.
        arrow: computes the results of an array of values; NULL for NULL.
        spark: SQL with the same results in any session time zone, of the call, the value's SQL, and what formats a text
            as a literal; by default Spark's function of the same name.
        aliases: Spark's other names of the function.
        defaults: the constants if none are given.
        keeps_order: with these constants, a greater value never gives a smaller result, so that bounds of values give
            bounds of results.
        zoned: whether Spark's results of a type depend on the session time zone.
        widen: widens bounds of results from an unknown time zone so that they hold in UTC.
        index: the constants from an expression index's options; None if Hudi has no index by this function
            (`ExpressionIndexSparkFunctions`).
    """

    result: _Result
    arrow: Callable[[pa.Array, Constants], pa.Array]
    spark: _Sql = _plain_sql
    aliases: tuple[str, ...] = ()
    defaults: Constants = ()
    keeps_order: Callable[[Constants], bool] = lambda _: False
    zoned: Callable[[pa.DataType], bool] = lambda _: False
    widen: Callable[[pa.Array, pa.Array, Constants], tuple[pa.Array, pa.Array]] | None = None
    index: Callable[[Mapping[str, str]], Constants] | None = lambda _: ()


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of arithmetic.

    Attributes:
        node: sqlglot's class.
        arrow: computes it; raises on overflow and division by zero.
        spark: SQL of the operands that is NULL where `arrow` raises.
        integers: the type of both sides and the result for two integers.
        floats: the same if a side is floating-point; None if the operator doesn't take it.
        decimals: the result type for two decimals; None if the operator doesn't take them, or beyond 38 digits.
        divides: whether it fails for 0 on the right side.
    """

    node: str
    arrow: Callable[[pc.Expression, pc.Expression], pc.Expression]
    spark: str
    integers: _Common = common_type
    floats: _Common | None = common_type
    decimals: _Common | None = None
    divides: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison.

    Attributes:
        node: sqlglot's class.
        opposite: the comparison that holds where this one doesn't; None if it is written with NOT.
        mirrored: the comparison with exchanged sides.
        less: whether it holds if the left side is less.
        equal: whether it holds if both sides are equal.
        greater: whether it holds if the left side is greater.
        null: whether it holds if both sides are NULL.
    """

    node: str
    opposite: str | None
    mirrored: str
    less: bool = False
    equal: bool = False
    greater: bool = False
    null: bool = False


def _gives(result: pa.DataType, *takes: Callable[[pa.DataType], bool]) -> _Result:
    """Return the rule of a function without constants that takes some types."""
    return lambda kind, constants: None if constants or not any(takes_it(kind) for takes_it in takes) else result


def _slices(kind: pa.DataType, constants: Constants) -> pa.DataType | None:
    counts = len(constants) == 2 and all(isinstance(n, int) and n >= 0 for n in constants)
    return pa.string() if is_string(kind) and counts else None


def _counted(values: pa.Array, _: Constants) -> pa.Array:
    """Count code points of texts, as Spark does, and bytes of binaries."""
    return (pc.utf8_length if is_string(values.type) else pc.binary_length)(values).cast(pa.int32())


def _same_number(kind: pa.DataType, constants: Constants) -> pa.DataType | None:
    return kind if is_numeric(kind) and not constants else None


def _absolute(values: pa.Array, _: Constants) -> pa.Array:
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"abs can't be computed for every row: {error}") from error


def _absolute_sql(call: Call, arg: str, quote: _Quote) -> str:
    """`abs`, that fails for the smallest integer, which Spark without ANSI mode returns unchanged."""
    kind = type_of(call)
    if not is_integer(kind):
        return f"abs({arg})"
    failure = f"CAST(raise_error({quote(f'{ARITHMETIC_ERROR}{call}')}) AS {sql_name(kind)})"
    return (
        f"CASE WHEN {arg} = CAST({-(1 << (kind.bit_width - 1))} AS {sql_name(kind)}) THEN {failure} ELSE abs({arg}) END"
    )


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_date32(kind)) or is_timestamp(kind)


def _has_zone(kind: pa.DataType) -> bool:
    return is_timestamp(kind) and kind.tz is not None


def _dates_formatted(kind: pa.DataType, constants: Constants) -> pa.DataType | None:
    if not _is_moment(kind) or len(constants) != 1 or not moments.format_pieces(constants[0]):
        return None
    timed = {"HH", "mm", "ss"} & set(moments.fields_of(constants[0]))
    return None if timed and pt.is_date32(kind) else pa.string()


def _seconds_formatted(kind: pa.DataType, constants: Constants) -> pa.DataType | None:
    fits = is_integer(kind) and len(constants) == 1 and moments.format_pieces(constants[0])
    return pa.string() if fits else None


def _cased(change: Callable[[str], str], ascii_change: Callable[[pa.Array], pa.Array]) -> Function:
    def arrow(values: pa.Array, _: Constants) -> pa.Array:
        """Change case as Java does: one letter may become several."""
        if pc.all(pc.string_is_ascii(values)).as_py() is not False:
            return ascii_change(values).cast(pa.string())
        coded = pc.dictionary_encode(values)
        return pa.array(list(map(change, coded.dictionary.to_pylist())), pa.string()).take(coded.indices)

    return Function(
        result=_gives(pa.string(), is_string), arrow=arrow, aliases=("lcase" if change is str.lower else "ucase",)
    )


def _trimmed(strip: Callable[[pa.Array, str], pa.Array]) -> Function:
    return Function(result=_gives(pa.string(), is_string), arrow=lambda values, _: strip(values, " ").cast(pa.string()))


def _sliced(values: pa.Array, constants: Constants) -> pa.Array:
    position, length = (int(str(each)) for each in constants)
    start = max(position - 1, 0)
    return pc.utf8_slice_codeunits(values, start, start + length).cast(pa.string())


def _of_moment(value: Callable[[Moment, Constants, _Quote], str]) -> _Sql:
    """Return SQL of a function of a point in time, which fails outside the years 1 to 9999."""

    def sql(call: Call, arg: str, quote: _Quote) -> str:
        moment = Moment(arg, type_of(call.arg))
        failure = quote(f"{ARITHMETIC_ERROR}no year from 1 to 9999 in {call}")
        raised = f"CAST(raise_error({failure}) AS {sql_name(type_of(call))})"
        result = value(moment, call.options, quote)
        return f"CASE WHEN {arg} IS NULL THEN NULL WHEN {moment.in_range} THEN {result} ELSE {raised} END"

    return sql


def _part(field: str, count: Callable[[pa.Array], pa.Array], takes: Callable[[pa.DataType], bool]) -> Function:
    return Function(
        result=_gives(pa.int32(), takes),
        arrow=lambda values, _: count(moments.seconds_of(values)).cast(pa.int32()),
        spark=_of_moment(lambda moment, *_: moment.field(field)),
        keeps_order=lambda _: field == "yyyy",
        zoned=_has_zone,
        widen=lambda least, greatest, _: moments.one_around(least, greatest),
    )


def _format(result: _Result, zoned: Callable[[pa.DataType], bool], defaults: Constants = ()) -> Function:
    return Function(
        result=result,
        arrow=lambda values, constants: moments.formatted(moments.seconds_of(values), constants[0]),
        spark=_of_moment(lambda moment, constants, quote: moment.formatted(constants[0], quote)),
        defaults=defaults,
        keeps_order=lambda constants: moments.keeps_order(constants[0]),
        zoned=zoned,
        widen=lambda least, greatest, constants: moments.texts_around(least, greatest, constants[0]),
        index=lambda options: (options.get("format", DEFAULT_FORMAT),),
    )


FUNCTIONS: Final[Mapping[str, Function]] = {
    "lower": _cased(str.lower, pc.ascii_lower),
    "upper": _cased(str.upper, pc.ascii_upper),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "substring": Function(
        result=_slices,
        arrow=_sliced,
        aliases=("substr",),
        index=lambda options: (int(options["pos"]), int(options["len"])),
    ),
    "length": Function(result=_gives(pa.int32(), is_string, is_binary), arrow=_counted, index=None),
    "abs": Function(result=_same_number, arrow=_absolute, spark=_absolute_sql, index=None),
    "year": _part("yyyy", pc.year, _is_moment),
    "month": _part("MM", pc.month, _is_moment),
    "day": _part("dd", pc.day, _is_moment),
    "hour": _part("HH", pc.hour, is_timestamp),
    "to_date": Function(
        result=_gives(pa.date32(), _is_moment),
        arrow=lambda values, _: pc.floor_temporal(moments.seconds_of(values), unit="day").cast(pa.date32()),
        spark=_of_moment(lambda moment, *_: moment.date),
        keeps_order=lambda _: True,
        zoned=_has_zone,
        widen=lambda least, greatest, _: moments.one_around(least, greatest),
        index=lambda options: (options["format"],) if "format" in options else (),
    ),
    "from_unixtime": _format(_seconds_formatted, lambda _: True, (DEFAULT_FORMAT,)),
    "date_format": _format(_dates_formatted, is_timestamp),
}
"""The functions by name in lower case."""


def _remainder(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    # The sign of the divisor doesn't matter, but the smallest integer can't be divided by -1.
    divisor = pc.abs(right)
    return pc.subtract_checked(left, pc.multiply_checked(pc.divide_checked(left, divisor), divisor))


def _double(*_: pa.DataType) -> pa.DataType:
    return pa.float64()


ARITHMETIC: Final[Mapping[str, Operator]] = {
    "+": Operator("Add", pc.add_checked, "try_add({0}, {1})", decimals=decimal_sum),
    "-": Operator("Sub", pc.subtract_checked, "try_subtract({0}, {1})", decimals=decimal_sum),
    "*": Operator("Mul", pc.multiply_checked, "try_multiply({0}, {1})", decimals=decimal_product),
    "/": Operator("Div", pc.divide_checked, "try_divide({0}, {1})", _double, _double, divides=True),
    "%": Operator("Mod", _remainder, "({0} % nullif({1}, 0))", floats=None, divides=True),
}
"""The operators of arithmetic."""

COMPARISONS: Final[Mapping[str, Comparison]] = {
    "=": Comparison("EQ", "<>", "=", equal=True),
    "<>": Comparison("NEQ", "=", "<>", less=True, greater=True),
    "<": Comparison("LT", ">=", ">", less=True),
    "<=": Comparison("LTE", ">", ">=", less=True, equal=True),
    ">": Comparison("GT", "<=", "<", greater=True),
    ">=": Comparison("GTE", "<", "<=", equal=True, greater=True),
    "<=>": Comparison("NullSafeEQ", None, "<=>", equal=True, null=True),
}
"""The comparisons."""


def bound_call(name: str, arg: Expr, options: tuple[object, ...]) -> Call:
    """Return a typed function call on a bound value.

    Args:
        name: the function's name in lower case.
        arg: the value.
        options: the constants after the value.

    Raises:
        NotSupportedError: an unknown function, or unsupported argument types or constants.
    """
    kind, function = type_of(arg), FUNCTIONS.get(name)
    given = options or function.defaults if function else options
    result = function.result(kind, given) if function else None
    if result is None:
        shown = Call(name, arg, options)
        raise NotSupportedError(f"{shown} of a value of type {sql_name(kind)} in where")
    return Call(name, arg, given, result)


def index_call(function: str, options: Mapping[str, str], column: Column) -> Call | Column | None:
    """Return the expression of an expression index; None if pudi doesn't support it.

    Args:
        function: the index's function.
        options: its settings by Hudi's keys (HoodieExpressionIndex).
        column: the bound column.
    """
    if function == "identity":
        return column
    known = FUNCTIONS.get(function)
    if known is None or known.index is None or column.type is None or plain(column.type) != column.type:
        return None
    try:
        return None if "trimString" in options else bound_call(function, column, known.index(options))
    except (KeyError, ValueError, NotSupportedError):
        return None


def keeps_order(call: Call) -> bool:
    """Return whether a greater argument never gives a smaller result."""
    return FUNCTIONS[call.name].keeps_order(call.options)


def depends_on_zone(call: Call) -> bool:
    """Return whether the result in Spark depends on the session time zone."""
    return FUNCTIONS[call.name].zoned(type_of(call.arg))


def apply_call(call: Call, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Compute a function's results.

    Args:
        call: the bound function.
        values: the values of its argument, in its type.

    Raises:
        InvalidArgumentError: a point in time is outside the years 1 to 9999.
    """
    values = one_array(values)
    return FUNCTIONS[call.name].arrow(values, call.options)


def widened(call: Call, least: pa.Array, greatest: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Widen bounds computed in an unknown time zone so that they hold in UTC; null if unknown.

    Args:
        call: a function that keeps the order of values.
        least: the minimum results.
        greatest: the maximum results.
    """
    widen = FUNCTIONS[call.name].widen
    assert widen is not None, f"{call.name} depends on no time zone"
    return widen(least, greatest, call.options)
