"""Values of Spark's types: the types, what DuckDB calls them, and expressions of them as they are translated.

Types are named as in Arrow; common types follow Spark's rules of coercion. A value that DuckDB would treat in another
way than Spark is refused.

Source: TypeCoercion, DecimalPrecision (Spark 3.5, without ANSI mode).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr.sqltypes import (
    MAX_DECIMAL_DIGITS,
    NAMED_TYPES,
    as_decimal,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
    sql_name,
    wider_decimal,
)

NULL, BOOLEAN = pa.null(), pa.bool_()
BYTE, SHORT, INT, LONG = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
TEXT, BINARY = pa.string(), pa.binary()
DATE, TIME, LOCAL_TIME = pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")
INTERVAL = pa.month_day_nano_interval()

_NAMES = {
    NULL: "INTEGER", BOOLEAN: "BOOLEAN", BYTE: "TINYINT", SHORT: "SMALLINT", INT: "INTEGER", LONG: "BIGINT",
    FLOAT: "FLOAT", DOUBLE: "DOUBLE", TEXT: "VARCHAR", BINARY: "BLOB", DATE: "DATE", TIME: "TIMESTAMPTZ",
    LOCAL_TIME: "TIMESTAMP",
}  # fmt: skip
KIND_BY_NAME = {name.lower(): kind for name, kind in NAMED_TYPES.items()} | {
    "byte": BYTE, "short": SHORT, "integer": INT, "long": LONG, "real": FLOAT, "decimal": pa.decimal128(10, 0),
    "string": TEXT, "binary": BINARY, "timestamp": TIME, "timestamp_ntz": LOCAL_TIME,
}  # fmt: skip
"""Types by their names in Spark's SQL; casts are functions of these names too."""
_RANKS = (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE)


def duckdb_name(kind: pa.DataType) -> str:
    """Return what DuckDB calls a type."""
    if is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_list(kind):
        return f"{duckdb_name(kind.value_type)}[]"
    if pt.is_map(kind):
        return f"MAP({duckdb_name(kind.key_type)}, {duckdb_name(kind.item_type)})"
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(each.name)} {duckdb_name(each.type)}' for each in kind)})"
    return _NAMES[kind]


def spark_name(kind: pa.DataType) -> str:
    """Return what Spark calls a type, for messages."""
    if pt.is_list(kind):
        return f"ARRAY<{spark_name(kind.value_type)}>"
    if pt.is_map(kind):
        return f"MAP<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pt.is_struct(kind):
        return f"STRUCT<{', '.join(f'{each.name}: {spark_name(each.type)}' for each in kind)}>"
    return "INTERVAL" if kind == INTERVAL else sql_name(kind) or str(kind)


def quoted(name: str) -> str:
    """Return a name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def is_known(kind: pa.DataType) -> bool:
    """Return whether Spark has a type; DuckDB has others, such as times of day."""
    if pt.is_list(kind):
        return is_known(kind.value_type)
    if pt.is_map(kind):
        return is_known(kind.key_type) and is_known(kind.item_type)
    if pt.is_struct(kind):
        return all(is_known(each.type) for each in kind)
    return is_decimal(kind) or kind in _NAMES


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of Spark that holds the values of a type of Arrow; the type itself if there is none."""
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind) or pt.is_list_view(kind):
        return pa.list_(plain(kind.value_type))
    if pt.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pt.is_struct(kind):
        return pa.struct([(each.name, plain(each.type)) for each in kind])
    if pt.is_timestamp(kind):
        return TIME if kind.tz else LOCAL_TIME
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return TEXT
    if pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return BINARY
    unsigned = {pa.uint8(): SHORT, pa.uint16(): INT, pa.uint32(): LONG, pa.uint64(): pa.decimal128(20, 0)}
    return unsigned.get(kind, kind)


