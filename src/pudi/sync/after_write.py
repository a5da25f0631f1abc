"""Register a table in the catalogs that options name, after a write, as a table service does.

Source: ManifestFileWriter of Apache Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from posixpath import basename

from pudi.catalogs import Catalog, CatalogPlace, SyncResult, TableName, open_catalog
from pudi.catalogs.registered import location_url
from pudi.catalogs.thrift_client import addresses
from pudi.client import MetaClient, TableSnapshot
from pudi.client.result import ActionReport
from pudi.config import Options, OtherTableOptions, SyncOptions
from pudi.config.option import text_of
from pudi.config.sync_options import ABSOLUTE_MANIFEST_PLACE, GLUE_TOOL, HIVE_TOOL, MANIFEST_PLACES
from pudi.context import Context
from pudi.format import ABSOLUTE_MANIFEST, MANIFEST
from pudi.sync.run import SyncRequest, newest_times, sync_table

_ATTEMPTS = 5
"""Times that a sync writes a manifest while other processes commit."""


def write_manifest(meta: MetaClient, *, absolute: bool) -> SyncResult:
    """Write the names of the latest base files, one a line, in place of the last manifest.

    Another sync, which knows later commits, may have written it in the meantime. So the timeline is read again once the
    manifest is written, and the manifest is written again if there are other commits.

    Args:
        meta: the table.
        absolute: whether with their whole locations, in a file of its own; otherwise the names alone.
    """
    clock = meta.context.clock
    began = clock.monotonic()
    root = location_url(meta.storage.root)
    path = ABSOLUTE_MANIFEST if absolute else MANIFEST
    snapshot = TableSnapshot.load(meta)
    for _ in range(_ATTEMPTS):
        bases = [each.base.path for each in snapshot.view(sizes=False).all_slices() if each.base is not None]
        lines = [f"{root}/{each}" if absolute else basename(each) for each in bases]
        meta.storage.put(path, "".join(f"{line}\n" for line in lines).encode())
        written, snapshot = snapshot, snapshot.refreshed()
        if snapshot.timeline.commits == written.timeline.commits:
            break
    return SyncResult(f"{root}/{path}", (), newest_times(written.timeline)[0], True, clock.monotonic() - began)


def check_sync(options: Options) -> None:
    """Refuse options of a sync that can't be done, before anything is written.

    Raises:
        NotSupportedError: a catalog or a mode that this release lacks.
        InvalidArgumentError: a wrong address or a wrong line of properties.
    """
    view = SyncOptions.of(options)
    for place in view.places:
        if place not in MANIFEST_PLACES:
            _opened(place, view, options, Context()).close()


def sync_after_write(
    meta: MetaClient, options: Options, report: ActionReport, spark_version: str = "", metastore: str = ""
) -> tuple[SyncResult, ...]:
    """Register a table where the options ask for it; what fails is noted, and the commit stands.

    Args:
        meta: the table.
        options: the writer's options.
        report: collects errors, by `sync` and the place.
        spark_version: release of the Spark session that wrote; empty for none.
        metastore: URIs of the session's own Hive Metastore, which counts where the options name none, as in Hudi.
    """
    if metastore and options.explicit(SyncOptions.uris) is None:
        options = replace(options, given={**options.given, SyncOptions.uris.key: metastore})
    view = SyncOptions.of(options)
    done = []
    for place in view.places:
        label = place.rpartition(".")[2] if place.startswith("org.") else place
        with report.after_commit(f"sync {label}"):
            done.append(sync_place(meta, place, options, spark_version=spark_version))
    return tuple(done)


def sync_place(
    meta: MetaClient, place: str, options: Options, *, complete: bool = False, spark_version: str = ""
) -> SyncResult:
    """Register a table in a place, or write its manifest.

    Args:
        meta: the table.
        place: `hive://host:9083/db.trips` and its like, the class of one of Hudi's tools, `manifest`.
        options: how.
        complete: whether all partitions are compared.
        spark_version: release of the Spark session that wrote; empty for none.

    Raises:
        InvalidArgumentError: it's no place, or an address is wrong.
        NotSupportedError: a kind of catalogs that this release lacks.
        SetupError: the package of the catalog's client is missing.
        PudiError: as `sync_table`.
    """
    if place in MANIFEST_PLACES:
        return write_manifest(meta, absolute=place == ABSOLUTE_MANIFEST_PLACE)
    with opened_place(place, options, meta.context) as (catalog, name):
        request = request_of(catalog, options, name=name, complete=complete)
        return sync_table(meta, replace(request, spark_version=spark_version))


@contextmanager
def opened_place(place: str, options: Options, context: Context) -> Iterator[tuple[Catalog, TableName | None]]:
    """Open the catalog of a place; yields it and the table's name there, None for that of the options."""
    with _opened(place, SyncOptions.of(options), options, context) as catalog:
        yield catalog, _name(place)


def request_of(
    catalog: Catalog, options: Options, *, name: TableName | None = None, complete: bool = False
) -> SyncRequest:
    """Return the request of a sync by resolved options."""
    extractor = options.explicit(OtherTableOptions.partition_extractor)
    return SyncRequest(catalog, SyncOptions.of(options), name, None if extractor is None else str(extractor), complete)


def _opened(place: str, view: SyncOptions, options: Options, context: Context) -> Catalog:
    settings = {key: text_of(value) for key, value in options.given.items()}
    if place == HIVE_TOOL:
        servers = addresses(view.uris, SyncOptions.uris.key)
        return open_catalog("hive", ",".join(f"{host}:{port}" for host, port in servers), settings, context)
    if place == GLUE_TOOL:
        return open_catalog("glue", "", settings, context)
    named = CatalogPlace.parse(place)
    return open_catalog(named.kind, named.address, settings, context)


def _name(place: str) -> TableName | None:
    """Return the name that a place says; None for Hudi's tools, which take it from the options."""
    return None if place in {HIVE_TOOL, GLUE_TOOL} else CatalogPlace.parse(place).name
