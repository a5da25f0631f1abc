"""Records on their way into files: an Arrow table grouped by partition path, and then by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError, SchemaError
from pudi.plan import WriteProfile
from pudi.schema import PARTITION_PATH, RECORD_KEY, conform
from pudi.task.bulk import split_by_partition
from pudi.task.engine import InputSpec


def to_arrow(data: object, table: str) -> pa.Table:
    """The Arrow table that a user's data is: pyarrow, polars, pandas, duckdb, anything with `__arrow_c_stream__`.

    Raises:
        InvalidArgumentError: it's none of these.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "iloc") and hasattr(data, "dtypes"):  # pandas: its stream would carry the index along
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InvalidArgumentError(
        f"the data is a {type(data).__name__}; give a pyarrow Table, a polars or pandas DataFrame, a DuckDB relation, "
        "a Spark DataFrame, or anything else that offers an Arrow stream",
        table=table,
    )


def keyed(data: object, spec: InputSpec) -> pa.Table:
    """Records with their keys: record key, partition path, and the table's columns (for deletes, keys alone)."""
    rows = to_arrow(data, spec.table)
    if spec.keys_only:
        wanted = [f for f in spec.schema if f.name in {*spec.keys.record_key_fields, *spec.keys.partition_fields}]
        twice = [f.name for f in wanted if rows.column_names.count(f.name) > 1]
        if twice:
            raise SchemaError(f"the data has columns more than once: {', '.join(twice)}", table=spec.table)
        present = [f.name for f in wanted if f.name in rows.column_names]
        rows = conform(rows.select(present), pa.schema(wanted), table=spec.table)
    else:
        rows = conform(rows, spec.schema, table=spec.table)
    keys, partitions = spec.keys.record_keys(rows), spec.keys.partition_paths(rows)
    if spec.keys_only:
        return pa.table([keys, partitions], names=[RECORD_KEY, PARTITION_PATH])
    return rows.add_column(0, RECORD_KEY, keys).add_column(1, PARTITION_PATH, partitions)


@dataclass(frozen=True)
class LocalRecords:
    """Checked records of one write.

    Args:
        rows: record key, partition path, and the table's columns.
    """

    rows: pa.Table

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
class TaggedPartition:
    """One partition's records with the file group of each.

    Attributes:
        rows: row numbers in the whole input, ascending.
        codes: for each, the number of its key among the partition's distinct keys.
        located: for each distinct key, the number of its file group in `file_ids`, or -1.
        file_ids: file groups.
        elsewhere: by number of a file group, keys that it holds as well as the one in `located`: copies that plain
            inserts made, which are updated and deleted together, as Hudi does.
    """

    rows: np.ndarray
    codes: np.ndarray
    located: np.ndarray
    file_ids: list[str]
    elsewhere: dict[int, np.ndarray]


@dataclass(frozen=True)
class LocalTagged:
    """Tagged records.

    Args:
        records: the records.
        partitions: tags by partition path.
    """

    records: LocalRecords
    partitions: dict[str, TaggedPartition]

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""
        updates: dict[tuple[str, str], int] = {}
        inserts: dict[str, int] = {}
        for partition, tagged in self.partitions.items():
            groups = tagged.located[tagged.codes]
            counts = np.bincount(groups + 1, minlength=len(tagged.file_ids) + 1)
            inserts[partition] = int(counts[0])
            for group, keys in tagged.elsewhere.items():
                counts[group + 1] += np.count_nonzero(np.isin(tagged.codes, keys))
            updates.update({(partition, f): int(n) for f, n in zip(tagged.file_ids, counts[1:], strict=True) if n})
        return WriteProfile(updates, inserts)


def distinct_keys(records: LocalRecords, rows: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The distinct record keys of some rows, and for each row the number of its key among them."""
    keys = records.rows[RECORD_KEY].take(rows)
    encoded = pc.dictionary_encode(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)
