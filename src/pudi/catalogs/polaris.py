"""Apache Polaris as a catalog: its generic tables, which have a format, a location, a comment and properties.

A generic table has neither columns nor partitions: engines read those from the Hudi table. It has no update either: a
change is a drop and a new entry, and the old one is put back where the new one is refused. What `CatalogTable` has
beyond a generic table is kept in one property.

Sources: generic-tables-api.yaml and rest-catalog-open-api.yaml of Apache Polaris; its Spark plugin reads the
properties `provider`, `location` and `owner`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote, urlsplit

from pudi.catalogs.catalog import (
    COMMENT,
    EXTERNAL,
    PROVIDER,
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    TableFormat,
    TableName,
    Values,
    is_hudi,
)
from pudi.catalogs.rest_client import RestClient, RestRequest
from pudi.config import PolarisOptions, resolve_only
from pudi.context import Context
from pudi.errors import (
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    TableExistsError,
    UnavailableError,
)

_log = logging.getLogger(__name__)

_SERVICE: Final = "/api/catalog"
"""End of the address of Polaris's REST service; in the address of a catalog its name follows."""
_HUDI: Final = "hudi"
_PROVIDER, _LOCATION, _OWNER = "provider", "location", "owner"
"""Properties by which Polaris's Spark plugin opens a table."""
_MORE: Final = "pudi.catalog.entry"
"""Property with what a generic table has no field for, as JSON."""
_OWN: Final = (_PROVIDER, _LOCATION, _OWNER, _MORE)
_NO_FORMAT: Final = TableFormat("", "", "")
_REQUESTS: Final = 8
"""Requests in parallel."""


