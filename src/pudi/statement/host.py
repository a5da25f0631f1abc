"""Define the protocol by which Spark and the local engine run statements, and the tables that a session knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from pudi import catalogs
from pudi.config import KEY_PREFIXES
from pudi.context.runtime import cached_property
from pudi.errors import SetupError
from pudi.statement.table_uses import TableUse
from pudi.statement.tree import TableName, Text
from pudi.table import Table

NAMED_TABLE = "pudi.sql.table."
"""Settings that name tables: the name follows, the value says where the table is."""
DEFAULT = "default"
"""The database of names where USE chose none."""
WAREHOUSE = "pudi.sql.warehouse"
"""The setting with the folder of tables that are created without LOCATION."""
OWN_CATALOG = "spark_catalog"
"""Spark's name of its own catalog."""
DATABASE = "pudi.sql.database"
"""The setting with the database that USE chose, on one machine."""
_OWN = "pudi.sql."


class Settings(Protocol):
    """The settings of a session: what SET sets, and where the tables are that it knows."""

    def get(self, key: str) -> str | None:
        """The value of a key; None if it isn't set."""

    def set(self, key: str, value: str) -> None:
        """Set a key."""

    def unset(self, key: str) -> None:
        """Remove a key, if it's there."""

    def items(self) -> Mapping[str, str]:
        """All keys with their values."""


MergeQuery = Callable[[str, Mapping[str, Any]], Any]
"""Runs a query over tables by name, besides those of the session."""


class Host(Protocol):
    """Runs queries and holds data as one engine does."""

    settings: Settings

    @property
    def spark(self) -> Any:
        """The Spark session; None on the local engine."""

    def query(self, text: Text, uses: Sequence[TableUse], tables: Sequence[Any]) -> Any:
        """Run a query.

        Args:
            text: the query.
            uses: the places of tables in it.
            tables: what stands there: scans, changes, Arrow tables, or rows as the engine has them.
        """

    def result(self, rows: pa.Table) -> Any:
        """Few rows as the result of a statement."""

    def columns(self, frame: Any) -> list[str]:
        """The names of a query's columns."""

    def fitted(
        self,
        frame: Any,
        columns: Sequence[pa.Field],
        constants: Sequence[tuple[pa.Field, object]] = (),
        *,
        casts: bool = False,
        by_name: bool = False,
    ) -> Any:
        """The columns of a query, by place, as columns of a table: with their names and types.

        Args:
            frame: the query's rows.
            columns: what its columns become.
            constants: columns behind them that have one value in all rows.
            casts: whether any value that can be cast is taken, as SET does; if not, see `check_storable`.
            by_name: whether fields of structs meet by name.

        Raises:
            InvalidArgumentError: there are more or fewer columns, or a type that doesn't become the column's.
        """

    def computed(
        self, rows: Any, sides: Mapping[str, str], values: Mapping[str, tuple[str, pa.Field]], query: MergeQuery
    ) -> Any:
        """Rows of a merge with further columns, whose values a query computes.

        Args:
            rows: rows with structs, and perhaps other columns, which expressions may name.
            sides: the structs, and what expressions call each: a relation with its fields as columns.
            values: by name of a new column, an expression and the table's column that takes it, cast as SET does.
            query: runs a query over the session's tables, and some more.

        Raises:
            InvalidArgumentError: the engine refuses an expression, or a value isn't one of its column.
        """

    def schema(self, frame: Any) -> pa.Schema:
        """The types of a query's columns, as a table holds them."""

    def chosen(self, frame: Any, names: Sequence[str]) -> Any:
        """Some columns of a query, by name."""

    def known(self, name: TableName) -> Table | None:
        """A table that was given to the session as an object."""

    def has(self, name: TableName) -> bool:
        """Return whether the engine reads a table or view of that name itself: none of Hudi's."""

    def keeps(self, name: TableName) -> bool:
        """Return whether the engine keeps a table of that name itself, and runs the statements that change it."""

    def registered(self, name: TableName) -> CataloguedEntry | None:
        """Return the entry of a Hudi table in the engine's own catalog; None if it has none of that name."""

    def metastore(self) -> str | None:
        """Return the address of the Hive Metastore that is the engine's own catalog; None if there's none, or unknown.

        A metastore without an address can't be asked by pudi: Derby in the engine's process.
        """

    def check_registrable(self, name: TableName) -> None:
        """Check that a new table, which no catalog of pudi's takes, may be known in the session alone.

        Raises:
            NotSupportedError: the engine's own catalog should have it, and can't be reached.
        """

    def tables(self, database: tuple[str, ...]) -> list[tuple[str, str, bool]]:
        """Return database, name and whether it's temporary of the tables that the engine's own catalog shows.

        Args:
            database: the database, perhaps with its catalog; empty for the current one.
        """

    def folder(self, database: str) -> str | None:
        """The folder of a database's tables, where the engine's own catalog says another than `warehouse` has."""

    def warehouse(self) -> str | None:
        """The folder of tables that are created without LOCATION, where no setting says it."""

    def database(self) -> str:
        """The database of names that say none: what USE chose."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table that a session knows by name.

    Attributes:
        path: where it is.
        properties: its properties that the table itself doesn't keep.
        comment: what it was created with.
        comments: those of columns, by name in lower case.
        is_external: whether LOCATION said where it is; then dropping the name leaves the files.
    """

    path: str
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    comments: Mapping[str, str] = field(default_factory=dict)
    is_external: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Home:
    """Place of a table in a catalog that a session attached.

    Attributes:
        attached: the catalog's name in the session.
        address: its address.
        name: the table's name there.
    """

    attached: str
    address: str
    name: catalogs.TableName


