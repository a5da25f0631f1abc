"""Bloom filters of base files as changes to the partition `bloom_filters` of the metadata table.

Source: HoodieMetadataPayload.createBloomFilterMetadataRecord.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pudi.format import BloomFilter
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.keys import bloom_keys
from pudi.metadata.records import RECORD_SCHEMA, RecordType


def bloom_changes(filters: Sequence[tuple[str, str, str, BloomFilter]]) -> Changes:
    """Return the changes to `bloom_filters` for new base files.

    Args:
        filters: for each file the partition path, the name, the instant of the change, and its filter.
    """
    infos = [
        {"type": each.kind, "timestamp": instant, "bloomFilter": each.to_base64().encode(), "isDeleted": False}
        for _, _, instant, each in filters
    ]
    return _bloom_changes([(partition, name) for partition, name, _, _ in filters], infos)


def bloom_removals(files: Sequence[tuple[str, str]], instant: str) -> Changes:
    """Return the changes to `bloom_filters` for deleted base files.

    Args:
        files: partition path and name of each.
        instant: the instant of the change.
    """
    info = {"type": "", "timestamp": instant, "bloomFilter": b"", "isDeleted": True}
    return _bloom_changes(files, [info] * len(files))


def _bloom_changes(files: Sequence[tuple[str, str]], infos: Sequence[Mapping[str, object]]) -> Changes:
    partitions, names = (pa.array([file[side] for file in files], pa.string()) for side in (0, 1))
    columns = {
        "key": bloom_keys(partitions, names),
        "type": pa.array(np.full(len(files), RecordType.BLOOM_FILTER, dtype=np.int32)),
        "BloomFilterMetadata": pa.array(infos, RECORD_SCHEMA.field("BloomFilterMetadata").type),
    }
    rows = [columns[f.name] if f.name in columns else pa.nulls(len(files), f.type) for f in RECORD_SCHEMA]
    return encode_changes(pa.Table.from_arrays(rows, schema=RECORD_SCHEMA))
