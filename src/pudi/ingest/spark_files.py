"""Files of records on Spark: a lazy frame of what the parsers of this machine make of them, in Python workers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from pudi.context import FileInfo, Storage
from pudi.engine.spark.hadoop import hadoop_options, hadoop_root
from pudi.engine.spark.read_tasks import task_count
from pudi.engine.spark.session import functions, in_workers, spark_errors, struct_type
from pudi.errors import CorruptError, NotSupportedError, PudiError, UnavailableError
from pudi.ingest.parsing import FileFormat, Parsed, together
from pudi.ingest.source import BadRecord
from pudi.schema import arrow_to_spark_json, normalise
from pudi.schema.spark_types import quote

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
        rows = in_workers(numbers, _Looks(parsing).run, _LOOKED).collect()
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


_LOOKED: Final = "number BIGINT, found BINARY"


@dataclass(frozen=True, slots=True)
class _Looked:
    """Columns and bad records that a worker found in a file, or the reason why it can't be read."""

    columns: pa.Schema
    bad: tuple[BadRecord, ...]
    error: PudiError | None


@dataclass(frozen=True, slots=True)
class _Looks:
    """Finds out the columns and the bad records of files."""

    parsing: _Parsing

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers by `_LOOKED` for numbers of files."""
        for batch in batches:
            for number in batch.column(0).to_pylist():  # files, not records
                try:
                    parsed = self.parsing.parsed(number)
                    found = _Looked(parsed.rows.schema, parsed.bad, None)
                except PudiError as error:
                    found = _Looked(pa.schema([]), (), error)
                columns = [pa.array([number], pa.int64()), pa.array([pickle.dumps(found)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["number", "found"])


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
