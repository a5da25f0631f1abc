"""The catalogs that a session attached: in them it finds the tables that it doesn't know otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pudi.catalogs import (
    Catalog,
    CatalogColumn,
    CatalogTable,
    TableName,
    is_hudi,
    open_catalog,
    place_of,
    split_address,
)
from pudi.catalogs.catalog import COMMENT, MANAGED
from pudi.catalogs.registered import options_of
from pudi.config import KEY_PREFIXES, FormatOptions, Scope, SyncOptions, find_option
from pudi.errors import (
    InvalidArgumentError,
    PudiError,
    SetupError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from pudi.statement.host import OWN_CATALOG, CataloguedEntry, Entry, Home, Settings
from pudi.statement.tree import TableName as Name
from pudi.table import Table
from pudi.table.by_name import TableCatalog, drop_entries
from pudi.table.catalogs import is_read_optimized, location_of

ATTACHED = "pudi.sql.catalog."
"""Settings that attach catalogs: the name follows, the value is the address."""
PURGED = "external.table.purge"
"""The property by which Hive says that dropping an external table deletes its files: those made without LOCATION."""
_VIEWS = ("_ro", "_rt")
_log = logging.getLogger(__name__)


class AttachedCatalogs:
    """The catalogs of a session by their names, during one statement.

    Args:
        settings: the session's.
        options: options of the session, by Hudi's keys.
        database: gives the database of names that say none.
        own: the address of the catalog that the engine has itself; None if it has none of these kinds. Names lead to
            it where no attached catalog has the table, and new tables are registered in it if none is attached.
    """

    def __init__(
        self, settings: Settings, options: Mapping[str, str], database: Callable[[], str], own: str | None = None
    ) -> None:
        self._settings, self._options, self._database, self._own = settings, options, database, own
        self._found: dict[tuple[str, ...], CataloguedEntry | None] = {}

    def addresses(self) -> dict[str, str]:
        """Return the addresses of the catalogs by their names in the session."""
        found = self._settings.items().items()
        return {key.removeprefix(ATTACHED).lower(): value for key, value in found if key.startswith(ATTACHED)}

    def names(self, name: Name) -> bool:
        """Return whether a table's name begins with that of an attached catalog."""
        return len(name.parts) > 2 and name.parts[0].lower() in self.addresses()

    def attach(self, name: str, address: str) -> None:
        """Attach a catalog; it isn't asked for anything yet.

        Raises:
            InvalidArgumentError: the name is taken, or the address is none of a catalog.
            NotSupportedError: a kind of catalogs that this release lacks.
            SetupError: the package of its client is missing.
        """
        name = name.lower()
        known = self.addresses().get(name, address)
        if known != address:
            raise InvalidArgumentError(f"{name} is the catalog {known}: DETACH {name} first, or take another name")
        open_catalog(*split_address(address), self._options).close()
        self._settings.set(ATTACHED + name, address)

    def detach(self, name: str) -> None:
        """Know a catalog no more; what is registered in it stays.

        Raises:
            InvalidArgumentError: none of that name is attached.
        """
        known = self.addresses()
        if name.lower() not in known:
            raise InvalidArgumentError(f"no catalog {name} is attached; {', '.join(sorted(known)) or 'none'} is")
        for key in [key for key in self._settings.items() if key.lower() == ATTACHED + name.lower()]:
            self._settings.unset(key)

    def find(self, name: Name) -> CataloguedEntry | None:
        """Return the entry of a Hudi table; None if no catalog has a table of that name.

        Raises:
            InvalidArgumentError: two catalogs have tables of that name at different locations.
            TableNotFoundError: it's a table of another format.
        """
        key = tuple(part.lower() for part in name.parts)
        if key not in self._found:
            self._found[key] = self._search(name, self._homes(name))
        return self._found[key]

    def home(self, name: Name) -> Home | None:
        """Return the place where a new table of that name is registered; None if there is no catalog.

        Raises:
            InvalidArgumentError: several are attached, and the name doesn't say which.
        """
        homes = self._homes(name) or self._own_homes(name)
        if len(homes) > 1:
            names = " or ".join(f"{home.attached}.{home.name}" for home in homes)
            raise InvalidArgumentError(f"several catalogs are attached, say in which {name} is registered: {names}")
        return homes[0] if homes else None

    def check_free(self, home: Home) -> None:
        """Refuse a name that something else has, before a table is created for it.

        Raises:
            TableExistsError: it's a table there, of any format.
            UnavailableError: the catalog doesn't answer.
        """
        with self._opened(home) as catalog:
            entry = catalog.table(home.name)
        if entry is not None:
            what = "a table" if is_hudi(entry) else "a table of another format"
            raise TableExistsError(f"{home.address}: {home.name} is {what}, at {entry.location}: take another name")

    def owned(self, name: Name) -> CataloguedEntry | None:
        """Return the entry of a Hudi table in the engine's own catalog; None if that can't be asked."""
        key = (OWN_CATALOG, *(part.lower() for part in name.parts[-2:]))
        if key not in self._found:
            try:
                self._found[key] = self._search(name, self._own_homes(name))
            except (SetupError, UnavailableError) as error:
                _log.warning(
                    "%s is read by what Spark tells of it, and a change of it isn't registered: %s", name, error
                )
                self._found[key] = None
        return self._found[key]

    def register(self, home: Home, table: Table, options: Mapping[str, str], entry: Entry) -> None:
        """Register a table.

        Args:
            home: where.
            table: the table.
            options: options of the sync.
            entry: properties and comments of its entry.
        """
        try:
            with self._opened(home) as catalog:
                table.sync(catalog, str(home.name), options={**self._options, **options})
            self.keep(home, Entry(table.path), entry)
        except PudiError as error:
            error.message += f". The table at {table.path} is there: CREATE TABLE again registers it"
            raise

    def keep(self, home: Home, before: Entry, after: Entry) -> None:
        """Change properties and comments of an entry; what it has beyond those that were known before stays."""
        self._found.clear()
        old, new = _kept(before), _kept(after)
        if old == new and before.comments == after.comments:
            return
        with self._opened(home) as catalog:
            entry = catalog.table(home.name)
            if entry is None:
                raise TableNotFoundError(f"{catalog} has no table {home.name} any more: another session dropped it")
            properties = {**{key: value for key, value in entry.properties.items() if key not in old}, **new}
            said = after.comments
            known = entry.columns if catalog.has_partitions else tuple(CatalogColumn(each, "") for each in sorted(said))
            columns = tuple(replace(each, comment=said.get(each.name.lower(), "")) for each in known)
            catalog.alter_table(replace(entry, properties=properties, columns=columns))

    def drop(self, home: Home) -> None:
        """Remove an entry, and those of its views."""
        self._found.clear()
        with self._opened(home) as catalog:
            drop_entries(catalog, home.name)

    def tables(self, database: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return database and name of the Hudi tables in a database of every catalog, or of one that it names."""
        found: set[tuple[str, str]] = set()
        name = Name((*(database or (self._database(),)), "*"), 0)
        for home in self._homes(name):
            with self._opened(home) as catalog:
                found.update((home.name.database, name) for name in TableCatalog(catalog).tables(home.name.database))
        return sorted(found)

    def _homes(self, name: Name) -> list[Home]:
        """Return the places that a name may stand for: `table`, `database.table`, `catalog.database.table`.

        With a catalog before it, a database may have several levels.
        """
        parts, known = name.parts, self.addresses()
        if name.path is not None:
            return []
        named = [parts[0].lower()] if len(parts) > 2 else sorted(known)
        return [Home(each, known[each], self._inner(name)) for each in named if each in known]

    def _own_homes(self, name: Name) -> list[Home]:
        """Return the place of a name in the engine's own catalog: `table`, `database.table`, `spark_catalog.…`."""
        parts = name.parts
        is_elsewhere = len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != OWN_CATALOG)
        if self._own is None or name.path is not None or is_elsewhere:
            return []
        return [Home(OWN_CATALOG, self._own, self._inner(name))]

    def _inner(self, name: Name) -> TableName:
        *levels, table = [part.lower() for part in name.parts]
        return TableName(".".join(levels[1:] if len(levels) > 1 else levels) or self._database(), table)

    def _search(self, name: Name, homes: Sequence[Home]) -> CataloguedEntry | None:
        found: list[CataloguedEntry] = []
        others: list[str] = []
        for home in homes:
            with self._opened(home) as catalog:
                base = _base(home.name)
                names = dict.fromkeys((home.name.table, base, *(base + view for view in _VIEWS)))
                entries = catalog.tables(home.name.database, list(names))
            entry = entries.get(home.name.table)
            if entry is not None and is_hudi(entry):
                found.append(_entry(home, entry, entries))
            elif entry is not None:
                others.append(f"{home.address}: {home.name} is a table of another format, at {entry.location}")
        if len({entry.path.rstrip("/") for entry in found}) > 1:
            named = " or ".join(f"{entry.home.attached}.{entry.home.name}" for entry in found if entry.home is not None)
            raise InvalidArgumentError(f"several attached catalogs have a table {name}: say which, {named}")
        if others and not found:
            raise TableNotFoundError(others[0])
        return found[0] if found else None

    @contextmanager
    def _opened(self, home: Home) -> Iterator[Catalog]:
        with open_catalog(*split_address(home.address), self._options) as catalog:
            yield catalog


