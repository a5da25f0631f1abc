"""Put base files together by copying their row groups as bytes; nothing but the file's own name is encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFileReader, FileSlice, ParquetOptions, open_base_file
from pudi.filegroup.basefile_copies import GroupPart, MovableFile, encoded_columns, joined
from pudi.format import BloomBuilder, BloomFilter
from pudi.format.parquet_chunks import MovedChunk, NotMovableError
from pudi.schema import FILE_NAME, RECORD_KEY
from pudi.task.compact import CompactSpec

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
        return joined(files, moved, self.spec.avro_schema, self._bloom(files, list(taken.values())))

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
    return MovableFile(reader, spec.schema, spec.files.parquet)


def _named(name: str, options: ParquetOptions, rows: int) -> Mapping[tuple[str, ...], MovedChunk]:
    """Return a row group's column of the file's name."""
    codes = pa.array(np.zeros(rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(codes, pa.array([name]))
    return encoded_columns(pa.table([column], names=[FILE_NAME]), options)
