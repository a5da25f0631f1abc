"""Single steps of a write: leftovers of attempts go, new folders become partitions."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.action.meta_client import MetaClient
from pudi.errors import TableExistsError
from pudi.filegroup import Markers
from pudi.format import PartitionMetadata, WriteStat, encode_partition_metadata, partition_metadata_path
from pudi.timeline import Instant


def remove_leftovers(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Delete files of attempts that did not count (HoodieTable.reconcileAgainstMarkers)."""
    markers = Markers(meta.storage, instant.requested)
    named = [*markers.files(), *markers.appended()]
    extra = sorted(set(named) - {stat.path for stat in stats if stat.path})
    if extra:
        meta.storage.delete(extra)


def add_partitions(meta: MetaClient, instant: Instant, stats: Sequence[WriteStat]) -> None:
    """Say that a folder is a partition, for those that may be new."""
    begun = [s for s in stats if s.prev_base_file is None and (s.num_inserts or s.log_version is None)]
    created = sorted({s.partition_path or "" for s in begun})
    for partition in created:
        depth = len(partition.split("/")) if partition else 0
        content = encode_partition_metadata(PartitionMetadata(instant.requested, depth), meta.context.clock.now_ms())
        try:
            meta.storage.create(partition_metadata_path(partition), content)
        except TableExistsError:
            continue
