"""A session's tables as statements see them: opened by name, scanned in Hudi's order of columns, queried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pudi.client import CommitResult
from pudi.config import KEY_PREFIXES, FormatOptions
from pudi.context.runtime import cached_property
from pudi.errors import InvalidArgumentError, NotSupportedError, TableNotFoundError
from pudi.scan import ChangeFeed, Scan
from pudi.schema import META_FIELDS, with_meta_fields
from pudi.statement.attached_catalogs import AttachedCatalogs
from pudi.statement.host import Catalog, CataloguedEntry, Entry, Home, Host, result_table
from pudi.statement.parse.reader import placed, wrong
from pudi.statement.shared_meaning import is_read_differently, shared_parts
from pudi.statement.table_uses import TableUse, uses_of
from pudi.statement.translate.scope import NO_COLUMN
from pudi.statement.tree import TableName, Text
from pudi.table import Table
from pudi.table.table import find_table

_VIEW = re.compile(r"\s*CREATE\b[^(]*?\bVIEW\b", re.IGNORECASE)
_READ_OPTIMIZED = FormatOptions.as_read_optimized.key
_CHANGED = (
    ("instant", "string"),
    ("operation", "string"),
    ("records_inserted", "bigint"),
    ("records_updated", "bigint"),
    ("records_deleted", "bigint"),
)
"""The columns of what a change returns."""
TableFunction = Callable[["Session", Sequence[object]], Scan | ChangeFeed | pa.Table]
"""Result of a table-valued function for its arguments."""


class Session:
    """Statements' view of a host: its tables and queries.

    Args:
        host: the engine.
        text: the statement, for messages.
        functions: the table-valued functions by name.
    """

    def __init__(self, host: Host, text: str, functions: Mapping[str, TableFunction]) -> None:
        self.host, self.text, self.functions = host, text, functions
        self.catalog = Catalog(host)

    @cached_property
    def attached(self) -> AttachedCatalogs:
        """The catalogs that the session attached."""
        own = self.host.metastore()
        return AttachedCatalogs(self.host.settings, self.catalog.options(), lambda: self.catalog.database, own)

    @contextmanager
    def at(self, place: Text | TableName | int) -> Iterator[None]:
        """Add a place of the statement to errors."""
        with placed(self.text, place if isinstance(place, int) else place.at):
            yield

    def wrong(self, at: int, message: str) -> InvalidArgumentError:
        """The error of what is wrong at a place of the statement."""
        return wrong(self.text, at, message)

    def named(self, name: TableName) -> Entry | None:
        """Return what is known of a table: in the session, in an attached catalog, in the engine's own catalog."""
        found = self.catalog.find(name)
        is_attached = found is None and self.attached.names(name)
        if is_attached or (found is None and self.attached.addresses() and not self.host.has(name)):
            found = self.attached.find(name)
        if found is None:
            found = self.host.registered(name)
            found = None if found is None else self.attached.owned(name) or found
        return found

    def entry(self, name: TableName) -> Entry | None:
        """Return what is known of a table; a table in the warehouse is known by its folder."""
        found = self.named(name)
        if found is None and self.catalog.warehouse() is not None:
            path = self.catalog.location(name)
            return None if find_table(path) is None or self.host.has(name) else Entry(path)
        return found

    def check_free(self, name: TableName, home: Home | None) -> None:
        """Check that a new table can be known by a name, before it is created.

        Raises:
            TableExistsError: the catalog has another table by that name.
            NotSupportedError: the engine's own catalog should have it, and can't be reached.
            UnavailableError: the catalog doesn't answer.
        """
        if home is None:
            self.host.check_registrable(name)
        else:
            self.attached.check_free(home)

    def keep(self, name: TableName, entry: Entry, before: Entry) -> None:
        """Keep changed properties and comments of a table's name where it is known."""
        if isinstance(before, CataloguedEntry) and before.home is not None:
            self.attached.keep(before.home, before, entry)
        else:
            self.catalog.add(name, entry)

    def find(self, name: TableName) -> Table | None:
        """Open a table with the session's options; None if there's none by that name."""
        given = self.host.known(name)
        if given is not None:
            return given
        if self.host.spark is None and self.host.has(name):  # data that was given for the statement
            return None
        found = self.entry(name)
        if found is None:
            return None
        own = {
            key: value
            for key, value in found.properties.items()
            if key.startswith(KEY_PREFIXES) and key != _READ_OPTIMIZED
        }
        defaults = found.options if isinstance(found, CataloguedEntry) else {}
        return Table(found.path, options={**defaults, **own, **self.catalog.options()})

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

    def is_read_optimized(self, name: TableName) -> bool:
        """Whether a name stands for the read-optimized view of a table."""
        known = None if self.host.known(name) is not None else self.named(name)
        return known is not None and known.properties.get(_READ_OPTIMIZED, "").strip().lower() == "true"

    def changeable(self, name: TableName) -> Table:
        """Open a table whose rows are to be changed.

        Raises:
            TableNotFoundError: see `table`.
            NotSupportedError: the name stands for the read-optimized view, which shows other rows.
        """
        if self.is_read_optimized(name):
            with self.at(name):
                raise NotSupportedError(
                    f"{name} shows the read-optimized view, by {_READ_OPTIMIZED}=true: change the table by a name of "
                    "its snapshot, or by its path, hudi.`/path`"
                )
        return self.table(name)

    def scan(self, table: Table, use: TableUse | None = None) -> Scan:
        """A scan of a table with the columns in Hudi's order: meta fields, columns, partition columns."""
        names = self.shown(table)
        if use is not None and use.columns is not None and '"' not in self.text:  # sessions may take a text for a name
            names = [name for name in names if name.lower() in use.columns] or names[-1:]
        as_of = None if use is None else use.as_of
        where = None
        if use is not None and use.conditions and not is_read_differently(self.text):
            schema = with_meta_fields(table.schema) if as_of is None else table.scan(as_of=as_of).schema
            where = shared_parts(self.host, use.conditions, use.called, schema)
        optimized = use is not None and self.is_read_optimized(use.name)
        return table.scan(names, where, as_of=as_of, read_optimized=optimized)

    @staticmethod
    def shown(table: Table) -> list[str]:
        """The names of a table's columns in the order of `SELECT *`."""
        metas = META_FIELDS if table.config.populate_meta_fields else ()
        return [*metas, *(field.name for field in Session.data_columns(table))]

    @staticmethod
    def data_columns(table: Table) -> list[pa.Field]:
        """The columns of a table in the order in which INSERT takes values: partition columns last."""
        partitions = table.config.partition_fields
        inner = [field for field in table.schema if field.name not in partitions]
        return [*inner, *(table.schema.field(name) for name in partitions if name in table.schema.names)]

    def query(self, text: Text, tables: Mapping[str, Any] | None = None) -> Any:
        """Run a query over tables of pudi and of the engine.

        Args:
            text: the query.
            tables: scans or rows of some names, in lower case, in place of what they are otherwise.
        """
        kept: list[TableUse] = []
        scans: list[Any] = []
        columns: dict[str, list[str]] = {}
        for use in uses_of(text, tuple(self.functions)):
            with self.at(use.name):
                if use.arguments is not None:
                    found: Any = self.functions[use.name.parts[0]](self, use.arguments)
                elif tables and str(use.name).lower() in tables:
                    found = tables[str(use.name).lower()]
                else:
                    table = self.table(use.name) if self.attached.names(use.name) else self.find(use.name)
                    found = None if table is None else self.scan(table, use)
                    columns |= {} if table is None else {str(use.name): table.schema.names}
            if found is not None:
                kept.append(use)
                scans.append(found)
        if kept and self.host.spark is None and _VIEW.match(text.text):
            raise NotSupportedError(
                "SQL: CREATE VIEW over Hudi tables: views aren't kept on this machine; give the query's result by "
                "name: pudi.sql(text, name=pudi.sql('SELECT …'))"
            )
        try:
            return self.host.query(text, kept, scans)
        except InvalidArgumentError as error:
            if not columns or not error.message.startswith(NO_COLUMN):
                raise
            there = "; ".join(f"{name} has {', '.join(names)}" for name, names in columns.items())
            raise InvalidArgumentError(f"{error.message.partition('; there are ')[0]}; {there}") from error

    def by_engine(self) -> Any:
        """Let the engine run the statement as it stands, without tables of pudi."""
        return self.host.query(Text(self.text, 0), [], [])

    def done(self) -> Any:
        """Return the result of a statement that returns nothing."""
        return self.host.result(result_table((), ()))

    def changed(self, result: CommitResult | None) -> Any:
        """Return the result of a change as rows: one, or none where nothing was to be done."""
        rows = []
        if result is not None:
            counts = result.records_inserted, result.records_updated, result.records_deleted
            rows.append((result.instant, result.operation, *counts))
        return self.host.result(result_table(_CHANGED, rows))

    def data(self, text: Text) -> Any:
        """Run a query whose rows go into a table: without meta fields, which `SELECT *` has, as in Hudi."""
        frame = self.query(text)
        names = self.host.columns(frame)
        kept = [name for name in names if name not in META_FIELDS]
        return frame if len(kept) == len(names) or not kept else self.host.chosen(frame, kept)


def named(names: Sequence[str], name: str) -> str | None:
    """Return a name as it is spelled among others, compared without case."""
    return name if name in names else next((each for each in names if each.lower() == name.lower()), None)
