"""Write records to new file groups, one or more per partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.plan.write import SortMode, WriteSpec
from pudi.schema import PARTITION_PATH
from pudi.task.groups import groups_of
from pudi.task.write import stored_bytes

FILE_BYTES = 128 << 20
"""Maximum Arrow bytes of records that a bulk insert buffers for one file."""


_SAMPLE_ROWS = 20_000
"""Number of records to encode to estimate their size in a file."""

_MOST_GROWTH = 2
"""Maximum ratio of file bytes to Arrow bytes of records, meta fields included."""


def file_bytes(storage: Storage, spec: WriteSpec, rows: pa.Table) -> int:
    """Return the Arrow bytes at which a bulk insert closes a file to reach the configured maximum size.

    If there are enough records for a full file, it encodes a sample to measure the ratio of file bytes to Arrow bytes.

    Args:
        storage: the table's files; nothing is written.
        spec: the write.
        rows: available records: record key, partition path and the table's columns.
    """
    if rows.nbytes * _MOST_GROWTH <= spec.max_file_bytes:
        return min(FILE_BYTES, spec.max_file_bytes)
    sample = rows.slice(0, _SAMPLE_ROWS)
    empty = stored_bytes(storage, spec, sample.slice(0, 0))
    grown = max(1, stored_bytes(storage, spec, sample) - empty)
    room = max(spec.max_file_bytes - empty, spec.max_file_bytes // 2)
    return max(1, min(FILE_BYTES, int(room * sample.nbytes / grown)))


def sorted_places(partitions: Mapping[str, pa.Array], keys: pa.ChunkedArray, sort: SortMode) -> dict[str, pa.Array]:
    """Return the row numbers of each partition path in writing order; equal keys keep their order."""
    if not sort.by_key:
        return dict(partitions)
    return {partition: rows.take(pc.sort_indices(keys.take(rows))) for partition, rows in sorted(partitions.items())}


def split_by_partition(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Return the row numbers of each partition path in `rows`, ascending, by partition."""
    for (partition,), places in groups_of(rows, [PARTITION_PATH]):
        yield partition, places
