"""Write records to new file groups, one or more per partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.plan import SortMode, WriteSpec
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import constant_text, groups_of, take, take_column
from pudi.task.write import stored_bytes

FILE_BYTES = 128 << 20
"""Maximum Arrow bytes of records that a bulk insert buffers for one file."""

_HELD_BYTES = 256 << 20
"""Arrow bytes of records that one task holds of all partitions."""

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
    return {
        partition: rows.take(pc.sort_indices(take_column(keys, rows))) for partition, rows in sorted(partitions.items())
    }


def split_by_partition(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Return the row numbers of each partition path in `rows`, ascending, by partition."""
    for (partition,), places in groups_of(rows, [PARTITION_PATH]):
        yield partition, places


@dataclass(slots=True)
class RecordBuffer:
    """The records of one task that have not been written yet, by partition, in bounded memory.

    Args:
        storage: the table's files.
        spec: the write.
    """

    storage: Storage
    spec: WriteSpec
    _parts: dict[str, list[pa.Table]] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)
    _limit: int | None = None

    def __bool__(self) -> bool:
        """Whether there are records."""
        return bool(self._parts)

    def add(self, data: pa.Table, keys: pa.ChunkedArray, partitions: pa.DictionaryArray) -> None:
        """Take in records.

        Args:
            data: the table's columns.
            keys: their record keys.
            partitions: their partition paths.
        """
        rows = data.add_column(0, RECORD_KEY, keys).add_column(1, PARTITION_PATH, partitions)
        parts = list(split_by_partition(rows))
        for partition, places in parts:
            part = rows if len(parts) == 1 else take(rows, places)
            self._parts.setdefault(partition, []).append(part)
            self._bytes[partition] = self._bytes.get(partition, 0) + part.nbytes

    def full(self) -> str | None:
        """Return the partition whose file is due; None without one."""
        if not self._bytes:
            return None
        largest = max(self._bytes, key=self._bytes.__getitem__)
        due = self._bytes[largest] >= self._file_bytes(largest) or sum(self._bytes.values()) >= _HELD_BYTES
        return largest if due else None

    def next(self) -> str:
        """Return the first partition with records."""
        return min(self._parts)

    def take(self, partition: str) -> pa.Table:
        """Return the records of the next file of a partition, as `write_file` takes them."""
        limit = self._file_bytes(partition)
        rows = pa.concat_tables(self._parts.pop(partition))
        size = self._bytes.pop(partition)
        most = max(1, int(limit * rows.num_rows / max(1, size)))
        if rows.num_rows > most and not self.spec.deduplicate:
            rest = rows.slice(most)
            self._parts[partition], self._bytes[partition] = [rest], rest.nbytes
            rows = rows.slice(0, most)
        return rows.drop_columns([PARTITION_PATH]).add_column(
            1, PARTITION_PATH, constant_text(partition, rows.num_rows)
        )

    def _file_bytes(self, partition: str) -> int:
        """Arrow bytes at which a file is closed; measured once."""
        if self._limit is None:
            rows = pa.concat_tables(self._parts[partition])
            found = file_bytes(self.storage, self.spec, rows)
            if rows.nbytes < found:  # too few to tell
                return found
            self._limit = found
        return self._limit
