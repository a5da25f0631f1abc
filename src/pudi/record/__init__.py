"""What a record is: its key and its partition path, as Hudi's key generators make them."""

from pudi.record.columns import column_of, field_of
from pudi.record.key_generator import (
    KeyGenerator,
    check_key_types,
    partition_columns,
    partition_values,
    with_instant,
)
from pudi.record.key_text import key_text
from pudi.record.moments import Moments
from pudi.record.partition_path import DEFAULT_PARTITION, check_paths
from pudi.record.spark_keys import SPARK_ERROR_MARK, spark_key_columns

__all__ = [
    "DEFAULT_PARTITION",
    "SPARK_ERROR_MARK",
    "KeyGenerator",
    "Moments",
    "check_key_types",
    "check_paths",
    "column_of",
    "field_of",
    "key_text",
    "partition_columns",
    "partition_values",
    "spark_key_columns",
    "with_instant",
]
