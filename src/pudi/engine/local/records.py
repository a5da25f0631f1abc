"""Records on their way into files: an Arrow table grouped by partition path, and then by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context.runtime import cached_property
from pudi.errors import InvalidArgumentError, SchemaError
from pudi.plan import WriteProfile
from pudi.record import without_empty_texts
from pudi.schema import PARTITION_PATH, RECORD_KEY, conform
from pudi.schema.arrays import take_column
from pudi.schema.fields import check_no_repeats
from pudi.schema.types import casts_views
from pudi.storage import OpenFiles
from pudi.task.bulk import split_by_partition
from pudi.task.engine import InputSpec, RepeatedKeysError
from pudi.task.partition import TaggedPartition, only_known, only_new, profile


def to_arrow(data: object, table: str) -> pa.Table:
    """The Arrow table that a user's data is: pyarrow, polars, pandas, duckdb, anything with `__arrow_c_stream__`.

    Raises:
        InvalidArgumentError: the type of the data is not supported.
        SchemaError: a column of a pandas or polars frame has no counterpart in Arrow.
    """
    if isinstance(data, pa.Table):
        return _without_empty_chunks(data)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "iloc") and hasattr(data, "dtypes"):  # pandas: its stream would carry the index along
        return _of_pandas(data, table)
    if _is_polars_frame(data):
        return _without_empty_chunks(_of_polars(data, table))
    if hasattr(data, "__arrow_c_stream__"):
        return _without_empty_chunks(pa.table(data))
    raise InvalidArgumentError(
        f"the data is a {type(data).__name__}; give a pyarrow Table, a polars or pandas DataFrame, a DuckDB relation, "
        "a Spark DataFrame, or anything else that offers an Arrow stream",
        table=table,
    )


def _of_pandas(data: Any, table: str) -> pa.Table:
    check_no_repeats(map(str, data.columns), table)
    try:
        return pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:  # mixed objects, sparse columns: pandas' own types
        what = " ".join(map(str, error.args))
        if isinstance(error, UnicodeError):  # pandas doesn't say in which column, and no terminal shows the character
            what = "a text has half of a surrogate pair, which is no character"
        raise SchemaError(
            f"the pandas frame can't become an Arrow table: {what}; cast the column", table=table
        ) from error


def _is_polars_frame(data: object) -> bool:
    """Return whether data is a DataFrame of polars."""
    return type(data).__name__ == "DataFrame" and type(data).__module__.partition(".")[0] == "polars"


def _of_polars(data: Any, table: str) -> pa.Table:
    for name, kind in data.schema.items():
        if _has_objects(kind):  # their addresses in memory would be written
            raise SchemaError(
                f"column {name!r} has polars' type {kind}: no file can hold Python objects; cast it", table=table
            )
    try:
        return pa.table(data) if casts_views() else data.to_arrow()
    except pa.ArrowException as error:
        for name, kind in data.schema.items():
            try:
                pa.table(data.select(name).clear())
            except pa.ArrowException:
                raise SchemaError(
                    f"column {name!r} has polars' type {kind}, which Arrow has no counterpart of ({error}); cast it",
                    table=table,
                ) from error
        raise


def _has_objects(kind: Any) -> bool:
    """Return whether a type of polars is that of Python objects, or has it inside."""
    inner = [field.dtype for field in getattr(kind, "fields", ())]
    inner += [kind.inner] if hasattr(kind, "inner") else []
    return str(kind) == "Object" or any(map(_has_objects, inner))


def _without_empty_chunks(rows: pa.Table) -> pa.Table:
    """Return a table without chunks of no rows: Arrow can't take rows where a stream brought one that is a slice."""
    if all(len(chunk) for column in rows.columns for chunk in column.chunks):
        return rows
    columns = [pa.chunked_array([chunk for chunk in c.chunks if len(chunk)], c.type) for c in rows.columns]
    return pa.table(columns, schema=rows.schema)


def is_rereadable(data: object) -> bool:
    """Whether data surely gives the same rows each time it's read; a stream of batches, say, is over then."""
    is_pandas = type(data).__name__ == "DataFrame" and type(data).__module__.partition(".")[0] == "pandas"
    return is_pandas or _is_polars_frame(data) or isinstance(data, (pa.Table, pa.RecordBatch))


