"""The `where` language told again in plain Python: random conditions, as SQL text and as a function of a row."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)

SCHEMA = pa.schema(
    [
        ("y", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
INTEGERS = {"y": 8, "i": 32, "l": 64}
NUMBERS = ("y", "i", "l", "f", "d", "m")


class FailureInRow(Exception):
    """Overflow or division by zero."""


@dataclass
class Condition:
    sql: str
    of: Callable[[Row], bool | None]


@dataclass
class Operand:
    """`kind`: int8, int32, int64, decimal, float or double for numbers; else the name of a column of that type."""

    sql: str
    kind: str
    of: Callable[[Row], Any]


def as_float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


SMALL = st.integers(-3, 3)
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.5, -1.0, 2.0, 3.5, math.nan, math.inf, -math.inf, 9007199254740992.0])
TEXTS = st.sampled_from(
    ["", "a", "ab", "b", "a%", "a_b", "é", "\U0001f600", "￿", "a\nb", "it's", "back\\slash", "${x}", "A"]
)
DAYS = st.dates(dt.date(2019, 12, 30), dt.date(2020, 1, 3))
TIMES = st.integers(-2, 2).map(lambda n: dt.datetime(2020, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=n * 500_000))
DECIMALS = st.integers(-350, 350).map(lambda n: Decimal(n) / 100)
EDGES = {bits: st.sampled_from([-(1 << (bits - 1)), (1 << (bits - 1)) - 1]) for bits in INTEGERS.values()}
VALUES = {
    **{name: SMALL | EDGES[bits] for name, bits in INTEGERS.items()},
    "f": FLOATS.map(as_float32),
    "d": FLOATS,
    "m": DECIMALS,
    "s": TEXTS,
    "b": st.booleans(),
    "day": DAYS,
    "ts": TIMES,
}
rows = st.lists(
    st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), min_size=1, max_size=6
)


def to_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def constant(value: Any) -> Callable[[Row], Any]:
    return lambda row: value


def float_literal(value: float) -> Operand:
    special = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    sql = f"{value!r}D" if math.isfinite(value) else f"CAST('{special}' AS DOUBLE)"
    return Operand(sql, "double", constant(value))


def column(name: str) -> Operand:
    kind = {"y": "int8", "i": "int32", "l": "int64", "f": "float", "d": "double", "m": "decimal"}.get(name, name)
    return Operand(name, kind, lambda row: row[name])


number_literals = st.one_of(
    st.integers(-300, 300).map(lambda n: Operand(str(n), "int32", constant(n))),
    st.sampled_from([2**31, -(2**31) - 1, 2**53 + 1]).map(lambda n: Operand(str(n), "int64", constant(n))),
    DECIMALS.map(lambda n: Operand(f"{n:f}", "decimal", constant(n))),
    FLOATS.map(float_literal),
)
number_columns = st.sampled_from(NUMBERS).map(column)


def calculated(op: str, left: Operand, right: Operand) -> Operand:
    """Integer arithmetic, and / of integers: types and failures as Spark's ANSI mode has them."""
    bits = max(int(side.kind[3:]) for side in (left, right))

    def compute(row: Row) -> Any:
        a, b = left.of(row), right.of(row)
        if a is None or b is None:
            return None
        if op in "/%" and b == 0:
            raise FailureInRow
        if op == "/":
            return float(a) / float(b)
        if op == "%":
            return int(math.copysign(1, a)) * (abs(a) % abs(b))
        result = {"+": a + b, "-": a - b, "*": a * b}[op]
        if not -(1 << (bits - 1)) <= result < 1 << (bits - 1):
            raise FailureInRow
        return result

    return Operand(f"({left.sql} {op} {right.sql})", "double" if op == "/" else f"int{bits}", compute)


integers = st.sampled_from(list(INTEGERS)).map(column)
small_integers = st.integers(-4, 4).map(lambda n: Operand(str(n), "int32", constant(n)))
calculations = st.builds(calculated, st.sampled_from("+-*/%"), integers, integers | small_integers)
floats_added = st.builds(
    lambda a: Operand(f"({a} + {a})", "double", lambda row: None if row[a] is None else row[a] + row[a]), st.just("d")
)
numbers = number_columns | number_literals | calculations | floats_added
others = st.one_of(
    st.sampled_from(["s", "b", "day", "ts"]).map(column),
    TEXTS.map(lambda text: Operand(quoted(text), "s", constant(text))),
    st.booleans().map(lambda value: Operand(str(value).upper(), "b", constant(value))),
    DAYS.map(lambda day: Operand(f"DATE '{day}'", "day", constant(day))),
    TIMES.map(lambda time: Operand(f"TIMESTAMP '{time.replace(tzinfo=None)}'", "ts", constant(time))),
)


