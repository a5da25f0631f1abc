"""The few lines that differ between the engines: how frames are read, combined and compared.

Everything else in this example is one code path, since pudi takes an Arrow table or a Spark DataFrame alike.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import pudi

HERE = Path(__file__).resolve().parent
GROUP = ["carrier", "day", "month"]


class Engine(Protocol):
    """The calls that the pipeline makes on an engine; a frame is a `pyarrow.Table` or a Spark DataFrame."""

    def read(self, file: Path) -> Any:
        """The rows of a Parquet file."""

    def groups(self, changes: pudi.Scan) -> tuple[Any, str, str] | None:
        """The groups that rows belong to, and their first and last day; None when there are no rows."""

    def delays(self, flights: pudi.Scan, groups: Any) -> Any:
        """The delays of these groups, from the flights in them."""

    def pandas(self, scan: pudi.Scan) -> pd.DataFrame:
        """The rows of a scan, to be used for few of them."""

    def differences(self, scan: pudi.Scan, expected: Path) -> int:
        """How many rows a scan and a Parquet file do not share."""

    def close(self) -> None:
        """Give back what it holds."""


class Local:
    """Arrow, on this machine's threads, with no JVM."""

    def read(self, file: Path) -> pa.Table:
        """The rows of a Parquet file."""
        return pq.read_table(file)

    def groups(self, changes: pudi.Scan) -> tuple[pa.Table, str, str] | None:
        """The groups, their first and their last day."""
        groups = changes.to_arrow().group_by(GROUP).aggregate([])
        days = sorted(groups["day"].unique().to_pylist())
        return (groups, days[0], days[-1]) if days else None

    def delays(self, flights: pudi.Scan, groups: pa.Table) -> pa.Table:
        """The delays of these groups."""
        touched = flights.to_arrow().join(groups, keys=GROUP, join_type="left semi")
        sums = touched.group_by(GROUP).aggregate(
            [
                ([], "count_all"),
                ("arr_delay", "count"),
                ("dep_delay", "sum"),
                ("arr_delay", "sum"),
                ("arr_delay", "max"),
            ]
        )
        return sums.rename_columns([*GROUP, "departed", "measured", "dep_minutes", "arr_minutes", "worst"])

    def pandas(self, scan: pudi.Scan) -> pd.DataFrame:
        """The rows of a scan."""
        return scan.to_pandas()

    def differences(self, scan: pudi.Scan, expected: Path) -> int:
        """Rows that only one of the two has, however often."""
        # Every row counts +1 on one side and -1 on the other; what doesn't come to 0 is a difference.
        actual = scan.to_arrow()
        wanted = pq.read_table(expected, columns=actual.column_names).cast(actual.schema)
        both = pa.concat_tables(
            rows.append_column("side", pa.repeat(pa.scalar(side, pa.int64()), rows.num_rows))
            for rows, side in ((actual, 1), (wanted, -1))
        )
        sums = both.group_by(actual.column_names).aggregate([("side", "sum")])["side_sum"].to_numpy()
        return int(abs(sums).sum())

    def close(self) -> None:
        """Nothing is held."""


class Spark:
    """Spark inside this process; pudi needs no configuration and no JAR."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are whatever `python3` is on the PATH
        # workers import the merger from here
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        settings = {
            # the screen is for the progress bars
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            # Spark's default of 200 is meant for a cluster: on one machine it doubles the time of a small commit
            "spark.sql.shuffle.partitions": "4",
        }
        self.session = SparkSession.builder.master("local[*]").appName("flights").config(map=settings).getOrCreate()
        self._schemas: dict[Path, Any] = {}  # by folder: asking each file for its own takes a Spark job

    def read(self, file: Path) -> Any:
        """The rows of a Parquet file, whose folder has files of one schema."""
        if file.parent not in self._schemas:
            self._schemas[file.parent] = self.session.read.parquet(str(file)).schema
        return self.session.read.schema(self._schemas[file.parent]).parquet(str(file))

    def groups(self, changes: pudi.Scan) -> tuple[Any, str, str] | None:
        """The groups, their first and their last day."""
        # Spark splits an aggregate into 200 tasks and a cached one stays so: coalesce, as there are a few hundred rows.
        groups = changes.to_spark(self.session).select(GROUP).distinct().coalesce(1).cache()
        first, last = groups.selectExpr("min(day)", "max(day)").first()
        return (groups, first, last) if first else None

    def delays(self, flights: pudi.Scan, groups: Any) -> Any:
        """The delays of these groups."""
        touched = flights.to_spark(self.session).join(groups.hint("broadcast"), GROUP, "left_semi")
        touched.createOrReplaceTempView("touched")
        return self.session.sql("""
            SELECT /*+ COALESCE(1) */ carrier, day, month, count(*) AS departed, count(arr_delay) AS measured,
                   sum(dep_delay) AS dep_minutes, sum(arr_delay) AS arr_minutes, max(arr_delay) AS worst
            FROM touched GROUP BY carrier, day, month""")

    def pandas(self, scan: pudi.Scan) -> pd.DataFrame:
        """The rows of a scan."""
        return scan.to_spark(self.session).toPandas()

    def differences(self, scan: pudi.Scan, expected: Path) -> int:
        """Rows that only one of the two has, however often."""
        actual = scan.to_spark(self.session)
        wanted = self.session.read.parquet(str(expected)).select(actual.columns)
        return actual.exceptAll(wanted).count() + wanted.exceptAll(actual).count()

    def close(self) -> None:
        """Give back what it holds."""
        self.session.stop()


def start(name: str) -> Engine:
    """The engine of that name, `local` or `spark`."""
    return Local() if name == "local" else Spark()
