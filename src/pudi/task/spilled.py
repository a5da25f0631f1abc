"""Spill record versions and base rows that don't fit in memory: to a file by hash of their keys, and back in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.format.hashes import portions
from pudi.merge import Versions
from pudi.merge.versions import in_one
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import take
from pudi.storage import temporary_errors, temporary_file

ROW = "\0row"
"""Column of base rows with their row numbers in the base file."""
_DELETED, _UNCONDITIONAL, _MISSING = "\0deleted", "\0unconditional", "\0missing:"
_PARTIAL = b"pudi.partial"
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
"""Odd numbers, one per level of splitting, that spread Java's hash: a bucket index uses its remainder already."""


class SpillFile:
    """Tables in an unnamed temporary file, which disappears when it is closed or the process dies.

    Args:
        folder: the folder of the file; None for the system's temporary folder.

    Raises:
        RefusedError: the folder doesn't exist, or the disk is full.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._file = temporary_file(folder)
        self._end = 0

    def add(self, rows: pa.Table) -> tuple[int, int]:
        """Write rows; return their position."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(rows)
        data = memoryview(sink.getvalue()).cast("B")
        with temporary_errors(self._folder):
            self._file.seek(self._end)
            self._file.write(data)
        self._end += len(data)
        return self._end - len(data), len(data)

    def read(self, place: tuple[int, int]) -> pa.Table:
        """Read rows at a position."""
        start, length = place
        with temporary_errors(self._folder):
            self._file.seek(start)
            data = self._file.read(length)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_all()

    def close(self) -> None:
        """Close the file and free its space."""
        self._file.close()


@dataclass(slots=True)
class _Bucket:
    """The positions of the versions and base rows of one bucket, oldest first, and their size in memory."""

    versions: list[tuple[int, int]] = field(default_factory=list)
    base: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0


class Buckets:
    """Versions from log files and rows of the base file, divided by key.

    Args:
        folder: the folder of the temporary file; None for the system's temporary folder.
        count: number of buckets.
        most: bytes of Arrow data above which a bucket is split again.
        level: number of splits of the keys before this one.
    """

    def __init__(self, folder: str | None, count: int, most: int, level: int = 0) -> None:
        self._folder, self._most, self._level = folder, most, level
        self._file = SpillFile(folder)
        self._buckets = [_Bucket() for _ in range(max(2, count))]

    def add_versions(self, versions: Versions) -> None:
        """Add versions that are newer than those added before."""
        names = sorted(versions.missing)
        masks = [versions.deleted, versions.unconditional, *(versions.missing[name] for name in names)]
        rows = versions.rows
        for name, mask in zip((_DELETED, _UNCONDITIONAL, *(_MISSING + n for n in names)), masks, strict=True):
            rows = rows.append_column(name, pa.array(mask))
        rows = rows.replace_schema_metadata({_PARTIAL: b"1"} if versions.partial else None)
        # once partial updates have begun, this affects all later versions, even in buckets without partial updates
        for bucket, part in self._split(rows, empty=versions.partial):
            bucket.versions.append(self._file.add(part))
            bucket.size += part.nbytes

    def add_base(self, rows: pa.Table) -> None:
        """Add rows of the base file, with their numbers (`ROW`)."""
        for bucket, part in self._split(rows, empty=False):
            bucket.base.append(self._file.add(part))
            bucket.size += part.nbytes

    def _split(self, rows: pa.Table, *, empty: bool) -> Iterator[tuple[_Bucket, pa.Table]]:
        codes = bucket_of(rows[RECORD_KEY], len(self._buckets), self._level)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(self._buckets) + 1))
        for number, bucket in enumerate(self._buckets):
            places = order[bounds[number] : bounds[number + 1]]
            if len(places) or empty:
                yield bucket, take(rows, places)

    def parts(self, empty: pa.Table) -> Iterator[tuple[list[Versions], pa.Table]]:
        """Yield bucket by bucket the versions, oldest run first, and the base rows.

        Args:
            empty: a table without rows and with the columns of base rows, for keys that the base file lacks.
        """
        for bucket in self._buckets:
            if bucket.size > self._most and self._level + 1 < len(_MIX):
                yield from self._again(bucket, empty)
            elif bucket.versions:
                runs = [versions_of(self._file.read(place)) for place in bucket.versions]
                base = [self._file.read(place) for place in bucket.base]
                yield runs, pa.concat_tables(base) if base else empty

    def _again(self, bucket: _Bucket, empty: pa.Table) -> Iterator[tuple[list[Versions], pa.Table]]:
        """Split a bucket that is too large by another hash."""
        count = 2 * bucket.size // self._most + 1
        with Buckets(self._folder, count, self._most, self._level + 1) as smaller:
            for place in bucket.versions:
                smaller.add_versions(versions_of(self._file.read(place)))
            for place in bucket.base:
                smaller.add_base(self._file.read(place))
            yield from smaller.parts(empty)

    def close(self) -> None:
        """Close the file and free its space."""
        self._file.close()

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def versions_of(rows: pa.Table) -> Versions:
    """Return versions in the form that `Buckets` writes."""
    columns: dict[str, np.ndarray] = {}
    for name in rows.column_names:
        if name.startswith("\0"):
            columns[name] = np.asarray(rows[name]).astype(bool)
    missing = {name[len(_MISSING) :]: mask for name, mask in columns.items() if name.startswith(_MISSING)}
    partial = _PARTIAL in (rows.schema.metadata or {})
    plain = rows.drop_columns(list(columns)).replace_schema_metadata(None)
    return Versions(plain, columns[_DELETED], columns[_UNCONDITIONAL], partial, missing)


def bucket_of(keys: pa.Array[Any] | pa.ChunkedArray[Any], count: int, level: int) -> np.ndarray:
    """Return the bucket number of each key.

    Args:
        keys: record keys.
        count: number of buckets, below 2^31.
        level: selects one of several independent hashes.
    """
    hashes = [texts.hash_codes(texts.starts, texts.stops) for texts in portions(keys)]
    found = np.concatenate(hashes).astype(np.uint64) if hashes else np.zeros(0, dtype=np.uint64)
    found = (found + np.uint64(level + 1)) * np.uint64(_MIX[level])
    found ^= found >> np.uint64(29)
    found *= np.uint64(_MIX[level - 1])
    buckets: np.ndarray = ((found >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)
    return buckets.astype(np.int64)


def joined(runs: Sequence[Versions]) -> list[Versions]:
    """Combine neighbouring runs of one kind: the same columns, all partial or all whole."""
    groups: list[list[Versions]] = []
    for run in runs:
        last = groups[-1][-1] if groups else None
        alike = last is not None and last.partial == run.partial and not last.missing and not run.missing
        if last is not None and alike and last.rows.schema.equals(run.rows.schema):
            groups[-1].append(run)
        else:
            groups.append([run])
    return [in_one(group) for group in groups]
