"""`format("pudi")`: reading a table by Spark's Python data source API, from Spark 4 on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pudi.engine.spark.session import struct_type
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.scan import Scan
from pudi.schema import arrow_to_spark_json
from pudi.storage import open_storage
from pudi.table import Table
from pudi.task import SliceReader

_OPTIONS = {"path", "columns", "where", "as_of"}


def register(spark: Any) -> None:
    """Let a session read tables by name: `spark.read.format("pudi").load(path)`, and the like in SQL.

    Options are those of `Table.scan`: `columns` (separated by commas), `where`, `as_of`. This is a convenience: rows
    pass through Python workers. `table.scan().to_spark(spark)` is read by Spark's own Parquet reader, much faster.

    Args:
        spark: a session of Spark 4 or newer.

    Raises:
        NotSupportedError: the session is older.
    """
    if int(str(spark.version).partition(".")[0]) < 4:
        raise NotSupportedError(
            f"format('pudi') needs Spark 4, and the session has {spark.version}: "
            "use pudi.Table(path).scan().to_spark(spark)"
        )
    spark.dataSource.register(_source_class())


def _scan(options: Mapping[str, str]) -> Scan:
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise InvalidArgumentError(f"format('pudi') has no option {unknown[0]!r}; it has {', '.join(sorted(_OPTIONS))}")
    if "path" not in options:
        raise InvalidArgumentError("format('pudi') needs a path: .load(path)")
    columns = options.get("columns")
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    scan = Table(options["path"]).scan(names, options.get("where"), as_of=options.get("as_of"))
    if scan.schema != scan.plan.output_schema:
        raise NotSupportedError("format('pudi') reads whole columns, no fields of structs: select these from the rows")
    return scan


def _source_class() -> Any:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415 - optional

    class PudiReader(DataSourceReader):  # type: ignore[misc]
        """Reads the slices of one scan."""

        def __init__(self, scan: Scan) -> None:
            self._reader = SliceReader(open_storage(scan.plan.table), scan.plan)

        def partitions(self) -> list[Any]:
            return [InputPartition(file_slice) for file_slice in self._reader.plan.slices]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            return self._reader.read(partition.value)

    class PudiSource(DataSource):  # type: ignore[misc]
        """The data source."""

        @classmethod
        def name(cls) -> str:
            return "pudi"

        def schema(self) -> Any:
            return struct_type(json.loads(arrow_to_spark_json(_scan(self.options).schema)))

        def reader(self, schema: Any) -> Any:
            return PudiReader(_scan(self.options))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            raise NotSupportedError(
                "format('pudi') reads; to write, use pudi.spark.write(df).options(**options).mode('append').save(path)"
            )

    return PudiSource
