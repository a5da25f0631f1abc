"""`pudi.create`: a new table from a schema and the columns that play a role."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pudi.config.arguments import map_given, names_given, path_given, text_given
from pudi.engine import is_spark_frame
from pudi.engine.local.records import to_arrow
from pudi.errors import InvalidArgumentError, PudiError
from pudi.schema import META_FIELDS, spark_struct_to_arrow
from pudi.schema.spark_types import arrow_type_of
from pudi.table.base import engine_of
from pudi.table.table import Table
from pudi.writes.create import create_table


def create(
    path: str | os.PathLike[str],
    schema: Any,
    *,
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    name: str | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Make a new Hudi table; no commit is made.

    Args:
        path: its root: a local path or a URL: `s3://…`, `gs://…`, `abfss://…`, `az://…`, `memory://…`.
        schema: its columns: a `pyarrow.Schema`, a Spark `StructType`, a polars `Schema`, or a mapping of names to
            types, which may be Spark's names of them: `{"uuid": "string", "fare": "double"}`. Or data, in a form that
            `Table.insert` takes, whose columns the table gets; its rows aren't written. A Spark DataFrame and a
            stream of batches are not read for it.
        record_key: column or columns that identify a record within its partition, `a.b` for one in a struct; None for
            keys that each write generates: then records can be inserted, not updated.
        partition_by: column or columns that partition the table; None for no partitions. `column:SIMPLE` and
            `column:TIMESTAMP` select a custom key generator, whose folders may be named by time
            (`hoodie.keygen.timebased.*`).
        ordering: column or columns that order the versions of a record (EVENT_TIME_ORDERING), `a.b` for a field of a
            struct; None lets the version written last win (COMMIT_TIME_ORDERING).
        table_type: `cow` (copy on write: updates rewrite base files) or `mor` (merge on read: they go to log files).
        name: its name; the folder's name when None.
        options: Hudi's option keys: those of the table are persisted, the others are this `Table`'s defaults.
        storage_options: credentials and settings of the storage.

    Raises:
        TableExistsError: there is a table already.
        SchemaError: a column has a type that Hudi tables can't hold, or a named column is missing.
        InvalidArgumentError: an unknown option, or settings that contradict each other.
        NotSupportedError: a table of that kind can't be written by this release.
    """
    meta = create_table(
        path_given(path),
        schema_given(schema),
        record_key=names_given(record_key, "record_key"),
        partition_by=names_given(partition_by, "partition_by"),
        ordering=names_given(ordering, "ordering"),
        table_type=text_given(table_type, "table_type"),
        name=None if name is None else text_given(name, "name"),
        options=map_given(options, "options"),
        storage_options=storage_options,
    )
    return Table.of(meta, options or {})


def schema_given(given: Any) -> pa.Schema:
    """Return the columns that a schema of any kind says, or that data has: without the meta fields of the latter.

    Raises:
        InvalidArgumentError: it's neither.
        SchemaError: pandas has a column that can't become one of Arrow.
    """
    if isinstance(given, pa.Schema):
        return given
    if type(given).__module__.startswith("polars.") and isinstance(given, Mapping):
        import polars  # noqa: PLC0415 - there, as the schema is

        return polars.DataFrame(schema=dict(given)).to_arrow().schema
    if isinstance(given, Mapping):
        types = map_given(given, "schema")
        return pa.schema([pa.field(column, arrow_type_of(kind, column)) for column, kind in types.items()])
    to_json = getattr(given, "json", None)
    if to_json is not None and hasattr(given, "fields"):
        return spark_struct_to_arrow(to_json())
    if is_spark_frame(given):
        schema = spark_struct_to_arrow(given.schema.json())
    elif isinstance(getattr(given, "schema", None), pa.Schema):  # a table, or a stream that may be read once
        schema = given.schema
    elif hasattr(given, "__arrow_c_schema__"):
        schema = pa.schema(given)
    elif hasattr(given, "__arrow_c_stream__") or hasattr(given, "iloc"):
        schema = to_arrow(given, "").schema
    else:
        raise InvalidArgumentError(
            "schema must be a pyarrow.Schema, a Spark StructType, a mapping of names to types, or data with columns: "
            f"a pyarrow Table, a polars, pandas or Spark DataFrame; not {type(given).__name__}"
        )
    return pa.schema([field for field in schema if field.name not in META_FIELDS])


def check_engine(data: Any, path: str) -> None:
    """Refuse to create a table for data whose engine can't run tasks; raises as `Engine.check_ready`."""
    engine_of(data).check_ready(path)


@contextmanager
def first_write(table: Table) -> Iterator[None]:
    """Say in errors of a new table's first write that the table is there, and empty.

    It stays, as Hudi's does: another writer may have opened it meanwhile, and would lose what it writes.
    """
    try:
        yield
    except PudiError as error:
        if _is_empty(table):
            error.message += (
                f". The table {table.path} was created for this write and is empty: the next write takes its columns "
                "and table options as they are; delete its folder to begin with others"
            )
        raise


def _is_empty(table: Table) -> bool:
    try:
        return not table.timeline.commits
    except PudiError:  # the storage failed; the error of the write is the one to tell
        return False
