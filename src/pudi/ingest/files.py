"""New files of a folder, by the time of their last change (DFSPathSelector and the DFS sources of Hudi Streamer)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pudi.config.arguments import count_given, path_given
from pudi.context import FileInfo, Storage
from pudi.errors import InvalidArgumentError, NotFoundError
from pudi.filegroup.listing import check_is_loose
from pudi.ingest.checkpoints import Checkpoint
from pudi.ingest.parsing import PARSERS, CsvOptions, FileFormat, together
from pudi.ingest.source import Batch
from pudi.ingest.spark_files import frame_of
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
