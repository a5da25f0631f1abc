"""Compact one file group of the metadata table: into a new base file, or its log files into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pudi.context import Storage
from pudi.filegroup import LogScope
from pudi.format import CompactionOperation, Layout, write_token
from pudi.metadata import MetadataTable, all_columns
from pudi.metadata.changes import encode_changes
from pudi.task.compact import slice_of
from pudi.task.jobs import FileResult
from pudi.task.metadata_files import write_base, write_compacted_logs
from pudi.timeline import NO_COMMIT


@dataclass(frozen=True, slots=True)
class CompactMetadataTask:
    """Compact one slice of the metadata table.

    Attributes:
        instant: requested time of the compaction.
        run_number: id of this run in the write tokens of its files.
        number: place in the plan, also the first part of the write token.
        operation: the slice.
        scope: the instants whose log blocks count.
        sizes: the sizes of its log files that commits state, by path, see `stated_sizes`.
    """

    instant: str
    run_number: int
    number: int
    operation: CompactionOperation
    scope: LogScope
    sizes: Mapping[str, int] = field(default_factory=dict)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the base file.

        Args:
            storage: the metadata table's files.
            attempt: number of the attempt at this task.

        Raises:
            NotFoundError: a file of the slice is gone.
            CorruptError: one can't be read.
        """
        operation, partition = self.operation, self.operation.partition_path
        file_slice = slice_of(storage, operation).with_stated(self.sizes)
        records = MetadataTable.of_files(storage, self.scope).read_slice(partition, file_slice)
        changes = encode_changes(all_columns(records))
        stat = write_base(
            storage, self.instant, partition, operation.file_id, changes, self.number, attempt, self.run_number
        )
        base = file_slice.base
        return FileResult(
            self.number,
            records.num_rows,
            replace(
                stat,
                prev_commit=NO_COMMIT if base is None else base.instant,
                prev_base_file=None if base is None else base.name.name,
                total_log_files_compacted=len(file_slice.logs),
            ),
        )


@dataclass(frozen=True, slots=True)
class CompactMetadataLogsTask(CompactMetadataTask):
    """Compact the log files of one slice of the metadata table into one (FileGroupReaderBasedAppendHandle).

    Attributes:
        layout: the layout of the metadata table's timeline.
    """

    layout: Layout = 2

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the log file; arguments and errors as of `CompactMetadataTask.run`."""
        file_slice = slice_of(storage, self.operation).with_stated(self.sizes)
        table = MetadataTable.of_files(storage, self.scope)
        rows, gone, instants = table.read_logs(self.operation.partition_path, file_slice)
        changes = encode_changes(all_columns(rows), gone).sorted()
        token = write_token(self.number, self.run_number, attempt)
        stat = write_compacted_logs(storage, self.layout, self.instant, file_slice, changes, instants, token)
        return FileResult(self.number, rows.num_rows, stat)
