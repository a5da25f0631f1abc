"""The verb of a `Table` that registers it in catalogs, and the way back from a name to a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pudi.config import FormatOptions
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, TableNotFoundError
from pudi.table.base import VerbGroup

if TYPE_CHECKING:
    from pudi import catalogs
    from pudi.catalogs import Catalog, CatalogTable, SyncResult, TableName
    from pudi.sync import after_write
    from pudi.sync import run as running
else:
    after_write = lazy_module("pudi.sync.after_write")
    catalogs = lazy_module("pudi.catalogs")
    running = lazy_module("pudi.sync.run")


class CatalogVerbs(VerbGroup):
    """Verbs of `Table` about catalogs."""

    def sync(
        self,
        catalog: str | Catalog,
        name: str | None = None,
        *,
        complete: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> SyncResult:
        """Register the table in a catalog, where engines find it by name; later only what changed since.

        What is registered is to the property what Hudi's sync tools register. Options of a Hudi job
        (`hoodie.datasource.hive_sync.*`) say more: names, types of timestamps, comments. With
        `hoodie.datasource.hive_sync.enable=true` writes do the same after each commit.

        Args:
            catalog: the place of the table: `hive://host:9083/db.trips`, `glue:db.trips`, `polaris:db.trips`,
                `sqlite:/path/catalog.db/db.trips`; the class of Hudi's sync tool for Hive or Glue, for the place that
                options name; `manifest` or `manifest:absolute` for a file in the table with the names, or the
                locations, of its base files; or a `pudi.Catalog`.
            name: the table's name in a `Catalog`: `db.trips`; None for that of the options, or the table's own.
            complete: whether all partitions are compared, not only those that changed since the last sync.
            options: this call's options, over those of the `Table`.

        Returns:
            What was registered, table by table.

        Raises:
            InvalidArgumentError: the place isn't one, or partition paths don't give the values of partition columns.
            TableExistsError: the name is that of a table of another format or location.
            SchemaError: the registered table has other partition columns.
            NotFoundError: the database is missing and isn't to be created.
            RefusedError: the catalog refuses, for lack of rights or because of its rules for columns.
            UnavailableError: the catalog doesn't answer, after a few attempts.
            NotSupportedError: a catalog or an option that this release lacks.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        if isinstance(catalog, str):
            if name is not None:
                raise InvalidArgumentError(
                    f"the place {catalog!r} names the table: leave name={name!r} out", table=meta.storage.root
                )
            return after_write.sync_place(meta, catalog, resolved, complete=complete)
        if not isinstance(catalog, catalogs.Catalog):
            raise InvalidArgumentError(
                "sync takes the place of the table in a catalog, such as hive://host:9083/db.trips, or a pudi.Catalog, "
                f"not {type(catalog).__name__}",
                table=meta.storage.root,
            )
        found = None if name is None else catalogs.TableName.parse(name)
        return running.sync_table(meta, after_write.request_of(catalog, resolved, name=found, complete=complete))


def root_of(path: str, options: Mapping[str, str]) -> str:
    """Return the root of a table that a catalog's place names; any other path as it is.

    Args:
        path: `hive://host:9083/db.trips`, or a location.
        options: settings of the catalog, by Hudi's keys.

    Raises:
        TableNotFoundError: the catalog has no such table, or one of another format.
        InvalidArgumentError: the place isn't one, or names the read-optimised table.
        UnavailableError: the catalog doesn't answer.
    """
    if ":" not in path or not catalogs.is_place(path):
        return path
    place = catalogs.CatalogPlace.parse(path)
    with catalogs.open_catalog(place.kind, place.address, options) as catalog:
        return root_in(catalog, place.name)


def root_in(catalog: Catalog, name: TableName) -> str:
    """Return the root of a Hudi table in a catalog.

    Raises:
        TableNotFoundError: the catalog has no such table, or one of another format.
        InvalidArgumentError: the name is that of the read-optimised table.
        UnavailableError: the catalog doesn't answer.
    """
    found = hudi_entry(catalog, name)
    if is_read_optimized(found):
        raise InvalidArgumentError(
            f"{catalog}: {name} is the read-optimised view of the table at {found.location}; open that, and read it by "
            "scan(read_optimized=True)"
        )
    return location_of(found)


def hudi_entry(catalog: Catalog, name: TableName) -> CatalogTable:
    """Return the entry of a Hudi table in a catalog.

    Raises:
        TableNotFoundError: the catalog has no such table, or one of another format.
        UnavailableError: the catalog doesn't answer.
    """
    catalog.check_name(name)
    found = catalog.table(name)
    if found is None:
        place = catalogs.place_of(catalog.address, name)
        raise TableNotFoundError(f"{catalog} has no table {name}; register it: pudi sync PATH --to {place}")
    return checked_hudi(catalog, name, found)


def checked_hudi(catalog: Catalog, name: TableName, entry: CatalogTable) -> CatalogTable:
    """Return an entry of a catalog.

    Raises:
        TableNotFoundError: it is that of a table of another format.
    """
    if not catalogs.is_hudi(entry):
        raise TableNotFoundError(f"{catalog}: {name} is a table of another format, at {entry.location}")
    return entry


def is_read_optimized(entry: CatalogTable) -> bool:
    """Return whether an entry shows base files alone, without the log files of the table."""
    return entry.format.serde_properties.get(FormatOptions.as_read_optimized.key) == "true"


def location_of(entry: CatalogTable) -> str:
    """Return the location of a registered table, by which pudi opens it."""
    return root_at(entry.location)


def root_at(location: str) -> str:
    """Return a location by which pudi opens a table: `file:/data/trips` of a catalog is a path."""
    return location.removeprefix("file:") if location.startswith("file:/") and location[6:7] != "/" else location
