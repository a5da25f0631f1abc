"""Which Spark task writes which records of a bulk insert, and in which order."""

from __future__ import annotations

from typing import Any

from pudi.engine.spark.columns import ARRIVAL, BUCKET, GROUP
from pudi.engine.spark.records import SparkRecords, columns_of_data
from pudi.plan import SortMode, WriteSpec
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.spark_types import quote


def bulk_frame(records: SparkRecords, spec: WriteSpec) -> Any:
    """The table's columns of records, those of one task in its order (BulkInsertInternalPartitionerWithRowsFactory).

    Versions of one key meet in one task where the write combines them.

    Args:
        records: the records.
        spec: the write.
    """
    tasks = (spec.bulk_tasks,) if spec.bulk_tasks else ()
    if spec.sort is SortMode.NONE and not spec.deduplicate:
        return records.frame.coalesce(*tasks) if tasks else records.frame
    keyed = records.keyed
    if spec.sort is SortMode.GLOBAL_SORT:
        placed = keyed.repartitionByRange(*tasks, PARTITION_PATH, RECORD_KEY)
    elif spec.sort in {SortMode.PARTITION_PATH_REPARTITION, SortMode.PARTITION_PATH_REPARTITION_AND_SORT}:
        placed = keyed.repartition(*tasks, PARTITION_PATH)
    elif spec.deduplicate:
        placed = keyed.repartition(*tasks, PARTITION_PATH, RECORD_KEY)
    else:
        placed = keyed.coalesce(*tasks) if tasks else keyed
    order = [ARRIVAL]
    if spec.sort.by_key:
        order = [PARTITION_PATH, RECORD_KEY, ARRIVAL]
    elif spec.sort is SortMode.PARTITION_PATH_REPARTITION_AND_SORT:
        order = [PARTITION_PATH, ARRIVAL]
    return placed.sortWithinPartitions(*order).select(*columns_of_data(spec.schema.names))


def bucket_frame(records: SparkRecords, spec: WriteSpec) -> Any:
    """Keys, buckets and the table's columns of records; those of one bucket in one task, one after the other.

    Args:
        records: the records, of a table with a fixed number of buckets.
        spec: the write.
    """
    tasks = (spec.bulk_tasks,) if spec.bulk_tasks else ()
    frame = records.with_keys().selectExpr(
        RECORD_KEY,
        PARTITION_PATH,
        BUCKET,
        f"xxhash64({PARTITION_PATH}, {BUCKET}) AS {GROUP}",
        f"monotonically_increasing_id() AS {ARRIVAL}",
        *(quote(name) for name in spec.schema.names),
    )
    return frame.repartition(*tasks, GROUP).sortWithinPartitions(GROUP)  # one long: Spark sorts these by their digits
