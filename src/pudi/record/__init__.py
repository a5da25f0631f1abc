"""What a record is: its key and its partition path, as Hudi's key generators make them."""

from pudi.record.key_generator import KeyGenerator, check_key_types, partition_values
from pudi.record.partition_path import DEFAULT_PARTITION, check_paths
from pudi.record.spark_keys import SPARK_ERROR_MARK, spark_key_columns

__all__ = [
    "DEFAULT_PARTITION",
    "SPARK_ERROR_MARK",
    "KeyGenerator",
    "check_key_types",
    "check_paths",
    "partition_values",
    "spark_key_columns",
]
