"""The rows of a table to change and their new values, as one value, independent of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.errors import InvalidArgumentError, PudiError
from pudi.expr import Expr, bind_value, constant, outside_where, parse
from pudi.plan.read import ReadPlan


@dataclass(frozen=True, slots=True)
class Change:
    """A change of rows by predicate; picklable.

    Attributes:
        read: where the rows are and which they are (`where`, over meta fields and columns).
        assignments: column and bound expression of its new value; None deletes the rows.
    """

    read: ReadPlan
    assignments: tuple[tuple[str, Expr], ...] | None


def bind_assignments(
    values: Mapping[str, object], rows: pa.Schema, table: pa.Schema, root: str, fixed: Sequence[str] = ()
) -> tuple[tuple[str, Expr], ...]:
    """Bind new values of columns.

    Args:
        values: by column, SQL text, a bound-to-be tree, or a constant that is no text.
        rows: schema of the rows that the expressions are about.
        table: the table's columns.
        root: location of the table, for errors.
        fixed: columns that can't be changed.

    Raises:
        InvalidArgumentError: an unknown or fixed column, a wrong expression, a null for a column that takes none.
        NotSupportedError: an expression beyond the language.
    """
    if not values:
        raise InvalidArgumentError("there is no column to set", table=root)
    bound = []
    for name, value in values.items():
        if name not in table.names:
            raise InvalidArgumentError(
                f"there is no column {name!r}; the table has {', '.join(table.names)}", table=root
            )
        if name in fixed:
            raise InvalidArgumentError(
                f"column {name!r} is part of the record key or a partition column: an update can't set it; delete the "
                "records and insert others",
                table=root,
            )
        bound.append((name, bind_one(value, rows, table.field(name), root)))
    return tuple(bound)


def bind_one(value: object, rows: pa.Schema, field: pa.Field, root: str) -> Expr:
    """Bind the new value of one column; raises as `bind_assignments`, naming the column."""
    try:
        expr = value if isinstance(value, Expr) else parse(value) if isinstance(value, str) else constant(value)
        return bind_value(expr, rows, field.type)
    except PudiError as error:
        meant = isinstance(value, str) and value.isidentifier() and pa.types.is_string(field.type)
        hint = f"; the text {value} is written \"'{value}'\"" if meant else ""
        raise type(error)(
            f"the new value of column {field.name!r}: {outside_where(error)}{hint}", table=root
        ) from error
