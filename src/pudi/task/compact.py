"""Compact one slice: merge its base file and log files into the next base file of its group.

A slice of the metadata table is compacted in the same way; there, log files are also compacted into one log file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.filegroup import (
    BaseFile,
    FileOptions,
    FileSlice,
    LogFile,
    LogScope,
    Markers,
    open_base_file,
    stated_base_sizes,
    stated_sizes,
)
from pudi.format import (
    BaseFileName,
    CompactionOperation,
    IOType,
    Layout,
    LogFileName,
    WriteStat,
    file_path,
    parse_base_file,
    parse_log_file,
    write_token,
)
from pudi.metadata import MetadataTable, StatsSpec, all_columns
from pudi.metadata.changes import encode_changes
from pudi.plan import Merging
from pudi.plan.cdc import ChangeLogging
from pudi.schema import FILE_NAME, PARTITION_PATH, RECORD_KEY, TableSchema
from pudi.schema.arrays import constant_text, decoded_column, in_step, ordered_by
from pudi.schema.internal import SchemaHistory
from pudi.task.cdc_log import KeyChanges, changes_by_logs, rows_of_changes, write_changes
from pudi.task.file_stats import stats_of_base
from pudi.task.jobs import FileResult
from pudi.task.log_versions import LogCounts
from pudi.task.merged import Merged, MergedSlices
from pudi.task.metadata_files import LogTarget, base_name, write_base, write_compacted_logs
from pudi.timeline import NO_COMMIT, Timeline, TimelineStore


@dataclass(frozen=True, slots=True)
class CompactSpec:
    """Specification shared by all tasks of one compaction; picklable.

    Attributes:
        instant: requested time of the compaction.
        run: id of this run in write tokens; distinguishes its files from those of other runs of the plan.
        schema: the table's columns.
        merging: how slices are merged.
        files: how base files are written.
        history: the schemas of older files, in a table with schema on read.
        verify: whether to read each written file back and compare it.
        stats: the columns that get statistics; None if the table has none.
        layout: the timeline's layout, which determines the names of log files.
        changes: how changes of base files are logged; None in a table that logs none.
    """

    instant: str
    run: int
    schema: TableSchema
    merging: Merging
    files: FileOptions
    history: SchemaHistory | None
    verify: bool = False
    stats: StatsSpec | None = None
    layout: Layout = 2
    changes: ChangeLogging | None = None


@dataclass(slots=True)
class _Done:
    """Sums over the parts of a slice; see `Merged`."""

    rows: int = 0
    logs: LogCounts = field(default_factory=LogCounts)
    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    def add(self, part: Merged) -> None:
        self.rows += part.rows.num_rows
        self.logs += part.logs
        self.updated += part.updated
        self.deleted += part.deleted
        self.inserted += part.inserted


_FILE_WEIGHT, _PER_BYTE, _UNKNOWN_MB = 1 << 20, 4, 64
"""Work of a file and of each of its bytes, in bytes that are read; size of a slice for which the plan states none."""


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Compact one slice.

    Attributes:
        spec: the compaction.
        number: place in the plan, also the first part of the write token.
        operation: the slice.
        sizes: the sizes of its files that commits state, by path, see `stated_sizes`.
    """

    spec: CompactSpec
    number: int
    operation: CompactionOperation
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Bytes that the plan says are read and written, with what merging and encoding them take beside reading."""
        metrics = self.operation.metrics
        size = max(metrics.get("TOTAL_IO_MB", _UNKNOWN_MB) * (1 << 20), metrics.get("TOTAL_LOG_FILES_SIZE", 0.0))
        return _FILE_WEIGHT + _PER_BYTE * int(size)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write the base file.

        Args:
            storage: the table's files.
            attempt: number of the attempt at this task.

        Raises:
            NotFoundError: a file of the slice is gone.
            CorruptError: a file can't be read, or the written file differs from the merged rows (only with `verify`).
        """
        spec, operation = self.spec, self.operation
        file_slice = slice_of(storage, operation).with_stated(self.sizes)
        reader = MergedSlices(storage, spec.merging, spec.schema.stored, spec.history)
        constant = {PARTITION_PATH: operation.partition_path}
        wanted = [name for name in spec.schema.stored.names if name not in {PARTITION_PATH, FILE_NAME}]
        name = spec.files.name(operation.file_id, write_token(self.number, spec.run, attempt), spec.instant)
        path = file_path(operation.partition_path, name.name)
        done = _Done()

        def rows() -> Iterator[pa.Table]:
            for part in reader.parts(file_slice, wanted):
                done.add(part)
                yield complete_rows(part.rows, spec.schema.stored, {**constant, FILE_NAME: name.name})

        Markers(storage, spec.instant).create(operation.partition_path, name.name, IOType.MERGE)
        writer = spec.files.writer(storage, spec.schema.stored_avro)
        content = writer.write_parts(path, rows(), spec.merging.memory.folder)
        size = int(content.size)
        if spec.verify:
            written = open_base_file(storage, BaseFile(operation.partition_path, name, size, spec.merging.keys))
            found = (written.read(wanted, [group]) for group in range(written.num_groups))
            expected: Iterable[pa.Table] = (part.rows for part in reader.parts(file_slice, wanted))
            if spec.files.sorted:
                expected = [ordered_by(pa.concat_tables(expected), RECORD_KEY)]
            check_same(expected, found, table=storage.root, path=path)
        stat = replace(
            self._stat(done, file_slice, path, size),
            cdc_stats=self._log_changes(storage, file_slice, name),
            column_stats=stats_of_base(content, None, spec.stats),
        )
        return FileResult(self.number, done.logs.records, stat)

    def _log_changes(self, storage: Storage, file_slice: FileSlice, name: BaseFileName) -> dict[str, int] | None:
        """Write how the new base file differs from the one before; None in a table that logs no changes.

        Hudi's compaction logs it too; its queries read it only where they are asked for the changes of compactions
        instead of those of the delta commits (`consumeChangesFromCompaction`, in Flink).
        """
        spec, operation = self.spec, self.operation
        if spec.changes is None:
            return None
        reader = MergedSlices(storage, spec.merging, spec.schema.stored, spec.history)
        names = spec.schema.columns.names

        def rows_before() -> Iterator[pa.Table]:
            yield pa.schema([field.with_nullable(True) for field in spec.schema.stored]).empty_table()
            if file_slice.base is not None:
                for part in reader.parts(replace(file_slice, logs=()), spec.schema.stored.names):
                    yield pa.Table.from_arrays(part.rows.columns, names=part.rows.column_names)

        found = changes_by_logs(reader, file_slice.logs, rows_before, spec.merging.rule, operation.group)
        changes = [rows_of_changes(each, names) for each in found]
        nothing = rows_of_changes(KeyChanges.nothing(), names)
        return write_changes(storage, spec.changes, operation.partition_path, name, changes or [nothing])

    def _stat(self, done: _Done, file_slice: FileSlice, path: str, size: int) -> WriteStat:
        """Return the write statistics, as FileGroupReaderBasedMergeHandle makes them."""
        base = file_slice.base
        return WriteStat(
            file_id=self.operation.file_id,
            path=path,
            prev_commit=NO_COMMIT if base is None else base.instant,
            prev_base_file=None if base is None else base.name.name,
            num_writes=done.rows,
            num_deletes=done.deleted,
            num_update_writes=done.updated,
            num_inserts=done.inserted,
            total_write_bytes=size,
            partition_path=self.operation.partition_path,
            file_size_in_bytes=size,
            total_log_records=done.logs.records,
            total_updated_records_compacted=done.logs.keys,
            total_log_blocks=done.logs.blocks,
            total_log_files_compacted=len(file_slice.logs),
            total_log_size_compacted=done.logs.size,
        )


