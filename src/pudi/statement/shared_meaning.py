"""Decides which expressions of a statement mean the same to the language of `where` as to the engine.

A statement has one meaning: its engine's, with the session's time zone, case, quotes and ANSI mode. What `where` means
is fixed: Spark's ANSI mode in UTC. So a verb takes a condition or a value as text only if no setting of any engine can
change it: a column compared with a constant of its own type, NULLs, texts by LIKE, arithmetic of doubles. Files are
skipped by such conditions too. Everything else is computed by the engine (`pudi.statement.execute.dml`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import TokenType, exp, parse_one
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from pudi.errors import InvalidArgumentError, PudiError
from pudi.expr import Cast, Column, Expr, leaf_columns, parse, replace_columns
from pudi.expr.sqltypes import holds_integer, is_binary, is_decimal, is_float, is_integer, is_string, is_timestamp
from pudi.expr.tree import And, Arith, Compare, In, IsNull, Like, Literal, Neg, Not, Or, find_column
from pudi.plan.row_changes import MergeNames
from pudi.statement.host import Host
from pudi.statement.table_uses import conjuncts
from pudi.statement.translate.casts import is_plain_day, is_plain_moment
from pudi.statement.tree import TIME_ZONE

_READ_DIFFERENTLY = re.compile(r"[\"\\]|\$\{|--|/\*")
UTC = frozenset({"UTC", "ETC/UTC", "GMT", "Z", "+00:00", "UTC+00:00", "GMT+00:00"})
"""Names of the time zone without an offset, in upper case."""
_SAFE_DIGITS = 15
"""Decimals of so many digits become the same double everywhere."""
_MAX_PRECISION = 28
"""Decimals of so many digits are compared without being rounded."""
_EXACT_FLOAT = 1 << 24


def shared_condition(host: Host, text: str, alias: str, schema: pa.Schema) -> str | None:
    """Return a condition in the language of `where` if it means there what it means to the engine; None if it may not.

    Args:
        host: the engine.
        text: the condition as the statement has it.
        alias: what the statement calls the table.
        schema: the columns that the condition may name.
    """
    plain = _plain(text, alias)
    expr = _read(plain, schema)
    return plain if expr is not None and _Shared(schema, host).condition(expr) else None


def shared_parts(host: Host, texts: Iterable[str], alias: str, schema: pa.Schema) -> str | None:
    """Return those of some conditions, joined by AND, that `shared_condition` takes; None for none."""
    kept = [part for part in (shared_condition(host, each, alias, schema) for each in texts) if part is not None]
    return " AND ".join(f"({part})" for part in kept) or None


def parts_of(text: str) -> list[str]:
    """Return the parts of a condition that AND joins; none if sessions may read it differently."""
    if is_read_differently(text):
        return []
    try:
        return [part.sql("spark") for part in conjuncts(parse_one(text, dialect="spark"))]
    except (SqlglotError, RecursionError):
        return []


def is_read_differently(text: str) -> bool:
    """Whether a text has what a session may read as a text or as a name, as an escape, a variable or a comment."""
    return _READ_DIFFERENTLY.search(text) is not None


def shared_value(host: Host, text: str, alias: str, schema: pa.Schema, field: pa.Field) -> str | None:
    """Return a value for a column, as `shared_condition` returns conditions.

    Args:
        host: the engine.
        text: the value as the statement has it.
        alias: what the statement calls the table.
        schema: the columns that the value may be computed from.
        field: the column that takes it.
    """
    plain = _plain(text, alias)
    expr = _read(plain, schema)
    return plain if expr is not None and _Shared(schema, host).value(expr, field.type) else None


def is_shared_in_merge(host: Host, text: str, names: MergeNames, column: pa.Field | None = None) -> bool:
    """Return whether an expression over both sides of a merge means in the language of `where` what the engine means.

    Args:
        host: the engine.
        text: the expression as the statement has it.
        names: the columns of both sides.
        column: the column that takes its value; None for a condition.
    """
    schema = pa.schema([pa.field(side, pa.struct(list(each))) for side, each in names.schemas.items()])

    def spelt(name: Column) -> Column:
        found = names.resolved(name, tuple(names.schemas))
        side = name.path[0] == names.names[found.path[0]]
        if find_column(found.path, schema).path != found.path or not (side or found.path[1:] == name.path):
            raise InvalidArgumentError(f"{name} is spelled otherwise")
        return found

    try:
        expr = _read(text)
        sided = None if expr is None else replace_columns(expr, spelt)
    except PudiError:
        return False
    if sided is None:
        return False
    shared = _Shared(schema, host)
    return shared.condition(sided) if column is None else shared.value(sided, column.type)


def holds(wanted: pa.DataType, given: pa.DataType) -> bool:
    """Return whether a type has all values of another, and compares them alike."""
    if is_decimal(wanted) and is_decimal(given):
        return bool(wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale)
    wider = any(family(wanted) and family(given) for family in (is_integer, is_float))
    return bool(wanted == given) or (wider and wanted.bit_width > given.bit_width)


def compared_exactly(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types are compared without being rounded, in the wider one."""
    return any(family(one) and family(other) for family in (is_integer, is_float))


