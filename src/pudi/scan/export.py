"""Write the rows of a scan as plain files: batches in, files of a folder out, in bounded memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from pudi.context import Storage
from pudi.errors import InvalidArgumentError, SchemaError
from pudi.format.parquet_pages import parquet_writer
from pudi.storage import open_storage, temporary_errors, temporary_file

SUCCESS: Final = "_SUCCESS"
"""The empty file that says that an export is whole, as Hudi's exporter and Spark write it."""
_ROUGHLY = 128 << 20
"""Arrow bytes of the rows of one file."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Files that an export has written.

    Attributes:
        rows: number of rows.
        files: number of files.
    """

    rows: int
    files: int


class _JsonLines:
    """Writes rows as JSON, one a line."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def __enter__(self) -> _JsonLines:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to write."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows: moments and days as ISO text, decimals as text, bytes in base64."""
        for row in batch.to_pylist():
            self._sink.write(json.dumps(row, default=_json, ensure_ascii=False).encode() + b"\n")


def _json(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _orc(sink: IO[bytes], schema: pa.Schema) -> Any:
    from pyarrow import orc  # noqa: PLC0415 - not in every build of pyarrow

    del schema
    return orc.ORCWriter(sink, compression="zstd")


_FORMATS: Mapping[str, Callable[[IO[bytes], pa.Schema], AbstractContextManager[Any]]] = {
    "parquet": lambda sink, schema: parquet_writer(sink, schema, "zstd"),
    "csv": pa_csv.CSVWriter,
    "json": lambda sink, schema: _JsonLines(sink),
    "arrow": pa.ipc.new_file,
    "orc": _orc,
}


def export(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, out: str, format: str, options: Mapping[str, str] | None
) -> Exported:
    """Write rows to files `part-00000.parquet`, … and `_SUCCESS` at last.

    Args:
        batches: the rows.
        schema: their columns.
        out: the folder.
        format: `parquet`, `orc`, `csv`, `json` (one row a line) or `arrow`.
        options: credentials and settings of the folder's storage.

    Raises:
        InvalidArgumentError: another format, or the folder has files.
        SchemaError: the format has no such columns.
    """
    if format not in _FORMATS:
        raise InvalidArgumentError(f"format={format!r}: it is {', '.join(_FORMATS)}")
    storage = open_storage(out, options)
    there = next(iter(storage.list()), None)
    if there is not None:
        raise InvalidArgumentError(
            f"the folder isn't empty: {there.path} is there; an export never mixes its files with others",
            table=storage.root,
        )
    rows = files = 0
    coming = iter(batches)
    first = next(coming, None)
    while first is not None or not files:
        written, first = _write(storage, f"part-{files:05}.{format}", first, coming, schema, format)
        rows, files = rows + written, files + 1
    storage.create(SUCCESS, b"", durable=True)
    return Exported(rows, files)


def _write(
    storage: Storage,
    name: str,
    first: pa.RecordBatch | None,
    coming: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    format: str,
) -> tuple[int, pa.RecordBatch | None]:
    """Write one file; returns its rows, and the batch that the next one begins with."""
    rows = size = 0
    batch = first
    with temporary_file(None) as file, temporary_errors(None):
        try:
            with _FORMATS[format](pa.PythonFile(file, "w") if format != "json" else file, schema) as writer:
                while batch is not None and size < _ROUGHLY:
                    (writer.write if format == "orc" else writer.write_batch)(
                        pa.Table.from_batches([batch], schema) if format == "orc" else batch
                    )
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    batch = next(iter(coming), None)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"the columns can't be written as {format}: {error}", table=storage.root) from error
        file.flush()
        file.seek(0)
        storage.create(name, file.read(), durable=True)
    return rows, batch