def sizes_of(
    store: TimelineStore, timeline: Timeline, operations: Sequence[CompactionOperation]
) -> list[dict[str, int]]:
    """Return the file sizes that commits state for each operation of a plan, by path; see `stated_sizes`."""
    logs, paths = [], []
    for operation in operations:
        names = [name for name in map(parse_log_file, operation.log_files) if name is not None]
        logs.append([LogFile(operation.partition_path, name, 0) for name in names])
        base = [] if operation.base_file is None else [file_path(operation.partition_path, operation.base_file)]
        paths.append([*base, *(log.path for log in logs[-1])])
    sizes = stated_sizes(store, timeline, [log for each in logs for log in each])
    sizes |= stated_base_sizes(store, timeline, [path for each in paths for path in each])
    return [{path: sizes[path] for path in each if path in sizes} for each in paths]


def slice_of(storage: Storage, operation: CompactionOperation) -> FileSlice:
    """Return the file slice of a plan's operation.

    Raises:
        CorruptError: the plan names a file that doesn't belong to the file group.
        NotFoundError: the base file is gone.
    """
    partition = operation.partition_path
    logs = []
    for name in operation.log_files:
        parsed = parse_log_file(name)
        _check_name(storage, operation, name, parsed)
        assert parsed is not None
        logs.append(LogFile(partition, parsed, 0))  # a plan has no file sizes
    base = None
    if operation.base_file is not None:
        found = parse_base_file(operation.base_file)
        _check_name(storage, operation, operation.base_file, found)
        base = BaseFile.of(partition, storage.head(file_path(partition, operation.base_file)))
    return FileSlice(partition, operation.file_id, base, tuple(logs))


