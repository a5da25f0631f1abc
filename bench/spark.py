"""Contestants on Spark: pudi, Apache Hudi and Delta Lake, with the same session settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from operations import FILTER, Stopwatch, stopwatch, versions

AGGREGATE = ["count(ts)", "max(ts)", "max(driver)", "sum(fare)"]
HUDI = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
DELTA = {  # by Spark's version: Delta's releases are made for one each
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.1.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}


class Spark:
    """What all share: a local session of two cores, four shuffle partitions, batches read from Parquet by Spark."""

    settings: ClassVar[dict[str, str]] = {}
    packages = ("pyspark",)

    def __init__(self, memory: str) -> None:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]").appName("bench")
        common = {
            "spark.driver.memory": memory,
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        self.session = builder.config(map=common | self.settings).getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")

    def versions(self) -> dict[str, str]:
        java = self.session.sparkContext._jvm.java.lang.System.getProperty("java.version")
        return versions(self.packages) | {"java": java}

    def open(self, data: Path, table: Path) -> None:
        self.data, self.path = data, table

    def batch(self, name: str):
        return self.session.read.parquet(str(self.data / name))

    def upsert_10(self) -> Stopwatch:
        return self.upsert("upsert_10")

    def upsert_1_new(self) -> Stopwatch:
        return self.upsert("upsert_1_new")

    def one_row(self) -> Stopwatch:
        return self.upsert("one_row")

    def aggregate(self) -> Stopwatch:
        with stopwatch() as watch:
            frame = self.frame()
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def filtered(self) -> Stopwatch:
        with stopwatch() as watch:
            frame = self.frame().where(FILTER)
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def close(self) -> None:
        self.session.stop()


class PudiSpark(Spark):
    """pudi, fed with DataFrames; the session knows nothing of it."""

    packages = ("pudi", "pyspark", "pyarrow")

    def bulk_insert(self) -> Stopwatch:
        import pudi

        rows = self.batch("trips")
        with stopwatch() as watch:
            self.table = pudi.create(self.path, rows.schema, record_key="uuid", partition_by="city", ordering="ts")
            result = self.table.bulk_insert(rows)
        self.since = result.completion_time
        return watch

    def upsert(self, batch: str) -> Stopwatch:
        rows = self.batch(batch)
        with stopwatch() as watch:
            self.table.upsert(rows)
        return watch

    def delete_1(self) -> Stopwatch:
        rows = self.batch("delete_1")
        with stopwatch() as watch:
            self.table.delete(rows)
        return watch

    def frame(self):
        return self.table.scan().to_spark(self.session)

    def filtered(self) -> Stopwatch:
        with stopwatch() as watch:
            frame = self.table.scan(where=FILTER).to_spark(self.session)
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def incremental(self) -> Stopwatch:
        with stopwatch() as watch:
            frame = self.table.changes(since=self.since).to_spark(self.session)
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def plain_scan(self) -> Stopwatch:
        """The same aggregate by `spark.read.parquet` over the files that the table has now."""
        files = [str(self.path / s.base.path) for s in self.table.file_slices()]
        with stopwatch() as watch:
            frame = self.session.read.parquet(*files)
            watch.planned()
            watch.answer = aggregate(frame)
        return watch


class Hudi(Spark):
    """Apache Hudi, with its defaults (the metadata table among them) but for parallelism and, if given, the codec."""

    settings: ClassVar = {
        "spark.jars.packages": HUDI,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }
    options: ClassVar = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.bulkinsert.shuffle.parallelism": "4",
        "hoodie.upsert.shuffle.parallelism": "4",
        "hoodie.delete.shuffle.parallelism": "4",
    }

    def __init__(self, memory: str, **options: str) -> None:
        super().__init__(memory)
        self.options = self.options | options

    def versions(self) -> dict[str, str]:
        return super().versions() | {"hudi": HUDI.rsplit(":", 1)[1]}

    def bulk_insert(self) -> Stopwatch:
        return self._write("trips", "bulk_insert", "overwrite")

    def upsert(self, batch: str) -> Stopwatch:
        return self._write(batch, "upsert")

    def delete_1(self) -> Stopwatch:
        return self._write("delete_1", "delete")

    def frame(self):
        return self.session.read.format("hudi").load(str(self.path))

    def incremental(self) -> Stopwatch:
        completed = [f.name for f in (self.path / ".hoodie" / "timeline").glob("*.commit")]
        since = min(name.removesuffix(".commit").partition("_")[2] for name in completed if "_" in name)
        with stopwatch() as watch:
            frame = (
                self.session.read.format("hudi")
                .option("hoodie.datasource.query.type", "incremental")
                .option("hoodie.datasource.read.begin.instanttime", since)
                .load(str(self.path))
            )
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def _write(self, batch: str, operation: str, mode: str = "append") -> Stopwatch:
        rows = self.batch(batch)
        options = self.options | {"hoodie.datasource.write.operation": operation}
        with stopwatch() as watch:
            rows.write.format("hudi").options(**options).mode(mode).save(str(self.path))
        return watch


class DeltaSpark(Spark):
    """Delta Lake, by SQL."""

    settings: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def __init__(self, memory: str) -> None:
        import pyspark

        minor = ".".join(pyspark.__version__.split(".")[:2])
        if minor not in DELTA:
            raise NotImplementedError(f"no release of Delta Lake for Spark {minor} is known here")
        self.artifact = DELTA[minor]
        self.settings = self.settings | {"spark.jars.packages": self.artifact}
        super().__init__(memory)

    def versions(self) -> dict[str, str]:
        return super().versions() | {"delta": self.artifact.rsplit(":", 1)[1]}

    def bulk_insert(self) -> Stopwatch:
        rows = self.batch("trips")
        with stopwatch() as watch:
            rows.write.format("delta").partitionBy("city").save(str(self.path))
        return watch

    def upsert(self, batch: str) -> Stopwatch:
        return self._merge(batch, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete_1(self) -> Stopwatch:
        return self._merge("delete_1", "WHEN MATCHED THEN DELETE")

    def frame(self):
        return self.session.read.format("delta").load(str(self.path))

    def _merge(self, batch: str, then: str) -> Stopwatch:
        self.batch(batch).createOrReplaceTempView("batch")
        with stopwatch() as watch:
            self.session.sql(
                f"MERGE INTO delta.`{self.path}` t USING batch s ON t.city = s.city AND t.uuid = s.uuid {then}"
            ).collect()
        return watch


def aggregate(frame) -> tuple[int, float]:
    """Rows and the sum of fares; the other columns are aggregated too, so that they are read."""
    row = frame.selectExpr(*AGGREGATE).first()
    return row[0], round(row[3] or 0.0, 2)
