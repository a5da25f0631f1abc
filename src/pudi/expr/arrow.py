"""Translate a bound tree to a pyarrow expression with the semantics of Spark's ANSI mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError
from pudi.expr import sqltypes
from pudi.expr.like import to_regex
from pudi.expr.sqltypes import CastKind, cast_kind
from pudi.expr.table import ARITHMETIC, COMPARISONS, apply_call
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
    leaf_columns,
    rewritten,
    type_of,
    walk,
)
from pudi.schema.arrays import joined_arrays, mask_of, one_array, portions, repeated, take


@cache
def _null() -> pc.Expression:
    # made at first use: making a scalar loads pandas, which `import pudi` must not
    return pc.scalar(pa.scalar(None, pa.bool_()))


def to_arrow(expr: Expr) -> pc.Expression:
    """Return a boolean expression for `Table.filter`, Acero and `evaluate`; NULL as in SQL.

    NaN equals NaN and is greater than every number; -0.0 equals 0.0; texts compare by their UTF-8 bytes. Overflow and
    division by zero raise `pyarrow.ArrowInvalid`, except in rows where an operand further left already decided the AND
    or OR, or where another operand of the same computation is NULL.

    A Parquet dataset skips row groups by statistics that leave NaN out, so `<>` on a floating-point column may lose
    NaN rows as a dataset filter; it never does on rows already read.

    Args:
        expr: a bound expression without functions; only `evaluate` supports those.
    """
    return _condition(expr, None)


def evaluate(expr: Expr, data: pa.RecordBatch | pa.Table) -> pa.Array:
    """Compute the value of a bound expression for each row: a boolean array, NULL as in SQL.

    Raises:
        InvalidArgumentError: overflow or division by zero in a row.
    """
    return joined_arrays(values_of(expr, pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data))


_MOST_ROWS = 1 << 20
"""Rows that are computed at once: constants of the expression become columns too."""


def evaluate_all(expr: Expr, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Compute the value of a bound expression for each row; a plain column of any type is returned unchanged.

    Raises:
        InvalidArgumentError: overflow, division by zero, or a value that doesn't fit the type.
    """
    if isinstance(expr, Literal):
        return repeated(pa.scalar(expr.value, expr.type), rows.num_rows)
    if isinstance(expr, Column) and len(expr.path) == 1:
        return rows[expr.path[0]]
    if not rows.num_rows:
        return pa.nulls(0, type_of(expr))
    return pa.chunked_array(values_of(expr, rows))


def values_of(expr: Expr, table: pa.Table) -> list[pa.Array]:
    """Compute the value of a bound expression for each row, as `evaluate` does, in one array or several."""
    used = sorted({column.path[0] for column in leaf_columns(expr)})
    if table.num_rows and used:
        return [_values(expr, part) for part in portions(table.select(used), _MOST_ROWS)]
    return [_values(expr, table)]


def _values(expr: Expr, table: pa.Table) -> pa.Array:
    expr, table = _without_calls(expr, table)
    needed = sorted({column.path[0] for column in leaf_columns(expr)})
    # Keep one column even if none is needed: it carries the number of rows.
    source = table.select(needed or table.column_names[:1])
    from pyarrow import acero  # noqa: PLC0415 - loads pandas, which `import pudi` must not

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(source)),
            acero.Declaration("project", acero.ProjectNodeOptions([_any(expr, None)], ["result"])),
        ]
    )
    try:
        return one_array(plan.to_table(use_threads=False)["result"])
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"{expr} can't be computed for every row: {error}; leave such rows out by a condition, or use CASE"
        ) from error


def _without_calls(expr: Expr, table: pa.Table) -> tuple[Expr, pa.Table]:
    """Replace calls and CASE by columns with their results: Acero lacks some functions, and computes all branches."""
    known: dict[Expr, Column] = {}

    def column(node: Expr, values: Callable[[], pa.Array]) -> Column:
        nonlocal table
        if node not in known:
            made = values()
            known[node] = Column((f"\0{table.num_columns}",), made.type)
            table = table.append_column(known[node].path[0], made)
        return known[node]

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Call):
            return column(node, lambda: apply_call(node, evaluate(node.arg, table)))
        if isinstance(node, Case):
            return column(node, lambda: _case(node, table))
        if isinstance(node, And | Or) and any(map(_has_case, node.args[1:])):
            return _in_turn(node)
        return None

    def _in_turn(node: And | Or) -> Expr:
        """The operands of AND or OR, those with CASE for the rows alone that operands before have not decided."""
        done: list[Expr] = []
        for arg in node.args:
            if done and _has_case(arg):
                so_far = type(node)(tuple(done)) if len(done) > 1 else done[0]
                undecided = isinstance(node, And)
                true = np.asarray(pc.fill_null(evaluate(so_far, table), undecided))
                done.append(column(arg, lambda arg=arg, rows=true == undecided: _some(arg, table, rows)))  # type: ignore[misc]
            else:
                done.append(rewritten(arg, change))
        return type(node)(tuple(done))

    return rewritten(expr, change), table


