"""The engines: threads on one machine, or Spark."""

from __future__ import annotations

import sys

__all__ = ["is_spark_frame"]

_FRAME_MODULES = ("pyspark.sql.dataframe", "pyspark.sql.connect.dataframe")
"""Modules of the DataFrame classes: classic (and the parent of both in Spark 4), and Connect."""


def is_spark_frame(data: object) -> bool:
    """Return whether `data` is a Spark DataFrame, classic or Connect. Never imports pyspark."""
    for name in _FRAME_MODULES:
        module = sys.modules.get(name)
        kind = getattr(module, "DataFrame", None)
        if isinstance(kind, type) and isinstance(data, kind):
            return True
    return False
