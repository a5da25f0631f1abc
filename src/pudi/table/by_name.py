"""`pudi.catalog`: the Hudi tables of a catalog by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.catalogs import Catalog, TableName, open_catalog, split_address
from pudi.catalogs.catalog import batches, is_hudi
from pudi.config import resolve
from pudi.config.arguments import map_given, text_given
from pudi.errors import InvalidArgumentError, TableExistsError
from pudi.table.catalogs import checked_hudi, root_in
from pudi.table.create import create
from pudi.table.table import Table

if TYPE_CHECKING:
    from typing_extensions import Self

_NAMES = 50
"""Tables that one request asks for."""


class TableCatalog:
    """The Hudi tables of a catalog: a `with` block closes its connections.

    Args:
        catalog: the catalog.
        options: Hudi's option keys: settings of the catalog, and defaults of the tables that it opens.
    """

    def __init__(self, catalog: Catalog, options: Mapping[str, str] | None = None) -> None:
        self._catalog, self._options = catalog, map_given(options, "options")
        resolve(self._options)

    @property
    def address(self) -> str:
        """The address of the catalog: `hive://host:9083`."""
        return self._catalog.address

    def tables(self, database: str = "default") -> list[str]:
        """Return the names of a database's Hudi tables, sorted; of a merge-on-read table each of its entries.

        Raises:
            UnavailableError: the catalog doesn't answer.
        """
        names = self._catalog.table_names(text_given(database, "database"))
        found = [self._catalog.tables(database, some) for some in batches(names, _NAMES)]
        return [name for some in found for name, entry in some.items() if is_hudi(entry)]

    def table(
        self,
        name: str,
        options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """Open a table.

        Args:
            name: `db.trips`; `trips` is one of the database `default`.
            options: Hudi's option keys, over those of the catalog.
            storage_options: credentials and settings of the storage.

        Raises:
            TableNotFoundError: there is no such table, or one of another format.
            InvalidArgumentError: the name is that of the read-optimised view of a table.
            PudiError: as `Table`.
        """
        return Table(
            root_in(self._catalog, TableName.parse(name)),
            {**self._options, **map_given(options, "options")},
            storage_options,
        )

    def create_table(self, name: str, path: str, schema: Any, **roles: Any) -> Table:
        """Make a new table and register it.

        Args:
            name: `db.trips`, the name to register it by; a missing database is created.
            path: its root; see `pudi.create`.
            schema: its columns; see `pudi.create`.
            roles: record key, partition columns, options and what else `pudi.create` takes.

        Raises:
            TableExistsError: the catalog has a table of that name, or there is one at that path.
            PudiError: as `pudi.create` and `Table.sync`; where the latter fails, the table is there without its name:
                `table.sync(catalog, name)` registers it.
        """
        wanted = TableName.parse(name)
        self._catalog.check_name(wanted)
        if self._catalog.table(wanted) is not None:
            raise TableExistsError(f"{self}: there is a table {wanted} already: drop it, or take another name")
        options = {**self._options, **map_given(roles.pop("options", None), "options")}
        table = create(path, schema, name=roles.pop("name", wanted.table), options=options, **roles)
        table.sync(self._catalog, str(wanted))
        return table

    def drop_table(self, name: str) -> bool:
        """Remove a table from the catalog, with its `_ro` and `_rt` entries; files stay. Return whether it was there.

        Raises:
            TableNotFoundError: it's a table of another format.
            RefusedError: the catalog refuses, for lack of rights.
        """
        return drop_entries(self._catalog, TableName.parse(name))

    def close(self) -> None:
        """Close connections; a later call opens them again."""
        self._catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address


def drop_entries(catalog: Catalog, name: TableName) -> bool:
    """Remove a Hudi table from a catalog, and those of its other entries that stand for the same table.

    A merge-on-read table may have the entries `_ro` and `_rt` alone.

    Returns:
        Whether it was there.

    Raises:
        TableNotFoundError: it's a table of another format.
    """
    catalog.check_name(name)
    views = [f"{name.table}_ro", f"{name.table}_rt"]
    found = catalog.tables(name.database, [name.table, *views])
    own = {view: found[view].location for view in views if view in found and is_hudi(found[view])}
    if name.table in found:
        location = checked_hudi(catalog, name, found[name.table]).location
    elif len(own) == len(views) and len(set(own.values())) == 1:
        location = own[views[0]]
    else:
        return False
    for view in views:
        if own.get(view) == location:
            catalog.drop_table(TableName(name.database, view))
    return catalog.drop_table(name) or name.table not in found


def catalog(kind: str | Catalog, uri: str | None = None, options: Mapping[str, str] | None = None) -> TableCatalog:
    """Open a catalog, in which Hudi tables are found by their names: `pudi.catalog("hive", uri="thrift://host:9083")`.

    It connects at the first request.

    Args:
        kind: a kind of catalogs: `hive`, `glue`, `polaris`, `sqlite`, or one that `pudi.register_catalog` made known;
            its address may follow: `hive://host:9083`, `sqlite:/path/catalog.db`. Or a `pudi.Catalog`.
        uri: the address, if the kind doesn't say it: of metastores `thrift://host:9083`, several separated by commas;
            of Glue a region; of Polaris `https://host:8181/api/catalog`.
        options: Hudi's option keys: settings of the catalog (`hoodie.aws.*`, `pudi.polaris.*`), and defaults of the
            tables opened by it.

    Raises:
        InvalidArgumentError: there's no such kind, a wrong address, or an unknown option.
        NotSupportedError: a kind that this release lacks.
        SetupError: the package of the catalog's client is missing.
    """
    if isinstance(kind, Catalog):
        if uri is not None:
            raise InvalidArgumentError(f"the catalog {kind} has an address already: leave {uri!r} out")
        return TableCatalog(kind, options)
    name, address = split_address(text_given(kind, "kind"), None if uri is None else text_given(uri, "uri"))
    return TableCatalog(open_catalog(name, address, map_given(options, "options")), options)
