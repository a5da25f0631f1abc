"""A Hive Metastore as a catalog, through its Thrift service: releases 2.3, 3.1 and 4.

Source: hive_metastore.thrift of Apache Hive.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from getpass import getuser
from typing import Any, Final
from urllib.parse import unquote

from pudi.catalogs import thrift_client as thrift
from pudi.catalogs.catalog import (
    EXTERNAL,
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    TableFormat,
    TableName,
    Values,
    batches,
    with_retries,
)
from pudi.catalogs.thrift_client import BOOL, I16, I32, LIST, MAP, STRING, STRUCT, Connection, Field, Fields, Metastores
from pudi.context import Context
from pudi.errors import NotFoundError, PudiError, RefusedError, TableExistsError, UnavailableError
from pudi.record.partition_path import DEFAULT_PARTITION, escaped_characters

_ANSWER_S: Final = 600.0
"""Seconds for which Hive's clients wait for an answer (hive.metastore.client.socket.timeout)."""
BATCH: Final = 250
"""Partitions in a request by default; a metastore puts them in one transaction of its database.

More are no faster, but an answer for all that are under way may come too late.
"""
_CONNECTIONS: Final = 8
"""Requests in parallel; a metastore's pool has 10 connections to its database by default."""
_SMALLEST_BATCH: Final = 100
"""Partitions that are worth a request of their own; more are spread over all connections."""

_DECLARED: Final[Mapping[str, Sequence[type[PudiError]]]] = {
    "get_database": (NotFoundError,),
    "create_database": (TableExistsError, RefusedError),
    "create_table": (TableExistsError, RefusedError, RefusedError, NotFoundError),
    "alter_table_with_environment_context": (RefusedError,),
    "drop_table": (NotFoundError,),
    "get_table_objects_by_name_req": (RefusedError, RefusedError, NotFoundError),
    "get_partition_names": (RefusedError, NotFoundError),
    "get_partitions_by_names": (RefusedError, NotFoundError),
    "add_partitions_req": (RefusedError, TableExistsError),
    "alter_partitions": (RefusedError,),
    "drop_partitions_req": (NotFoundError,),
}
"""The exceptions that methods declare, by the number of the result's field, 1 first; others are refusals."""

_PASSING = re.compile(r"JDO\w*Exception|deadlock|timed? ?out|Connection|NucleusException", re.IGNORECASE)
"""Finds words in a message of the metastore by which the same request may succeed (RetryingMetaStoreClient)."""

_ESCAPES: Final = str.maketrans({char: f"%{ord(char):02X}" for char in escaped_characters()})

_CREATED_BY: Final = "automatically created by hoodie"
_MOST_NAMES: Final = -1