def _has_case(expr: Expr) -> bool:
    return any(isinstance(node, Case) for node in walk(expr))


def _some(expr: Expr, table: pa.Table, wanted: np.ndarray) -> pa.Array:
    """The value for some rows, NULL for the others."""
    values = _of_rows(expr, table.filter(pa.array(wanted)))
    return values.take(pa.array(np.cumsum(wanted) - 1, mask=~wanted))


def _case(case: Case, table: pa.Table) -> pa.Array:
    """The values of a CASE, each computed for the rows alone that its condition is the first true one of."""
    left = np.arange(table.num_rows)
    places, values = [], []
    for condition, value in zip(case.conditions, case.values, strict=False):
        true = mask_of(_of_rows(condition, take(table, left)))
        places.append(left[true])
        values.append(_of_rows(value, take(table, left[true])))
        left = left[~true]
    places.append(left)
    values.append(_of_rows(case.values[-1], take(table, left)))
    return joined_arrays(values).take(pa.array(np.argsort(np.concatenate(places))))


def _of_rows(expr: Expr, table: pa.Table) -> pa.Array:
    if not table.num_rows:
        return pa.nulls(0, type_of(expr))
    return evaluate(expr, table)


def may_fail(expr: Expr) -> bool:
    """Return whether computing a value (apart from its operands) can overflow, divide by zero or not fit."""
    match expr:
        case Arith(op, _, right) if ARITHMETIC[op].divides:
            return not (isinstance(right, Literal) and right.value)
        case Arith(_, _, _, type_):
            return sqltypes.is_integer(type_)
        case Neg(_, type_):
            return sqltypes.is_integer(type_)
        case Cast(arg, target):
            source = type_of(arg)
            return cast_kind(source, target) is CastKind.CHECKED or _changes_unit(source, target)
    return False


def may_be_nan(expr: Expr) -> bool:
    """Return whether the value can be NaN: floating point, but not a literal number and not made of an exact one."""
    if not sqltypes.is_float(type_of(expr)):
        return False
    if isinstance(expr, Literal):
        return isinstance(expr.value, float) and math.isnan(expr.value)
    return not (isinstance(expr, Cast) and not sqltypes.is_float(type_of(expr.arg)))


def _changes_unit(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pt.is_timestamp(source) and pt.is_timestamp(target) and source.unit != target.unit)


def _any(expr: Expr, guard: pc.Expression | None) -> pc.Expression:
    if isinstance(expr, Column | Literal | Arith | Neg | Cast):
        return _value(expr, guard)
    return _condition(expr, guard)


def _condition(expr: Expr, guard: pc.Expression | None) -> pc.Expression:
    match expr:
        case And(args):
            return _connect(args, guard, pc.and_kleene, decided_by=False)
        case Or(args):
            return _connect(args, guard, pc.or_kleene, decided_by=True)
        case Not(arg):
            return pc.invert(_condition(arg, guard))
        case IsNull(arg):
            return _any(arg, guard).is_null()
        case Compare():
            return _compare(expr, guard)
        case In():
            return _in(expr, guard)
        case Like(arg, pattern, escape):
            return pc.match_substring_regex(_value(arg, guard), to_regex(pattern, escape))
    return _value(expr, guard)


def _connect(
    args: Sequence[Expr],
    guard: pc.Expression | None,
    combine: Callable[..., pc.Expression],
    *,
    decided_by: bool,
) -> pc.Expression:
    done: list[pc.Expression] = []
    for arg in args:
        inner = guard
        if done and any(map(may_fail, walk(arg))):
            so_far = _balanced(done, combine)
            still_open = so_far if not decided_by else pc.invert(so_far)
            inner = _both(guard, pc.coalesce(still_open, pc.scalar(True)))
        done.append(_condition(arg, inner))
    return _balanced(done, combine)


def _both(guard: pc.Expression | None, other: pc.Expression) -> pc.Expression:
    return other if guard is None else pc.and_kleene(guard, other)


