"""Transform records between source and table, by functions of a user or a SQL query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pudi.config.arguments import text_given
from pudi.context.runtime import lazy_module
from pudi.engine import is_spark_frame
from pudi.errors import InvalidArgumentError, SetupError

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy_module("duckdb")

SOURCE: Final = "<SRC>"
"""Name of the records in a query (SqlQueryBasedTransformer)."""
_VIEW: Final = "pudi_ingested"

Transform = Callable[[Any], Any]
"""Records in, an Arrow table or a Spark DataFrame; records out."""


def sql_transform(query: str) -> Transform:
    """Return a transform by a query: `SELECT *, fare * 2 AS double_fare FROM <SRC>`.

    DuckDB runs it on Arrow tables, Spark on its frames, each in its own dialect.

    Args:
        query: the query; `<SRC>` stands for the records.

    Raises:
        InvalidArgumentError: it is no text, or doesn't name them.
    """
    if SOURCE not in text_given(query, "query"):
        raise InvalidArgumentError(f"the query doesn't name {SOURCE}, which stands for the records")
    text = query.strip().rstrip(";").replace(SOURCE, _VIEW)

    def run(data: Any) -> Any:
        if is_spark_frame(data):
            return _by_spark(data, text)
        return _by_duckdb(data, text)

    return run


def transformed(data: Any, transforms: Sequence[Transform]) -> Any:
    """Return records after all transforms; an empty table of this machine passes none.

    Raises:
        InvalidArgumentError: a transform returns something else than records.
    """
    for transform in transforms if is_spark_frame(data) or data.num_rows else ():
        data = transform(data)
        if is_spark_frame(data) or isinstance(data, pa.Table):
            continue
        if not hasattr(data, "__arrow_c_stream__"):
            raise InvalidArgumentError(
                f"the transform {_name(transform)} returned a {type(data).__name__}: return the records, as a "
                "pyarrow.Table or another Arrow stream, or as a Spark DataFrame"
            )
        data = pa.table(data)
    return data


def check_transforms(transforms: object) -> None:
    """Check that transforms are a list of functions.

    Raises:
        InvalidArgumentError: they aren't.
    """
    if callable(transforms):
        raise InvalidArgumentError(f"transforms is a list of functions, not a function: [{_name(transforms)}]")
    if not isinstance(transforms, Iterable):
        raise InvalidArgumentError(f"transforms is a list of functions, not {type(transforms).__name__}")
    for each in transforms:
        if not callable(each):
            raise InvalidArgumentError(
                f"transforms has {each!r}, which is no function; a query is sql_transform(query)"
            )


def _name(transform: Transform) -> str:
    return getattr(transform, "__name__", type(transform).__name__)


def _by_spark(data: Any, query: str) -> Any:
    data.createOrReplaceTempView(_VIEW)
    try:
        return data.sparkSession.sql(query)
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        raise InvalidArgumentError(f"the query of the transform failed: {str(error).splitlines()[0]}") from error


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
