"""The metadata table: what Hudi keeps under a table's own folder to know its files, statistics and record locations."""


from pudi.metadata.listing import KeptListing, MetadataListing, MetadataWarning
from pudi.metadata.records import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION_INDEX_PREFIX,
    FILES,
    PARTITION_STATS,
    RECORD_AVRO,
    RECORD_INDEX,
    RECORD_SCHEMA,
    SECONDARY_INDEX_PREFIX,
    RecordType,
    all_columns,
    columns_of,
    group_prefix,
    partition_identifier,
    partition_path,
)
from pudi.metadata.table import MetadataTable

__all__ = [
    "ALL_PARTITIONS",
    "BLOOM_FILTERS",
    "COLUMN_STATS",
    "EXPRESSION_INDEX_PREFIX",
    "FILES",
    "PARTITION_STATS",
    "RECORD_AVRO",
    "RECORD_INDEX",
    "RECORD_SCHEMA",
    "SECONDARY_INDEX_PREFIX",
    "KeptListing",
    "MetadataListing",
    "MetadataTable",
    "MetadataWarning",
    "RecordType",
    "all_columns",
    "columns_of",
    "group_prefix",
    "partition_identifier",
    "partition_path",
]
