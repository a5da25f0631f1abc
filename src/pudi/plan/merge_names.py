"""Finds the columns that expressions of a merge name, on either side of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.errors import InvalidArgumentError
from pudi.expr.tree import Column
from pudi.plan.merge import SOURCE, TARGET


@dataclass(frozen=True, slots=True)
class MergeNames:
    """The columns of both sides, and what expressions call the sides.

    Attributes:
        names: what expressions call each side.
        schemas: the columns of each side.
    """

    names: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]

    def resolved(self, column: Column, sides: Sequence[str]) -> Column:
        """Return a column with the side that it is of in front.

        Args:
            column: as an expression has it: with the name of a side in front, or a column of one side alone.
            sides: those that the rows have.

        Raises:
            InvalidArgumentError: no side has it, or more than one.
        """
        first, *rest = column.path
        named = {name.lower(): side for side, name in self.names.items()}
        side = named.get(first.lower()) if rest else None
        if side is None:
            return Column((self._holder(column, sides), *column.path))
        if side not in sides:
            one, other = ("source", "table") if side == TARGET else ("table", "source")
            raise InvalidArgumentError(f"{column} is unknown for rows of the {one} that match no row of the {other}")
        if self.field(side, rest[0]) is None:
            raise InvalidArgumentError(f"there is no column {column}; {self._known(side)}")
        return Column((side, *rest))

    def field(self, side: str, name: str) -> pa.Field | None:
        """Return the column of a side by its name in any case; None if there is none."""
        return next((field for field in self.schemas[side] if field.name.lower() == name.lower()), None)

    def _holder(self, column: Column, sides: Sequence[str]) -> str:
        """The side that has a column whose first name is none of the aliases."""
        first, *rest = column.path
        source, target = self.names[SOURCE], self.names[TARGET]
        fields = {each: self.field(each, first) for each in sides}
        holders = [side for side, f in fields.items() if f is not None and (not rest or pa.types.is_nested(f.type))]
        if len(holders) == 1:
            return holders[0]
        if holders:
            raise InvalidArgumentError(
                f"{column} is a column of both sides: write {source}.{first} or {target}.{first}"
            )
        if rest:
            raise InvalidArgumentError(f"{column}: {first} is neither the source ({source}) nor the table ({target})")
        raise InvalidArgumentError(f"there is no column {column}; {'; '.join(map(self._known, sides))}")

    def _known(self, side: str) -> str:
        """The columns of a side, for an error."""
        who = f"the {'source' if side == SOURCE else 'table'} ({self.names[side]})"
        return f"{who} has {', '.join(self.schemas[side].names)}"
