"""Rows of a table for validators: an Arrow stream, and SQL by DuckDB."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.context import Storage
from pudi.context.lazy import lazy_module
from pudi.engine.local.reader import read_batches
from pudi.errors import SetupError
from pudi.plan import ReadPlan
from pudi.task.engine import TABLE_VARIABLE

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy_module("duckdb")

_NAME = "pudi_rows"


@dataclass(slots=True)
class LocalRows:
    """The rows of a read: an Arrow stream itself, which pyarrow, polars, pandas and DuckDB take as it is.

    Args:
        storage: the table's files.
        plan: what to read.
    """

    storage: Storage = field(repr=False)
    plan: ReadPlan = field(repr=False)
    _loaded: Any = field(default=None, init=False, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.plan.output_schema

    @property
    def data(self) -> LocalRows:
        """The rows themselves."""
        return self

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        return read_batches(self.storage, self.plan)

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`."""
        return self.to_batches().read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream (the PyCapsule protocol)."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the result of a query in DuckDB's dialect; see `TableRows`. The rows are read once for all queries."""
        if self._loaded is None:
            self._loaded = duckdb.connect(config={"temp_directory": str(Path(gettempdir(), "pudi-duckdb"))})
            self._loaded.execute("SET TimeZone = 'UTC'")
            self._loaded.register("stream", self.to_batches())
            self._loaded.execute(f"CREATE TABLE {_NAME} AS SELECT * FROM stream")
            self._loaded.unregister("stream")
        found = self._loaded.sql(sql.replace(TABLE_VARIABLE, _NAME))
        if found is None:
            return []
        columns = found.to_arrow_table().columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))


def check_duckdb() -> None:
    """Raise an error if DuckDB isn't installed.

    Raises:
        SetupError: it isn't.
    """
    try:
        _ = duckdb.connect
    except ImportError:
        raise SetupError("SQL validators on this machine need DuckDB: pip install 'pudi[duckdb]'") from None