def keyed(rows: pa.Table, spec: InputSpec) -> pa.Table:
    """Records with their keys: record key, partition path, and the table's columns (for deletes, keys alone)."""
    spec.check_stored_keys(rows.column_names)
    spec.check_key_columns(rows.column_names)
    stored = rows[RECORD_KEY].cast(pa.string()) if spec.stored_keys else None
    if spec.keys_only:
        wanted = [f for f in spec.schema if f.name in spec.keys.columns]
        of_keys = {field.name for field in wanted}
        check_no_repeats((name for name in rows.column_names if name in of_keys), spec.table)
        present = [f.name for f in wanted if f.name in rows.column_names]
        if wanted or stored is None:
            rows = conform(rows.select(present), pa.schema(wanted), table=spec.table, promoted=spec.as_text)
        else:  # generated keys, one folder: a table without columns would have no rows
            rows = rows.select([RECORD_KEY])
    else:
        rows = conform(rows, spec.schema, table=spec.table, evolved=True)
    keys, partitions = spec.keys.record_keys(rows), spec.keys.partition_paths(rows)
    if stored is not None:
        keys = pc.coalesce(stored, keys)
    if spec.keys_only:
        return pa.table([keys, partitions], names=[RECORD_KEY, PARTITION_PATH])
    rows = without_empty_texts(rows, spec.keys, spec.schema)
    return rows.add_column(0, RECORD_KEY, keys).add_column(1, PARTITION_PATH, partitions)


def check_unique(rows: pa.Table, spec: InputSpec) -> None:
    """Refuse records that share a key where each must have its own.

    Raises:
        RepeatedKeysError: two do.
    """
    names = [RECORD_KEY, PARTITION_PATH] if spec.combine is None else [RECORD_KEY]
    if rows.group_by(names, use_threads=False).aggregate([]).num_rows < rows.num_rows:
        raise RepeatedKeysError("records share a key", table=spec.table)


def take_rows(rows: pa.Table, places: pa.Array) -> pa.Table:
    """Return some rows; a text column that is held in memory once, as the record key and its column are, stays so."""
    taken: dict[object, pa.ChunkedArray] = {}
    columns: list[pa.ChunkedArray] = []
    for column in rows.columns:
        memory = tuple(_memory(chunk) for chunk in column.chunks) if column.type == pa.string() else len(columns)
        if memory not in taken:
            taken[memory] = take_column(column, places)
        columns.append(taken[memory])
    return pa.table(columns, schema=rows.schema)


def _memory(texts: pa.Array) -> tuple[object, ...]:
    """Return where in memory an array of texts is."""
    return texts.offset, len(texts), *(None if buffer is None else buffer.address for buffer in texts.buffers())


@dataclass(frozen=True)
class LocalRecords:
    """Checked records of one write.

    Args:
        rows: record key, partition path, and the table's columns.
        schema: the table's columns as they are once the records are in.
    """

    rows: pa.Table
    schema: pa.Schema

    @cached_property
    def partitions(self) -> dict[str, pa.Array]:
        """Row numbers of each partition path, ascending."""
        return dict(split_by_partition(self.rows)) if self.rows.num_rows else {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Records by partition path."""
        return {partition: len(rows) for partition, rows in self.partitions.items()}

    @property
    def record_bytes(self) -> float | None:
        """Bytes of an average record in memory."""
        return self.rows.nbytes / self.rows.num_rows if self.rows.num_rows else None

    def release(self) -> None:
        """Nothing is held outside this object."""


@dataclass(frozen=True)
class LocalTagged:
    """Tagged records.

    Args:
        records: the records.
        partitions: tags by partition path.
        opened: the table's files, of which those that were searched are open still; None if none were.
    """

    records: LocalRecords
    partitions: dict[str, TaggedPartition]
    opened: OpenFiles | None = None

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""
        return profile(self.partitions)

    @property
    def movers(self) -> bool:
        """Whether a key may be in another partition than its record's, as where keys repeat: one of them is found."""
        keys, own = self.records.rows[RECORD_KEY], self.records.partitions
        if pc.count_distinct(keys).as_py() < len(keys):
            return True
        none = np.empty(0, dtype=np.int64)
        return any(not np.isin(part.rows, own.get(name, none)).all() for name, part in self.partitions.items())

    def known_only(self) -> LocalTagged:
        """Return the records whose key exists already."""
        return replace(self, partitions={partition: only_known(part) for partition, part in self.partitions.items()})

    def new_only(self) -> LocalTagged:
        """Return the records without those whose key exists already."""
        return replace(self, partitions={partition: only_new(part) for partition, part in self.partitions.items()})
