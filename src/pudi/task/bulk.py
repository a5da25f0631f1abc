"""Write records to new file groups, one or more for each partition that they fall into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.plan.write import SortMode, WriteSpec
from pudi.schema import PARTITION_PATH

FILE_BYTES = 128 << 20
"""Most Arrow bytes of records that a bulk insert holds for one file."""


def file_bytes(spec: WriteSpec) -> int:
    """Arrow bytes of records at which a bulk insert closes a file; compressed, they stay below the largest size."""
    return min(FILE_BYTES, spec.max_file_bytes)


def sorted_places(partitions: Mapping[str, pa.Array], keys: pa.ChunkedArray, sort: SortMode) -> dict[str, pa.Array]:
    """Row numbers of each partition path in the order in which their records are written; equal keys as they come."""
    if not sort.by_key:
        return dict(partitions)
    return {partition: rows.take(pc.sort_indices(keys.take(rows))) for partition, rows in sorted(partitions.items())}


def split_by_partition(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Row numbers of each partition path among `rows`, ascending, partition by partition."""
    encoded = pc.dictionary_encode(rows[PARTITION_PATH])
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().chunk(0)
    codes = np.asarray(encoded.indices)
    names = encoded.dictionary.to_pylist()  # partitions, not records
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    places = dict(zip(present.tolist(), np.split(order, starts[1:]), strict=True)) if len(codes) else {}
    for code in sorted(places, key=names.__getitem__):
        yield names[code], pa.array(places[code])
