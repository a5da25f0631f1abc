"""Make record keys and partition paths as Hudi's key generators do."""

from pudi.record.key_generator import (
    KeyGenerator,
    check_folder_names,
    check_key_types,
    null_texts,
    partition_bounds,
    partition_texts,
    partition_values,
    with_instant,
    without_empty_texts,
)
from pudi.record.key_text import TimestampText, column_of, field_of, key_text
from pudi.record.partition_path import DEFAULT_PARTITION, EMPTY_TEXTS, check_paths, matching_paths
from pudi.record.spark_keys import SPARK_ERROR_MARK, spark_key_columns
from pudi.record.timestamp_keys import Moments

__all__ = [
    "DEFAULT_PARTITION",
    "EMPTY_TEXTS",
    "SPARK_ERROR_MARK",
    "KeyGenerator",
    "Moments",
    "TimestampText",
    "check_folder_names",
    "check_key_types",
    "check_paths",
    "column_of",
    "field_of",
    "key_text",
    "matching_paths",
    "null_texts",
    "partition_bounds",
    "partition_texts",
    "partition_values",
    "spark_key_columns",
    "with_instant",
    "without_empty_texts",
]
