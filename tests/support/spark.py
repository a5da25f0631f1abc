"""The test session, and small Arrow tables as Spark frames."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
_CLASSES = (
    "ArrowIteratorServer",
    "PythonSQLUtils",
    "PythonUtils",
    "SimplePythonFunction",
    "SparkSession",
    "SparkSession$",
    "functions",
    "org.apache.spark.sql.execution.python.UserDefinedPythonFunction",
    "org.apache.spark.sql.types.StructType",
    "org.apache.spark.storage.StorageLevel",
)


def start(folder: Path, conf: Mapping[str, str]) -> Any:
    """A Spark session of its own for a test run: two cores, UTC, no UI, files below `folder`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("pudi-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # A test's work is short: compiling a query, planning it again between its stages, or optimising the machine's
        # code costs more than it brings. The session on Spark 4 does all of it, as a user's does.
        **({**_INTERPRETED, **_PLANNED_ONCE} if conf else {}),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1g -Xmn640m "
        f"-Duser.timezone=UTC -Djava.io.tmpdir={folder}",
        **conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = _resolved(builder) if "spark.jars.packages" in conf else builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _keep_classes(session._jvm)
    return session


def _resolved(builder: Any) -> Any:
    """Start a session with packages: one process at a time, since Ivy's cache breaks where several fill it."""
    with Path(tempfile.gettempdir(), f"pudi-ivy-{os.getuid()}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(2):
            try:
                return builder.getOrCreate()
            except RuntimeError as error:  # PySpark says no more than that its JVM ended
                print(f"Spark didn't start, perhaps since a download broke off; once more: {error}", file=sys.stderr)
        return builder.getOrCreate()


@contextmanager
def compiled(spark: Any) -> Iterator[None]:
    """Let a session compile its queries, as a user's does."""
    before = {name: spark.conf.get(name) for name in _INTERPRETED}
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _keep_classes(jvm: Any) -> None:
    """Keep the JVM's classes that PySpark asks for by name at each call: each time Py4J searches all jars for them."""
    for name in _CLASSES:
        holder = jvm
        for part in name.split("."):
            found = getattr(holder, part)
            setattr(holder, part, found)
            holder = found


def to_frame(spark: Any, table: pa.Table) -> Any:
    """A small Arrow table as a Spark frame with the same rows, order, types and nullability."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    plain = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    schema = StructType(
        [StructField(new.name, new.dataType, old.nullable) for new, old in zip(plain, table.schema, strict=True)]
    )
    if hasattr(spark, "_jsparkSession"):
        return _local_relation(spark, table, schema)
    rows = [tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")]
    return spark.createDataFrame(rows, schema)


def _local_relation(spark: Any, table: pa.Table, schema: Any) -> Any:
    """A frame whose rows the JVM holds: rows given as Python objects start a Python worker at each evaluation."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    if not spark.version.startswith("3."):
        return spark.createDataFrame(table, schema)
    stored, jvm = table.cast(to_arrow_schema(schema)), spark._jvm
    batches = spark._sc._serialize_to_jvm(
        stored.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], stored.schema)],
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, schema.json(), spark._jsparkSession), spark)
