"""Rows that jobs leave in files for later jobs: each of these reads its portion, one batch of every file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.schema.arrays import take
from pudi.storage import open_input

_NOTE = b"note"


@dataclass(frozen=True, slots=True)
class Portion:
    """The batch of a file for one later job.

    Attributes:
        path: the file.
        size: size of the file in bytes.
        batch: number of the batch.
        records: number of rows.
    """

    path: str
    size: int
    batch: int
    records: int


@dataclass(frozen=True, slots=True)
class PortionFile:
    """A file with one batch of rows for each later job that gets some.

    Attributes:
        path: the file; empty if there are no rows.
        size: size of the file in bytes.
        parts: numbers of the later jobs, in the order of the file's batches.
        records: number of rows for each of these.
    """

    path: str = ""
    size: int = 0
    parts: tuple[int, ...] = ()
    records: tuple[int, ...] = ()

    def portions(self) -> Iterator[tuple[int, Portion]]:
        """Yield the number of each later job with its portion."""
        for batch, (part, records) in enumerate(zip(self.parts, self.records, strict=True)):
            yield part, Portion(self.path, self.size, batch, records)


def write_portions(
    storage: Storage, path: str, rows: pa.Table, parts: npt.NDArray[np.int64], note: bytes = b""
) -> PortionFile:
    """Write rows for later jobs.

    Args:
        storage: takes the file.
        path: the file to write; without rows none is.
        rows: the rows.
        parts: for each row the number of the job that gets it; rows of one job keep their order.
        note: what the jobs find beside their rows.
    """
    if not rows.num_rows:
        return PortionFile()
    order = np.argsort(parts, kind="stable")
    own, begin = np.unique(parts[order], return_index=True)
    counts = np.diff([*begin.tolist(), len(order)]).tolist()
    rows = take(rows, order)
    sink = pa.BufferOutputStream()
    schema = rows.schema.with_metadata({_NOTE: note})
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for start, count in zip(begin.tolist(), counts, strict=True):
            writer.write_table(rows.slice(start, count).combine_chunks())
    content = bytes(sink.getvalue())
    storage.put(path, content)
    return PortionFile(path, len(content), tuple(own.tolist()), tuple(counts))


def portions_by_part(files: Iterable[tuple[str, PortionFile]]) -> dict[tuple[str, int], tuple[Portion, ...]]:
    """Return the portions of each later job.

    Args:
        files: the files, each with the partition path that its jobs belong to.

    Returns:
        The portions by partition path and number of the job.
    """
    found: dict[tuple[str, int], list[Portion]] = {}
    for partition, file in files:
        for part, portion in file.portions():
            found.setdefault((partition, part), []).append(portion)
    return {key: tuple(portions) for key, portions in found.items()}


def read_portions(storage: Storage, portions: Sequence[Portion]) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    """Read the rows of one job, file by file, each with the file's note.

    Raises:
        CorruptError: a file has other rows than its job wrote.
    """
    for portion in portions:
        with pa.ipc.open_file(open_input(storage, portion.path, portion.size)) as reader:
            note = (reader.schema.metadata or {}).get(_NOTE)
            if note is None or portion.batch >= reader.num_record_batches:
                raise CorruptError("the staged file doesn't have the rows that its job wrote", path=portion.path)
            yield reader.get_batch(portion.batch).replace_schema_metadata(None), note