class PolarisCatalog(Catalog):
    """Generic tables in a catalog of Apache Polaris; a database is a namespace, `a.b.c` one of three levels.

    Args:
        address: the address of the service with the catalog's name (`https://host:8181/api/catalog/lake`), the name
            alone, or nothing; options and the environment give what is left out.
        options: who asks, and settings, by pudi's keys.
        context: waits and threads.

    Raises:
        SetupError: the package requests is missing.
        InvalidArgumentError: no address of the service, or no name of the catalog.
    """

    def __init__(
        self, address: str = "", options: Mapping[str, str] | None = None, context: Context | None = None
    ) -> None:
        given = {**PolarisOptions.from_environment(os.environ), **(options or {})}
        settings = PolarisOptions.of(resolve_only(given, PolarisOptions.declared))
        uri, warehouse = _parts(address)
        self._uri = (uri or settings.uri or "").rstrip("/")
        self._warehouse = warehouse or settings.warehouse or ""
        self._token_uri = settings.token_uri or ""
        self._context = context or Context()
        self._check_address()
        self._client = RestClient(self.address, self._uri, settings, self._context)
        self._known_prefix = ""

    def _check_address(self) -> None:
        if not self._uri or not self._warehouse:
            what, option = (
                ("the address of the service", PolarisOptions.uri)
                if not self._uri
                else ("the name of the catalog", PolarisOptions.warehouse)
            )
            raise InvalidArgumentError(
                f"Apache Polaris: {what} is missing: set {option}, or name the table by polaris:https://host:8181"
                f"{_SERVICE}/lake/db.trips"
            )
        found = urlsplit(self._uri)
        if found.scheme not in {"http", "https"} or not found.hostname or found.query or found.username:
            raise InvalidArgumentError(
                f"{PolarisOptions.uri}: {self._uri.rpartition('@')[2]!r} is no URL of http or https with a host, or "
                "one with more than a path"
            )
        if urlsplit(self._token_uri).username:
            raise InvalidArgumentError(
                f"{PolarisOptions.token_uri}: {self._token_uri.rpartition('@')[2]!r} has a user before it: give the "
                f"credential by {PolarisOptions.credential}"
            )

    @property
    def has_partitions(self) -> bool:
        """Whether entries have partitions: generic tables have none."""
        return False

    @property
    def has_nested_databases(self) -> bool:
        """Whether a database may have several levels: a namespace may."""
        return True

    @property
    def address(self) -> str:
        """The address: `polaris:`, that of the service, and the catalog's name."""
        return f"polaris:{self._uri}/{self._warehouse}" if self._uri.endswith(_SERVICE) else f"polaris:{self._uri}"

    def has_database(self, name: str) -> bool:
        """Return whether there is a namespace of that name."""
        path = f"/v1/{self._prefix()}/namespaces/{_in_path(name)}"
        try:
            self._client.answer(RestRequest("GET", path, f"namespace {name!r}"))
        except NotFoundError:
            return False
        return True

    def create_database(self, name: str) -> None:
        """Create a namespace, with missing ones above it; one that is there stays as it is."""
        body = {"namespace": name.split("."), "properties": {}}
        request = RestRequest("POST", f"/v1/{self._prefix()}/namespaces", f"namespace {name!r}", body=body)
        above = name.rpartition(".")[0]
        try:
            self._client.answer(request)
        except TableExistsError:
            _log.debug("%s: there is a namespace %s", self, name)
        except NotFoundError:
            if not above or self.has_database(above):
                raise
            self.create_database(above)
            self.create_database(name)

    def table_names(self, database: str) -> list[str]:
        """Return the names of a namespace's generic tables, sorted."""
        path, page = self._tables(database), ""
        names: set[str] = set()
        while True:
            answer = self._client.answer(RestRequest("GET", path, f"namespace {database!r}", query={"pageToken": page}))
            names.update(str(each["name"]) for each in answer.get("identifiers") or ())
            following = answer.get("next-page-token")
            if not following or following == page:
                return sorted(names)
            page = str(following)

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        """Return some tables by the names that were asked for, one request each."""
        self._prefix()  # once, before the threads
        found = self._context.executor.map(
            lambda name: self._load(TableName(database, name)), list(names), limit=_REQUESTS
        )
        return {
            name: _table(TableName(database, name), entry)
            for name, entry in zip(names, found, strict=True)
            if entry is not None
        }

    def create_table(self, table: CatalogTable) -> None:
        """Create a table; its namespace must be there."""
        self._create(table.name, _entry(table))

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace an entry: drop it and create it anew, since Polaris has no other way.

        Rights that were granted on the entry end with it. Where the new one can't be created, the old one is.
        """
        del cascade
        name, known, wanted = table.name, self._load(table.name), _entry(table)
        if known is None:
            raise NotFoundError(f"{self}: there is no table {name}; another process may have dropped it: sync again")
        if _is_same(known, wanted):
            return
        _log.warning("%s: %s is dropped and created anew, for its properties; grants on it end", self, name)
        self.drop_table(name)
        try:
            self._create(name, wanted)
        except TableExistsError as error:
            raise UnavailableError(f"{self}: another process registered {name} meanwhile; sync again") from error
        except PudiError as error:
            error.message += f". {self._put_back(name, known)}"
            raise

    def _put_back(self, name: TableName, known: Mapping[str, Any]) -> str:
        """Create an entry as it was, and return what became of it, for the error."""
        try:
            self._create(name, {key: known[key] for key in _FIELDS if known.get(key) is not None})
        except TableExistsError:
            return f"Another process registered {name} meanwhile"
        except PudiError as error:
            _log.error("%s: %s is no longer registered: %s", self, name, error)
            return f"Nothing is registered by the name {name} now; its files are whole: sync again"
        return f"The entry {name} is as it was, but for grants on it"

    def drop_table(self, name: TableName) -> bool:
        """Remove a table from the catalog; files stay. Return whether it was there."""
        path, attempts = self._path(name), list[None]()
        try:
            self._client.answer(RestRequest("DELETE", path, name), note=lambda: attempts.append(None))
        except NotFoundError:
            return len(attempts) > 1  # an attempt whose answer was lost
        return True

    def partitions(self, table: CatalogTable, values: Sequence[Values] | None = None) -> list[CatalogPartition]:
        """Return no partition: generic tables have none."""
        del table, values
        return []

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Refuse partitions.

        Raises:
            NotSupportedError: there are some.
        """
        if partitions:
            raise NotSupportedError(
                f"{self}: {table.name} can't have partitions: Polaris's generic tables have none; engines find those "
                "of a Hudi table in the table"
            )

    def alter_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Refuse partitions, as `add_partitions`."""
        self.add_partitions(table, partitions)

    def drop_partitions(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Remove nothing: there are none."""

    def close(self) -> None:
        """Close connections; a later call opens them again."""
        self._client.close()

    def _create(self, name: TableName, entry: Mapping[str, Any]) -> None:
        path, attempts = self._tables(name.database), list[None]()
        try:
            self._client.answer(RestRequest("POST", path, name, body=entry), note=lambda: attempts.append(None))
        except TableExistsError as error:
            there = self._load(name)
            if there is None:
                raise TableExistsError(
                    f"{self}: {name} is the name of an Iceberg table or a view there; register by another name"
                ) from error
            if len(attempts) == 1 or not _is_same(there, entry):
                raise  # else it's that of an attempt whose answer was lost

    def _load(self, name: TableName) -> dict[str, Any] | None:
        """Return a generic table as Polaris shows it; None if it's not there."""
        path = self._path(name)
        try:
            answer = self._client.answer(RestRequest("GET", path, name))
        except NotFoundError:
            return None
        found = answer.get("table")
        return found if isinstance(found, dict) else None

    def _path(self, name: TableName) -> str:
        return f"{self._tables(name.database)}/{quote(name.table, safe='')}"

    def _tables(self, database: str) -> str:
        return f"/polaris/v1/{self._prefix()}/namespaces/{_in_path(database)}/generic-tables"

    def _prefix(self) -> str:
        """Return what routes begin with; the service says it, once.

        Raises:
            NotFoundError: the service has no such catalog.
            NotSupportedError: it has no generic tables.
        """
        if not self._known_prefix:
            asked = {"warehouse": self._warehouse}
            said = self._client.answer(RestRequest("GET", "/v1/config", f"catalog {self._warehouse!r}", query=asked))
            routes = [str(each) for each in said.get("endpoints") or ()]
            if routes and not any("/generic-tables" in each for each in routes):
                raise NotSupportedError(
                    f"{self} has no generic tables: it's another REST catalog than Polaris, an older release, or they "
                    "are switched off there"
                )
            settings = {**(said.get("defaults") or {}), **(said.get("overrides") or {})}
            self._known_prefix = quote(str(settings.get("prefix") or self._warehouse), safe="")
        return self._known_prefix


