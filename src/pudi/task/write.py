"""Write one base file: the first of a new file group, or the next version of one with newer records applied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from pudi.config import MergeMode
from pudi.context import Storage
from pudi.filegroup import AnyBaseFile, BaseFile, BaseFileReader, Markers, VirtualKeyReader, open_base_file
from pudi.filegroup.formats import values_of
from pudi.format import BaseFileName, WriteStat, file_path, write_token
from pudi.format.parquet_chunks import NotMovableError
from pudi.merge import MergeRule, Overlay, Versions, apply_updates, latest_per_key, overlay
from pudi.merge.deletes import delete_mask, with_flag
from pudi.plan import FileTask, Operation, WriteSpec
from pudi.plan.cdc import ChangeLogging
from pudi.plan.entry_staging import Columns, WrittenBase
from pudi.record import with_instant
from pudi.schema import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import constant_text, mask_of, take, take_column
from pudi.task.append import Appended, LogAppender, sequence_numbers, with_stored_order
from pudi.task.cdc_log import changes_of, write_changes
from pudi.task.file_stats import columns_of_base, stats_of_base, with_event_times
from pudi.task.jobs import FileResult
from pudi.task.rewrite import FileRewriter, both
from pudi.task.table_rows import read_base_rows
from pudi.timeline import NO_COMMIT

LEAVING = "_pudi_leaving"
"""Boolean column of records to write: whether the record moves to another partition and this file deletes it."""


def write_file(storage: Storage, spec: WriteSpec, task: FileTask, rows: pa.Table, token: str) -> FileResult:
    """Write the file of one task.

    Args:
        storage: the table's files.
        spec: the write.
        task: the file to write.
        rows: the task's records in order of arrival: record key, partition path and the table's columns in the table's
            types; for a delete the keys are enough. With `LEAVING` if some move away.
        token: write token, unique per attempt.

    Raises:
        CorruptError: the base file to replace can't be read.
    """
    received = rows.num_rows
    if spec.generated_keys:
        keys = with_instant(spec.instant, rows[RECORD_KEY])
        rows = rows.set_column(rows.column_names.index(RECORD_KEY), RECORD_KEY, keys)
    if task.append is not None:
        appended = _append(storage, spec, task, rows, token)
        stats = with_event_times(appended.stats, rows, spec.event_time)
        return FileResult.of(task.number, received, stats, appended.staged)
    rows = _combined(spec, task, _leaving_deleted(rows))
    if not spec.operation.looks_up or task.base is None:
        rows = rows.filter(pa.array(~spec.rule.deletes(rows))) if spec.rule.marks_deletes(rows) else rows
    if not rows.num_rows:
        return FileResult(task.number, received, None)
    name = spec.files.name(task.file_id, token, spec.instant)
    writer = SliceWriter(storage, spec, task, name)
    result = writer.create(rows) if task.base is None else writer.rewrite(rows, task.base)
    return FileResult.of(task.number, received, with_event_times(result.stats, rows, spec.event_time), result.staged)


def _append(storage: Storage, spec: WriteSpec, task: FileTask, rows: pa.Table, token: str) -> Appended:
    """Write the log files of one task.

    Deletes use the records' own ordering values; deletes that only have keys use the stored values. Records that move
    to another partition won over the stored version, so their own values delete it.
    """
    assert task.append is not None
    appender = LogAppender(storage, spec, task, token)
    if spec.operation is Operation.DELETE:
        certain = np.ones(rows.num_rows, dtype=bool)
        if spec.deleted is not None and task.append.slice is not None:
            rows, certain = with_stored_order(storage, spec, task.append.slice, rows)
        return appender.append(rows.slice(0, 0), rows, unconditional=certain)
    rows = _combined(spec, task, rows)
    leaving = np.zeros(rows.num_rows, dtype=bool)
    if LEAVING in rows.column_names:
        leaving = mask_of(rows[LEAVING])
    gone = leaving | spec.rule.deletes(rows) if spec.rule.marks_deletes(rows) else leaving
    if task.append.slice is None and gone.all():  # a delete of a missing key creates no file group
        return Appended()
    if not gone.any():
        return appender.append(rows, rows.slice(0, 0), unconditional=leaving[:0])
    certain = leaving[gone] if not spec.rule.compares else np.zeros(np.count_nonzero(gone), dtype=bool)
    return appender.append(rows.filter(pa.array(~gone)), rows.filter(pa.array(gone)), unconditional=certain)


def stored_bytes(storage: Storage, spec: WriteSpec, rows: pa.Table) -> int:
    """Return the size of a base file of new records, without bloom filter; writes nothing. `rows`: see `write_file`."""
    files = spec.files.without_bloom
    name = files.name("sample", write_token(0, 0, 0), spec.instant)
    table = SliceWriter(storage, spec, FileTask(0, "", name.file_id), name).rows_of(rows)
    return int(files.writer(storage, spec.schema.stored_avro).encode(table).size)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a base file's records.

    Attributes:
        rows: all of them.
        inserts: those that are new.
        updates: those with a newer version than before.
        deletes: those of the version before that are gone.
    """

    rows: int
    inserts: int
    updates: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class _Change:
    """Difference between a file and the version before; see `WrittenBase`."""

    rows: pa.Table
    merged: Overlay
    old: Columns


