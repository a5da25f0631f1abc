"""The changes of one commit to one partition of the metadata table, as keys and encoded records.

Source: HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords, HoodieMetadataPayload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.format import BloomFilter, CommitMetadata, WriteStat
from pudi.format.avro_encode import encode_records
from pudi.metadata.keys import bloom_keys
from pudi.metadata.plain_records import file_list_record
from pudi.metadata.record_schema import (
    ALL_PARTITIONS,
    RECORD_AVRO,
    RECORD_SCHEMA,
    RecordType,
    all_columns,
    partition_identifier,
)
from pudi.schema import META_FIELDS
from pudi.schema.arrays import one_array

FileSizes = Mapping[str, int | None]
"""Sizes of files in bytes by name; None for a deleted file."""

_FEW = 64
"""Number of changes up to which sorting plain values takes less time than Arrow's calls."""
_META = [pa.field(name, pa.string()) for name in META_FIELDS]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to one partition of the metadata table.

    Attributes:
        keys: keys of new versions of records, without duplicates.
        values: these records in Avro, in the order of `keys`, each with an empty key, since the key is stored
            separately.
        gone: keys of deleted records.
    """

    keys: pa.Array
    values: pa.Array
    gone: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))

    def __len__(self) -> int:
        return len(self.keys) + len(self.gone)

    def part(self, mask: pa.Array, gone: pa.Array) -> Changes:
        """Return the changes for which a mask is true, one mask for `keys` and one for `gone`."""
        return Changes(self.keys.filter(mask), self.values.filter(mask), self.gone.filter(gone))

    def sorted(self) -> Changes:
        """Return the changes in the byte order of keys, which HFiles require."""
        if len(self.keys) <= _FEW:
            pairs = sorted(zip(self.keys.to_pylist(), self.values.to_pylist(), strict=True), key=_stored_key)
            keys, values = zip(*pairs, strict=True) if pairs else ((), ())
            return Changes(pa.array(keys, self.keys.type), pa.array(values, self.values.type), self.gone)
        order = pc.sort_indices(self.keys.cast(pa.binary()))
        return Changes(self.keys.take(order), self.values.take(order), self.gone)


def _stored_key(pair: tuple[str, bytes]) -> bytes:
    return pair[0].encode()


def encode_changes(rows: pa.Table, gone: pa.Array | None = None) -> Changes:
    """Encode records and keys of deleted records.

    Args:
        rows: columns of `RECORD_SCHEMA`, without duplicate keys.
        gone: keys of deleted records; None for none.
    """
    keys = one_array(rows["key"])
    blank = pa.array([""], pa.string()).take(pa.nulls(len(keys), pa.int64()).fill_null(0))
    stored = rows.set_column(rows.schema.get_field_index("key"), rows.schema.field("key"), blank)
    metas = [pa.nulls(len(keys), pa.string()) for _ in _META]
    whole = pa.Table.from_arrays([*metas, *stored.columns], schema=pa.schema([*_META, *rows.schema]))
    values = encode_records(RECORD_AVRO, whole, unions=True)
    return Changes(keys, values) if gone is None else Changes(keys, values, gone)


def files_of_commit(metadata: CommitMetadata) -> Changes:
    """Return the changes to `files` after a write: all files of its write statistics are added, CDC files too.

    Files of replaced file groups stay until a cleaner removes them.
    """
    added = {partition: _sizes(stats) for partition, stats in metadata.partition_to_write_stats.items()}
    return files_changes(added, partitions=added)


def files_changes(files: Mapping[str, FileSizes], *, partitions: Iterable[str] = ()) -> Changes:
    """Changes to the `files` partition.

    Args:
        files: added and deleted files by partition path.
        partitions: partition paths that exist.
    """
    records: dict[str, FileSizes] = {ALL_PARTITIONS: {partition_identifier(p): 0 for p in partitions}}
    records.update((partition_identifier(partition), sizes) for partition, sizes in files.items())
    values = [file_list_record(_type(key), sizes) for key, sizes in records.items()]
    return Changes(pa.array(list(records), pa.string()), pa.array(values, pa.binary()))


def _sizes(stats: Iterable[WriteStat]) -> FileSizes:
    sizes: dict[str, int] = {}
    for stat in stats:
        if stat.path:
            name = basename(stat.path)
            sizes[name] = max(sizes.get(name, 0), stat.file_size_in_bytes)
        sizes.update({basename(path): size for path, size in (stat.cdc_stats or {}).items()})
    return sizes


def _type(key: str) -> RecordType:
    return RecordType.ALL_PARTITIONS if key == ALL_PARTITIONS else RecordType.FILES


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
    return encode_changes(all_columns(pa.table(columns)))
