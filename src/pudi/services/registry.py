"""The table services: one line each. They run after a commit in this order."""

from __future__ import annotations

from pudi.errors import NotSupportedError
from pudi.indexes.registry import KINDS
from pudi.metadata_write.index_defs import IndexRequest
from pudi.services.archive import Archive
from pudi.services.clean import Clean
from pudi.services.clustering import Clustering
from pudi.services.compaction import Compaction
from pudi.services.log_compaction import LogCompaction
from pudi.services.partition_ttl import PartitionTtl
from pudi.services.service import PlannedService, TableService

SERVICES: list[TableService] = [
    Compaction(),
    LogCompaction(),
    Clustering(),
    PartitionTtl(),
    Clean(),
    Archive(),
]


def planned_services() -> list[PlannedService]:
    """Return the services with plans on the timeline."""
    return [service for service in SERVICES if isinstance(service, PlannedService)]


def service_named(name: str, table: str) -> PlannedService:
    """Return the service that a user may schedule by name.

    Args:
        name: its name, with or without underscores.
        table: location of the table, for the message.

    Raises:
        NotSupportedError: this release has no service of that name.
    """
    for service in planned_services():
        if name.replace("_", "") == service.name.replace("_", ""):
            return service
    known = ", ".join(service.name for service in planned_services())
    indexes = ", ".join(kind.name for kind in KINDS if kind.accepts(IndexRequest(kind.name)))
    raise NotSupportedError(
        f"the table service {name!r} is not supported: this release plans {known}, and builds of the indexes {indexes}",
        table=table,
    )
