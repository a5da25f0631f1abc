"""Cluster one group of file slices: bring their records in order, and divide them among new base files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pudi.config import LayoutStrategy
from pudi.context import Storage
from pudi.errors import SchemaError
from pudi.filegroup import FileSlice, Markers
from pudi.format import CompactionOperation, IOType, WriteStat, write_token
from pudi.plan.curves import row_order
from pudi.schema import FILE_NAME, PARTITION_PATH
from pudi.task.compact import CompactSpec, complete_rows, file_path, slice_of
from pudi.task.file_stats import stats_of_base
from pudi.task.merged import MergedSlices
from pudi.task.write import FileResult
from pudi.timeline import NO_COMMIT


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """The order of records in a group.

    Attributes:
        columns: the columns to order by; empty to leave records as they are.
        layout: how.
    """

    columns: tuple[str, ...] = ()
    layout: LayoutStrategy = LayoutStrategy.LINEAR


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """Write some of the files of one group.

    A large group has several tasks. Each finds the order of all records by the columns that decide it, and then keeps
    only the records of its own files in memory.

    Attributes:
        spec: the clustering.
        number: place among the tasks, also the first part of the write token.
        slices: the slices of the group.
        sizes: the sizes of their files that commits state, by path, see `stated_sizes`.
        order: the order of the records.
        file_ids: the ids of all new file groups, in the order of the records.
        first: the first of the files that this task writes.
        count: how many it writes.
        weight: approximate bytes read and written.
    """

    spec: CompactSpec
    number: int
    slices: tuple[CompactionOperation, ...]
    sizes: Mapping[str, int]
    order: RecordOrder
    file_ids: tuple[str, ...]
    first: int
    count: int
    weight: int = 0

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the files.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this task.

        Raises:
            NotFoundError: a file of a slice is gone.
            CorruptError: a file can't be read.
            SchemaError: there is no column to order by of that name.
        """
        slices = [slice_of(storage, each).with_stated(self.sizes) for each in self.slices]
        reader = MergedSlices(storage, self.spec.merging, self.spec.schema, self.spec.history)
        wanted = [name for name in self.spec.schema.names if name not in {PARTITION_PATH, FILE_NAME}]
        for name in self.order.columns:
            if name not in self.spec.schema.names:
                raise SchemaError(f"the table has no column {name!r} to order records by", table=storage.root)
        if self.count == len(self.file_ids):
            rows = pa.concat_tables(_parts(reader, slices, wanted))
            places = self._places(rows) if self.order.columns else None
            files = [rows if places is None else rows.take(pa.array(places))]
            starts = _bounds(rows.num_rows, len(self.file_ids))
            tables = [files[0].slice(start, end - start) for start, end in starts]
        else:
            tables = self._own(reader, slices, wanted)
        token = write_token(self.number, self.spec.run, attempt)
        stats = [
            self._write(storage, self.file_ids[self.first + n], token, table)
            for n, table in enumerate(tables)
            if table.num_rows
        ]
        return FileResult.of(self.number, sum(stat.num_writes or 0 for stat in stats), stats)

    def _own(self, reader: MergedSlices, slices: Sequence[FileSlice], wanted: Sequence[str]) -> list[pa.Table]:
        """Return the records of this task's files, in order; nothing else stays in memory."""
        deciding = self.order.columns or wanted[:1]
        keys = pa.concat_tables(_parts(reader, slices, list(dict.fromkeys(deciding))))
        total = keys.num_rows
        places = self._places(keys) if self.order.columns else np.arange(total)
        del keys
        bounds = _bounds(total, len(self.file_ids))[self.first : self.first + self.count]
        own = places[bounds[0][0] : bounds[-1][1]]
        kept = np.zeros(total, dtype=bool)
        kept[own] = True
        number = np.cumsum(kept) - 1
        held, start = [], 0
        for part in _parts(reader, slices, wanted):
            held.append(part.filter(pa.array(kept[start : start + part.num_rows])))
            start += part.num_rows
        rows = pa.concat_tables(held)
        return [rows.take(pa.array(number[places[start:end]])) for start, end in bounds]

    def _places(self, rows: pa.Table) -> np.ndarray:
        return row_order(rows.select(list(self.order.columns)), self.order.layout)

    def _write(self, storage: Storage, file_id: str, token: str, rows: pa.Table) -> WriteStat:
        spec, partition = self.spec, self.slices[0].partition_path
        name = spec.files.name(file_id, token, spec.instant)
        path = file_path(partition, name.name)
        table = complete_rows(rows, spec.schema, {PARTITION_PATH: partition, FILE_NAME: name.name})
        Markers(storage, spec.instant).create(partition, name.name, IOType.CREATE)
        content = spec.files.writer(storage, spec.avro_schema).put(path, table)
        size = int(content.size)
        return WriteStat(
            file_id=file_id,
            path=path,
            prev_commit=NO_COMMIT,
            num_writes=rows.num_rows,
            num_inserts=rows.num_rows,
            total_write_bytes=size,
            partition_path=partition,
            file_size_in_bytes=size,
            column_stats=stats_of_base(content, table, spec.stats),
        )


def _parts(reader: MergedSlices, slices: Sequence[FileSlice], wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the records of slices after merging, in the same order each time."""
    for each in slices:
        for part in reader.parts(each, wanted):
            yield part.rows


def _bounds(total: int, files: int) -> list[tuple[int, int]]:
    """Return the first row of each file, and the row after its last."""
    return [(total * n // files, total * (n + 1) // files) for n in range(files)]
