"""Bloom filters of base files in the metadata table: what a commit changes about them.

Source: FORMAT 7.4; HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords.
"""

from __future__ import annotations

from pudi.action.mdt.inflight_builds import maintained_partitions
from pudi.action.meta_client import MetaClient
from pudi.filegroup import BaseFile
from pudi.format import CommitMetadata, parse_base_file
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.metadata.bloom_changes import bloom_changes
from pudi.metadata.changes import Changes
from pudi.metadata.table import map_parallel
from pudi.task.blooms import bloom_of


def keeps_blooms(meta: MetaClient) -> bool:
    """Whether the metadata table has the base files' bloom filters, so that each new file must have one."""
    return BLOOM_FILTERS in maintained_partitions(meta)


def blooms_of_commit(meta: MetaClient, requested: str, written: CommitMetadata) -> Changes:
    """The changes to `bloom_filters` after a commit: the filters of its base files, read from their footers.

    Of a file that has none, since the index is newer than its writer knew, one is made of its keys.

    Args:
        meta: the table.
        requested: requested time of the commit.
        written: what it did.

    Raises:
        NotFoundError: a file of the commit is gone.
        CorruptError: a footer can't be read.
    """
    files = []
    for partition, stats in written.partition_to_write_stats.items():
        for stat in stats:
            name = parse_base_file((stat.path or "").rpartition("/")[2])
            if name is not None:
                files.append(BaseFile(partition, name, stat.file_size_in_bytes))
    read = map_parallel(lambda file: bloom_of(meta.storage, file), files)
    found = [(file.partition, file.name.name, requested, each) for file, each in zip(files, read, strict=True) if each]
    return bloom_changes(found)
