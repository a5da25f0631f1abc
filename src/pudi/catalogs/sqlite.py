"""A catalog in a SQLite file: for one machine, and for tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pudi.catalogs.catalog import Catalog, CatalogColumn, CatalogPartition, CatalogTable, TableFormat, TableName, Values
from pudi.errors import (
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    RefusedError,
    TableExistsError,
    UnavailableError,
    cause_text,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS databases (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tables (
    database TEXT REFERENCES databases, name TEXT, entry TEXT NOT NULL, PRIMARY KEY (database, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS partitions (
    database TEXT, name TEXT, partition_values TEXT, location TEXT NOT NULL,
    PRIMARY KEY (database, name, partition_values),
    FOREIGN KEY (database, name) REFERENCES tables ON DELETE CASCADE
) WITHOUT ROWID;
"""
_WAIT_S = 30.0
_MOST_VALUES = 500
"""Partitions that one query asks for; SQLite takes 999 values at least."""


class SqliteCatalog(Catalog):
    """Tables and partitions in a file, which several processes of one machine may use.

    Args:
        path: the file; it's made when a database is created.

    Raises:
        InvalidArgumentError: no path is given.
    """

    def __init__(self, path: str) -> None:
        if not path:
            raise InvalidArgumentError(
                "a catalog in SQLite needs a file, and its tables a database and a name: "
                "sqlite:/path/catalog.db/db.trips"
            )
        self._path = path

    @property
    def address(self) -> str:
        """The address: `sqlite:` and the file."""
        return f"sqlite:{self._path}"

    def has_database(self, name: str) -> bool:
        """Return whether there is a database of that name."""
        with self._opened() as file:
            return bool(_rows(file, "SELECT 1 FROM databases WHERE name = ?", name.lower()))

    def create_database(self, name: str) -> None:
        """Create a database; one that is there stays as it is."""
        with self._opened(create=True) as file:
            file.execute("INSERT OR IGNORE INTO databases VALUES (?)", (name.lower(),))

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        with self._opened() as file:
            return [
                row[0] for row in _rows(file, "SELECT name FROM tables WHERE database = ? ORDER BY 1", database.lower())
            ]

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        """Return some tables by the names that were asked for."""
        found = {}
        with self._opened() as file:
            for name in names:
                query = "SELECT entry FROM tables WHERE database = ? AND name = ?"
                for row in _rows(file, query, database.lower(), name.lower()):
                    found[name] = _table(row[0], TableName(database.lower(), name.lower()))
        return found

    def create_table(self, table: CatalogTable) -> None:
        """Create a table; its database must be there."""
        name = _lower(table.name)
        with self._opened() as file:
            if not _rows(file, "SELECT 1 FROM databases WHERE name = ?", name.database):
                raise NotFoundError(
                    f"{self}: there is no database {name.database!r} for the table {name}; create it first"
                )
            try:
                file.execute("INSERT INTO tables VALUES (?, ?, ?)", (name.database, name.table, _entry(table)))
            except sqlite3.IntegrityError:
                raise TableExistsError(f"{self}: there is a table {name} already") from None

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace a table; partitions have no columns of their own."""
        del cascade
        name = _lower(table.name)
        query = "UPDATE tables SET entry = ? WHERE database = ? AND name = ?"
        with self._opened() as file:
            if not file.execute(query, (_entry(table), name.database, name.table)).rowcount:
                raise self._missing(name)

    def drop_table(self, name: TableName) -> bool:
        """Remove a table and its partitions; return whether it was there."""
        name = _lower(name)
        query = "DELETE FROM tables WHERE database = ? AND name = ?"
        with self._opened() as file:
            return bool(file.execute(query, (name.database, name.table)).rowcount)

    def partitions(self, table: CatalogTable, values: Sequence[Values] | None = None) -> list[CatalogPartition]:
        """Return partitions; see `Catalog`."""
        name = _lower(table.name)
        query = "SELECT partition_values, location FROM partitions WHERE database = ? AND name = ?"
        with self._opened() as file:
            if values is None:
                found = _rows(file, query, name.database, name.table)
            else:
                found = []
                for start in range(0, len(values), _MOST_VALUES):
                    keys = [json.dumps(each) for each in values[start : start + _MOST_VALUES]]
                    some = f"{query} AND partition_values IN ({', '.join('?' * len(keys))})"
                    found += _rows(file, some, name.database, name.table, *keys)
        return [CatalogPartition(tuple(json.loads(text)), location) for text, location in found]

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions; those that are there stay as they are."""
        name = _lower(table.name)
        rows = [(name.database, name.table, json.dumps(each.values), each.location) for each in partitions]
        with self._opened() as file:
            try:
                file.executemany("INSERT OR IGNORE INTO partitions VALUES (?, ?, ?, ?)", rows)
            except sqlite3.IntegrityError:
                raise self._missing(name) from None

    def alter_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give partitions that are there a location."""
        name = _lower(table.name)
        query = "UPDATE partitions SET location = ? WHERE database = ? AND name = ? AND partition_values = ?"
        rows = [(each.location, name.database, name.table, json.dumps(each.values)) for each in partitions]
        with self._opened() as file:
            file.executemany(query, rows)

    def drop_partitions(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Remove partitions; those that aren't there are no error."""
        name = _lower(table.name)
        query = "DELETE FROM partitions WHERE database = ? AND name = ? AND partition_values = ?"
        with self._opened() as file:
            file.executemany(query, [(name.database, name.table, json.dumps(each)) for each in values])

    @contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which an error takes back."""
        path = Path(self._path)
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                path = Path(":memory:")  # empty, and nothing can be added without a database
            with closing(sqlite3.connect(path, timeout=_WAIT_S)) as file, file:
                file.execute("PRAGMA foreign_keys = ON")
                file.executescript(_SCHEMA)
                yield file
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise UnavailableError(f"{self} is in use by another process for too long; try again later") from error
            raise RefusedError(f"{self} can't be opened or written: {cause_text(error)}; check the path") from error
        except sqlite3.DatabaseError as error:
            raise CorruptError(f"{self} is no file of SQLite, or a damaged one: {cause_text(error)}") from error
        except OSError as error:
            raise RefusedError(f"{self} can't be made: {cause_text(error)}") from error

    def _missing(self, name: TableName) -> NotFoundError:
        return NotFoundError(f"{self}: there is no table {name}; another process may have dropped it: sync again")


def _rows(file: sqlite3.Connection, query: str, *values: str) -> list[tuple[Any, ...]]:
    return file.execute(query, values).fetchall()


def _table(text: str, name: TableName) -> CatalogTable:
    entry = json.loads(text)
    return CatalogTable(
        name,
        entry["location"],
        tuple(CatalogColumn(**each) for each in entry["columns"]),
        tuple(CatalogColumn(**each) for each in entry["partition_columns"]),
        TableFormat(**entry["format"]),
        entry["properties"],
        entry["kind"],
        entry["owner"],
    )


def _lower(name: TableName) -> TableName:
    return TableName(name.database.lower(), name.table.lower())


def _entry(table: CatalogTable) -> str:
    entry = {
        "location": table.location,
        "columns": [_column(each) for each in table.columns],
        "partition_columns": [_column(each) for each in table.partition_columns],
        "format": asdict(table.format),
        "properties": dict(table.properties),
        "kind": table.kind,
        "owner": table.owner,
    }
    return json.dumps(entry, ensure_ascii=False)


def _column(column: CatalogColumn) -> dict[str, str]:
    """Return a column as metastores store it: its name in lower case."""
    return {"name": column.name.lower(), "type": column.type, "comment": column.comment}
