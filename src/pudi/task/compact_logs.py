"""Compact the log files of one slice: merge their versions into one new log file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from posixpath import basename
from typing import BinaryIO

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import NotSupportedError
from pudi.filegroup import FileSlice, Markers
from pudi.format import CompactionOperation, LogFileName, WriteStat, file_path, write_token
from pudi.format.delete_encode import encode_deletes
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.format.log_data import encode_avro, encode_parquet
from pudi.merge import Versions
from pudi.plan.log_files import Append, log_io_type
from pudi.schema import META_FIELDS, RECORD_KEY
from pudi.schema.arrays import one_array
from pudi.storage import temporary_errors, temporary_file
from pudi.task.append import without_meta_values
from pudi.task.compact import CompactSpec, slice_of
from pudi.task.file_stats import stats_of_log
from pudi.task.jobs import FileResult
from pudi.task.log_versions import LogCounts
from pudi.task.merged import MergedSlices


@dataclass(slots=True)
class _Done:
    """Sums over the parts of a slice."""

    rows: int = 0
    deletes: int = 0
    counts: LogCounts = field(default_factory=LogCounts)
    stats: pa.Table | None = None
    """Column statistics; None if the versions came in parts: readers then never skip the file."""

    def add(self, newer: Versions, counts: LogCounts) -> None:
        deletes = int(newer.deleted.sum())
        self.rows += len(newer) - deletes
        self.deletes += deletes
        self.counts += counts


@dataclass(frozen=True, slots=True)
class CompactLogsTask:
    """Compact the log files of one slice (FileGroupReaderBasedAppendHandle).

    The blocks of the new file name the instants that they replace (COMPACTED_BLOCK_TIMES). The old files stay, and
    readers ignore them. Deletes stay deletes with their ordering values, since they still apply to the base file and to
    later versions.

    Attributes:
        spec: the log compaction.
        number: place in the plan, also the first part of the write token.
        operation: the slice.
        sizes: the sizes of its log files that commits state, by path, see `stated_sizes`.
    """

    spec: CompactSpec
    number: int
    operation: CompactionOperation
    sizes: Mapping[str, int] = field(default_factory=dict)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the log file.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this task.

        Raises:
            NotFoundError: a log file is gone.
            CorruptError: one can't be read.
            NotSupportedError: the log files contain partial updates.
        """
        spec, operation = self.spec, self.operation
        file_slice = replace(slice_of(storage, replace(operation, base_file=None)), base=None).with_stated(self.sizes)
        done = _Done()
        with temporary_file(spec.merging.memory.folder) as file:
            size = self._write(storage, file_slice, done, file)
            if not size:
                return FileResult(self.number, 0, None)
            # in layout 1 all log files of a slice have its instant, so the new file takes the next version number
            over, token = Append(file_slice), write_token(self.number, spec.run, attempt)
            version = over.version(spec.layout)
            name = LogFileName(operation.file_id, over.instant(spec.instant, spec.layout), version, token).name
            Markers(storage, spec.instant).create(operation.partition_path, name, log_io_type(spec.layout))
            path = file_path(operation.partition_path, name)
            storage.create(path, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))  # type: ignore[arg-type]
        stat = replace(self._stat(done, path, size, version), column_stats=done.stats)
        return FileResult(self.number, done.counts.records, stat)

    def _write(self, storage: Storage, file_slice: FileSlice, done: _Done, file: BinaryIO) -> int:
        """Write the blocks to a temporary file; return the number of bytes."""
        spec, size, first = self.spec, 0, True
        slices = MergedSlices(storage, spec.merging, spec.schema.stored, spec.history)
        for newer, counts in slices.folded(file_slice, spec.schema.stored):
            if counts.partial:
                raise NotSupportedError(
                    "log compaction can't merge partial updates; run compact(), which merges them into base files",
                    table=storage.root,
                    instant=spec.instant,
                )
            done.add(newer, counts)
            if spec.stats is not None:
                rows = self._records(newer)
                done.stats = (
                    stats_of_log([rows] if rows.num_rows else [], spec.schema.stored, spec.stats) if first else None
                )
            first = False
            for block in self._blocks(newer, counts):
                with temporary_errors(spec.merging.memory.folder):
                    size += file.write(block)
        with temporary_errors(spec.merging.memory.folder):
            file.flush()
        return size

    def _records(self, newer: Versions) -> pa.Table:
        rows = newer.rows.filter(pa.array(~newer.deleted)).select(self.spec.schema.stored.names)
        if not self.spec.files.populated:
            rows = without_meta_values(rows.drop_columns(list(META_FIELDS)))
        return pa.Table.from_arrays(rows.columns, schema=self.spec.schema.stored)

    def _blocks(self, newer: Versions, counts: LogCounts) -> Iterator[bytes]:
        spec = self.spec
        headers = {
            Header.INSTANT_TIME: spec.instant,
            Header.SCHEMA: spec.schema.stored_avro,
            Header.COMPACTED_BLOCK_TIMES: ",".join(counts.instants),
        }
        rows = self._records(newer)
        if rows.num_rows:
            if counts.avro:
                yield encode_block(BlockKind.AVRO, headers, encode_avro(rows, spec.schema.stored_avro))
            else:
                yield encode_block(BlockKind.PARQUET, headers, encode_parquet(rows, codec=spec.files.parquet.codec))
        gone = newer.rows.filter(pa.array(newer.deleted))
        if gone.num_rows:
            rule = spec.merging.rule
            ordering = [one_array(values) for values in (rule.ordering_values(gone) if rule.orders_deletes else ())]
            partitions = pa.array([self.operation.partition_path], pa.string()).take(
                pa.nulls(gone.num_rows, pa.int64()).fill_null(0)
            )
            keys = one_array(gone[RECORD_KEY])
            deletes = encode_deletes(
                keys, partitions, ordering, newer.unconditional[newer.deleted] if ordering else None
            )
            yield encode_block(BlockKind.DELETE, headers, deletes)

    def _stat(self, done: _Done, path: str, size: int, version: int) -> WriteStat:
        operation, counts = self.operation, done.counts
        older, base = (
            ((), "")
            if rules_of(self.spec.layout).logs_name_their_commit
            else (operation.log_files, operation.base_file or "")
        )
        return WriteStat(
            file_id=operation.file_id,
            path=path,
            prev_commit=operation.base_instant,
            base_file=base,
            log_files=(*older, basename(path)),
            log_version=version,
            log_offset=0,
            num_writes=done.rows,
            num_deletes=done.deletes,
            num_update_writes=done.rows,
            total_write_bytes=size,
            partition_path=operation.partition_path,
            file_size_in_bytes=size,
            total_log_records=counts.records,
            total_updated_records_compacted=counts.keys,
            total_log_blocks=counts.blocks,
            total_log_files_compacted=len(operation.log_files),
            total_log_size_compacted=counts.size,
        )