@dataclass(frozen=True, slots=True)
class SliceWriter:
    """Writes the file of one task.

    Args:
        storage: the table's files.
        spec: the write.
        task: which file.
        name: its name.
    """

    storage: Storage
    spec: WriteSpec
    task: FileTask
    name: BaseFileName

    def create(self, rows: pa.Table) -> FileResult:
        """Write the first base file of a file group."""
        self._announce()
        merged = Overlay.appending(0, rows.num_rows)
        change = _Change(rows, merged, rows.slice(0, 0).select)
        return self._write(self.rows_of(rows), Counts(rows.num_rows, rows.num_rows), None, change)

    def rows_of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a file of new records."""
        meta = self.meta_fields(rows[RECORD_KEY], 0)
        return pa.table(
            [*meta.columns, *(rows[name] for name in self.spec.schema.columns.names)],
            names=[*META_FIELDS, *self.spec.schema.columns.names],
        )

    def meta_fields(self, keys: pa.Array | pa.ChunkedArray, first: int) -> pa.Table:
        """Return the meta fields of new records, which are numbered from `first` on."""
        return pa.table([self._new_meta(name, first, len(keys), keys) for name in META_FIELDS], names=META_FIELDS)

    def store(self, content: pa.Buffer, records: int) -> FileResult:
        """Create the first base file of a file group from its content; a commit reads the entries of indexes from it.

        Args:
            content: the file.
            records: number of its records.
        """
        return FileResult(self.task.number, records, self._create(content, None, Counts(records, records), None))

    def _announce(self) -> None:
        """With early detection look for other writers before the work, and let them find this one."""
        if self.spec.early is not None:
            self.spec.early.check(self.storage, self.task.group)
            Markers(self.storage, self.spec.instant).create(self.task.partition, self.name.name, self.task.io_type)

    def rewrite(self, rows: pa.Table, base: BaseFile) -> FileResult:
        """Write the next version of a file group: base rows keep their order, inserts follow (HoodieWriteMergeHandle).

        If every record is a delete of a missing key, the file stays as it is, and the result has no statistics.
        """
        self._announce()
        reader = open_base_file(self.storage, base)
        plain = self.spec.meets_by_key and not self.spec.rule.mixes and self.spec.history is None
        if plain and self.spec.files.is_parquet and isinstance(reader, BaseFileReader | VirtualKeyReader):
            try:
                return self._copy_on_write(rows, base, reader)
            except NotMovableError:
                pass
        old = self._read(reader, base)
        if not self.spec.meets_by_key:
            merged = Overlay.appending(old.num_rows, rows.num_rows)
        elif self.spec.rule.mixes:
            given = set(rows.column_names)
            shared = old.select([name for name in old.column_names if name in given])
            mixed = apply_updates(shared, Versions.of(rows, self.spec.rule), RECORD_KEY, self.spec.rule)
            merged, rows = mixed, mixed.rows
        else:
            merged = overlay(
                old, rows, RECORD_KEY, self.spec.rule, unconditional_delete=self.spec.operation is Operation.DELETE
            )
        if not merged.matched and not len(merged.inserted):
            return FileResult(self.task.number, 0, None)
        return self.replace(old, rows, merged, base)

    def _copy_on_write(self, rows: pa.Table, base: BaseFile, reader: BaseFileReader | VirtualKeyReader) -> FileResult:
        """Like `rewrite`, but copies what stays the same as it is stored; raises NotMovableError if it can't."""
        made = FileRewriter(reader, self.spec, self._new_meta).rewritten(rows)
        if made is None:
            return FileResult(self.task.number, 0, None)
        merged = made.merged
        counts = Counts(made.num_rows, len(merged.inserted), len(merged.replaced), merged.deleted)
        return self._store(made.content, None, counts, base, _Change(rows, merged, made.old))

    def replace(self, old: pa.Table, rows: pa.Table, merged: Overlay, base: BaseFile) -> FileResult:
        """Write the next version of a file group from base rows and newer versions, as merged in `merged`."""
        table = self._merge(old, rows, merged)
        counts = Counts(table.num_rows, len(merged.inserted), len(merged.replaced), merged.deleted)
        return self._write(table, counts, base, _Change(rows, merged, old.select))

    def read(self, base: BaseFile) -> pa.Table:
        """Return the base file's rows in the table's types, without columns that are constant in the new file."""
        return self._read(open_base_file(self.storage, base), base)

    def _read(self, reader: AnyBaseFile, base: BaseFile) -> pa.Table:
        if isinstance(reader, BaseFileReader):
            if COMMIT_TIME not in reader.schema.names:
                raise reader.corrupt(f"no column {COMMIT_TIME}")
            reader = reader.with_dictionaries([COMMIT_TIME])
        physical = reader.schema
        if RECORD_KEY not in physical.names:
            raise reader.corrupt(f"no column {RECORD_KEY}")
        full = self.spec.schema.stored
        wanted = pa.schema([f for f in full if f.name not in {PARTITION_PATH, FILE_NAME}])
        if pa.types.is_dictionary(physical.field(COMMIT_TIME).type):  # few distinct values: cheap to carry along
            wanted = wanted.set(0, pa.field(COMMIT_TIME, physical.field(COMMIT_TIME).type))
        return read_base_rows(reader, base, wanted, self.spec.history)

    def _merge(self, old: pa.Table, rows: pa.Table, merged: Overlay) -> pa.Table:
        """Return old and new versions in the order of the new file; new ones get meta fields, all the file's name."""
        replaced = merged.taken >= 0
        fresh = take(rows, merged.fresh)
        # row numbers in the concatenation of old rows and new versions
        source = merged.base_rows.copy()
        source[replaced] = old.num_rows + np.arange(np.count_nonzero(replaced))
        source = np.concatenate(
            [source, old.num_rows + np.arange(fresh.num_rows - len(merged.inserted), fresh.num_rows)]
        )
        unchanged = len(source) == old.num_rows and not fresh.num_rows
        columns = []
        for name in (*META_FIELDS, *self.spec.schema.columns.names):
            if name in {PARTITION_PATH, FILE_NAME}:
                columns.append(self._new_meta(name, 0, len(source), None))
                continue
            column = old[name]
            if fresh.num_rows:
                known = fresh[RECORD_KEY] if name == RECORD_KEY else None
                new = self._new_meta(name, 0, fresh.num_rows, known) if name in META_FIELDS else fresh[name]
                column = both(column, new)
            columns.append(column if unchanged else take_column(column, source))
        return pa.table(columns, names=[*META_FIELDS, *self.spec.schema.columns.names])

    def _new_meta(
        self, name: str, first: int, length: int, keys: pa.Array | pa.ChunkedArray | None
    ) -> pa.Array | pa.ChunkedArray:
        """Return a meta field's values for new records, which are numbered from `first` on."""
        if name == RECORD_KEY:
            return keys
        if name == COMMIT_SEQNO:
            return sequence_numbers(self.spec.instant, self.task.number, first, length)
        values = {COMMIT_TIME: self.spec.instant, PARTITION_PATH: self.task.partition, FILE_NAME: self.name.name}
        return constant_text(values[name], length)

    def _write(self, table: pa.Table, counts: Counts, prev: BaseFile | None, change: _Change) -> FileResult:
        writer = self.spec.files.writer(self.storage, self.spec.schema.stored_avro)
        return self._store(writer.encode(table), table, counts, prev, change)

    def _store(
        self, content: pa.Buffer, table: pa.Table | None, counts: Counts, prev: BaseFile | None, change: _Change
    ) -> FileResult:
        """Create the file, and stage the entries of indexes; `table` is its rows, where they're at hand."""
        stat = self._create(content, table, counts, prev)
        columns = partial(columns_of_base, content, table, self.spec.schema.columns)
        file = BaseFile(self.task.partition, self.name, int(content.size))
        written = WrittenBase(file, change.rows, change.merged, change.old, columns)
        staged = tuple(each.of_base(self.storage, written) for each in self.spec.staging)
        if prev is not None and self.spec.changes is not None:  # every record of a first base file is an insert
            stat = replace(stat, cdc_stats=self._log_changes(written, self.spec.changes))
        return FileResult(self.task.number, 0, stat, staged=staged)

    def _log_changes(self, written: WrittenBase, logging: ChangeLogging) -> dict[str, int]:
        """Write the CDC file of a base file."""
        changes = [changes_of(written, logging, self.spec.schema.columns.names)]
        return write_changes(self.storage, logging, self.task.partition, self.name, changes)

    def _create(self, content: pa.Buffer, table: pa.Table | None, counts: Counts, prev: BaseFile | None) -> WriteStat:
        partition = self.task.partition
        values_of(self.storage, partition)  # readers must find them
        path = file_path(partition, self.name.name)
        Markers(self.storage, self.spec.instant).create(partition, self.name.name, self.task.io_type)
        self.storage.create(path, content)
        size = int(content.size)
        return WriteStat(
            file_id=self.task.file_id,
            path=path,
            prev_commit=prev.instant if prev else NO_COMMIT,
            prev_base_file=prev.name.name if prev else None,
            num_writes=counts.rows,
            num_deletes=counts.deletes,
            num_update_writes=counts.updates,
            num_inserts=counts.inserts,
            total_write_bytes=size,
            total_write_errors=0,
            partition_path=partition,
            file_size_in_bytes=size,
            column_stats=stats_of_base(content, table, self.spec.stats),
        )


