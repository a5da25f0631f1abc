"""Implement `format("pudi")` by Spark's Python data source API, and make it known to sessions. Modules need Spark 4."""

from __future__ import annotations

from typing import Any

import pyspark_pudi
from pudi.engine.spark.session import check_session
from pudi.errors import NotSupportedError


def register(spark: Any) -> None:
    """Make `format("pudi")` known to a session: `spark.read.format("pudi").load(path)`, and the like in SQL.

    Sessions whose Python finds an installed pudi know it without: this is for others, as of a Spark Connect client.
    The format is a convenience: rows pass through Python workers, and all columns are read unless option `columns`
    names some. `pudi.spark.read(spark)` takes the same options, and Spark's own Parquet reader reads the files.

    Args:
        spark: a session of Spark 4 or newer.

    Raises:
        InvalidArgumentError: it's no session.
        NotSupportedError: the session is older.
    """
    check_session(spark)
    if int(str(spark.version).partition(".")[0]) < 4:
        raise NotSupportedError(
            f"format('pudi') needs Spark 4, and the session has {spark.version}: use pudi.spark.read(spark) for "
            "spark.read, pudi.spark.write(df) for df.write, pudi.spark.stream_writer(df) for df.writeStream and "
            "pudi.spark.stream_changes for spark.readStream"
        )
    spark.dataSource.register(pyspark_pudi.DefaultSource)
