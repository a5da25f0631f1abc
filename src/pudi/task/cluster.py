"""Cluster one group of file slices: bring their records in order, and divide them among new base files.

Records are divided evenly, or, in a table with consistent hashing, by the buckets that the new base files are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pudi.config import LayoutStrategy
from pudi.context import Storage
from pudi.errors import CorruptError, SchemaError
from pudi.filegroup import BaseFile, BaseFileReader, FileSlice, Markers, ParquetOptions, open_base_file
from pudi.filegroup.basefile_copies import GroupPart, MovableFile, encoded_columns, joined
from pudi.format import BloomBuilder, BloomFilter, CompactionOperation, IOType, WriteStat, file_path, write_token
from pudi.format.parquet_chunks import MovedChunk, NotMovableError
from pudi.plan.curves import row_order
from pudi.schema import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import constant_text, take
from pudi.tagging import ConsistentBuckets
from pudi.task.compact import CompactSpec, complete_rows, slice_of
from pudi.task.file_stats import stats_of_base
from pudi.task.jobs import FileResult
from pudi.task.merged import MergedSlices
from pudi.task.spilled import ROW, SpillFile
from pudi.timeline import NO_COMMIT


def text_bytes(storage: Storage, base: BaseFile) -> int:
    """Return the approximate bytes of all records of a base file in memory.

    A row group states its bytes before compression, in which a text that occurs often counts once: it's in the
    dictionary. So texts count as often as there are rows, at the length of the longer one of their bounds.

    Args:
        storage: the table's files.
        base: the file; of another format than Parquet its size counts.
    """
    metadata = getattr(open_base_file(storage, base), "metadata", None)
    if not isinstance(metadata, pq.FileMetaData):
        return base.size
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(_bytes_of(group.column(number)) for group in groups for number in range(group.num_columns))


def _bytes_of(chunk: pq.ColumnChunkMetaData) -> int:
    stored, found = int(chunk.total_uncompressed_size), chunk.statistics
    if found is None or chunk.physical_type != "BYTE_ARRAY" or not found.has_min_max:
        return stored
    bounds = [len(each) for each in (found.min_raw, found.max_raw) if isinstance(each, (bytes, str))]
    return max(stored, int(chunk.num_values) * max(bounds, default=0))


_LEAST_ROWS = 10_000
"""Rows of an average row group from which copying pays: readers of many small row groups are slow."""
_NOTHING = pa.table({})


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Base files whose row groups are divided among new files.

    Attributes:
        spec: how files are written.
        files: the files.
        groups: for each new file the row groups that it gets: number of the old file, and of its row group.
    """

    spec: CompactSpec
    files: tuple[MovableFile, ...]
    groups: tuple[tuple[tuple[int, int], ...], ...]

    @classmethod
    def of(cls, storage: Storage, spec: CompactSpec, slices: Sequence[FileSlice], count: int) -> JoinedFiles:
        """Divide the row groups of some slices among a number of files, by size, in their order.

        Raises:
            NotMovableError: the records must be read and written: log files to merge, other columns or settings, or
                row groups that are too small.
        """
        if spec.history is not None or not spec.files.is_parquet or any(s.logs or s.base is None for s in slices):
            raise NotMovableError("log files, HFiles, or columns stored under other names")
        readers = [open_base_file(storage, each.base) for each in slices if each.base is not None]
        files = tuple(_movable(reader, spec) for reader in readers)
        number = [(n, group) for n, file in enumerate(files) for group in range(len(file.group_sizes))]
        rows = sum(file.reader.num_rows for file in files)
        if rows < _LEAST_ROWS * len(number) or len(number) < count:
            raise NotMovableError(f"{len(number)} row groups of {rows} rows")
        sizes = np.array([size for file in files for size in file.group_sizes])
        middle = np.cumsum(sizes) - sizes / 2
        target = np.minimum((middle * count / sizes.sum()).astype(int), count - 1)
        groups = tuple(tuple(number[i] for i in np.flatnonzero(target == n)) for n in range(count))
        return cls(spec, files, groups)

    def rows(self, number: int) -> int:
        """Return the number of records of a new file."""
        return sum(self.files[file].reader.group_rows(group) for file, group in self.groups[number])

    def content(self, number: int, name: str) -> pa.Buffer:
        """Return a new file.

        Args:
            number: its number.
            name: its name, which every record states.

        Raises:
            CorruptError: a chunk to copy is damaged.
        """
        taken: dict[int, list[int]] = {}
        for file, group in self.groups[number]:
            taken.setdefault(file, []).append(group)
        files, moved = [self.files[number] for number in taken], []
        named = cache(partial(_named, name, self.spec.files.parquet))  # most row groups have the same number of rows
        for source, numbers in zip(files, taken.values(), strict=True):
            rows = map(source.reader.group_rows, numbers)
            parts = [GroupPart(_NOTHING, each, named(count)) for each, count in zip(numbers, rows, strict=True)]
            moved.append(source.moved(parts))
            source.forget()
        return joined(files, moved, self.spec.schema.stored_avro, self._bloom(files, list(taken.values())))

    def _bloom(self, files: Sequence[MovableFile], groups: Sequence[Sequence[int]]) -> BloomFilter | None:
        """Return the bloom filter of a new file: only for it record keys are read."""
        options = self.spec.files.parquet.bloom
        if options is None:
            return None
        made = BloomBuilder(options)
        for file, numbers in zip(files, groups, strict=True):
            made.add(file.reader.read([RECORD_KEY], numbers)[RECORD_KEY])
        return made.build()


