"""Reads of single records: record keys in, the file groups that hold the records out (RecordLevelIndexSupport).

As in Hudi, the index knows one location for a record key. Where pudi has put keys into several file groups, the index
isn't asked (`repeated`); where only Hudi did, it finds one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.indexes.reading import IndexRead, LookupResult
from pudi.indexes.record_index.repeated import has_repeated_keys
from pudi.metadata import MetadataTable, partitions_listed
from pudi.metadata.shards import FILE_ID, RecordShards
from pudi.plan import ReadPlan
from pudi.schema import PARTITION_PATH

_REPEATED = "keys are stored more than once"


def locate_keys(index: str, plan: ReadPlan, read: IndexRead, keys: pa.Array | None) -> LookupResult | None:
    """Return where the records of some keys are; None if that is uncertain.

    Args:
        index: the index that gave the keys, or the record index.
        plan: the read.
        read: the table.
        keys: the record keys of all wanted rows; None if they are unknown.
    """
    groups = None if keys is None else groups_of_keys(plan, read.meta, read.table, keys)
    if groups is not None and has_repeated_keys(read.meta):
        return LookupResult(RECORD_INDEX, None, _REPEATED)
    return None if groups is None else LookupResult(index, groups)


def groups_of_keys(
    plan: ReadPlan, meta: MetaClient, table: MetadataTable, keys: pa.Array
) -> frozenset[tuple[str, str]] | None:
    """Return the file groups of record keys, in partitions that may have wanted rows; None if that is uncertain."""
    if not meta.config.populate_meta_fields:  # Hudi adds no keys to it then (HoodieTable.shouldTrackSuccessRecords)
        return None
    shards = table.shards(RECORD_INDEX)
    if shards.is_empty:  # Hudi's CREATE INDEX can roll back a built index and leave it listed as ready
        return None
    index = RecordShards.of(table.storage, shards.all, table.scope, partitioned=shards.partitioned)
    owners: Sequence[str | None] = [None]
    if index.partitioned:
        partitions = plan.prune_partitions(partitions_listed(table), meta.keys)
        if not index.ranges.keys() >= set(partitions):  # a partition without file groups of the index may have any key
            return None
        owners = partitions
    asked: list[tuple[int, pa.Array]] = []
    for owner in owners:
        numbers = index.shards_of(keys, owner)
        asked += [
            (int(number), keys.filter(pa.array(numbers == number))) for number in np.unique(numbers) if number >= 0
        ]
    found = meta.context.executor.map(
        lambda each: index.find(*each).select([PARTITION_PATH, FILE_ID]).to_pylist(), asked
    )
    if sum(map(len, found)) < sum(len(each) for _, each in asked) and RECORD_INDEX in table.ever_invalidated:
        return None
    groups = {(row[PARTITION_PATH], row[FILE_ID]) for rows in found for row in rows}
    kept = set(plan.prune_partitions({partition for partition, _ in groups}, meta.keys))
    return frozenset(group for group in groups if group[0] in kept)
