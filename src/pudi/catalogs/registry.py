"""The kinds of catalogs by the names that addresses begin with: pudi's own and those of users."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pudi.catalogs.catalog import Catalog, TableName
from pudi.catalogs.thrift_client import Metastores, addresses
from pudi.config import HiveClientOptions, SyncOptions, resolve_only
from pudi.config.arguments import text_given
from pudi.context import Context
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from pudi.catalogs import glue, hive, polaris, sqlite
else:
    glue = lazy_module("pudi.catalogs.glue")
    hive = lazy_module("pudi.catalogs.hive")
    polaris = lazy_module("pudi.catalogs.polaris")
    sqlite = lazy_module("pudi.catalogs.sqlite")

CatalogOpener: TypeAlias = Callable[[str, Mapping[str, str]], Catalog]
"""Opens a catalog: takes its address without the kind (`host:9083`), and options by Hudi's keys."""

_REGISTERED: dict[str, CatalogOpener] = {}

_LACKING = frozenset({"rest", "unity", "bigquery", "datahub"})
_WRITTEN_OTHERWISE = {
    "thrift": "a Hive Metastore's place begins with hive://, as hive://host:9083/db.trips",
    "manifest": "the manifests are the places manifest and manifest:absolute, without a table's name",
}
"""Advice for names that look like kinds."""
_KIND = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """The place of a table in a catalog: `hive://host:9083/db.trips`.

    Attributes:
        kind: the kind of the catalog: `hive`.
        address: where it is: `host:9083`; empty where the kind has one place only.
        name: the table's name there.
    """

    kind: str
    address: str
    name: TableName

    @classmethod
    def parse(cls, text: str) -> CatalogPlace:
        """Return the place that a text names.

        Raises:
            InvalidArgumentError: it's not of the form `kind:address/database.table` or `kind:database.table`.
        """
        kind, colon, rest = text.partition(":")
        if not colon or not _KIND.fullmatch(kind) or "\\" in rest:
            raise InvalidArgumentError(
                f"{text!r} names no table of a catalog: write, for example, hive://host:9083/db.trips, glue:db.trips "
                "or sqlite:/path/catalog.db/db.trips"
            )
        address, _, name = rest.removeprefix("//").rpartition("/")
        return cls(kind, address, TableName.parse(name))

    @property
    def catalog(self) -> str:
        """The address of the catalog with its kind."""
        return f"{self.kind}:{'//' if self.kind == 'hive' else ''}{self.address}"


def place_of(catalog: str, name: TableName) -> str:
    """Return the place of a table by the address of its catalog: `sqlite:/path` and `db.trips`."""
    return f"{catalog}{'' if catalog.endswith(':') else '/'}{name}"


def split_address(text: str, uri: str | None = None) -> tuple[str, str]:
    """Return kind and address of a catalog: `hive://host:9083`, `sqlite:/path`, `glue`.

    Args:
        text: the kind alone, or with the address.
        uri: the address where the text is the kind alone; that of a metastore may be `thrift://host:9083`.

    Raises:
        InvalidArgumentError: two addresses are given, or the text doesn't begin with the name of a kind.
    """
    kind, _, rest = text.partition(":")
    if not _KIND.fullmatch(kind) or "\\" in rest:
        raise InvalidArgumentError(
            f"{text!r} names no catalog: write, for example, hive://host:9083, glue or sqlite:/path/catalog.db"
        )
    if uri is not None and rest:
        raise InvalidArgumentError(f"the catalog {text!r} has an address already: leave {uri!r} out")
    address = rest if uri is None else uri.replace("thrift://", "") if kind == "hive" else uri
    return kind, address.removeprefix("//")


def is_place(text: str) -> bool:
    """Return whether a text begins with a kind of catalogs that this process knows."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and (kind in _OWN or kind in _REGISTERED)


def register_catalog(kind: str, opener: CatalogOpener) -> None:
    """Make a kind of catalogs known to this process: `table.sync("mine:place/db.trips")` opens one by it.

    Args:
        kind: what addresses begin with: lower case letters, digits and `_`. A kind registered before under the same
            name is replaced.
        opener: takes the address between the kind and the table's name, and the options that were given by Hudi's keys;
            returns a `Catalog`.

    Raises:
        InvalidArgumentError: the name is none, or one of pudi's own kinds, or `opener` can't be called.
    """
    if not _KIND.fullmatch(text_given(kind, "kind")) or kind in _OWN:
        raise InvalidArgumentError(f"{kind!r} can't name a kind of catalogs: take a name of your own in lower case")
    if not callable(opener):
        raise InvalidArgumentError(f"the catalog {kind!r} needs a function that opens one, not {opener!r:.100}")
    _REGISTERED[kind] = opener


def open_catalog(
    kind: str, address: str, options: Mapping[str, str] | None = None, context: Context | None = None
) -> Catalog:
    """Open a catalog; it connects at its first request.

    Args:
        kind: its kind.
        address: where it is, without the kind.
        options: settings by Hudi's keys.
        context: clock and threads.

    Raises:
        InvalidArgumentError: no kind of that name, or a wrong address.
        NotSupportedError: a kind that this release lacks.
    """
    own = _OWN.get(kind)
    if own is not None:
        return own(address, options or {}, context or Context())
    if kind in _REGISTERED:
        return _REGISTERED[kind](address, dict(options or {}))
    if kind in _LACKING:
        instead = "; BigQuery reads a manifest too: sync to manifest:absolute" if kind == "bigquery" else ""
        raise NotSupportedError(
            f"catalogs of the kind {kind!r} are not supported yet: register the table in a Hive Metastore or Glue that "
            f"the engines share{instead}"
        )
    if kind in _WRITTEN_OTHERWISE:
        raise InvalidArgumentError(f"{kind!r} is no kind of catalogs: {_WRITTEN_OTHERWISE[kind]}")
    known = ", ".join(sorted({*_OWN, *_REGISTERED}))
    raise InvalidArgumentError(
        f"{kind!r} is no kind of catalogs: use one of {known}, or call pudi.register_catalog({kind!r}, …) first"
    )


def _sqlite(address: str, options: Mapping[str, str], context: Context) -> Catalog:
    del options, context
    return sqlite.SqliteCatalog(address)


def _hive(address: str, options: Mapping[str, str], context: Context) -> Catalog:
    if not address:
        raise InvalidArgumentError(
            "a Hive Metastore needs an address: write hive://host:9083, or pudi.catalog('hive', uri='thrift://host:9083')"
        )
    if "/" in address.rstrip("/"):
        raise InvalidArgumentError(
            f"hive://{address} is no metastore: write hive://host:9083, and a table of it as hive://host:9083/db.trips"
        )
    servers = addresses(",".join(f"thrift://{server}" for server in address.split(",")), "hive")
    resolved = resolve_only(options, [SyncOptions.batch_size, *HiveClientOptions.declared])
    found = resolved.explicit(SyncOptions.batch_size)
    metastores = Metastores.of(servers, HiveClientOptions.of(resolved))
    return hive.HiveCatalog(metastores, context, hive.BATCH if found is None else int(str(found)))


def _glue(address: str, options: Mapping[str, str], context: Context) -> Catalog:
    return glue.GlueCatalog(address, options, context)


def _polaris(address: str, options: Mapping[str, str], context: Context) -> Catalog:
    return polaris.PolarisCatalog(address, options, context)


_OWN: dict[str, Callable[[str, Mapping[str, str], Context], Catalog]] = {
    "glue": _glue,
    "hive": _hive,
    "polaris": _polaris,
    "sqlite": _sqlite,
}
