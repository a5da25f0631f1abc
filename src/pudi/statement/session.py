"""A session's tables as statements see them: opened by name, scanned in Hudi's order of columns, queried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.context.lazy import lazy_module
from pudi.errors import InvalidArgumentError, NotSupportedError, TableNotFoundError
from pudi.scan import ChangeFeed, Scan
from pudi.schema import META_FIELDS
from pudi.statement.host import Catalog, Entry, Host
from pudi.statement.names import TableUse, uses_of
from pudi.statement.reader import placed
from pudi.statement.tree import TableName, Text
from pudi.table import Table

if TYPE_CHECKING:
    from pudi.statement import functions
else:
    functions = lazy_module("pudi.statement.functions")  # made of sessions


class Session:
    """Statements' view of a host: its tables and queries.

    Args:
        host: the engine.
        text: the statement, for messages.
    """

    def __init__(self, host: Host, text: str) -> None:
        self.host, self.text = host, text
        self.catalog = Catalog(host)

    @contextmanager
    def at(self, place: Text | TableName | int) -> Iterator[None]:
        """Add a place of the statement to errors."""
        with placed(self.text, place if isinstance(place, int) else place.at):
            yield

    def entry(self, name: TableName) -> Entry | None:
        """What is known of a table; a table in the warehouse is known by its folder."""
        found = self.catalog.find(name)
        if found is None and self.catalog.warehouse() is not None:
            path = self.catalog.location(name)
            try:
                Table(path)
            except TableNotFoundError:
                return None
            return Entry(path)
        return found

    def find(self, name: TableName) -> Table | None:
        """Open a table with the session's options; None if there's none by that name."""
        given = self.host.known(name)
        if given is not None:
            return given
        found = self.entry(name)
        if found is None:
            return None
        own = {key: value for key, value in found.properties.items() if key.startswith(("hoodie.", "pudi."))}
        return Table(found.path, options={**own, **self.catalog.options()})

    def table(self, name: TableName) -> Table:
        """Open a table.

        Raises:
            TableNotFoundError: the session knows none by that name; the message names its place.
        """
        with self.at(name):
            found = self.find(name)
            if found is None:
                raise TableNotFoundError(
                    f"there is no table {name}: create it with its LOCATION, or name it by its path, hudi.`/path`"
                )
            return found

    def scan(self, table: Table, use: TableUse | None = None) -> Scan:
        """A scan of a table with the columns in Hudi's order: meta fields, columns, partition columns."""
        names = self.shown(table)
        if use is not None and use.columns is not None:
            names = [name for name in names if name.lower() in use.columns] or names[-1:]
        as_of = None if use is None else use.as_of
        if use is not None and use.where is not None and self._may_skip(table, use.where):
            try:
                return table.scan(names, use.where, as_of=as_of)
            except (InvalidArgumentError, NotSupportedError):
                pass  # the engine that runs the query says what is wrong with it
        return table.scan(names, as_of=as_of)

    @staticmethod
    def _may_skip(table: Table, where: str) -> bool:
        """Whether a condition means the same to all engines: texts of points in time depend on a session's zone."""
        kinds = {field.name.lower(): field.type for field in table.schema}
        return not any(pa.types.is_timestamp(kind) and name in where.lower() for name, kind in kinds.items())

    @staticmethod
    def shown(table: Table) -> list[str]:
        """The names of a table's columns in the order of `SELECT *`."""
        partitions = table.config.partition_fields
        columns = [name for name in table.schema.names if name not in partitions]
        metas = META_FIELDS if table.config.populate_meta_fields else ()
        return [*metas, *columns, *(name for name in partitions if name in table.schema.names)]

    @staticmethod
    def data_columns(table: Table) -> list[pa.Field]:
        """The columns of a table in the order in which INSERT takes values: partition columns last."""
        partitions = table.config.partition_fields
        inner = [field for field in table.schema if field.name not in partitions]
        return [*inner, *(table.schema.field(name) for name in partitions if name in table.schema.names)]

    def query(self, text: Text, tables: dict[str, Scan] | None = None) -> Any:
        """Run a query over tables of pudi and of the engine.

        Args:
            text: the query.
            tables: scans of some names, in lower case, in place of what they are otherwise.
        """
        kept: list[TableUse] = []
        scans: list[Scan | ChangeFeed | pa.Table] = []
        for use in uses_of(text, tuple(functions.FUNCTIONS)):
            with self.at(use.name):
                if use.arguments is not None:
                    found: Scan | ChangeFeed | pa.Table | None = functions.FUNCTIONS[use.name.parts[0]](
                        self, use.arguments
                    )
                elif tables and str(use.name).lower() in tables:
                    found = tables[str(use.name).lower()]
                else:
                    table = self.find(use.name)
                    found = None if table is None else self.scan(table, use)
            if found is not None:
                kept.append(use)
                scans.append(found)
        return self.host.query(text, kept, scans)

    def data(self, text: Text) -> Any:
        """Run a query whose rows go into a table: without meta fields, which `SELECT *` has, as in Hudi."""
        frame = self.query(text)
        names = self.host.columns(frame)
        kept = [name for name in names if name not in META_FIELDS]
        return frame if len(kept) == len(names) or not kept else self.host.chosen(frame, kept)


def named(names: Sequence[str], name: str) -> str | None:
    """Return a name as it is spelled among others, compared without case."""
    return next((each for each in names if each.lower() == name.lower()), None)
