"""The metadata table: Hudi's table of files, column statistics and record locations in a folder of the data table."""

from pudi.metadata.file_stats import FILE_STATS, base_file_stats, leaf_values, log_file_stats
from pudi.metadata.listing import KeptListing, MetadataListing, MetadataWarning, files_listed, partitions_listed
from pudi.metadata.records import (
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