def _plain(text: str, alias: str) -> str:
    """An expression without the table's alias before its columns, which the language of `where` doesn't have."""
    if f"{alias}." not in text and f"{alias}`." not in text:
        return text
    try:
        tree = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError):
        return text
    places = [
        node.args["table"].meta for node in tree.find_all(exp.Column) if node.table == alias and not node.args.get("db")
    ]
    if not all("start" in span for span in places):
        return text
    for span in sorted(places, key=lambda each: -each["start"]):
        start, end = span["start"], span["end"] + 1
        if start > 0 and text[start] != "`" and text[start - 1] == "`":
            start -= 1
        text = text[:start] + text[text.index(".", end - 1) + 1 :]
    return text


def _read(text: str, schema: pa.Schema | None = None) -> Expr | None:
    """The tree of an expression that every session reads alike; given a schema, with columns spelled as in it."""
    if is_read_differently(text):
        return None
    try:
        kinds = [token.token_type for token in Spark().tokenize(text)]
        if any(a == b == TokenType.STRING for a, b in itertools.pairwise(kinds)):
            return None  # 'it''s' is one text with or without a quote
        expr = parse(text)
        named = () if schema is None else leaf_columns(expr)
        spelt = all(find_column(column.path, schema).path == column.path for column in named)
    except (PudiError, SqlglotError):
        return None
    return expr if spelt else None


def is_ansi(host: Host) -> bool:
    """Return whether statements follow ANSI SQL, as the session says: on one machine they always do."""
    return host.spark is None or str(host.settings.get("spark.sql.ansi.enabled")).lower() == "true"


def has_names_in_double_quotes(host: Host) -> bool:
    """Return whether double quotes hold names, not texts."""
    return is_ansi(host) and str(host.settings.get("spark.sql.ansi.doubleQuotedIdentifiers")).lower() == "true"