def _check_name(
    storage: Storage, operation: CompactionOperation, name: str, parsed: BaseFileName | LogFileName | None
) -> None:
    folders = operation.partition_path.split("/") if operation.partition_path else []
    if parsed is None or parsed.file_id != operation.file_id or not {"", ".", ".."}.isdisjoint(folders):
        raise CorruptError(
            f"a compaction plan names {name!r} among the files of group {operation.file_id!r} in partition "
            f"{operation.partition_path!r}, where it can't be",
            table=storage.root,
        )


def complete_rows(rows: pa.Table, schema: pa.Schema, constant: dict[str, str]) -> pa.Table:
    """Return all columns in order; constant text columns are encoded as dictionaries of one value."""
    columns = [constant_text(constant[f.name], rows.num_rows) if f.name in constant else rows[f.name] for f in schema]
    return pa.table(columns, names=schema.names)


def check_same(expected: Iterable[pa.Table], written: Iterable[pa.Table], *, table: str, path: str) -> None:
    """Compare a merged slice with its written file row by row, including NaNs and signs of zeros.

    Args:
        expected: the slice's rows, in parts.
        written: the file's rows, in parts.
        table: location of the table.
        path: the file.

    Raises:
        CorruptError: they differ.
    """
    counts = [0, 0]
    differing: list[str] = []
    for one, other in _side_by_side(expected, written):
        counts = [counts[0] + one.num_rows, counts[1] + other.num_rows]
        if one.num_rows == other.num_rows and not differing:
            differing = [name for name in one.column_names if not _alike(one[name], other[name])]
    if counts[0] != counts[1] or differing:
        raise CorruptError(
            f"the base file that a compaction wrote is not the merged slice: {counts[1]} rows where "
            f"{counts[0]} were expected, other values in {', '.join(differing) or 'no column'}; nothing was "
            "published, the plan stays. Look for faults of the storage, then run it again",
            table=table,
            path=path,
        )


def _side_by_side(one: Iterable[pa.Table], other: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield rows of both sides in parts of equal length, until one side ends."""
    left, right = (filter(lambda part: part.num_rows, side) for side in (one, other))
    mine, theirs = next(left, None), next(right, None)
    while mine is not None and theirs is not None:
        count = min(mine.num_rows, theirs.num_rows)
        yield mine.slice(0, count), theirs.slice(0, count)
        mine = mine.slice(count) if mine.num_rows > count else next(left, None)
        theirs = theirs.slice(count) if theirs.num_rows > count else next(right, None)
    for rest in (part for part in (mine, *left) if part is not None):
        yield rest, rest.slice(0, 0)
    for rest in (part for part in (theirs, *right) if part is not None):
        yield rest.slice(0, 0), rest


def _alike(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    return all(_same(*parts) for parts in in_step(decoded_column(one), decoded_column(other)))


def _same(one: pa.Array, other: pa.Array) -> bool:
    if len(one) != len(other):
        return False
    if one.type != other.type:
        other = other.cast(one.type)
    return bool(one.equals(other)) or (_has_floats(one.type) and _same_bits(one, other))


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(n).type) for n in range(kind.num_fields))


def _same_bits(one: pa.Array, other: pa.Array) -> bool:
    """Compare columns; NaN equals NaN."""
    if not one.is_null().equals(other.is_null()):
        return False
    kind = one.type
    if pa.types.is_floating(kind):
        wide = [pc.fill_null(pc.cast(values, pa.float64()), 0.0) for values in (one, other)]
        bits = [np.asarray(values, dtype=np.float64).view(np.int64) for values in wide]
        return bool(np.array_equal(bits[0], bits[1]))
    if pa.types.is_struct(kind):
        return all(_same(pc.struct_field(one, [n]), pc.struct_field(other, [n])) for n in range(kind.num_fields))
    if pa.types.is_map(kind):
        listed = pa.list_(pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)]))
        return _same(one.cast(listed), other.cast(listed))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = [np.asarray(pc.fill_null(pc.list_value_length(values), 0)) for values in (one, other)]
        return bool(np.array_equal(lengths[0], lengths[1])) and _same(one.flatten(), other.flatten())
    return bool(one.equals(other))


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
        name = base_name(operation.file_id, self.instant, write_token(self.number, self.run_number, attempt))
        stat = write_base(storage, partition, name, changes, marked=self.run_number != 0)
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
        target = LogTarget(self.instant, self.layout, file_slice, self.number)
        stat = write_compacted_logs(storage, target, changes, instants, token)
        return FileResult(self.number, rows.num_rows, stat)