def of_sql(node: exp.DataType) -> pa.DataType | None:
    """Return the type that a CAST names; None for one that this module doesn't know."""
    kind = node.this
    name = kind.value if hasattr(kind, "value") else str(kind)
    given = [each.this for each in node.expressions if isinstance(each, exp.DataTypeParam)]
    if name in {"DECIMAL", "NUMERIC"}:
        digits = [int(str(each.this)) for each in given if isinstance(each, exp.Literal)]
        precision, scale = (*digits, 0)[:2] if digits else (10, 0)
        return pa.decimal128(precision, scale) if 0 < precision <= MAX_DECIMAL_DIGITS and scale <= precision else None
    inner = [of_sql(each) for each in node.expressions if isinstance(each, exp.DataType)]
    if any(each is None for each in inner):
        return None
    if name in {"ARRAY", "LIST"} and len(inner) == 1:
        return pa.list_(inner[0])
    if name == "MAP" and len(inner) == 2:
        return pa.map_(*inner)
    if name == "STRUCT":
        fields = [each for each in node.expressions if isinstance(each, exp.ColumnDef)]
        kinds = [of_sql(each.args["kind"]) for each in fields]
        if len(fields) != len(node.expressions) or any(each is None for each in kinds):
            return None
        return pa.struct([(each.name, kind) for each, kind in zip(fields, kinds, strict=True)])
    return _OF_SQL.get(name)


_OF_SQL = {
    "BOOLEAN": BOOLEAN, "TINYINT": BYTE, "SMALLINT": SHORT, "INT": INT, "BIGINT": LONG, "FLOAT": FLOAT,
    "DOUBLE": DOUBLE, "TEXT": TEXT, "VARCHAR": TEXT, "CHAR": TEXT, "BINARY": BINARY, "VARBINARY": BINARY,
    "DATE": DATE, "TIMESTAMPTZ": TIME, "TIMESTAMPLTZ": TIME, "TIMESTAMPNTZ": LOCAL_TIME,
}  # fmt: skip


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type that two numbers are compared and computed in."""
    if is_decimal(left) or is_decimal(right):
        if is_float(left) or is_float(right):
            return DOUBLE
        return wider_decimal(as_decimal(left), as_decimal(right))
    return _RANKS[max(_RANKS.index(left), _RANKS.index(right))]


def compared(left: pa.DataType, right: pa.DataType, *, equal: bool) -> pa.DataType | None:
    """Return the type in which two values are compared; None if Spark or pudi compares no such values.

    Args:
        left: a type.
        right: another.
        equal: whether they are compared for equality alone.
    """
    for this, other in ((left, right), (right, left)):
        if pt.is_null(this):
            return other
        if this == TEXT and (is_integer(other) or is_float(other) or other in {BOOLEAN, DATE, TIME, BINARY}):
            return other
        if this == TEXT and is_decimal(other):
            return DOUBLE
        if this == DATE and other == TIME:
            return TIME
        if equal and this == BOOLEAN and is_numeric(other):
            return other
    if is_numeric(left) and is_numeric(right):
        return common_number(left, right)
    if left == right:
        return None if pt.is_map(left) or (pt.is_nested(left) and not equal) else left
    return None


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of a value that is one of two, as of CASE, IN or UNION; None if there is none."""
    if left == right or pt.is_null(right):
        return left
    if pt.is_null(left):
        return right
    if is_numeric(left) and is_numeric(right):
        return common_number(left, right)
    if {left, right} == {DATE, TIME}:
        return TIME
    for this, other in ((left, right), (right, left)):
        if this == TEXT and (is_numeric(other) or other in {DATE, TIME, LOCAL_TIME}):
            return TEXT
    if pt.is_list(left) and pt.is_list(right):
        item = wider(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if pt.is_map(left) and pt.is_map(right):
        key, item = wider(left.key_type, right.key_type), wider(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pt.is_struct(left) and pt.is_struct(right) and left.num_fields == right.num_fields:
        names = [each.name for each in left]
        kinds = [wider(a.type, b.type) for a, b in zip(left, right, strict=True)]
        same = [each.name.lower() for each in right] == [each.lower() for each in names]
        return pa.struct(list(zip(names, kinds, strict=True))) if same and None not in kinds else None
    return None


def widest(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """Return the type of a value that is one of several; see `wider`."""
    found: pa.DataType | None = NULL
    for kind in kinds:
        found = None if found is None else wider(found, kind)
    return found


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
