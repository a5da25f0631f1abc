"""Forms of a lazy result: what gives batches is an Arrow stream, a table, a frame of pandas or polars.

Errors of streams name what cleans left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import MetaClient
from pudi.errors import SetupError
from pudi.filegroup.clean_history import naming_retained

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def stream_naming_retained(meta: MetaClient, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream whose errors are those of `naming_retained`."""

    def read() -> Iterator[pa.RecordBatch]:
        with closing(batches), naming_retained(meta.store):
            yield from batches

    return pa.RecordBatchReader.from_batches(batches.schema, read())


class LazyRows:
    """The rows that `to_batches` gives, in other forms."""

    __slots__ = ()

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """The rows as a `pyarrow.Table`; raises as `to_batches`."""
        return self.to_batches().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; raises as `to_batches`.

        Raises:
            SetupError: pandas isn't installed.
        """
        try:
            import pandas  # noqa: F401, PLC0415 - optional, and pyarrow's own error doesn't say how to install it
        except ImportError:
            raise SetupError("to_pandas needs pandas: pip install 'pudi[pandas]'") from None
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame; raises as `to_batches`.

        Raises:
            SetupError: polars isn't installed.
        """
        return _polars().from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream (the PyCapsule protocol)."""
        return self.to_batches().__arrow_c_stream__(requested_schema)


def _polars() -> Any:
    try:
        import polars  # noqa: PLC0415 - optional
    except ImportError:
        raise SetupError("to_polars needs polars: pip install 'pudi[polars]'") from None
    return polars
