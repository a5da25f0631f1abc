"""What a commit changes in the metadata table's statistics: what its tasks found in their files in, changes out.

Source: HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords, HoodieMetadataWriteUtils
.convertMetadataToPartitionStatRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.format import BloomFilter, CommitMetadata
from pudi.metadata.changes import Changes, encode_changes
from pudi.metadata.keys import bloom_keys, column_stats_keys
from pudi.metadata.records import RECORD_SCHEMA, RecordType
from pudi.metadata.stat_merging import partition_stats
from pudi.metadata.stat_records import (
    STATS,
    column_stats_records,
    deleted_stats,
    partition_stats_records,
    stats_of_files,
    stats_of_records,
)
from pudi.metadata.value_types import StatsSpec


def stats_of_commit(written: CommitMetadata) -> pa.Table:
    """Rows of `STATS` of the files that a commit wrote: those whose write statistics came with some."""
    return stats_of_files(
        (partition, (stat.path or "").rpartition("/")[2], stat.column_stats)
        for partition, stats in written.partition_to_write_stats.items()
        for stat in stats
        if stat.column_stats is not None
    )


def column_stats_changes(stats: pa.Table, version: int) -> Changes:
    """Changes to `column_stats` where files came.

    Args:
        stats: rows of `STATS`, of a file's column at most one.
        version: of the index's values, see `StatsSpec`.
    """
    return encode_changes(column_stats_records(stats, version))


def column_stats_gone(files: Iterable[tuple[str, str]], spec: StatsSpec) -> Changes:
    """Changes to `column_stats` where files went: records that say so, by partition path and name of each file."""
    return column_stats_changes(deleted_stats(files, spec.columns), spec.version)


def partition_stats_changes(
    stats: pa.Table, spec: StatsSpec, schema: pa.Schema, files: Mapping[str, Sequence[str]], stored: pa.Table
) -> Changes:
    """Changes to `partition_stats` after a commit: what the partitions that it wrote to hold now.

    Where one of a partition's files has no statistics of a column, because it lacks the column or nothing was said of
    it, the partition has none of it either: a record that says so takes the place of an older one.

    Args:
        stats: rows of `STATS` of the files that came.
        spec: which columns.
        schema: the table's columns, meta fields among them.
        files: by partition path, for each partition to tell of, the names of the files of its newest slices, with those
            that came and without those that these replace.
        stored: records of `column_stats` of those partitions, as the metadata table has them.
    """
    pairs = [(partition, name) for partition, names in files.items() for name in names]
    here = pa.array([f"{partition}/{name}" for partition, name in pairs], pa.string())
    stats = stats.filter(pc.is_in(stats["column"], value_set=pa.array(spec.columns, pa.string())))
    stats = stats.filter(pc.is_in(_paths(stats), value_set=here))
    older = pc.invert(pc.is_in(here, value_set=_paths(stats))).to_pylist()
    rows = pa.concat_tables(
        [stats, _stored([pair for pair, old in zip(pairs, older, strict=True) if old], spec, stored)]
    )
    counts = rows.group_by(["partition", "column"]).aggregate([("file", "count_distinct")])
    expected = pa.array([len(set(files[partition])) for partition in counts["partition"].to_pylist()], pa.int64())
    whole = counts.filter(pc.equal(counts["file_count_distinct"], expected))
    told = partition_stats(rows.filter(pc.is_in(_groups(rows), value_set=_groups(whole))), schema)
    gone = deleted_stats(((partition, "") for partition in files), spec.columns, partitions=True)
    gone = gone.filter(pc.invert(pc.is_in(_groups(gone), value_set=_groups(told))))
    return encode_changes(partition_stats_records(pa.concat_tables([told, gone]), spec.version))


def partition_stats_gone(partitions: Iterable[str], spec: StatsSpec) -> Changes:
    """Changes to `partition_stats` where whole partitions went."""
    gone = deleted_stats(((partition, "") for partition in partitions), spec.columns, partitions=True)
    return encode_changes(partition_stats_records(gone, spec.version))


def bloom_changes(filters: Sequence[tuple[str, str, str, BloomFilter]]) -> Changes:
    """Changes to `bloom_filters` where base files came (HoodieMetadataPayload.createBloomFilterMetadataRecord).

    Args:
        filters: of each file the partition path, the name, the instant that tells of it, and its filter.
    """
    infos = [
        {"type": each.kind, "timestamp": instant, "bloomFilter": each.to_base64().encode(), "isDeleted": False}
        for _, _, instant, each in filters
    ]
    return _bloom_changes([(partition, name) for partition, name, _, _ in filters], infos)


def bloom_gone(files: Sequence[tuple[str, str]], instant: str) -> Changes:
    """Changes to `bloom_filters` where base files went.

    Args:
        files: partition path and name of each.
        instant: the instant that tells of it.
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


def _stored(files: Sequence[tuple[str, str]], spec: StatsSpec, records: pa.Table) -> pa.Table:
    """Rows of `STATS` of files by records of `column_stats`, without those that say that a file is gone."""
    wide, long = len(spec.columns), len(files)
    partitions, names = (pa.array([file[side] for file in files], pa.string()) for side in (0, 1))
    of = pa.array(np.repeat(np.arange(long), wide))
    partitions, names = partitions.take(of), names.take(of)
    columns = pa.array(spec.columns, pa.string()).take(pa.array(np.tile(np.arange(wide), long)))
    places = pc.index_in(column_stats_keys(columns, partitions, names), value_set=records["key"].combine_chunks())
    rows = stats_of_records(records.take(places.drop_null()), partitions.filter(places.is_valid()))
    return rows.filter(pc.invert(rows["deleted"])).select(STATS.names)


def _paths(stats: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(stats["partition"], stats["file"], "/")


def _groups(stats: pa.Table) -> pa.ChunkedArray:
    """Column and partition as one text; no column's name has a slash."""
    return pc.binary_join_element_wise(stats["column"], stats["partition"], "/")
