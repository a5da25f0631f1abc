"""The `where` tree: small frozen nodes. The parser makes them, the binder adds types, the engines translate them.

Columns are found by the names in an expression.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError
from pudi.expr.sqltypes import sql_name
from pudi.schema.spark_types import quote

BOOLEAN = pa.bool_()


class Expr:
    """A node. `str()` gives SQL for messages, not for an engine. Nodes are values and can be pickled."""

    __slots__ = ()

    def __str__(self) -> str:
        return describe(self)


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """A column, or a field inside a struct column.

    Attributes:
        path: names from the top-level column downwards; after binding, spelled as in the schema.
        type: Arrow type, None before binding.
    """

    path: tuple[str, ...]
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant as a plain Python value (None: NULL).

    Attributes:
        value: bool, int, float, Decimal, str, bytes, date, datetime (naive if written without a zone) or None.
        type: Arrow type; after binding, the type of the other side.
    """

    value: object
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """`left op right`, op one of = <> < <= > >= and the null-safe <=>."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class And(Expr):
    """Two or more operands, evaluated from left to right."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(Expr):
    """Two or more operands, evaluated from left to right."""

    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """Negation; NULL stays NULL."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    """`arg IS NULL`, never NULL itself."""

    arg: Expr


@dataclass(frozen=True, slots=True)
class In(Expr):
    """`arg IN (values)`; after binding all values have the type of `arg`."""

    arg: Expr
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """`arg LIKE pattern ESCAPE escape`."""

    arg: Expr
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class Arith(Expr):
    """`left op right`, op one of + - * / %; after binding, both sides have the type of the computation."""

    op: str
    left: Expr
    right: Expr
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Neg(Expr):
    """Unary minus."""

    arg: Expr
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`CAST(arg AS type)`, written by the user or added by the binder to widen."""

    arg: Expr
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`name(arg, options…)`: a function of one value; see `pudi.expr.table`.

    Attributes:
        name: the name in lower case.
        arg: the value.
        options: plain constants after the value.
        type: Arrow type, None before binding.
    """

    name: str
    arg: Expr
    options: tuple[object, ...] = ()
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """`CASE WHEN condition THEN value … ELSE value END`; also what COALESCE, IF and NULLIF mean.

    A value is computed only for the rows that its condition is the first true one of.

    Attributes:
        conditions: what stands behind each WHEN.
        values: what stands behind each THEN, and at the end behind ELSE.
        type: Arrow type, None before binding.
    """

    conditions: tuple[Expr, ...]
    values: tuple[Expr, ...]
    type: pa.DataType | None = None


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of a node, from left to right."""
    match expr:
        case Compare(_, left, right) | Arith(_, left, right):
            return (left, right)
        case And(args) | Or(args):
            return args
        case In(arg, values):
            return (arg, *values)
        case Case(conditions, values):
            return (*conditions, *values)
        case Not(arg) | IsNull(arg) | Neg(arg) | Cast(arg) | Like(arg) | Call(_, arg):
            return (arg,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every node, parents before children, from left to right."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def rewritten(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return the tree with some nodes replaced, parents before children.

    Args:
        expr: the tree.
        change: returns the replacement of a node, which is not searched further; None keeps the node.
    """
    other = change(expr)
    if other is not None:
        return other
    changed: dict[str, Any] = {}
    for part in fields(expr):  # type: ignore[arg-type]  # every node is a dataclass
        value = getattr(expr, part.name)
        if isinstance(value, Expr):
            changed[part.name] = rewritten(value, change)
        elif isinstance(value, tuple):
            changed[part.name] = tuple(rewritten(v, change) if isinstance(v, Expr) else v for v in value)
    return replace(expr, **changed) if changed else expr  # type: ignore[type-var]


def replace_columns(expr: Expr, change: Callable[[Column], Column]) -> Expr:
    """Return the tree with its columns replaced."""
    return rewritten(expr, lambda node: change(node) if isinstance(node, Column) else None)


def type_of(expr: Expr) -> pa.DataType:
    """Return the Arrow type of a bound node's value."""
    if isinstance(expr, Column | Literal | Arith | Neg | Cast | Call | Case):
        if expr.type is None:
            raise TypeError(f"{expr} is not bound to a schema yet")
        return expr.type
    return BOOLEAN


def leaf_columns(expr: Expr) -> tuple[Column, ...]:
    """Return the distinct columns and struct fields, in order of appearance."""
    return tuple(dict.fromkeys(node for node in walk(expr) if isinstance(node, Column)))


def columns(expr: Expr) -> frozenset[str]:
    """Return the top-level columns that `expr` needs."""
    return frozenset(column.path[0] for column in leaf_columns(expr))


def split_conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of the AND that `expr` is; `expr` itself if it is no AND."""
    if isinstance(expr, And):
        return tuple(part for arg in expr.args for part in split_conjuncts(arg))
    return (expr,)


def conjunction(parts: Iterable[Expr]) -> Expr | None:
    """Return the AND of `parts`; the part itself if there is one, None if there is none."""
    args = tuple(parts)
    if len(args) > 1:
        return And(args)
    return args[0] if args else None


def describe(expr: Expr) -> str:
    """Return SQL for messages and `explain`."""
    match expr:
        case Column(path):
            return ".".join(part if part.isidentifier() else quote(part) for part in path)
        case Literal(value):
            return _describe_value(value)
        case Compare(op, left, right) | Arith(op, left, right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case And(args):
            return " AND ".join(map(_operand, args))
        case Or(args):
            return " OR ".join(map(_operand, args))
        case Not(IsNull(arg)):
            return f"{_operand(arg)} IS NOT NULL"
        case Not(arg):
            return f"NOT {_operand(arg)}"
        case IsNull(arg):
            return f"{_operand(arg)} IS NULL"
        case In(arg, values):
            return f"{_operand(arg)} IN ({', '.join(map(describe, values))})"
        case Like(arg, pattern, escape):
            suffix = "" if escape == "\\" else f" ESCAPE {_describe_value(escape)}"
            return f"{_operand(arg)} LIKE {_describe_value(pattern)}{suffix}"
        case Neg(arg):
            return f"-{_operand(arg)}"
        case Cast(arg, type_):
            return f"CAST({describe(arg)} AS {sql_name(type_) or type_})"
        case Call(name, arg, options):
            return f"{name}({', '.join([describe(arg), *map(_describe_value, options)])})"
        case Case(conditions, values):
            whens = [f"WHEN {describe(c)} THEN {describe(v)}" for c, v in zip(conditions, values, strict=False)]
            return f"CASE {' '.join(whens)} ELSE {describe(values[-1])} END"
    return type(expr).__name__


def _operand(expr: Expr) -> str:
    text = describe(expr)
    return text if isinstance(expr, Column | Literal | Cast | Call | Case) else f"({text})"


def _describe_value(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
    return str(value)


def find_column(path: tuple[str, ...], schema: pa.Schema) -> Column:
    """Return the column, or the field inside a struct, of a path of names in any case.

    Raises:
        InvalidArgumentError: there is none, or there are several.
    """
    fields: list[pa.Field] = list(schema)
    names: list[str] = []
    for position, wanted in enumerate(path):
        where = f"struct column {'.'.join(names)}" if names else "table"
        matches = [field for field in fields if field.name.lower() == wanted.lower()]
        if not matches:
            known = [field.name for field in fields]
            folded = {name.lower(): name for name in known}
            near = difflib.get_close_matches(wanted.lower(), folded, n=1, cutoff=0.0)
            hint = f"; the nearest is {folded[near[0]]!r}" if near else ""
            raise InvalidArgumentError(f"the {where} has no column {wanted!r} named in where{hint}")
        if len(matches) > 1:
            raise InvalidArgumentError(f"column {wanted!r} in where is ambiguous: {[field.name for field in matches]}")
        found = matches[0]
        names.append(found.name)
        if position + 1 < len(path):
            if not pt.is_struct(found.type):
                raise InvalidArgumentError(
                    f"column {'.'.join(names)!r} is {found.type}, so it has no {path[position + 1]!r}"
                )
            fields = [found.type.field(i) for i in range(found.type.num_fields)]
    return Column(tuple(names), found.type)
