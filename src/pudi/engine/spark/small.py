"""Bring the few rows of a frame to the driver, as Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pudi.engine.spark.records import to_bytes
from pudi.engine.spark.session import check_session, in_workers, spark_errors
from pudi.errors import InvalidArgumentError
from pudi.schema import spark_struct_to_arrow


def collect_distinct(frame: Any, table: str, most: int) -> pa.Table:
    """Return the distinct rows of a frame.

    Args:
        frame: the frame.
        table: location of the table, for errors.
        most: greatest number of distinct rows.

    Raises:
        InvalidArgumentError: there are more.
        UnavailableError: Spark failed.
    """
    check_session(frame.sparkSession)
    with spark_errors(table, "collecting the keys"):
        rows = in_workers(frame.distinct().limit(most + 1).coalesce(1), to_bytes, "batch BINARY").collect()
    found = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in rows]
    whole = pa.concat_tables(found) if found else spark_struct_to_arrow(frame.schema.json()).empty_table()
    if whole.num_rows > most:
        raise InvalidArgumentError(
            f"keys has more than {most:,} distinct rows: scan without keys, and join the frames", table=table
        )
    return whole
