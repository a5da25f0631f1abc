"""Forms of a lazy result: what gives batches is an Arrow stream, a table, a frame of pandas or polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.errors import SetupError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


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
