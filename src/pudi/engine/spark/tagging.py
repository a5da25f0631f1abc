"""Which file group holds each record's key: keyed records and file slices in, records with file ids and counts out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.columns import FILE_ID, HASH
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.engine.spark.records import Group, SparkRecords
from pudi.engine.spark.session import functions, spark_errors, struct_type
from pudi.engine.spark.tasks import KeyTasks
from pudi.plan import WriteProfile
from pudi.schema import PARTITION_PATH, RECORD_KEY, arrow_to_spark_json
from pudi.task import KeyLookup

_BROADCAST_BYTES = 128 << 20
"""Size up to which keys are sent to every node instead of both sides being shuffled."""
_HASH_BYTES, _LOCATION_BYTES = 32, 200
"""About what one key takes in a broadcast: its hash alone; with partition path and file id."""

_KEY_SCHEMA = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string())])
_LOCATION_SCHEMA = pa.schema([(PARTITION_PATH, pa.string()), (RECORD_KEY, pa.string()), (FILE_ID, pa.string())])


@dataclass(frozen=True)
class SparkTagged:
    """Tagged records.

    Args:
        records: the records.
        frame: the records with `FILE_ID`, null where the key is in no file; a key that is in several comes with each.
    """

    records: SparkRecords
    frame: Any

    @cached_property
    def groups(self) -> Mapping[tuple[str, str | None], Group]:
        """Counts by partition path and file id."""
        if self.frame is self.records.keyed:
            return {(partition, None): group for partition, group in self.records.groups.items()}
        sql = functions(self.frame)
        with spark_errors(self.records.spec.table, "looking for the records' keys"):
            counts = sql.expr("count(1)"), sql.expr(f"bit_xor({HASH})")
            rows = self.frame.groupBy(PARTITION_PATH, FILE_ID).agg(*counts).collect()
        return {(row[0], row[1]): Group(row[2], row[3]) for row in rows}

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""
        return WriteProfile(
            updates={(p, f): group.records for (p, f), group in self.groups.items() if f is not None},
            inserts={p: group.records for (p, f), group in self.groups.items() if f is None},
        )

    def new_only(self) -> SparkTagged:
        """Without the records whose key was found."""
        return SparkTagged(self.records, self.frame.where(f"{FILE_ID} IS NULL"))


def tag(records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup]) -> SparkTagged:
    """Find the records' keys in file slices.

    The files' keys are first cut down to those whose hash is among the records' hashes, which are small enough to be
    sent everywhere; only these are then matched with the records, by the keys themselves.
    """
    if not lookups:
        return SparkTagged(records, records.keyed)
    total = sum(records.counts.values())
    sql = functions(records.keyed)
    with spark_errors(records.spec.table, "looking for the records' keys"):
        hashes = _small(sql, records.keyed.select(HASH), total * _HASH_BYTES)
        stored = _stored_keys(records.keyed.sparkSession, sql, storage, lookups)
        stored = stored.selectExpr("*", f"xxhash64({PARTITION_PATH}, {RECORD_KEY}) AS {HASH}")
        located = records.keep(stored.join(hashes, [HASH], "left_semi").drop(HASH))
        locations = _small(sql, located, total * _LOCATION_BYTES)
        return SparkTagged(records, records.keyed.join(locations, [PARTITION_PATH, RECORD_KEY], "left"))


def _small(sql: Any, frame: Any, size: int) -> Any:
    return sql.broadcast(frame) if size <= _BROADCAST_BYTES else frame


def _stored_keys(spark: Any, sql: Any, storage: Storage, lookups: Sequence[KeyLookup]) -> Any:
    """Partition path, record key and file id of every record in the slices."""
    slices = [lookup.file_slice for lookup in lookups]
    try:
        frame = NativeFiles(spark, storage).frame(slices, _KEY_SCHEMA)
    except CannotReadNatively:
        numbers = spark.range(0, len(slices), 1, len(slices)).select(sql.col("id"))
        schema = struct_type(json.loads(arrow_to_spark_json(_LOCATION_SCHEMA)))
        return numbers.mapInArrow(KeyTasks(storage, slices).run, schema)
    # the file's name is what says the file group; its column of that name may be another writer's
    file_id = f"substring_index(_metadata.file_name, '_', 1) AS {FILE_ID}"
    return frame.selectExpr(PARTITION_PATH, RECORD_KEY, file_id)
