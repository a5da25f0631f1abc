"""Rows of a table for validators: a DataFrame, and SQL through a temporary view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pudi.task.engine import TABLE_VARIABLE


@dataclass(frozen=True, slots=True)
class SparkRows:
    """The rows of a read.

    Args:
        data: the rows as a DataFrame.
    """

    data: Any

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the result of a query in Spark's dialect; see `TableRows`."""
        spark, name = self.data.sparkSession, f"pudi_rows_{id(self)}"  # other threads have views of their own
        self.data.createOrReplaceTempView(name)
        try:
            return [tuple(row) for row in spark.sql(sql.replace(TABLE_VARIABLE, name)).collect()]
        finally:
            spark.catalog.dropTempView(name)
