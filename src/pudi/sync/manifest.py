"""Write the manifest of a table's current base files, for engines without a metastore.

Source: ManifestFileWriter of Apache Hudi 1.2.
"""

from __future__ import annotations

from pudi.catalogs.registered import location_url
from pudi.catalogs.sync_result import SyncResult
from pudi.client.meta_client import MetaClient
from pudi.format import ABSOLUTE_MANIFEST, MANIFEST
from pudi.sync.changes import newest_times


def write_manifest(meta: MetaClient, *, absolute: bool) -> SyncResult:
    """Write the names of the latest base files, one a line, in place of the last manifest.

    Args:
        meta: the table.
        absolute: whether with their whole locations, in a file of its own; otherwise the names alone.
    """
    clock = meta.context.clock
    began = clock.monotonic()
    timeline = meta.store.load()
    bases = [each.base.path for each in meta.view(timeline, sizes=False).all_slices() if each.base is not None]
    root = location_url(meta.storage.root)
    lines = [f"{root}/{path}" if absolute else path.rpartition("/")[2] for path in bases]
    path = ABSOLUTE_MANIFEST if absolute else MANIFEST
    meta.storage.put(path, "".join(f"{line}\n" for line in lines).encode())
    return SyncResult(f"{root}/{path}", (), newest_times(timeline)[0], True, clock.monotonic() - began)