def _base(name: TableName) -> str:
    """Return the name of the table whose view a name may be: `trips` of `trips_ro`."""
    return name.table[:-3] if name.table.endswith(_VIEWS) else name.table


def _entry(home: Home, entry: CatalogTable, entries: Mapping[str, CatalogTable]) -> CataloguedEntry:
    """Return what is registered of a table; its writes are followed by a sync that keeps to how it was registered."""
    base = _base(home.name)
    same = {name for name, each in entries.items() if is_hudi(each) and each.location == entry.location}
    is_view = base != home.name.table and {base + view for view in _VIEWS} <= same
    table = home.name if not is_view else TableName(home.name.database, base)
    optimized = is_read_optimized(entry)
    properties = {key: value for key, value in entry.properties.items() if _is_taken(key)}
    properties |= {FormatOptions.as_read_optimized.key: "true"} if optimized else {}
    properties.pop(COMMENT, None)
    return CataloguedEntry(
        location_of(entry),
        properties,
        entry.properties.get(COMMENT),
        {each.name.lower(): each.comment for each in (*entry.columns, *entry.partition_columns) if each.comment},
        home,
        {
            SyncOptions.enabled.key: "true",
            SyncOptions.tools.key: place_of(home.address, table),
            **options_of(entry, table.table, same),
        },
        is_view=is_view or optimized,
        is_managed=entry.kind == MANAGED or entry.properties.get(PURGED, "").lower() == "true",
    )


def _is_taken(key: str) -> bool:
    """Return whether a registered property may be an option of the table; others may have registered any."""
    if not key.startswith(KEY_PREFIXES):
        return not key.startswith("spark.")
    option = find_option(key)
    return option is not None and option.scope is not Scope.TABLE


def _kept(entry: Entry) -> dict[str, str]:
    """Return the properties by which a catalog keeps those of a table; that of a view belongs to its format."""
    found = {key: value for key, value in entry.properties.items() if key != FormatOptions.as_read_optimized.key}
    return found | ({COMMENT: entry.comment} if entry.comment else {})
