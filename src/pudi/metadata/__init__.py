"""The metadata table: Hudi's table of files, column statistics and record locations in a folder of the data table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pudi.context.runtime import load_export

if TYPE_CHECKING:
    from pudi.metadata.file_stats import FILE_STATS, base_file_stats, leaf_values, log_file_stats
    from pudi.metadata.listing import KeptListing, MetadataListing, MetadataWarning, files_listed, partitions_listed
    from pudi.metadata.record_schema import (
        ALL_PARTITIONS,
        RECORD_AVRO,
        RECORD_SCHEMA,
        RecordType,
        all_columns,
        columns_of,
        partition_identifier,
        partition_path,
    )
    from pudi.metadata.stat_merging import Ranges, partition_stats, ranges_of, united
    from pudi.metadata.stat_records import (
        STATS,
        column_stats_records,
        deleted_stats,
        partition_stats_records,
        stats_of_files,
        stats_of_records,
        stats_records,
    )
    from pudi.metadata.table import MetadataTable
    from pudi.metadata.value_types import StatsSpec, ValueType, stats_spec

__all__ = [
    "ALL_PARTITIONS",
    "FILE_STATS",
    "RECORD_AVRO",
    "RECORD_SCHEMA",
    "STATS",
    "KeptListing",
    "MetadataListing",
    "MetadataTable",
    "MetadataWarning",
    "Ranges",
    "RecordType",
    "StatsSpec",
    "ValueType",
    "all_columns",
    "base_file_stats",
    "column_stats_records",
    "columns_of",
    "deleted_stats",
    "files_listed",
    "leaf_values",
    "log_file_stats",
    "partition_identifier",
    "partition_path",
    "partition_stats",
    "partition_stats_records",
    "partitions_listed",
    "ranges_of",
    "stats_of_files",
    "stats_of_records",
    "stats_records",
    "stats_spec",
    "united",
]

_SOURCES = {
    "ALL_PARTITIONS": "pudi.metadata.record_schema",
    "FILE_STATS": "pudi.metadata.file_stats",
    "KeptListing": "pudi.metadata.listing",
    "MetadataListing": "pudi.metadata.listing",
    "MetadataTable": "pudi.metadata.table",
    "MetadataWarning": "pudi.metadata.listing",
    "RECORD_AVRO": "pudi.metadata.record_schema",
    "RECORD_SCHEMA": "pudi.metadata.record_schema",
    "Ranges": "pudi.metadata.stat_merging",
    "RecordType": "pudi.metadata.record_schema",
    "STATS": "pudi.metadata.stat_records",
    "StatsSpec": "pudi.metadata.value_types",
    "ValueType": "pudi.metadata.value_types",
    "all_columns": "pudi.metadata.record_schema",
    "base_file_stats": "pudi.metadata.file_stats",
    "column_stats_records": "pudi.metadata.stat_records",
    "columns_of": "pudi.metadata.record_schema",
    "deleted_stats": "pudi.metadata.stat_records",
    "files_listed": "pudi.metadata.listing",
    "leaf_values": "pudi.metadata.file_stats",
    "log_file_stats": "pudi.metadata.file_stats",
    "partition_identifier": "pudi.metadata.record_schema",
    "partition_path": "pudi.metadata.record_schema",
    "partition_stats": "pudi.metadata.stat_merging",
    "partition_stats_records": "pudi.metadata.stat_records",
    "partitions_listed": "pudi.metadata.listing",
    "ranges_of": "pudi.metadata.stat_merging",
    "stats_of_files": "pudi.metadata.stat_records",
    "stats_of_records": "pudi.metadata.stat_records",
    "stats_records": "pudi.metadata.stat_records",
    "stats_spec": "pudi.metadata.value_types",
    "united": "pudi.metadata.stat_merging",
}
"""The module of each name: a Spark worker loads only what its tasks use."""


def __getattr__(name: str) -> Any:
    return load_export(__name__, _SOURCES, name)
