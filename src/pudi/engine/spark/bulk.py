"""Spread the records of a bulk insert over Spark tasks, in order, and check that all of them arrived."""

from __future__ import annotations

from typing import Any

from pudi.engine.spark.columns import ARRIVAL, BUCKET, GROUP, HASH
from pudi.engine.spark.records import SparkRecords, columns_of_data
from pudi.engine.spark.session import Observed
from pudi.plan import SortMode, WriteSpec
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.spark_types import quote

_EXCHANGED = {SortMode.GLOBAL_SORT, SortMode.PARTITION_PATH_REPARTITION, SortMode.PARTITION_PATH_REPARTITION_AND_SORT}

_FIRST = f"{ARRIVAL} & {(1 << 33) - 1} = 0"
"""Whether a record is the first of its Spark partition (`monotonically_increasing_id`)."""
_EVALUATED = f"collect_list(CASE WHEN {_FIRST} THEN shiftright({ARRIVAL}, 33) END)"


def is_exchanged(spec: WriteSpec) -> bool:
    """Whether `bulk_frame` brings records to other tasks than those that evaluate them."""
    return spec.sort in _EXCHANGED or spec.deduplicate


def bulk_frame(records: SparkRecords, spec: WriteSpec) -> Any:
    """The table's columns of records, those of one task in its order (BulkInsertInternalPartitionerWithRowsFactory).

    If the write combines versions, those of one key meet in one task. Shuffled records carry a column `HASH`.

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
    counted = [HASH] if is_exchanged(spec) else []
    return placed.sortWithinPartitions(*order).select(*counted, *columns_of_data(spec.schema.names))


def bucket_frame(records: SparkRecords, spec: WriteSpec) -> tuple[Any, Observed]:
    """Keys, buckets and the table's columns of records; those of one bucket in one task, one after the other.

    The second value holds facts that are complete after the run: how many `records` were evaluated, and whether `once`,
    which means that Spark evaluated no input partition with records twice. It counts every successful evaluation, also
    those whose records a lost executor took along.

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
    seen = Observed.of(frame, records="count(1)", once=f"size({_EVALUATED}) = size(array_distinct({_EVALUATED}))")
    # one long: Spark sorts these by their digits
    return seen.frame.repartition(*tasks, GROUP).sortWithinPartitions(GROUP), seen
