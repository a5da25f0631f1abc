"""Contestants on Spark: pudi, Apache Hudi and Delta Lake, with the same session settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

from operations import FILTER, Setting, Stopwatch, one_key, stopwatch, versions

Q1 = """SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
 sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity),
 avg(l_extendedprice), avg(l_discount), count(*) FROM lineitem WHERE l_shipdate <= DATE'1998-09-02'
 GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"""
Q6 = """SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE'1994-01-01'
 AND l_shipdate < DATE'1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"""
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

    def open(self, data: Path, table: Path, setting: Setting) -> None:
        self.data, self.path, self.setting = data, table, setting

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

    def q1(self) -> Stopwatch:
        return self._query(Q1)

    def q6(self) -> Stopwatch:
        return self._query(Q6)

    def _query(self, sql: str) -> Stopwatch:
        with stopwatch() as watch:
            frame = self.frame()
            watch.planned()
            frame.createOrReplaceTempView("lineitem")
            self.session.sql(sql).collect()
        return watch

    def close(self) -> None:
        self.session.stop()


class PudiSpark(Spark):
    """pudi, fed with DataFrames; the session knows nothing of it."""

    packages = ("pudi", "pyspark", "pyarrow")

    def bulk_insert(self) -> Stopwatch:
        import pudi

        setting = self.setting
        rows = self.batch(setting.load)
        with stopwatch() as watch:
            pudi.create(
                self.path,
                rows.schema,
                record_key=list(setting.key),
                partition_by=setting.partition or None,
                ordering=setting.ordering or None,
                table_type=setting.table_type,
            )
            self.table = pudi.Table(self.path, options=setting.options)
            result = self.table.bulk_insert(rows)
        self.since = result.completion_time
        return watch

    def open(self, data: Path, table: Path, setting: Setting) -> None:
        import pudi

        super().open(data, table, setting)
        if setting.prepared:
            self.table = pudi.Table(table, options=setting.options)

    def upsert(self, batch: str) -> Stopwatch:
        return self._write("upsert", batch)

    def delete(self, batch: str) -> Stopwatch:
        return self._write("delete", batch)

    def insert_overwrite(self, batch: str) -> Stopwatch:
        return self._write("insert_overwrite", batch)

    def delete_1(self) -> Stopwatch:
        return self._write("delete", "delete_1")

    def compact(self) -> Stopwatch:
        with stopwatch() as watch:
            self.table.compact(spark=self.session)
        return watch

    def build_index(self) -> Stopwatch:
        with stopwatch() as watch:
            self.table.create_index("record_index", spark=self.session)
        return watch

    def point_lookup(self) -> Stopwatch:
        key = one_key(self.data)
        with stopwatch() as watch:
            frame = self.table.scan(where=f"uuid = '{key}'").to_spark(self.session)
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def _write(self, verb: str, batch: str) -> Stopwatch:
        rows = self.batch(batch)
        with stopwatch() as watch:
            getattr(self.table, verb)(rows)
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
    parallelism: ClassVar = {
        "hoodie.bulkinsert.shuffle.parallelism": "4",
        "hoodie.upsert.shuffle.parallelism": "4",
        "hoodie.delete.shuffle.parallelism": "4",
    }

    def __init__(self, memory: str, **options: str) -> None:
        super().__init__(memory)
        self.given = options

    def versions(self) -> dict[str, str]:
        return super().versions() | {"hudi": HUDI.rsplit(":", 1)[1]}

    @property
    def options(self) -> dict[str, str]:
        setting = self.setting
        table = {
            "hoodie.table.name": setting.load,
            "hoodie.datasource.write.recordkey.field": ",".join(setting.key),
            "hoodie.datasource.write.partitionpath.field": setting.partition,
        }
        ordering = {"hoodie.datasource.write.precombine.field": setting.ordering} if setting.ordering else {}
        if setting.table_type == "mor":
            # compactions are measured apart; else Hudi's batch writes compact inline
            table |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
        return table | ordering | self.parallelism | self.given | setting.options

    def bulk_insert(self) -> Stopwatch:
        return self._write(self.setting.load, "bulk_insert", "overwrite")

    def upsert(self, batch: str) -> Stopwatch:
        return self._write(batch, "upsert")

    def delete(self, batch: str) -> Stopwatch:
        return self._write(batch, "delete")

    def insert_overwrite(self, batch: str) -> Stopwatch:
        return self._write(batch, "insert_overwrite")

    def delete_1(self) -> Stopwatch:
        return self._write("delete_1", "delete")

    def compact(self) -> Stopwatch:
        with stopwatch() as watch:
            self.session.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{self.path}')").collect()
        return watch

    def frame(self):
        return self.session.read.format("hudi").load(str(self.path))

    def build_index(self) -> Stopwatch:
        self.session.sql(f"CREATE TABLE IF NOT EXISTS indexed USING hudi LOCATION '{self.path}'")
        # without a lock Hudi makes no index by SQL
        self.session.sql("SET hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider")
        with stopwatch() as watch:
            self.session.sql(f"CREATE INDEX record_index ON indexed ({','.join(self.setting.key)})").collect()
        self.session.sql("DROP TABLE indexed")
        return watch

    def point_lookup(self) -> Stopwatch:
        key = one_key(self.data)
        with stopwatch() as watch:
            options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
            frame = self.session.read.format("hudi").options(**options).load(str(self.path)).where(f"uuid = '{key}'")
            watch.planned()
            watch.answer = aggregate(frame)
        return watch

    def incremental(self) -> Stopwatch:
        completed = list((self.path / ".hoodie" / "timeline").glob("*_*.*commit"))
        since = min(file.stem.partition("_")[2] for file in completed)
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
        rows = self.batch(self.setting.load)
        folders = [self.setting.partition] if self.setting.partition else []
        with stopwatch() as watch:
            rows.write.format("delta").partitionBy(*folders).save(str(self.path))
        return watch

    def delete(self, batch: str) -> Stopwatch:
        return self._merge(batch, "WHEN MATCHED THEN DELETE")

    def upsert(self, batch: str) -> Stopwatch:
        return self._merge(batch, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def delete_1(self) -> Stopwatch:
        return self._merge("delete_1", "WHEN MATCHED THEN DELETE")

    def frame(self):
        return self.session.read.format("delta").load(str(self.path))

    def _merge(self, batch: str, then: str) -> Stopwatch:
        self.batch(batch).createOrReplaceTempView("batch")
        names = [name for name in (self.setting.partition, *self.setting.key) if name]
        same = " AND ".join(f"t.{name} = s.{name}" for name in names)
        with stopwatch() as watch:
            self.session.sql(f"MERGE INTO delta.`{self.path}` t USING batch s ON {same} {then}").collect()
        return watch


def aggregate(frame) -> tuple[int, float]:
    """Rows and the sum of fares; the other columns are aggregated too, so that they are read."""
    row = frame.selectExpr(*AGGREGATE).first()
    return row[0], round(row[3] or 0.0, 2)
