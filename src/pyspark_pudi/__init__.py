"""Makes `format("pudi")` known to Spark 4, which looks for data sources in top-level modules named `pyspark_…`.

Every session that looks for any data source imports this module: pudi itself loads when the format is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource
else:
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:  # Spark 3.5 has no data sources in Python, and doesn't look for any
        DataSource = object


class DefaultSource(DataSource):  # type: ignore[misc]
    """The named format; `pudi.spark.datasource` does the work."""

    @classmethod
    def name(cls) -> str:
        """What the format is called."""
        return "pudi"

    def schema(self) -> Any:
        """The columns of the table, or of what its options read."""
        from pudi.spark.datasource import reading  # noqa: PLC0415 - see above

        return reading.schema_of(self.options)

    def reader(self, schema: Any) -> Any:
        """Reads the table."""
        from pudi.spark.datasource import reading  # noqa: PLC0415 - see above

        return reading.reader_of(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Writes the table."""
        from pudi.spark.datasource import writing  # noqa: PLC0415 - see above

        return writing.writer_of(self.options, schema, overwrite)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Reads the table's changes."""
        from pudi.spark.datasource import reading  # noqa: PLC0415 - see above

        return reading.stream_reader_of(self.options, schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Writes a query's batches to the table."""
        from pudi.spark.datasource import writing  # noqa: PLC0415 - see above

        return writing.stream_writer_of(self.options, schema, overwrite)