_LEVELS: Final = "\x1f"
"""Separates the levels of a namespace in a path."""


def _in_path(database: str) -> str:
    """Return a namespace as it stands in a path."""
    return quote(database.replace(".", _LEVELS), safe="")


_FIELDS: Final = ("name", "format", "base-location", "doc", "properties")


def _parts(address: str) -> tuple[str, str]:
    """Return the address of the service and the name of the catalog that an address gives."""
    if "://" not in address:
        return "", address
    before, service, name = address.partition(f"{_SERVICE}/")
    return (before + service.rstrip("/"), name.strip("/")) if service else (address, "")


def _is_same(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all((known.get(field) or None) == (wanted.get(field) or None) for field in _FIELDS)


def _table(name: TableName, entry: Mapping[str, Any]) -> CatalogTable:
    """Return a generic table in the words of metastores."""
    kept = {str(key): str(value) for key, value in (entry.get("properties") or {}).items()}
    properties = {key: value for key, value in kept.items() if key not in _OWN}
    properties[PROVIDER] = str(entry.get("format") or "").lower()
    if entry.get("doc"):
        properties[COMMENT] = str(entry["doc"])
    more = _more(kept.get(_MORE, ""))
    form = more.get("format")
    return CatalogTable(
        name,
        str(entry.get("base-location") or kept.get(_LOCATION) or kept.get("path") or ""),
        tuple(CatalogColumn(**each) for each in more.get("columns", ())),
        tuple(CatalogColumn(**each) for each in more.get("partition_columns", ())),
        _NO_FORMAT if form is None else TableFormat(**form),
        properties,
        EXTERNAL,
        kept.get(_OWNER, ""),
        dict(entry),
    )


def _more(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _entry(table: CatalogTable) -> dict[str, Any]:
    """Return a table as Polaris takes it.

    Raises:
        NotSupportedError: it's no Hudi table.
    """
    if not is_hudi(table):
        raise NotSupportedError(f"Apache Polaris: {table.name} is no Hudi table: others aren't registered by pudi")
    more: dict[str, Any] = {
        "columns": [asdict(each) for each in table.columns],
        "partition_columns": [asdict(each) for each in table.partition_columns],
        "format": None if table.format == _NO_FORMAT else asdict(table.format),
    }
    properties = {key: value for key, value in table.properties.items() if key not in {PROVIDER, COMMENT}}
    properties |= {_PROVIDER: _HUDI, _LOCATION: table.location}
    properties |= {_OWNER: table.owner} if table.owner else {}
    if any(more.values()):
        properties[_MORE] = json.dumps({key: value for key, value in more.items() if value}, ensure_ascii=False)
    entry = {"name": table.name.table, "format": _HUDI, "base-location": table.location, "properties": properties}
    return entry | ({"doc": table.properties[COMMENT]} if table.properties.get(COMMENT) else {})