class HiveCatalog(Catalog):
    """Tables in a Hive Metastore, without Kerberos.

    Args:
        metastores: where it is; the first server that answers is taken.
        context: threads and waits.
        batch_size: maximum number of partitions in a request.
        timeout_s: how long an answer may take.

    Raises:
        SetupError: the package thrift is missing.
    """

    def __init__(
        self,
        metastores: Metastores,
        context: Context | None = None,
        batch_size: int = BATCH,
        timeout_s: float = _ANSWER_S,
    ) -> None:
        thrift.check_installed()
        self._metastores, self._context = metastores, context or Context()
        self._batch_size, self._timeout_s = batch_size, timeout_s
        self._user = _user()
        self._idle: list[Connection] = []
        self._guard = threading.Lock()

    @property
    def address(self) -> str:
        """The address: `hive://` and the servers."""
        return "hive://" + ",".join(f"{host}:{port}" for host, port in self._metastores.servers)

    def has_database(self, name: str) -> bool:
        """Return whether there is a database of that name."""
        try:
            self._call("get_database", name, [(1, STRING, name)])
        except NotFoundError:
            return False
        return True

    def create_database(self, name: str) -> None:
        """Create a database; one that is there stays as it is."""
        with suppress(TableExistsError):
            self._call("create_database", name, [(1, STRUCT, [(1, STRING, name), (2, STRING, _CREATED_BY)])])

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""
        return sorted(thrift.elements(self._call("get_all_tables", database, [(1, STRING, database)])))

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        """Return some tables by the names that were asked for, in one request."""
        request: Fields = [(1, STRING, database), (2, LIST, thrift.texts([name.lower() for name in names]))]
        try:
            answer = self._call("get_table_objects_by_name_req", database, [(1, STRUCT, request)])
        except NotFoundError:
            return {}
        by_name = {entry.name.table: entry for entry in map(_table, thrift.elements(thrift.value(answer, 1)))}
        return {name: by_name[name.lower()] for name in names if name.lower() in by_name}

    def create_table(self, table: CatalogTable) -> None:
        """Create a table; its database must be there."""
        created = int(self._context.clock.now_ms() / 1000)
        entry: list[Field] = [
            (1, STRING, table.name.table),
            (2, STRING, table.name.database),
            (3, STRING, table.owner or self._user),
            (4, I32, created),
            (5, I32, 0),
            (6, I32, 0),
            (7, STRUCT, _descriptor(table, [])),
            (8, LIST, _columns(table.partition_columns)),
            (9, MAP, thrift.text_map(table.properties)),
            (12, STRING, table.kind),
        ]
        try:
            self._call("create_table", table.name, [(1, STRUCT, entry)])
        except RefusedError as error:
            if not self.has_database(table.name.database):
                raise NotFoundError(
                    f"{self}: there is no database {table.name.database!r} for the table {table.name}; create it first"
                ) from error
            raise

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace location, columns, format and properties of a table; the rest of its entry stays."""
        entry = table.entry
        if entry is None:
            found = self.table(table.name)
            if found is None:
                raise NotFoundError(f"{self}: there is no table {table.name} to alter")
            entry = found.entry
        descriptor = _descriptor(table, thrift.value(entry, 7) or [])
        entry = thrift.replaced(entry, (7, STRUCT, descriptor), (9, MAP, thrift.text_map(table.properties)))
        context: Fields = [(1, MAP, thrift.text_map({"CASCADE": "true"} if cascade else {}))]
        name = table.name
        arguments: Fields = [
            (1, STRING, name.database),
            (2, STRING, name.table),
            (3, STRUCT, entry),
            (4, STRUCT, context),
        ]
        self._call("alter_table_with_environment_context", name, arguments)

    def drop_table(self, name: TableName) -> bool:
        """Remove a table and its partitions; files stay. Return whether it was there."""
        try:
            self._call("drop_table", name, [(1, STRING, name.database), (2, STRING, name.table), (3, BOOL, False)])
        except NotFoundError:
            return False
        return True

    def partitions(self, table: CatalogTable, values: Sequence[Values] | None = None) -> list[CatalogPartition]:
        """Return partitions; see `Catalog`."""
        name = table.name
        at: Fields = [(1, STRING, name.database), (2, STRING, name.table)]
        if values is None:
            answer = self._call("get_partition_names", name, [*at, (3, I16, _MOST_NAMES)])
            names = thrift.elements(answer)
        else:
            names = [_partition_name(table, each) for each in values]

        def read(batch: Sequence[str]) -> list[CatalogPartition]:
            answer = self._call("get_partitions_by_names", name, [*at, (3, LIST, thrift.texts(batch))])
            return [_partition(each) for each in thrift.elements(answer)]

        return [each for found in self._in_batches(read, names) for each in found]

    def partition_values(self, table: CatalogTable) -> list[Values]:
        """Return the values of all partitions, in one request."""
        name = table.name
        arguments: Fields = [(1, STRING, name.database), (2, STRING, name.table), (3, I16, _MOST_NAMES)]
        return [_values(each) for each in thrift.elements(self._call("get_partition_names", name, arguments))]

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions; those that are there stay as they are."""
        shared = _SharedPartition.of(table, int(self._context.clock.now_ms() / 1000)) if partitions else None

        def add(batch: Sequence[CatalogPartition]) -> None:
            assert shared is not None
            request: Fields = [
                (1, STRING, table.name.database),
                (2, STRING, table.name.table),
                (3, LIST, thrift.structs([shared.fields(each) for each in batch])),
                (4, BOOL, True),
                (5, BOOL, False),
            ]
            self._call("add_partitions_req", table.name, [(1, STRUCT, request)])

        self._in_batches(add, partitions)

    def alter_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give partitions that are there a location, and the table's columns and format."""
        there = {each.values for each in self.partitions(table, [each.values for each in partitions])}
        shared = _SharedPartition.of(table, int(self._context.clock.now_ms() / 1000)) if there else None

        def alter(batch: Sequence[CatalogPartition]) -> None:
            assert shared is not None
            changed = thrift.structs([shared.fields(each) for each in batch])
            at: Fields = [(1, STRING, table.name.database), (2, STRING, table.name.table)]
            self._call("alter_partitions", table.name, [*at, (3, LIST, changed)])

        self._in_batches(alter, [each for each in partitions if each.values in there])

    def drop_partitions(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Remove partitions; those that aren't there are no error."""

        def drop(batch: Sequence[Values]) -> None:
            names = thrift.texts([_partition_name(table, each) for each in batch])
            request: Fields = [
                (1, STRING, table.name.database),
                (2, STRING, table.name.table),
                (3, STRUCT, [(1, LIST, names)]),
                (4, BOOL, False),
                (5, BOOL, True),
                (8, BOOL, False),
            ]
            with suppress(NotFoundError):  # in some releases, if all of them are missing
                self._call("drop_partitions_req", table.name, [(1, STRUCT, request)])

        self._in_batches(drop, values)

    def close(self) -> None:
        """Close all connections that aren't in use."""
        with self._guard:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _in_batches(self, call: Any, items: Sequence[Any]) -> list[Any]:
        even = max(-(-len(items) // _CONNECTIONS), _SMALLEST_BATCH)
        return self._context.executor.map(call, batches(items, min(self._batch_size, even)), limit=_CONNECTIONS)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._guard:
            connection = self._idle.pop() if self._idle else None
        connection = connection or Connection(self._metastores, self._timeout_s, user=self._user)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._guard:
            self._idle.append(connection)

    def _call(self, method: str, about: TableName | str, arguments: Fields) -> Any:
        """Call a method, again where it may succeed then; return its answer."""

        def attempt() -> Any:
            with self._connected() as connection:
                result = connection.call(method, arguments)
            if 0 in result or not result:
                return result.get(0)
            raise self._error(method, about, *next(iter(result.items())))

        return with_retries(attempt, self._context)

    def _error(self, method: str, about: TableName | str, number: int, said: Any) -> PudiError:
        message = " ".join(thrift.text(said, 1).split()) or "no reason given"
        kinds = _DECLARED.get(method, ())
        kind = kinds[number - 1] if number <= len(kinds) else RefusedError
        what = f"table {about}" if isinstance(about, TableName) else f"database {about!r}"
        if kind is NotFoundError:
            return NotFoundError(f"{self}: there is no {what}, or no database of it: {message}")
        if kind is TableExistsError:
            return TableExistsError(f"{self}: there is a {what} already: {message}")
        if _PASSING.search(message):
            return UnavailableError(f"{self} failed in {method!r} of the {what}: {message[:300]}; try again later")
        return RefusedError(
            f"{self} refused {method!r} of the {what}: {message[:600]}; what was registered before stands"
        )


def _user() -> str:
    """Return the user as Hadoop's clients know it; empty where the system has no name for it, as in some containers."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getuser()
    except (KeyError, OSError, ImportError):
        return ""


@dataclass(frozen=True, slots=True)
class _SharedPartition:
    """Bytes that all partitions of a table have in common.

    Attributes:
        head: fields of a partition between its values and its storage descriptor.
        before: fields of the descriptor before the location.
        after: those after it.
    """

    head: bytes
    before: bytes
    after: bytes

    @classmethod
    def of(cls, table: CatalogTable, created: int) -> _SharedPartition:
        descriptor = _descriptor(table, [])
        name = table.name
        head: Fields = [(2, STRING, name.database), (3, STRING, name.table), (4, I32, created), (5, I32, 0)]
        before = thrift.encoded([field for field in descriptor if field[0] == 1])
        return cls(thrift.encoded(head), before, thrift.encoded([field for field in descriptor if field[0] > 2]))

    def fields(self, partition: CatalogPartition) -> Fields:
        """Return the fields of one partition."""
        descriptor: Fields = [self.before, (2, STRING, partition.location), self.after]
        return [(1, LIST, thrift.texts(partition.values)), self.head, (6, STRUCT, descriptor)]


def _descriptor(table: CatalogTable, known: Sequence[Field]) -> list[Field]:
    """Return the storage descriptor of a table, with what is known of it beyond what pudi registers."""
    form = table.format
    serde = thrift.replaced(
        thrift.value(known, 7) or [], (2, STRING, form.serde), (3, MAP, thrift.text_map(form.serde_properties))
    )
    new: list[Field] = [
        (1, LIST, _columns(table.columns)),
        (2, STRING, table.location),
        (3, STRING, form.input_format),
        (4, STRING, form.output_format),
        (7, STRUCT, serde),
    ]
    if known:
        return thrift.replaced(known, *new)
    new += [(5, BOOL, False), (6, I32, 0), (8, LIST, thrift.texts([])), (9, LIST, thrift.structs([]))]
    return sorted([*new, (10, MAP, thrift.text_map({}))], key=lambda field: field[0])


def _columns(columns: Sequence[CatalogColumn]) -> tuple[int, list[Any]]:
    return thrift.structs([[(1, STRING, c.name), (2, STRING, c.type), (3, STRING, c.comment)] for c in columns])


def _table(entry: Sequence[Field]) -> CatalogTable:
    descriptor = thrift.value(entry, 7) or []
    return CatalogTable(
        TableName(thrift.text(entry, 2), thrift.text(entry, 1)),
        thrift.text(descriptor, 2),
        _read_columns(thrift.value(descriptor, 1)),
        _read_columns(thrift.value(entry, 8)),
        _format(descriptor),
        thrift.mapping(thrift.value(entry, 9)),
        thrift.text(entry, 12) or EXTERNAL,
        thrift.text(entry, 3),
        list(entry),
    )


def _format(descriptor: Sequence[Field]) -> TableFormat:
    """Return the format that the storage descriptor of a table or partition says."""
    serde = thrift.value(descriptor, 7) or []
    return TableFormat(
        thrift.text(descriptor, 3),
        thrift.text(descriptor, 4),
        thrift.text(serde, 2),
        thrift.mapping(thrift.value(serde, 3)),
    )


def _read_columns(found: Any) -> tuple[CatalogColumn, ...]:
    return tuple(
        CatalogColumn(thrift.text(each, 1), thrift.text(each, 2), thrift.text(each, 3))
        for each in thrift.elements(found)
    )


def _partition(entry: Sequence[Field]) -> CatalogPartition:
    values = tuple(thrift.elements(thrift.value(entry, 1)))
    return CatalogPartition(values, thrift.text(thrift.value(entry, 6) or [], 2))


def _partition_name(table: CatalogTable, values: Values) -> str:
    """Return the name of a partition: `region=asia pac/hh=5` (Warehouse.makePartName)."""
    columns = table.partition_columns
    return "/".join(
        f"{column.name.lower().translate(_ESCAPES)}={(value or DEFAULT_PARTITION).translate(_ESCAPES)}"
        for column, value in zip(columns, values, strict=True)
    )


def _values(name: str) -> Values:
    """Return the values that the name of a partition says."""
    return tuple(unquote(part.partition("=")[2]) for part in name.split("/"))
