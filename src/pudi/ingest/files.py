"""New files of a folder, by the time of their last change (DFSPathSelector and the DFS sources of Hudi Streamer).

On Spark, Python workers parse them with the parsers of this machine, and a batch is a lazy frame.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pudi.config.arguments import count_given, path_given
from pudi.context import FileInfo, Storage
from pudi.engine.spark.hadoop import hadoop_options, hadoop_root
from pudi.engine.spark.read_tasks import task_count
from pudi.engine.spark.session import functions, in_workers, spark_errors, struct_type
from pudi.errors import (
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    UnavailableError,
)
from pudi.filegroup.listing import check_is_loose
from pudi.ingest.parsing import PARSERS, CsvOptions, FileFormat, Parsed, together
from pudi.ingest.source import BadRecord, Batch, Checkpoint
from pudi.schema import arrow_to_spark_json, normalise
from pudi.schema.spark_types import quote
from pudi.storage import LocalStorage, executor_of, open_storage

_IGNORED: Final = (".", "_")
"""Names that begin so are left out, of files and of folders (DFSPathSelector.IGNORE_FILEPREFIX_LIST)."""
_BATCH_BYTES: Final = 512 << 20
_LATEST_MS: Final = 10**14
"""Milliseconds that no file has: the checkpoint of a table, an instant, has more digits."""
TEXT_FORMATS: Final = frozenset({"json", "csv"})
"""Formats whose records can be bad one by one."""
_BY_SPARK: Final = frozenset({"parquet", "orc"})
"""Formats that Spark's own readers read: they have types and names."""
_READ_OPTIONS: Final = {"mergeSchema": "true", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options of Spark's readers, whatever the session says: a file that can't be read is an error, and loses no rows."""
_BATCH_ROWS: Final = 10_000
"""Records that a worker hands to Spark at once."""
_MOST_WITHOUT_KEY: Final = 100_000
"""Records without a key that the driver takes."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files that appear in a folder; a file is taken in once, and must not change after that.

    The checkpoint is the last change of the newest file that was taken in, in milliseconds, as in Hudi Streamer. Files
    of one millisecond come together. pudi also notes their names, so that one that appears later in the same
    millisecond isn't missed; Hudi Streamer misses it.

    Args:
        path: the folder.
        format: `parquet`, `json` (one record a line), `csv`, `avro` or `orc`.
        max_bytes: bytes of files that one batch takes, unless a single file has more.
        csv: how CSV files are written.
        storage_options: credentials and settings of the storage.

    Raises:
        InvalidArgumentError: another format, no path, or no number of bytes above 0.
    """

    path: str | os.PathLike[str]
    format: str
    max_bytes: int = _BATCH_BYTES
    csv: CsvOptions = field(default_factory=CsvOptions)
    storage_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        path_given(self.path)
        count_given(self.max_bytes, "max_bytes")
        if not isinstance(self.format, str) or self.format not in PARSERS:
            raise InvalidArgumentError(f"format={self.format!r}: it is {', '.join(PARSERS)}")
        if not isinstance(self.csv, CsvOptions):
            raise InvalidArgumentError(f"csv is CsvOptions(header=…, delimiter=…), not {type(self.csv).__name__}")

    def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
        """Return the next files; see `Source`.

        Raises:
            NotFoundError: there is no such folder on the local disk. Object stores have no empty folders.
        """
        storage = open_storage(self.path, self.storage_options)
        if isinstance(storage, LocalStorage) and not Path(storage.local_root).is_dir():
            raise NotFoundError("there is no such folder to take files from", table=storage.root)
        waiting = _waiting(storage, after)
        chosen = _chosen(waiting, self.max_bytes)
        if not chosen:
            return None
        newest = chosen[-1].modified_ms
        before = after.seen if after.value == str(newest) else ()
        seen = tuple(sorted({*before, *(each.path for each in chosen if each.modified_ms == newest)}))
        reached = replace(after, value=str(newest), version=2, seen=seen)
        origin = f"{len(chosen)} file{'' if len(chosen) == 1 else 's'} of {storage.root}"
        more = len(chosen) < len(waiting)
        format = FileFormat(self.format, schema, self.csv)
        if spark is not None:
            data, bad = frame_of(storage, chosen, format, spark)
            return Batch(data, reached, bad, more, origin)
        parsed = executor_of(storage).map(lambda each: format.parsed(storage, each), chosen)
        bad = tuple(record for each in parsed for record in each.bad)
        return Batch(together(parsed, [each.path for each in chosen], storage.root), reached, bad, more, origin)


def _waiting(storage: Storage, after: Checkpoint) -> list[FileInfo]:
    """Return the files that weren't taken in yet, oldest first.

    Raises:
        InvalidArgumentError: the checkpoint is none of files.
        NotSupportedError: there is a table of Hudi, Delta or Iceberg in the folder.
    """
    since = int(after.value) if after.value and after.value.isdecimal() else -1
    if (after.value and since < 0) or since > _LATEST_MS:
        raise InvalidArgumentError(
            f"the checkpoint {after.value!r} isn't the time of a file in milliseconds: it's that of another source",
            table=storage.root,
        )
    seen = set(after.seen)
    listed = list(storage.list())
    for each in listed:
        check_is_loose(storage.root, each.path)
    found = [
        each
        for each in listed
        if each.modified_ms >= since
        and not (each.modified_ms == since and (not seen or each.path in seen))
        and not any(part.startswith(_IGNORED) for part in each.path.split("/"))
        and each.size
    ]
    return sorted(found, key=lambda each: (each.modified_ms, each.path))


def _chosen(waiting: Sequence[FileInfo], most: int) -> Sequence[FileInfo]:
    """Return the first files up to a size; those of one millisecond stay together."""
    size, end = 0, 0
    while end < len(waiting):
        same = end
        while same < len(waiting) and waiting[same].modified_ms == waiting[end].modified_ms:
            same += 1
        added = sum(each.size for each in waiting[end:same])
        if end and size + added > most:
            break
        size, end = size + added, same
    return waiting[:end]


def frame_of(
    storage: Storage, files: Sequence[FileInfo], format: FileFormat, spark: Any
) -> tuple[Any, tuple[BadRecord, ...]]:
    """Return the records of files as a lazy frame, and those that are bad.

    Files without types are parsed twice, in Python workers: to find out columns and bad records, and when the frame is
    evaluated. Each file is parsed as a whole by one task.

    Args:
        storage: where the files are.
        files: the files.
        format: their format.
        spark: the session.

    Raises:
        NotSupportedError: workers can't read them.
        CorruptError: a file is damaged, or too many of its records are bad.
        SchemaError: columns of the files don't go together, or have types that tables can't hold.
    """
    root = hadoop_root(storage)
    if format.name in _BY_SPARK:
        if root is None:
            raise NotSupportedError("Spark can't read files of this storage: ingest without spark", table=storage.root)
        with spark_errors(storage.root, "looking at the files"):
            reader = spark.read.options(**hadoop_options(storage), **_READ_OPTIONS).format(format.name)
            return reader.load([f"{root}/{each.path}" for each in files]), ()
    numbers = spark.range(0, len(files), 1, task_count(len(files), sum(each.size for each in files)))
    parsing = _Parsing(storage, tuple(files), format)
    with spark_errors(storage.root, "looking at the files"):
        rows = in_workers(numbers, parsing.look, _LOOKED).collect()
    looked: list[_Looked] = [pickle.loads(bytes(row["found"])) for row in sorted(rows, key=lambda row: row["number"])]
    if len(looked) != len(files):
        raise UnavailableError("Spark lost or doubled tasks; nothing was written", table=storage.root)
    for each in looked:
        if each.error is not None:
            raise each.error
    empty = [Parsed(each.columns.empty_table()) for each in looked]
    columns = _with_types(together(empty, [each.path for each in files], storage.root).schema, format.schema)
    wanted = struct_type(json.loads(arrow_to_spark_json(columns)))
    bad = tuple(record for each in looked for record in each.bad)
    with spark_errors(storage.root, "looking at the files"):
        return in_workers(numbers, _Records(parsing, columns).run, wanted), bad


@dataclass(frozen=True, slots=True)
class _Parsing:
    """Parses files by number; the arguments are those of `frame_of`."""

    storage: Storage
    files: tuple[FileInfo, ...]
    format: FileFormat

    def parsed(self, number: int) -> Parsed:
        """Parse a file."""
        return self.format.parsed(self.storage, self.files[number])

    def look(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Find out the columns and the bad records of files; answers by `_LOOKED` for numbers of files."""
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                try:
                    parsed = self.parsed(number)
                    found = _Looked(parsed.rows.schema, parsed.bad, None)
                except PudiError as error:
                    found = _Looked(pa.schema([]), (), error)
                columns = [pa.array([number], pa.int64()), pa.array([pickle.dumps(found)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["number", "found"])


_LOOKED: Final = "number BIGINT, found BINARY"


@dataclass(frozen=True, slots=True)
class _Looked:
    """Columns and bad records that a worker found in a file, or the reason why it can't be read."""

    columns: pa.Schema
    bad: tuple[BadRecord, ...]
    error: PudiError | None


@dataclass(frozen=True, slots=True)
class _Records:
    """Hands on the records of files, in the columns of all files."""

    parsing: _Parsing
    columns: pa.Schema

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records for numbers of files."""
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                rows = self.parsing.parsed(number).rows
                names = [self.parsing.files[number].path] * 2
                whole = together([Parsed(self.columns.empty_table()), Parsed(rows)], names, self.parsing.storage.root)
                yield from whole.select(self.columns.names).cast(self.columns).to_batches(max_chunksize=_BATCH_ROWS)


def _with_types(found: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Return columns in types of tables; those that are null everywhere get the known type, or are left out."""
    types = {} if known is None else {each.name: each.type for each in known}
    kept = [each.with_type(types.get(each.name, each.type)) if pa.types.is_null(each.type) else each for each in found]
    return normalise(pa.schema([each.with_nullable(True) for each in kept if not pa.types.is_null(each.type)]))


def without_keys(data: Any, keys: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the records of a frame that have a key, and the others as JSON texts.

    Args:
        data: the records.
        keys: the key's columns; a key is null if all of them are.

    Raises:
        CorruptError: too many have none.
    """
    functions_ = functions(data)
    lost = reduce(lambda one, more: one & more, (functions_.col(quote(name)).isNull() for name in keys))
    as_text = functions_.to_json(functions_.struct("*"), {"ignoreNullFields": "false"})
    found = sorted(text for (text,) in data.where(lost).select(as_text).limit(_MOST_WITHOUT_KEY + 1).collect())
    if len(found) > _MOST_WITHOUT_KEY:
        raise CorruptError(
            f"more than {_MOST_WITHOUT_KEY:,} records have no record key ({', '.join(keys)}): it isn't one of these"
        )
    return (data.where(~lost), found) if found else (data, found)
