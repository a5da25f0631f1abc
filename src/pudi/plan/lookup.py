"""Find the values of a column that a bound predicate asks for, if it asks for some only."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from itertools import product

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr import depends_on_zone
from pudi.expr.tree import And, Call, Column, Compare, Expr, In, Literal, Or, type_of
from pudi.plan.read import ReadPlan

MOST_VALUES = 10_000
"""Maximum number of values to look up; a predicate with more values reads files instead."""

Values = frozenset[object]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type are equal just if their texts are."""
    return bool(pt.is_string(kind) or pt.is_signed_integer(kind))


def values_in_predicate(where: Expr, column: str, of: Callable[[pa.DataType], bool] = _is_plain) -> Values | None:
    """Return the values that a column has in all rows that match a predicate.

    Args:
        where: a bound predicate.
        column: a top-level column.
        of: whether the question is meaningful for a type; by default for texts and signed integers, where equal values
            have equal texts.

    Returns:
        None where the predicate says nothing of the kind; no values where no row can match.
    """
    return _asked(where, lambda side: _is(side, column, of))


def values_read(plan: ReadPlan, column: str, of: Callable[[pa.DataType], bool] = _is_plain) -> Values | None:
    """Return the values that a column has in all rows that a read wants; None if unknown, or more than `MOST_VALUES`.

    Args:
        plan: the read.
        column: a top-level column.
        of: see `values_in_predicate`.
    """
    if plan.keys is not None and column in plan.keys.rows.column_names and of(plan.schema.field(column).type):
        distinct = plan.keys.rows[column].unique()
        if len(distinct) <= MOST_VALUES:
            return frozenset(distinct.to_pylist())
    return None if plan.where is None else values_in_predicate(plan.where, column, of)


def results_in_predicate(where: Expr, value: Expr) -> pa.Array | None:
    """Return the results of an expression in all rows that match a predicate, as texts.

    Args:
        where: a bound predicate.
        value: the expression: a bound column, or a function of it.

    Returns:
        None where the predicate says nothing of the kind, there are too many, or their texts depend on more than the
        values: on a time zone, or on the character set of Hudi's process.
    """
    kind = type_of(value)
    comparable = pt.is_string(kind) or pt.is_signed_integer(kind) or pt.is_date32(kind)
    if not comparable or (isinstance(value, Call) and depends_on_zone(value)):
        return None
    values = _asked(where, lambda side: side == value)
    if values is None or len(values) > MOST_VALUES:
        return None
    texts = sorted(map(str, values))
    return pa.array(texts, pa.string()) if all(map(str.isascii, texts)) else None


def _asked(where: Expr, is_it: Callable[[Expr], bool]) -> Values | None:
    if isinstance(where, And):
        known = [found for found in (_asked(part, is_it) for part in where.args) if found is not None]
        return frozenset.intersection(*known) if known else None
    if isinstance(where, Or):
        parts = [_asked(part, is_it) for part in where.args]
        if any(part is None for part in parts):
            return None
        return frozenset[object]().union(*(part for part in parts if part is not None))
    if isinstance(where, Compare) and where.op == "=":
        for side, other in ((where.left, where.right), (where.right, where.left)):
            if is_it(side):
                return _literals([other])
    if isinstance(where, In) and is_it(where.arg):
        return _literals(where.values)
    return None


def key_values_in_predicate(where: Expr, fields: Iterable[str], schema: pa.Schema) -> pa.Table | None:
    """The combinations of values of some columns that a predicate asks for, as rows of these columns.

    Args:
        where: a bound predicate.
        fields: names of top-level columns.
        schema: types of the columns.

    Returns:
        None where one of the columns isn't asked for by its values, or there are more than `MOST_VALUES` of them.
    """
    found: dict[str, Values] = {}
    count = 1
    for name in fields:
        values = values_in_predicate(where, name)
        if values is None:
            return None
        found[name] = values
        count *= len(values)
        if count > MOST_VALUES:
            return None
    return _rows(found, schema)


def _rows(found: Mapping[str, Values], schema: pa.Schema) -> pa.Table:
    rows = list(product(*found.values()))
    columns = [pa.array([row[place] for row in rows], schema.field(name).type) for place, name in enumerate(found)]
    return pa.Table.from_arrays(columns, names=list(found))


def _is(expr: Expr, column: str, of: Callable[[pa.DataType], bool]) -> bool:
    kind = expr.type if isinstance(expr, Column) and expr.path == (column,) else None
    return kind is not None and of(kind)


def _literals(exprs: Iterable[Expr]) -> Values | None:
    """The values of constants; NULL equals nothing, and of NaN sets can't tell."""
    found = []
    for each in exprs:
        if not isinstance(each, Literal) or not isinstance(each.value, str | int | float | datetime.date | None):
            return None
        if isinstance(each.value, bool) or each.value != each.value:
            return None
        found.append(each.value)
    return frozenset(value for value in found if value is not None)
