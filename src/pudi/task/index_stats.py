"""Statistics of an existing file, from its footer or its log blocks."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, BaseFileReader, LogFile, PathColumnReader, open_base_file, read_blocks
from pudi.format import WriteStat
from pudi.format.log_block import Header
from pudi.format.log_data import block_schema, decode_data
from pudi.metadata import StatsSpec, base_file_stats, leaf_values
from pudi.schema import avro_to_arrow
from pudi.schema.internal import SchemaHistory
from pudi.task.file_stats import stats_of_log
from pudi.task.table_rows import same_named
from pudi.task.write import FileResult

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
