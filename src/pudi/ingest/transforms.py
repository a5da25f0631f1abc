"""What happens to records between source and table: functions of a user, or a SQL query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pudi.context.lazy import lazy_module
from pudi.engine import is_spark_frame
from pudi.errors import InvalidArgumentError, SetupError

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy_module("duckdb")

SOURCE: Final = "<SRC>"
"""What a query calls the records (SqlQueryBasedTransformer)."""
_VIEW: Final = "pudi_ingested"

Transform = Callable[[Any], Any]
"""Records in, an Arrow table or a Spark DataFrame; records out."""


def sql_transform(query: str) -> Transform:
    """Return a transform by a query: `SELECT *, fare * 2 AS double_fare FROM <SRC>`.

    DuckDB runs it on Arrow tables, Spark on its frames, each in its own dialect.

    Args:
        query: the query; `<SRC>` stands for the records.

    Raises:
        InvalidArgumentError: it doesn't name them.
    """
    if SOURCE not in query:
        raise InvalidArgumentError(f"the query doesn't name {SOURCE}, which stands for the records")
    text = query.strip().rstrip(";").replace(SOURCE, _VIEW)

    def run(data: Any) -> Any:
        if is_spark_frame(data):
            data.createOrReplaceTempView(_VIEW)
            return data.sparkSession.sql(text)
        return _by_duckdb(data, text)

    return run


def _by_duckdb(data: pa.Table, query: str) -> pa.Table:
    try:
        connection = duckdb.connect()
    except ImportError:
        raise SetupError("a SQL transform on this machine needs DuckDB: pip install 'pudi[duckdb]'") from None
    with connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(_VIEW, data)
        try:
            return connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise InvalidArgumentError(f"the query of the transform failed: {error}") from error