def _combined(spec: WriteSpec, task: FileTask, rows: pa.Table) -> pa.Table:
    """Return one version of each key, if the write combines versions or a file must have unique keys."""
    if spec.operation is Operation.DELETE:
        return rows
    if spec.deduplicate:
        return latest_per_key(rows, RECORD_KEY, spec.rule.in_batches)
    if task.base is not None and spec.meets_by_key:  # the last one wins, as in HoodieWriteMergeHandle's key map
        rule = spec.rule if spec.rule.mixes else MergeRule(MergeMode.COMMIT_TIME)
        return latest_per_key(rows, RECORD_KEY, rule)
    return rows


def _leaving_deleted(rows: pa.Table) -> pa.Table:
    """Return the records with leaving ones marked as deletes: they are no older than the versions they delete."""
    if LEAVING not in rows.column_names:
        return rows
    return with_flag(rows, mask_of(rows[LEAVING]) | delete_mask(rows, None))


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the file of one task.

    Attributes:
        number: number of the job.
        spec: the write.
        task: which file.
        rows: the task's records, as `write_file` takes them.
    """

    number: int
    spec: WriteSpec
    task: FileTask
    rows: pa.Table

    @property
    def weight(self) -> int:
        """Bytes of the old file and of the records."""
        return (self.task.base.size if self.task.base else 0) + int(self.rows.nbytes)

    def run(self, storage: Storage, attempt: int) -> FileResult:
        """Write it; see `pudi.task.FileJob`."""
        return write_file(storage, self.spec, self.task, self.rows, write_token(self.task.number, 0, attempt))