def _balanced(parts: Sequence[pc.Expression], combine: Callable[..., pc.Expression]) -> pc.Expression:
    # A chain of a thousand operands would be a thousand calls deep.
    level = list(parts)
    while len(level) > 1:
        pairs = [combine(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def _value(expr: Expr, guard: pc.Expression | None) -> pc.Expression:
    if not any(map(may_fail, walk(expr))):
        return _compute(expr, None)
    # A NULL operand makes the whole value NULL, regardless of the others.
    operands = leaf_columns(expr)
    if len(operands) > 1:
        guard = _both(guard, _balanced([pc.field(*column.path).is_valid() for column in operands], pc.and_kleene))
    return _compute(expr, guard)


def _compute(expr: Expr, guard: pc.Expression | None) -> pc.Expression:
    match expr:
        case Column(path, type_):
            column = pc.field(*path)
            # In rows that are already decided, the operand becomes NULL, which can't fail.
            return column if guard is None else pc.if_else(guard, column, pc.scalar(pa.scalar(None, type_)))
        case Literal(value, type_):
            return pc.scalar(pa.scalar(value, type_))
        case Neg(arg):
            return pc.negate_checked(_compute(arg, guard))
        case Cast(arg, target):
            return _cast(_compute(arg, guard), type_of(arg), target)
        case Arith(op, left, right):
            return ARITHMETIC[op].arrow(_compute(left, guard), _compute(right, guard))
    return _condition(expr, guard)


def _cast(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    if sqltypes.is_float(target):
        if sqltypes.is_decimal(source):
            # Arrow's cast multiplies by a power of ten and gives 0.30000000000000004 for 0.3.
            return value.cast(pa.string()).cast(target)
        return value.cast(options=pc.CastOptions(target, allow_float_truncate=True))
    if sqltypes.is_integer(source) and sqltypes.is_decimal(target):
        # Arrow checks types before values: first cast to a decimal that holds any integer, then to the smaller one.
        wide = sqltypes.as_decimal(source)
        value = value.cast(pa.decimal128(wide.precision + target.scale, target.scale))
    elif sqltypes.is_decimal(source) and sqltypes.is_decimal(target) and target.scale < source.scale:
        wide = pa.decimal256(source.precision + 1, source.scale)  # 9.99 rounded needs a digit more
        value = pc.round(value.cast(wide), target.scale, "half_towards_infinity")
    elif sqltypes.is_integer(target) and not sqltypes.is_integer(source):
        value = pc.trunc(value)
    return value.cast(target)


def _compare(expr: Compare, guard: pc.Expression | None) -> pc.Expression:
    rule = COMPARISONS[expr.op]
    left = _any(expr.left, guard)
    if not rule.null and any(map(may_fail, walk(expr.right))):
        # Spark skips the right side if the left side is NULL.
        guard = _both(guard, left.is_valid())
    right = _any(expr.right, guard)
    if rule.null:
        return pc.coalesce(_equal(expr, left, right), pc.and_kleene(left.is_null(), right.is_null()))
    if rule.less == rule.greater:
        found, inverted = _equal(expr, left, right), not rule.equal
    elif rule.less != rule.equal:
        found, inverted = _less(expr.left, expr.right, left, right), rule.equal
    else:  # a <= b is NOT b < a
        found, inverted = _less(expr.right, expr.left, right, left), rule.equal
    return pc.invert(found) if inverted else found


def _equal(expr: Compare, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    if may_be_nan(expr.left) and may_be_nan(expr.right):
        return pc.or_kleene(left == right, pc.and_kleene(left.is_nan(), right.is_nan()))
    return left == right


def _less(a: Expr, b: Expr, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    # NaN is greater than every number, and not less than itself. A NULL on either side leaves NULL.
    if not may_be_nan(b):
        return left < right
    above = pc.and_kleene(left.is_valid(), right.is_nan())
    if may_be_nan(a):
        above = pc.and_kleene(pc.invert(left.is_nan()), right.is_nan())
    return pc.or_kleene(left < right, above)


def _in(expr: In, guard: pc.Expression | None) -> pc.Expression:
    arg = _value(expr.arg, guard)
    values = [value.value for value in expr.values if isinstance(value, Literal) and value.value is not None]
    found = pc.if_else(arg.is_valid(), arg.isin(pa.array(values, type_of(expr.arg))), _null())
    return found if len(values) == len(expr.values) else pc.or_kleene(found, _null())