class _Shared:
    """Judges trees over a schema.

    Args:
        schema: the columns.
        host: the engine.
    """

    def __init__(self, schema: pa.Schema, host: Host) -> None:
        self._schema = schema
        local = host.spark is None
        self._utc = local or str(host.settings.get(TIME_ZONE)).upper() in UTC
        self._ansi = is_ansi(host)

    def condition(self, expr: Expr) -> bool:
        """Whether a condition has one meaning."""
        match expr:
            case And(args) | Or(args):
                return all(map(self.condition, args))
            case Not(arg):
                return self.condition(arg)
            case IsNull(Column()):
                return True
            case Literal(value):
                return isinstance(value, bool)
            case Column():
                return bool(pt.is_boolean(self._type(expr)))
            case Like(Column() as arg, pattern):
                return is_string(self._type(arg)) and "\\" not in pattern
            case Compare(_, left, right):
                return self._comparable(left, right) or self._comparable(right, left)
            case In(Column() as arg, values):
                return all(self._comparable(arg, each) for each in values if not isinstance(each, Column)) and not any(
                    isinstance(each, Column) for each in values
                )
        return False

    def value(self, expr: Expr, target: pa.DataType) -> bool:
        """Whether a value of a column has one meaning."""
        match expr:
            case Literal(None):
                return True
            case Column():
                return bool(self._type(expr) == target)
            case Literal(int() as value) if not isinstance(value, bool) and is_integer(target):
                return bool(holds_integer(target, value))
            case Literal(int() | Decimal() as value) if not isinstance(value, bool) and is_decimal(target):
                whole = len(str(abs(int(value))))
                return bool(_scale(value) <= target.scale and whole <= target.precision - target.scale)
            case Literal(float()):
                return bool(pt.is_float64(target))
            case Arith() | Neg():
                return (pt.is_float64(target) and self._is_double(expr)) or (
                    self._ansi and is_integer(target) and target.bit_width >= 32 and self._is_whole(expr, target)
                )
        return not pt.is_float32(target) and self._is_constant_of(expr, target)

    def _type(self, column: Column) -> pa.DataType:
        return find_column(column.path, self._schema).type

    def _comparable(self, column: Expr, other: Expr) -> bool:
        if not isinstance(column, Column):
            return False
        kind = self._type(column)
        if isinstance(other, Column):
            return bool(self._type(other) == kind) and not pt.is_nested(kind) and not is_binary(kind)
        return self._is_constant_of(other, kind)

    def _is_constant_of(self, expr: Expr, kind: pa.DataType) -> bool:
        """Whether a constant is compared with values of a type in this type."""
        match expr:
            case Literal(bool()):
                return bool(pt.is_boolean(kind))
            case Literal(str() as text):
                return is_string(kind) or bool(pt.is_date(kind) and is_plain_day(text))
            case Literal(int() as number):
                if is_decimal(kind):
                    return bool(kind.precision <= _MAX_PRECISION)
                exact = _EXACT_FLOAT if pt.is_float32(kind) else 1 << 53 if is_float(kind) else 1 << 63
                return (is_integer(kind) or is_float(kind)) and abs(number) < exact
            case Literal(Decimal() as number):
                if is_decimal(kind):
                    return bool(kind.precision <= _MAX_PRECISION and _scale(number) <= 10)
                return bool(pt.is_float64(kind)) and len(number.as_tuple().digits) <= _SAFE_DIGITS
            case Literal(float()):
                return bool(pt.is_float64(kind))
            case Cast(Literal(str() as text), target) if pt.is_date(target):
                return bool(pt.is_date(kind)) and is_plain_day(text)
            case Cast(Literal(str() as text), target) if is_timestamp(target):
                return self._utc and is_timestamp(kind) and bool(kind.tz) and is_plain_moment(text)
        return False

    def _is_double(self, expr: Expr) -> bool:
        match expr:
            case Column():
                return bool(pt.is_float64(self._type(expr)))
            case Neg(arg):
                return self._is_double(arg)
            case Arith("+" | "-" | "*", left, right):
                sides = (left, right)
                return any(map(self._is_double, sides)) and all(
                    self._is_double(each) or (isinstance(each, Literal) and self._is_constant_of(each, pa.float64()))
                    for each in sides
                )
        return False

    def _is_whole(self, expr: Expr, kind: pa.DataType) -> bool:
        match expr:
            case Column():
                return bool(self._type(expr) == kind)
            case Arith("+" | "-" | "*", left, right):
                return self._is_whole(left, kind) and isinstance(right, Literal) and right.type == pa.int32()
        return False


def _scale(number: int | Decimal) -> int:
    return 0 if isinstance(number, int) else max(0, -int(number.as_tuple().exponent))
