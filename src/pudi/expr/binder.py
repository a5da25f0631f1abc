"""Parse the text of a `where` and bind the tree to a schema; the parser loads with sqlglot at first use.

To bind finds the tree's columns, types its constants, and brings both sides of each operator to one type. A bound tree
has a normal form that the translators rely on: all operands of a comparison have the same type, NOT stands only before
IS NULL, IN, LIKE, <=> and boolean columns, and IN holds no floating-point numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError, naming
from pudi.expr import literals, sqltypes
from pudi.expr.arrow import evaluate, may_fail
from pudi.expr.like import pattern_parts
from pudi.expr.sqltypes import CastKind, sql_name
from pudi.expr.table import ARITHMETIC, COMPARISONS, bound_call
from pudi.expr.tree import (
    BOOLEAN,
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
    find_column,
    type_of,
    walk,
)
from pudi.schema.types import takes_as_is

if TYPE_CHECKING:
    from pudi.expr import parser
else:
    parser = lazy_module("pudi.expr.parser")

_MAX_LENGTH = 1_000_000

_MAX_GUARDS = 6
_MAX_OPERANDS = 2_000
"""Conditions that one AND or OR joins."""


def bind(expr: Expr, schema: pa.Schema) -> Expr:
    """Bind a parsed `where` to a schema.

    Names are case-insensitive, as in Spark. A constant takes the column's type if this keeps its value; otherwise both
    sides are widened by the rules of Spark's ANSI mode.

    Args:
        expr: the result of `parse`.
        schema: the schema of the rows to evaluate.

    Returns:
        A bound tree of type boolean.

    Raises:
        InvalidArgumentError: unknown column, incompatible types, a constant that overflows, or a non-boolean
            expression.
        NotSupportedError: a column type or cast that `where` doesn't support.
    """
    return _limited(_boolean(expr, schema))


def bind_value(expr: Expr, schema: pa.Schema, target: pa.DataType) -> Expr:
    """Bind a parsed expression whose value is assigned to a column.

    A constant is cast to the column's type. Other expressions are cast if both engines agree on the cast; values that
    don't fit raise an error (Spark's ANSI store assignment).

    Args:
        expr: the result of `parse`, or a constant.
        schema: the schema of the rows to evaluate.
        target: the column's type.

    Raises:
        InvalidArgumentError: unknown column, or a constant that isn't a value of the type.
        NotSupportedError: a type or cast that expressions don't support.
    """
    if isinstance(expr, Column) and takes_as_is(target, (column := find_column(expr.path, schema)).type):
        return column  # of any type, including nested ones
    bound = _limited(_value(expr, schema))
    if isinstance(bound, Literal):
        return literals.coerce(bound, target) or _cast_literal(bound, target)
    return _explicit_cast(bound, target)


def _limited(bound: Expr) -> Expr:
    if _guarded_depth(bound) > _MAX_GUARDS:
        raise NotSupportedError(f"arithmetic that may fail below more than {_MAX_GUARDS} levels of AND and OR in where")
    return bound


def _guarded_depth(expr: Expr) -> int:
    """Return the nesting depth of operands that both engines compute twice, to check whether another one fails."""
    below = max(map(_guarded_depth, children(expr)), default=0)
    guarded = children(expr)[1:] if isinstance(expr, And | Or | Compare) else ()
    return below + any(may_fail(node) for arg in guarded for node in walk(arg))


def _boolean(expr: Expr, schema: pa.Schema) -> Expr:
    match expr:
        case And(args):
            return _joined(And, [_boolean(arg, schema) for arg in args])
        case Or(args):
            return _joined(Or, _with_sets([_boolean(arg, schema) for arg in args]))
        case Not(arg):
            return negate(_boolean(arg, schema))
        case IsNull(Column(path)):
            return IsNull(find_column(path, schema))
        case IsNull(arg):
            return IsNull(_value(arg, schema))
        case Compare(op, left, right):
            return Compare(op, *_unify(_value(left, schema), _value(right, schema)))
        case In(arg, values):
            return _in(_value(arg, schema), tuple(_value(value, schema) for value in values))
        case Like(arg, pattern, escape):
            return _like(_value(arg, schema), pattern, escape)
    value = _value(expr, schema)
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, BOOLEAN)
    if not pt.is_boolean(type_of(value)):
        raise InvalidArgumentError(f"{expr} in where is {_typed(value)}, where a condition (BOOLEAN) is needed")
    return value


def _with_sets(args: Sequence[Expr]) -> list[Expr]:
    """Return operands of OR in which constants that one expression may equal are one IN."""
    constants: dict[Expr, list[Expr]] = {}
    first: dict[Expr, int] = {}
    joined: list[Expr] = []
    for arg in args:
        left = _tested(arg)
        if left is not None:
            if left not in first:
                first[left] = len(joined)
                joined.append(arg)
            constants.setdefault(left, []).extend(arg.values if isinstance(arg, In) else children(arg)[1:])
        else:
            joined.append(arg)
    for left, place in first.items():
        if len(constants[left]) > 1:
            joined[place] = In(left, tuple(dict.fromkeys(constants[left])))
    return joined


def _tested(expr: Expr) -> Expr | None:
    """Return the expression that a condition compares with constants of a set; None if no set can stand for it."""
    match expr:
        case In(arg, _):
            return arg
        case Compare("=", Column() as column, Literal(value)) if value is not None:
            return None if sqltypes.is_float(type_of(column)) else column  # sets differ from = about NaN and -0.0
    return None


def _joined(kind: type[And | Or], args: Sequence[Expr]) -> Expr:
    if len(args) > _MAX_OPERANDS:
        word = "AND" if kind is And else "OR"
        raise InvalidArgumentError(
            f"where joins {len(args)} conditions by {word}; at most {_MAX_OPERANDS} are taken: "
            "use IN for constants of one column, or scan(keys=…) for many records"
        )
    return kind(tuple(args)) if len(args) > 1 else args[0]


def negate(expr: Expr) -> Expr:
    """Return the NOT of a bound condition, pushed down as far as possible."""
    match expr:
        case And(args):
            return Or(tuple(map(negate, args)))
        case Or(args):
            return And(tuple(map(negate, args)))
        case Not(arg):
            return arg
        case Compare(op, left, right) if opposite := COMPARISONS[op].opposite:
            return Compare(opposite, left, right)
        case Literal(value):
            return Literal(None if value is None else not value, BOOLEAN)
    return Not(expr)


def _value(expr: Expr, schema: pa.Schema) -> Expr:
    match expr:
        case Column(path):
            column = find_column(path, schema)
            assert column.type is not None
            plain = sqltypes.plain(column.type)
            if plain is None:
                raise NotSupportedError(
                    f"column {column} of type {column.type} in where: only IS [NOT] NULL works on it"
                )
            return column if plain == column.type else Cast(column, plain)
        case Literal():
            return expr
        case Arith(op, left, right):
            return _arith(op, _value(left, schema), _value(right, schema))
        case Neg(arg):
            return _neg(_value(arg, schema))
        case Cast(arg, target):
            return _explicit_cast(_value(arg, schema), target)
        case Call(name, arg, options):
            value = _value(arg, schema)
            if isinstance(value, Literal):
                raise NotSupportedError(f"a function of a constant in where: {expr}")
            return bound_call(name, value, options)
        case Case(conditions, values):
            return _case(
                tuple(_boolean(each, schema) for each in conditions), tuple(_value(each, schema) for each in values)
            )
    return _boolean(expr, schema)


def _typed(expr: Expr) -> str:
    name = sql_name(type_of(expr)) or str(type_of(expr))
    return name if isinstance(expr, Literal) else f"of type {name}"


def _mismatch(left: Expr, right: Expr, doing: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"can't {doing} {left} ({sql_name(type_of(left))}) and {right} ({sql_name(type_of(right))}) in where"
    )


def _unify(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    a, b = type_of(left), type_of(right)
    if pt.is_null(a) and pt.is_null(b):
        return Literal(None, BOOLEAN), Literal(None, BOOLEAN)
    for this, other, swap in ((right, left, False), (left, right, True)):
        if isinstance(this, Literal) and not isinstance(other, Literal):
            fitted = literals.coerce(this, type_of(other))
            if fitted is not None:
                return (fitted, other) if swap else (other, fitted)
    target = _meeting_type(a, b, left, right)
    if target is None and isinstance(left, Literal) and isinstance(right, Literal):
        target = b if literals.coerce(left, b) else a if literals.coerce(right, a) else None
    if target is None:
        raise _mismatch(left, right, "compare")
    return _widen(left, target), _widen(right, target)


def _meeting_type(a: pa.DataType, b: pa.DataType, left: Expr, right: Expr) -> pa.DataType | None:
    if pt.is_null(a) or pt.is_null(b):
        return b if pt.is_null(a) else a
    common = sqltypes.common_type(a, b)
    if common is None and sqltypes.is_numeric(a) and sqltypes.is_numeric(b):
        raise NotSupportedError(
            f"comparing {left} ({sql_name(a)}) and {right} ({sql_name(b)}) in where needs more than 38 digits"
        )
    for type_, other in ((a, right), (b, left)):
        if common is None and sqltypes.is_timestamp(type_) and isinstance(other, Literal):
            # a constant more precise than the column's milliseconds
            finest = pa.timestamp("us", tz=type_.tz)
            common = finest if literals.coerce(other, finest) else None
    return common


def _widen(expr: Expr, target: pa.DataType) -> Expr:
    source = type_of(expr)
    if source == target:
        return expr
    if isinstance(expr, Literal):
        fitted = literals.coerce(expr, target)
        if fitted is None:
            raise InvalidArgumentError(f"the constant {expr} in where can't be {sql_name(target)}")
        return fitted
    if sqltypes.cast_kind(source, target) is None:
        raise NotSupportedError(f"{expr} of type {sql_name(source)} as {sql_name(target)} in where")
    return Cast(expr, target)


def _in(arg: Expr, values: tuple[Expr, ...]) -> Expr:
    constants = [value for value in values if isinstance(value, Literal)]
    if len(constants) < len(values):
        raise NotSupportedError(f"IN with anything but constants in where: {In(arg, values)}")
    if pt.is_null(type_of(arg)):
        return Literal(None, BOOLEAN)
    target = type_of(arg)
    for constant in constants:
        if literals.coerce(constant, target) is None:
            meeting = _meeting_type(target, constant.type, arg, constant)
            if meeting is None:
                raise _mismatch(arg, constant, "compare")
            target = meeting
    arg = _widen(arg, target)
    typed = tuple(value for value in (literals.coerce(constant, target) for constant in constants) if value)
    if len(typed) < len(constants):
        raise InvalidArgumentError(f"the constants of {In(arg, values)} in where have no common type")
    if sqltypes.is_float(type_of(arg)):
        # Hash sets disagree with = about NaN and -0.0, in Arrow and in Spark.
        equals = tuple(Compare("=", arg, value) for value in typed)
        return Or(equals) if len(equals) > 1 else equals[0]
    return In(arg, tuple(dict.fromkeys(typed)))


def _like(arg: Expr, pattern: str, escape: str) -> Expr:
    pattern_parts(pattern, escape)
    if pt.is_null(type_of(arg)):
        return Literal(None, BOOLEAN)
    if not sqltypes.is_string(type_of(arg)):
        raise InvalidArgumentError(f"LIKE needs text in where, but {arg} is {_typed(arg)}")
    return Like(arg, pattern, escape)


def _arith(op: str, left: Expr, right: Expr) -> Expr:
    a, b = type_of(left), type_of(right)
    if pt.is_null(a) or pt.is_null(b):
        return Literal(None, b if pt.is_null(a) else a)
    if not (sqltypes.is_numeric(a) and sqltypes.is_numeric(b)):
        raise _mismatch(left, right, f"apply {op} to")
    working, operator = _working_types(op, left, right), ARITHMETIC[op]
    if working is None:
        other = "cast one side to DOUBLE" if operator.floats else "it takes integers only"
        hint = "at most 38 digits" if operator.decimals else other
        raise NotSupportedError(f"{op} on {sql_name(a)} and {sql_name(b)} in where: {Arith(op, left, right)}; {hint}")
    left_type, right_type, result = working
    if op == "%" and any(isinstance(node, Arith) and node.op == "%" for side in (left, right) for node in walk(side)):
        raise NotSupportedError(f"% inside % in where: {Arith(op, left, right)}")
    return _fold(Arith(op, _operand(left, left_type), _operand(right, right_type), result))


def _working_types(op: str, left: Expr, right: Expr) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    a, b, operator = type_of(left), type_of(right), ARITHMETIC[op]
    both = None
    if sqltypes.is_integer(a) and sqltypes.is_integer(b):
        both = operator.integers(a, b)
    elif sqltypes.is_float(a) or sqltypes.is_float(b):
        both = operator.floats(a, b) if operator.floats else None
    elif operator.decimals:
        left_type, right_type = _decimal_of(left), _decimal_of(right)
        result = operator.decimals(left_type, right_type)
        return (left_type, right_type, result) if result else None
    return (both, both, both) if both else None


def _decimal_of(expr: Expr) -> pa.DataType:
    if isinstance(expr, Literal) and isinstance(expr.value, int):
        return pa.decimal128(len(str(abs(expr.value))), 0)
    return sqltypes.as_decimal(type_of(expr))


def _operand(expr: Expr, target: pa.DataType) -> Expr:
    if isinstance(expr, Literal) and sqltypes.is_float(target):
        return expr if expr.type == target else _cast_literal(expr, target)
    return _widen(expr, target)


def _case(conditions: tuple[Expr, ...], values: tuple[Expr, ...]) -> Expr:
    """Bring the values of a CASE to one type; a constant takes that of the others if this keeps its value."""
    target = pa.null()
    for value in sorted(values, key=lambda each: isinstance(each, Literal)):
        kind = type_of(value)
        if isinstance(value, Literal) and literals.coerce(value, target) is not None:
            continue
        meeting = kind if pt.is_null(target) else target if pt.is_null(kind) else sqltypes.common_type(target, kind)
        if meeting is None:
            raise InvalidArgumentError(
                f"the values of {Case(conditions, values)} in where are {sql_name(target)} and {sql_name(kind)}"
            )
        target = meeting
    if pt.is_null(target):
        return Literal(None, target)
    return Case(conditions, tuple(_widen(value, target) for value in values), target)


def _neg(arg: Expr) -> Expr:
    type_ = type_of(arg)
    if pt.is_null(type_):
        return arg
    if not sqltypes.is_numeric(type_):
        raise InvalidArgumentError(f"can't apply - to {arg} ({sql_name(type_)}) in where")
    return _fold(Neg(arg, type_))


def _explicit_cast(arg: Expr, target: pa.DataType) -> Expr:
    source = type_of(arg)
    if isinstance(arg, Literal):
        return _cast_literal(arg, target)
    kind = sqltypes.cast_kind(source, target)
    if kind is None:
        raise NotSupportedError(f"CAST of {arg} from {sql_name(source)} to {sql_name(target)} in where")
    return arg if kind is CastKind.SAME else Cast(arg, target)


def _cast_literal(literal: Literal, target: pa.DataType) -> Literal:
    value = literal.value
    if value is None:
        return Literal(None, target)
    if isinstance(value, str):
        return literals.cast_text(value, target)
    if sqltypes.is_decimal(literal.type) and sqltypes.is_float(target):
        # from its text, so that it is rounded once
        return Literal(pa.array([str(value)]).cast(target)[0].as_py(), target)
    fitted = literals.coerce(literal, target)
    if fitted is not None:
        return fitted
    if sqltypes.cast_kind(literal.type, target) is None:
        raise NotSupportedError(f"CAST of {literal} from {sql_name(literal.type)} to {sql_name(target)} in where")
    folded = _fold(Cast(literal, target))
    assert isinstance(folded, Literal)
    return folded


@cache
def _one_row() -> pa.Table:
    # made at first use: making an array loads pandas, which `import pudi` must not
    return pa.table({"": pa.array([True])})


def _fold(expr: Arith | Neg | Cast) -> Expr:
    """Compute an operation on constants; leave others unchanged.

    Raises:
        InvalidArgumentError: it overflows or divides by zero.
    """
    operands = [operand for operand in children(expr) if isinstance(operand, Literal)]
    if len(operands) < len(children(expr)):
        return expr
    missing = any(operand.value is None for operand in operands)
    return Literal(None if missing else evaluate(expr, _one_row())[0].as_py(), type_of(expr))


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
