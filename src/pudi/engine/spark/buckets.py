"""Buckets of records, which only Arrow code can tell: Spark SQL has no hash of Java's. Only keys go through Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.engine.spark.columns import BUCKET
from pudi.engine.spark.session import functions
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import one_array
from pudi.tagging import AnyBuckets, Buckets
from pudi.task.groups import groups_of


def bucket_numbers(frame: Any, buckets: Buckets) -> Any:
    """A column with the bucket number of each record of a frame, an int.

    Args:
        frame: records with their keys.
        buckets: how each partition is divided.
    """
    import pandas as pd  # noqa: PLC0415 - optional

    def numbered(keys: pd.Series) -> pd.Series:
        return pd.Series(buckets.of(pa.array(keys, pa.string())))

    # Spark goes by the types, and doesn't find them by their names here
    numbered.__annotations__ = {"keys": pd.Series, "return": pd.Series}
    return functions(frame).pandas_udf(numbered, "int")(RECORD_KEY)


def bucket_of(frame: Any, buckets: AnyBuckets) -> Any:
    """A column with the name of the bucket of each record of a frame, as its location.

    Args:
        frame: records with their keys, perhaps with `BUCKET`.
        buckets: how the table is divided.
    """
    sql = functions(frame)
    if isinstance(buckets, Buckets):
        names = sql.from_json(sql.lit(json.dumps(buckets.names)), "ARRAY<STRING>")
        number = sql.col(BUCKET) if BUCKET in frame.columns else bucket_numbers(frame, buckets)
        return sql.element_at(names, number + 1)
    import pandas as pd  # noqa: PLC0415 - optional

    def named(partitions: pd.Series, keys: pd.Series) -> pd.Series:
        rows = pa.table([pa.array(partitions, pa.string()), pa.array(keys, pa.string())], [PARTITION_PATH, RECORD_KEY])
        return pd.Series(_names(rows, buckets).to_numpy(zero_copy_only=False))

    named.__annotations__ = {"partitions": pd.Series, "keys": pd.Series, "return": pd.Series}
    return sql.pandas_udf(named, "string")(PARTITION_PATH, RECORD_KEY)


def _names(rows: pa.Table, buckets: AnyBuckets) -> pa.Array:
    """The bucket of each record, by partition path and record key."""
    hashes = buckets.hashes(one_array(rows[RECORD_KEY]))
    names: list[str] = []
    codes = np.zeros(rows.num_rows, np.int64)
    for (partition,), numbers in groups_of(rows, [PARTITION_PATH]):
        places = np.asarray(numbers)
        own, found = buckets.named(hashes[places], partition)
        codes[places] = found + len(names)
        names += own
    return pa.array(names, pa.string()).take(pa.array(codes))