@dataclass(frozen=True, slots=True)
class CataloguedEntry(Entry):
    """A table that is registered in a catalog.

    Attributes:
        home: its place in an attached catalog; None for the engine's own one.
        options: options by which it's opened, under those of the session.
        is_view: whether it's one more name of a table that has another one.
        is_managed: whether dropping the name deletes the files.
    """

    home: Home | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_view: bool = False
    is_managed: bool = False


class Catalog:
    """The tables that a session knows by name: kept in its settings, or found in the warehouse.

    Args:
        host: the session.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    @cached_property
    def database(self) -> str:
        """The database of names that say none."""
        return self._host.database().lower()

    def find(self, name: TableName) -> Entry | None:
        """Return what is known of a table by name or path; None if nothing is."""
        if name.path is not None:
            return Entry(name.path)
        value = self._host.settings.get(NAMED_TABLE + self._key(name))
        if value is not None:
            kept = json.loads(value)
            return Entry(**kept)
        return None

    def location(self, name: TableName) -> str:
        """Return the place of a table that is created without LOCATION, as Spark names folders of databases.

        Raises:
            SetupError: there's no warehouse.
        """
        folder = self.warehouse()
        database, table = ([self.database, *name.parts] if len(name.parts) == 1 else name.parts)[-2:]
        known = None if self._host.settings.get(WAREHOUSE) else self._host.folder(database)
        if known is not None:
            return f"{known.rstrip('/')}/{table.lower()}"
        if folder is None:
            raise SetupError(f"table {name} has no place: add LOCATION '…', or SET {WAREHOUSE} = a folder for tables")
        inner = [] if database.lower() == DEFAULT else [f"{database.lower()}.db"]
        return "/".join((folder.rstrip("/"), *inner, table.lower()))

    def warehouse(self) -> str | None:
        """The folder of tables without LOCATION; None for none."""
        return self._host.settings.get(WAREHOUSE) or self._host.warehouse()

    def add(self, name: TableName, entry: Entry) -> None:
        """Know a table."""
        text = json.dumps(asdict(entry))
        self._host.settings.set(NAMED_TABLE + self._key(name), text)

    def remove(self, name: TableName) -> None:
        """Know a table no more."""
        self._host.settings.unset(NAMED_TABLE + self._key(name))

    def names(self) -> list[tuple[str, str]]:
        """The tables that were named in the session: database and name, sorted."""
        keys = [key.removeprefix(NAMED_TABLE) for key in self._host.settings.items() if key.startswith(NAMED_TABLE)]
        return sorted((*key.rpartition(".")[::2],) for key in keys)

    def options(self) -> dict[str, str]:
        """The options for tables among the session's settings."""
        found = self._host.settings.items().items()
        return {k: v for k, v in found if k.startswith(KEY_PREFIXES) and not k.startswith(_OWN)}

    def _key(self, name: TableName) -> str:
        parts = name.parts if len(name.parts) > 1 else (self.database, *name.parts)
        return ".".join(part.lower() for part in parts)


_KINDS: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


def result_table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> pa.Table:
    """Return the rows of a result; columns are pairs of a name and Spark's name of a type."""
    found = list(rows)
    arrays = [pa.array([row[n] for row in found], _KINDS[kind]) for n, (_, kind) in enumerate(columns)]
    return pa.table(arrays, names=[name for name, _ in columns])
