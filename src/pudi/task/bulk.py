"""Write records to new file groups, one or more for each partition that they fall into."""

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
"""Most Arrow bytes of records that a bulk insert holds for one file."""


_SAMPLE_ROWS = 20_000
"""Records that are encoded to find out what they take in a file."""

_MOST_GROWTH = 2
"""How many times their Arrow bytes records take in a file at most, meta fields included."""


def file_bytes(storage: Storage, spec: WriteSpec, rows: pa.Table) -> int:
    """Arrow bytes of records at which a bulk insert closes a file, so that it has about the largest size asked for.

    What a byte takes in a file is measured by encoding some of the records, where there are enough to fill one.

    Args:
        storage: the table's files; nothing is written.
        spec: the write.
        rows: records at hand: record key, partition path and the table's columns.
    """
    if rows.nbytes * _MOST_GROWTH <= spec.max_file_bytes:
        return min(FILE_BYTES, spec.max_file_bytes)
    sample = rows.slice(0, _SAMPLE_ROWS)
    empty = stored_bytes(storage, spec, sample.slice(0, 0))
    grown = max(1, stored_bytes(storage, spec, sample) - empty)
    room = max(spec.max_file_bytes - empty, spec.max_file_bytes // 2)
    return max(1, min(FILE_BYTES, int(room * sample.nbytes / grown)))


def sorted_places(partitions: Mapping[str, pa.Array], keys: pa.ChunkedArray, sort: SortMode) -> dict[str, pa.Array]:
    """Row numbers of each partition path in the order in which their records are written; equal keys as they come."""
    if not sort.by_key:
        return dict(partitions)
    return {partition: rows.take(pc.sort_indices(keys.take(rows))) for partition, rows in sorted(partitions.items())}


def split_by_partition(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Row numbers of each partition path among `rows`, ascending, partition by partition."""
    for (partition,), places in groups_of(rows, [PARTITION_PATH]):
        yield partition, places
