"""Statistics of a file: of one just written, with its event times, or of one that is there already.

Source: WriteStatus.updateStatsForSuccess, HoodieWriteHandle.getRecordMetadata.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, BaseFileReader, LogFile, PathColumnReader, open_base_file, read_blocks
from pudi.format import WriteStat
from pudi.format.log_block import Header
from pudi.format.log_data import block_schema, decode_data
from pudi.format.parquet import open_parquet
from pudi.metadata import StatsSpec, base_file_stats, leaf_values, log_file_stats
from pudi.schema import avro_to_arrow, conform_read
from pudi.schema.internal import SchemaHistory
from pudi.task.jobs import FileResult
from pudi.task.table_rows import same_named

_PARQUET = b"PAR1"
"""The first bytes of Parquet files."""


def stats_of_base(content: pa.Buffer, rows: pa.Table | None, spec: StatsSpec | None) -> pa.Table | None:
    """Return the column statistics of a base file.

    Args:
        content: the file.
        rows: its rows; None reads them from the content as needed.
        spec: the columns; None makes no statistics.

    Returns:
        None also for formats other than Parquet, like Hudi (HoodieTableMetadataUtil.readColumnRangeMetadataFrom).
    """
    if spec is None or bytes(content[: len(_PARQUET)]) != _PARQUET:
        return None

    def values(name: str) -> pa.ChunkedArray:
        if rows is not None:
            return leaf_values(rows, name)
        return leaf_values(open_parquet(pa.BufferReader(content)).read([name.partition(".")[0]]), name)

    return base_file_stats(pq.read_metadata(pa.BufferReader(content)), spec, values)


def columns_of_base(content: pa.Buffer, rows: pa.Table | None, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Return columns of a base file in the table's types.

    Args:
        content: the file, in Parquet if `rows` isn't given.
        rows: its rows; None reads the columns from the content.
        schema: the table's columns.
        names: the columns.
    """
    found = open_parquet(pa.BufferReader(content)).read(list(names)) if rows is None else rows.select(list(names))
    return conform_read(found, pa.schema([schema.field(name) for name in names]))


def stats_of_log(blocks: Sequence[pa.Table], schema: pa.Schema, spec: StatsSpec | None) -> pa.Table | None:
    """Return the column statistics of a log file.

    Args:
        blocks: the records of its data blocks; empty if it has only deletes.
        schema: the table's columns, meta fields among them.
        spec: the columns; None makes no statistics.
    """
    if spec is None:
        return None
    if not blocks:
        return log_file_stats(schema.empty_table(), spec)
    return log_file_stats(blocks[0] if len(blocks) == 1 else pa.concat_tables(blocks), spec)


_SECONDS = r"^([0-9]{10}|[+-][0-9]{9})$"
_MILLIS = r"^([0-9]{13}|[+-][0-9]{12})$"
"""Hudi tells seconds from milliseconds by the length of the text, and passes over other lengths."""


def is_event_time(kind: pa.DataType) -> bool:
    """Return whether columns of a type may hold event times."""
    return any(each(kind) for each in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_string))


def with_event_times(stats: tuple[WriteStat, ...], rows: pa.Table, column: str | None) -> tuple[WriteStat, ...]:
    """Return write statistics with the range of the records' event times, in milliseconds since the epoch.

    Args:
        stats: the statistics of the files that have the records.
        rows: the records that the write brings; those of a delete may lack the column.
        column: the column of event times; None where they aren't tracked.
    """
    if column is None or not stats or column not in rows.column_names:
        return stats
    millis = pc.min_max(_millis(rows[column]))
    least, greatest = millis["min"].as_py(), millis["max"].as_py()
    if least is None:
        return stats
    return tuple(stat.with_event_times(least, greatest) for stat in stats)


def _millis(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return event times in milliseconds; null where there's none.

    Hudi passes over timestamps too, since they have 16 digits in Spark. Their meaning is plain.
    """
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("ms", values.type.tz), safe=False).cast(pa.int64())
    texts = values.cast(pa.string())
    seconds, millis = (pc.match_substring_regex(texts, pattern) for pattern in (_SECONDS, _MILLIS))
    known = pc.if_else(pc.or_(seconds, millis), pc.utf8_ltrim(texts, "+"), pa.scalar(None, pa.string()))
    numbers = known.cast(pa.int64())
    return pc.if_else(seconds, pc.multiply(numbers, 1000), numbers)


_log = logging.getLogger(__name__)


def stats_of_file(storage: Storage, file: BaseFile | LogFile, spec: StatsSpec) -> pa.Table | None:
    """Return the column statistics of a file (HoodieTableMetadataUtil.readColumnRangeMetadataFrom).

    Args:
        storage: the table's files.
        file: the file.
        spec: the columns.

    Returns:
        A table of `FILE_STATS`; None for base files other than Parquet, like Hudi.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it can't be read.
    """
    if isinstance(file, LogFile):
        return _stats_of_log(storage, file, spec)
    reader = open_base_file(storage, file)
    if isinstance(reader, PathColumnReader):
        reader = reader.stored
    if not isinstance(reader, BaseFileReader):
        return None
    return base_file_stats(reader.metadata, spec, lambda name: leaf_values(reader.read([name.split(".", 1)[0]]), name))


def _stats_of_log(storage: Storage, file: LogFile, spec: StatsSpec) -> pa.Table:
    """Blocks that were rolled back count too: bounds may be wider than needed."""
    blocks = read_blocks(storage, file)
    data = [block for block in blocks if block.kind.is_data]
    tops = {name.split(".", 1)[0] for name in spec.columns}
    records = [decode_data(block, tops) for block in data]
    if records:
        return stats_of_log([_together(records)], records[0].schema, spec)
    schemas = [block_schema(block) for block in blocks if Header.SCHEMA in block.headers]
    return stats_of_log([], avro_to_arrow(schemas[-1]) if schemas else pa.schema([]), spec)


def _together(records: list[pa.Table]) -> pa.Table:
    """Combine records of several schemas; columns with incompatible types are left out."""
    try:
        return pa.concat_tables(records, promote_options="permissive")
    except pa.ArrowException:
        kinds: dict[str, set[pa.DataType]] = {}
        for part in records:
            for field in part.schema:
                kinds.setdefault(field.name, set()).add(field.type)
        alike = [[n for n in part.column_names if len(kinds[n]) == 1] for part in records]
        return pa.concat_tables(
            [part.select(names) for part, names in zip(records, alike, strict=True)], promote_options="default"
        )


@dataclass(frozen=True, slots=True)
class StatsTask:
    """Compute the statistics of some files. Picklable.

    Attributes:
        number: number of the task, from 0.
        spec: the columns; there are no statistics of those that a file has under another name.
        files: the files.
        history: the schemas of older files, in a table with schema on read.
    """

    number: int
    spec: StatsSpec
    files: tuple[BaseFile | LogFile, ...]
    history: SchemaHistory | None

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Compute them, returned in write statistics that have no other facts; see `FileJob.run`."""
        stats = [
            WriteStat(path=file.path, partition_path=file.partition, column_stats=self._of(storage, file))
            for file in self.files
        ]
        return FileResult.of(self.number, 0, stats)

    def _of(self, storage: Storage, file: BaseFile | LogFile) -> pa.Table | None:
        """Return the statistics of a file; none for an incomplete log file, so that readers never skip it."""
        try:
            spec = replace(self.spec, columns=same_named(self.spec.columns, file, self.history))
            return stats_of_file(storage, file, spec)
        except CorruptError as error:
            if not isinstance(file, LogFile):
                raise
            _log.warning("an index gets no statistics of a log file: %s", error)
            return None
