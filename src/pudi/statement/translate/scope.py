"""The columns that an expression may name, with Spark's types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pudi.errors import InvalidArgumentError
from pudi.statement.translate import nested
from pudi.statement.translate.typed_values import Value, quoted

NO_COLUMN = "SQL: there is no column"
"""Beginning of the error of a name that is no column."""
Columns = Sequence[tuple[str, pa.DataType]]
"""The columns of a query, in their order: name and type."""


@dataclass(slots=True)
class Source:
    """A table, view or query in FROM.

    Attributes:
        name: what the query calls it; empty for none.
        columns: its columns.
        shown: whether `*` has its columns; those of the right side of a semi-join aren't.
    """

    name: str
    columns: Columns
    shown: bool = True

    def find(self, name: str) -> tuple[str, pa.DataType] | None:
        """Return a column by name, without regard to case."""
        return next((each for each in self.columns if each[0].lower() == name.lower()), None)


@dataclass(slots=True)
class Scope:
    """The tables that a query names, and the queries around it.

    Attributes:
        outer: the scope of the query around this one.
        sources: the tables.
        shared: names of the columns by which tables are joined with USING, in their order.
        aliases: the expressions that SELECT names.
        places: the places of the columns that SELECT gives, from 1.
        aliases_first: whether a name means an expression of SELECT rather than a column, as in ORDER BY.
        with_aliases: whether a name may mean an expression of SELECT.
    """

    outer: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    aliases: dict[str, Value] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    aliases_first: bool = False
    with_aliases: bool = False

    def column(self, parts: Sequence[str]) -> Value:
        """Find a column by its name, qualified or not; parts behind it are fields of structs.

        Raises:
            InvalidArgumentError: there is none.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(parts)
            if found is not None:
                value, rest = found
                for part in rest:
                    value = nested.field(value, part)
                return value
            scope = scope.outer
        names = [name for source in self.sources for name, _ in source.columns]
        there = f"; there are {', '.join(dict.fromkeys(names))}" if names else ""
        raise InvalidArgumentError(f"{NO_COLUMN} {'.'.join(parts)}{there}")

    def _own(self, parts: Sequence[str]) -> tuple[Value, Sequence[str]] | None:
        alias = self.aliases.get(parts[0].lower()) if self.with_aliases or self.aliases_first else None
        if alias is not None and self.aliases_first and len(parts) == 1:
            return alias, ()
        for start in (0, 1):
            if len(parts) > start + 1:
                source = next((each for each in self.sources if each.name.lower() == parts[start].lower()), None)
                column = None if source is None else source.find(parts[start + 1])
                if source is not None and column is not None:
                    sql = f"{quoted(source.name)}.{quoted(column[0])}"
                    return Value(sql, column[1]), parts[start + 2 :]
        for source in self.sources:
            column = source.find(parts[0])
            if column is not None:
                return Value(quoted(column[0]), column[1]), parts[1:]
        return None if alias is None else (alias, parts[1:])

    def star(self, name: str | None = None) -> list[tuple[str, Value]] | None:
        """Return the columns that `*` or `name.*` stands for; None if there's no table of the name.

        Args:
            name: the table.
        """
        sources = [each for each in self.sources if each.shown and name in {None, each.name.lower()}]
        if name is not None and not sources:
            return None if self.outer is None else self.outer.star(name)
        found = []
        if name is None:
            for shared in self.shared:
                column = next(each for source in sources if (each := source.find(shared)) is not None)
                found.append((column[0], Value(quoted(column[0]), column[1])))
        known = set(self.shared) if name is None else set()
        for source in sources:
            for label, kind in source.columns:
                if label.lower() not in known:
                    prefix = f"{quoted(source.name)}." if source.name else ""
                    found.append((label, Value(f"{prefix}{quoted(label)}", kind)))
        return found