def _movable(reader: object, spec: CompactSpec) -> MovableFile:
    if not isinstance(reader, BaseFileReader):
        raise NotMovableError("a base file that isn't Parquet")
    return MovableFile(reader, spec.schema.stored, spec.files.parquet)


def _named(name: str, options: ParquetOptions, rows: int) -> Mapping[tuple[str, ...], MovedChunk]:
    """Return a row group's column of the file's name."""
    return encoded_columns(pa.table([constant_text(name, rows)], names=[FILE_NAME]), options)


_File: TypeAlias = "tuple[str, Iterator[pa.Table]]"
"""The id of a new file group, and its records in parts."""

_LEAST_BYTES = 1 << 18
"""Bytes of base files below which their footers aren't asked how large the records are in memory."""
_COPIES = 3
"""Approximate ratio of the memory that sorting takes to the bytes of the records."""


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

    If the records don't fit in memory, the columns that decide the order are read first; then all records go to a
    temporary file, portion by portion of the order, and each portion is sorted by itself.

    Attributes:
        spec: the clustering.
        number: place among the tasks, also the first part of the write token.
        slices: the slices of the group.
        sizes: the sizes of their files that commits state, by path, see `stated_sizes`.
        order: the order of the records.
        file_ids: the ids of all new file groups, in the order of the records.
        first: the first of the files that this task writes.
        count: how many it writes.
        portions: number of portions of the group's records, each of which fits in memory, by the bytes of the files.
        weight: approximate bytes read and written.
        buckets: the buckets of the partition as they will be, among them the new file groups; None to divide
            records evenly.
    """

    spec: CompactSpec
    number: int
    slices: tuple[CompactionOperation, ...]
    sizes: Mapping[str, int]
    order: RecordOrder
    file_ids: tuple[str, ...]
    first: int
    count: int
    portions: int = 1
    weight: int = 0
    buckets: ConsistentBuckets | None = None

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the files.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this task.

        Raises:
            NotFoundError: a file of a slice is gone.
            CorruptError: a file can't be read, or a record is of none of the buckets.
            SchemaError: there is no column to order by of that name.
            RefusedError: there is no disk space for the temporary file.
        """
        for name in self.order.columns:
            if name not in self.spec.schema.stored.names:
                raise SchemaError(f"the table has no column {name!r} to order records by", table=storage.root)
        slices = [slice_of(storage, each).with_stated(self.sizes) for each in self.slices]
        token = write_token(self.number, self.spec.run, attempt)
        if not self.order.columns and not self._divides:
            with suppress(NotMovableError):
                return self._copied(storage, slices, token)
        reader = MergedSlices(storage, self.spec.merging, self.spec.schema.stored, self.spec.history)
        with ExitStack() as stack:
            portions = self._portions(storage, slices)
            if portions == 1:
                files = self._in_memory(reader, slices)
            else:
                spill = SpillFile(self.spec.merging.memory.folder)
                stack.callback(spill.close)
                files = self._through_file(reader, slices, spill, portions)
            stats = [self._write(storage, file_id, token, parts) for file_id, parts in files]
        return FileResult.of(self.number, sum(stat.num_writes or 0 for stat in stats), stats)

    def _copied(self, storage: Storage, slices: Sequence[FileSlice], token: str) -> FileResult:
        """Write the files from row groups that are copied; raises NotMovableError, before anything is written."""
        made = JoinedFiles.of(storage, self.spec, slices, len(self.file_ids))
        stats = []
        for number in range(self.first, self.first + self.count):
            rows = made.rows(number)
            if rows:
                name, path = self._place(self.file_ids[number], token)
                Markers(storage, self.spec.instant).create(self._partition, name, IOType.CREATE)
                content = made.content(number, name)
                storage.create(path, content)
                stats.append(self._stat(self.file_ids[number], path, content, rows))
        return FileResult.of(self.number, sum(stat.num_writes or 0 for stat in stats), stats)

    @property
    def _partition(self) -> str:
        return self.slices[0].partition_path

    def _place(self, file_id: str, token: str) -> tuple[str, str]:
        """Return the name and the path of a file."""
        name = self.spec.files.name(file_id, token, self.spec.instant).name
        return name, file_path(self._partition, name)

    @property
    def _wanted(self) -> list[str]:
        return [name for name in self.spec.schema.stored.names if name not in {PARTITION_PATH, FILE_NAME}]

    @property
    def _divides(self) -> bool:
        """Whether records go to several buckets."""
        return self.buckets is not None and len(self.file_ids) > 1

    def _in_memory(self, reader: MergedSlices, slices: Sequence[FileSlice]) -> Iterator[_File]:
        """Yield the files, with their records in order."""
        rows = pa.concat_tables(_parts(reader, slices, self._wanted))
        places, starts = self._places(rows)
        for file_id, start, end in self._bounds(starts):
            yield file_id, iter([take(rows, places[start:end])])

    def _portions(self, storage: Storage, slices: Sequence[FileSlice]) -> int:
        """Return the number of portions that fit in memory each: much text may lie in few bytes of a file."""
        bases = [each.base for each in slices if each.base is not None]
        if sum(base.size for base in bases) < _LEAST_BYTES:
            return self.portions
        memory = max(1, self.spec.merging.memory.limit)
        return max(self.portions, -(-_COPIES * sum(text_bytes(storage, base) for base in bases) // memory))

    def _through_file(
        self, reader: MergedSlices, slices: Sequence[FileSlice], spill: SpillFile, portions: int
    ) -> Iterator[_File]:
        """Like `_in_memory`, but no more than a portion is in memory, beside the columns that decide the order."""
        names = dict.fromkeys([*self.order.columns, *([RECORD_KEY] if self._divides else [])])
        places, starts = self._places(pa.concat_tables(_parts(reader, slices, list(names) or [COMMIT_TIME])))
        position = np.empty(len(places), dtype=np.int64)
        position[places] = np.arange(len(places))
        del places
        bounds = self._bounds(starts)
        most = max(1, -(-len(position) // portions))
        edges = [n for _, start, end in bounds for n in range(start, end, most)]
        places_of = self._divide(reader, slices, spill, position, np.array([*edges, bounds[-1][2] if bounds else 0]))
        del position
        for file_id, start, end in bounds:
            own = [places for edge, places in zip(edges, places_of, strict=True) if start <= edge < end]
            yield file_id, map(partial(_portion, spill), own)

    def _divide(
        self,
        reader: MergedSlices,
        slices: Sequence[FileSlice],
        spill: SpillFile,
        position: np.ndarray,
        edges: np.ndarray,
    ) -> list[list[tuple[int, int]]]:
        """Write all records of this task's files to the temporary file; return where those of each portion are."""
        places_of: list[list[tuple[int, int]]] = [[] for _ in edges[1:]]
        start = 0
        for part in _parts(reader, slices, self._wanted):
            own = position[start : start + part.num_rows]
            start += part.num_rows
            portion = np.searchsorted(edges, own, side="right") - 1
            for number in range(len(places_of)):
                rows = np.flatnonzero(portion == number)
                if len(rows):
                    taken = take(part, rows).append_column(ROW, pa.array(own[rows], pa.int64()))
                    places_of[number].append(spill.add(taken))
        return places_of

    def _places(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return the records in their order, and for each new file its first record, and the one after the last."""
        files, columns = len(self.file_ids), list(self.order.columns)
        places = row_order(rows.select(columns), self.order.layout, files) if columns else np.arange(rows.num_rows)
        if not self._divides:
            return places, np.arange(files + 1) * rows.num_rows // files
        numbers = self._numbers(rows[RECORD_KEY])
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=files))])
        return places[np.argsort(numbers[places], kind="stable")], starts

    def _numbers(self, keys: pa.ChunkedArray) -> np.ndarray:
        """Return for each record key the number of the file that is its bucket."""
        if self.buckets is None:
            raise ValueError("records are divided evenly")
        names, places = self.buckets.named(self.buckets.hashes(keys), self._partition)
        ids = [self.buckets.file_id(name, self._partition, "") for name in names]
        strangers = set(ids) - set(self.file_ids)
        if strangers:
            raise CorruptError(
                f"a record of file group {self.slices[0].file_id} belongs to bucket {min(strangers)}, which isn't one "
                "of those that the clustering makes of it; nothing was changed",
                path=self._partition,
            )
        return np.array([self.file_ids.index(each) for each in ids], dtype=np.int64)[places]

    def _bounds(self, starts: np.ndarray) -> list[tuple[str, int, int]]:
        """Return for each file of this task its id, its first record and the one after its last; no empty files."""
        mine = range(self.first, self.first + self.count)
        found = [(self.file_ids[n], int(starts[n]), int(starts[n + 1])) for n in mine]
        return [each for each in found if each[1] < each[2]]

    def _write(self, storage: Storage, file_id: str, token: str, parts: Iterator[pa.Table]) -> WriteStat:
        spec, partition = self.spec, self._partition
        name, path = self._place(file_id, token)
        written = [0]

        def complete() -> Iterator[pa.Table]:
            for rows in parts:
                written[0] += rows.num_rows
                yield complete_rows(rows, spec.schema.stored, {PARTITION_PATH: partition, FILE_NAME: name})

        Markers(storage, spec.instant).create(partition, name, IOType.CREATE)
        content = spec.files.writer(storage, spec.schema.stored_avro).write_parts(
            path, complete(), spec.merging.memory.folder
        )
        return self._stat(file_id, path, content, written[0])

    def _stat(self, file_id: str, path: str, content: pa.Buffer, rows: int) -> WriteStat:
        size = int(content.size)
        return WriteStat(
            file_id=file_id,
            path=path,
            prev_commit=NO_COMMIT,
            num_writes=rows,
            num_inserts=rows,
            total_write_bytes=size,
            partition_path=self._partition,
            file_size_in_bytes=size,
            column_stats=stats_of_base(content, None, self.spec.stats),
        )


def _portion(spill: SpillFile, places: Sequence[tuple[int, int]]) -> pa.Table:
    """Return the records of a portion, in order."""
    rows = pa.concat_tables([spill.read(place) for place in places])
    order = np.argsort(np.asarray(rows[ROW]), kind="stable")
    return take(rows.drop_columns([ROW]), order)


def _parts(reader: MergedSlices, slices: Sequence[FileSlice], wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the records of slices after merging, in the same order each time."""
    for each in slices:
        for part in reader.parts(each, wanted):
            yield part.rows
