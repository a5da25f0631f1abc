"""New files of a folder, by the time of their last change (DFSPathSelector and the DFS sources of Hudi Streamer)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pudi.context import FileInfo, Storage
from pudi.errors import InvalidArgumentError, NotFoundError, SchemaError
from pudi.ingest.checkpoints import Checkpoint
from pudi.ingest.parsing import PARSERS, CsvOptions, Parsed
from pudi.ingest.source import Batch
from pudi.ingest.spark_files import TEXT_FORMATS, frame_of, with_bad_apart
from pudi.storage import LocalStorage, executor_of, open_storage

_IGNORED: Final = (".", "_")
"""Names that begin so are left out, of files and of folders (DFSPathSelector.IGNORE_FILEPREFIX_LIST)."""
_BATCH_BYTES: Final = 512 << 20
_LATEST_MS: Final = 10**14
"""Milliseconds that no file has: the checkpoint of a table, an instant, has more digits."""


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
        bad_apart: whether Spark keeps bad records apart, which takes a pass over the files before the write; else they
            fail the batch. An `Ingestion` with an error table decides so itself.

    Raises:
        InvalidArgumentError: another format.
    """

    path: str | os.PathLike[str]
    format: str
    max_bytes: int = _BATCH_BYTES
    csv: CsvOptions = field(default_factory=CsvOptions)
    storage_options: Mapping[str, str] | None = None
    bad_apart: bool = False

    def __post_init__(self) -> None:
        if self.format not in PARSERS:
            raise InvalidArgumentError(f"format={self.format!r}: it is {', '.join(PARSERS)}")

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
        if spark is not None and self.bad_apart and self.format in TEXT_FORMATS:
            data, bad, done = with_bad_apart(storage, chosen, self.format, schema, self.csv, spark)
            return Batch(data, reached, bad, more, origin, done=done)
        if spark is not None:
            data = frame_of(storage, chosen, self.format, schema, self.csv, spark)
            return Batch(data, reached, (), more, origin)
        parsed = executor_of(storage).map(lambda each: PARSERS[self.format](storage, each, schema, self.csv), chosen)
        bad = tuple(record for each in parsed for record in each.bad)
        return Batch(together(parsed, [each.path for each in chosen], storage.root), reached, bad, more, origin)


def together(parsed: Sequence[Parsed], names: Sequence[str], root: str) -> pa.Table:
    """Return the records of several files as one table; a column that some lack is null there.

    Raises:
        SchemaError: a column has types that don't go together; names the file.
    """
    whole = parsed[0].rows
    for each, name in zip(parsed[1:], names[1:], strict=True):
        try:
            whole = pa.concat_tables([whole, each.rows], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"its columns don't go together with those of the files before ({error}): give a schema",
                table=root,
                path=name,
            ) from error
    return whole


def _waiting(storage: Storage, after: Checkpoint) -> list[FileInfo]:
    """Return the files that weren't taken in yet, oldest first.

    Raises:
        InvalidArgumentError: the checkpoint is none of files.
    """
    since = int(after.value) if after.value and after.value.isdecimal() else -1
    if (after.value and since < 0) or since > _LATEST_MS:
        raise InvalidArgumentError(
            f"the checkpoint {after.value!r} isn't the time of a file in milliseconds: it's that of another source",
            table=storage.root,
        )
    seen = set(after.seen)
    found = [
        each
        for each in storage.list()
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