def order(a: Any, b: Any, *, as_double: bool) -> int:
    """Below 0, 0 or above 0, as SQL orders two values that are not NULL."""
    if as_double:
        a, b = float(a), float(b)
        if math.isnan(a) or math.isnan(b):
            return int(math.isnan(a)) - int(math.isnan(b))
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def holds(op: str, a: Any, b: Any, *, as_double: bool) -> bool:
    sign = order(a, b, as_double=as_double)
    return {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]


def compared(op: str, left: Operand, right: Operand) -> Condition:
    as_double = {left.kind, right.kind} & {"float", "double"} != set()

    def of(row: Row) -> bool | None:
        a = left.of(row)
        if op == "<=>":
            b = right.of(row)
            return a is b if a is None or b is None else holds("=", a, b, as_double=as_double)
        b = None if a is None else right.of(row)
        return None if a is None or b is None else holds(op, a, b, as_double=as_double)

    return Condition(f"{left.sql} {op} {right.sql}", of)


OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
number_comparisons = st.builds(compared, OPERATORS, numbers, numbers)
other_comparisons = (
    st.tuples(OPERATORS, others, others).filter(lambda t: t[1].kind == t[2].kind).map(lambda t: compared(*t))
)


def both(left: bool | None, right: Callable[[], bool | None]) -> bool | None:
    if left is False:
        return False
    other = right()
    return False if other is False else None if left is None or other is None else True


def conjoined(a: Condition, b: Condition) -> Condition:
    return Condition(f"({a.sql}) AND ({b.sql})", lambda row: both(a.of(row), lambda: b.of(row)))


def inverted(value: bool | None) -> bool | None:
    return None if value is None else not value


def disjoined(a: Condition, b: Condition) -> Condition:
    def of(row: Row) -> bool | None:
        return inverted(both(inverted(a.of(row)), lambda: inverted(b.of(row))))

    return Condition(f"({a.sql}) OR ({b.sql})", of)


def negated(a: Condition) -> Condition:
    return Condition(f"NOT ({a.sql})", lambda row: inverted(a.of(row)))


def is_null(operand: Operand, negate: bool) -> Condition:
    return Condition(f"{operand.sql} IS {'NOT ' * negate}NULL", lambda row: (operand.of(row) is None) != negate)


def is_in(operand: Operand, values: list[Operand], with_null: bool, negate: bool) -> Condition:
    def of(row: Row) -> bool | None:
        found = [compared("=", operand, value).of(row) for value in values] + [None] * with_null
        result = True if True in found else None if None in found else False
        return inverted(result) if negate else result

    listed = ", ".join([value.sql for value in values] + ["NULL"] * with_null)
    return Condition(f"{operand.sql} {'NOT ' * negate}IN ({listed})", of)


def exactly_typed(operand: Operand, values: list[Operand]) -> bool:
    # With mixed types SQL widens all of them together; the model only knows pairs, which are the same without floats.
    kinds = {operand.kind, *(value.kind for value in values)}
    return not kinds & {"float", "double"} or kinds <= {"float", "double"}


number_lists = (
    st.tuples(number_columns, st.lists(number_literals, min_size=1, max_size=4), st.booleans(), st.booleans())
    .filter(lambda t: exactly_typed(t[0], t[1]))
    .map(lambda t: is_in(*t))
)
text_lists = st.builds(
    is_in,
    st.just(column("s")),
    st.lists(TEXTS.map(lambda text: Operand(quoted(text), "s", constant(text))), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)


def like(parts: list[str], negate: bool) -> Condition:
    regex = re.compile("".join({"%": ".*", "_": "."}.get(part, re.escape(part)) for part in parts), re.DOTALL)
    pattern = "".join(part if part in "%_" else re.sub(r"([%_\\])", r"\\\1", part) for part in parts if part)

    def of(row: Row) -> bool | None:
        if row["s"] is None:
            return None
        return (regex.fullmatch(row["s"]) is not None) != negate

    return Condition(f"s {'NOT ' * negate}LIKE {quoted(pattern)}", of)


likes = st.builds(
    like, st.lists(st.sampled_from(["%", "_", "a", "b", "a%", "\\", "'", "é"]), max_size=4), st.booleans()
)
between = st.tuples(number_columns, number_literals, number_literals, st.booleans()).map(
    lambda t: Condition(
        f"{t[0].sql} {'NOT ' * t[3]}BETWEEN {t[1].sql} AND {t[2].sql}",
        (negated if t[3] else lambda c: c)(conjoined(compared(">=", t[0], t[1]), compared("<=", t[0], t[2]))).of,
    )
)
plain = st.just(Condition("b", lambda row: row["b"])) | st.just(Condition("NULL", constant(None)))
atoms = st.one_of(
    number_comparisons,
    other_comparisons,
    st.builds(is_null, number_columns | others | calculations, st.booleans()),
    number_lists,
    text_lists,
    likes,
    between,
    plain,
)
conditions = st.recursive(
    atoms,
    lambda inner: st.builds(conjoined, inner, inner) | st.builds(disjoined, inner, inner) | st.builds(negated, inner),
    max_leaves=5,
)
