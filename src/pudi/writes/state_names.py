"""State a table's properties also under the names that earlier releases of Hudi know, before a write."""

from __future__ import annotations

from pudi.client.meta_client import MetaClient
from pudi.client.properties import update_properties
from pudi.config import TableConfig
from pudi.config.older_names import missing_names


def state_older_names(meta: MetaClient) -> None:
    """Add the names that a table of version 6 or 8 lacks, which Hudi 1.2 or an earlier pudi made."""
    if not missing_names(meta.config.raw):
        return
    with meta.lock:
        meta.reload()
        if missing_names(meta.config.raw):
            changed = update_properties(meta.storage, meta.context, dict)
            meta.update_config(TableConfig.parse(changed, table=meta.storage.root))
