"""Write one base file: a new file group's first, or the next version of one with newer records laid over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, BaseFileReader, BaseFileWriter, Markers
from pudi.format import BaseFileName, WriteStat
from pudi.merge import DELETED, latest_per_key, overlay
from pudi.plan.write import FileTask, Operation, WriteSpec
from pudi.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    conform_read,
    with_meta_fields,
)

NO_COMMIT = "null"
"""What `prevCommit` holds for a new file group (HoodieWriteStat.NULL_COMMIT)."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one task did.

    Attributes:
        task: the task's number.
        received: records that came in, before any were combined.
        stat: the write statistics of the file; None when there was nothing to write.
    """

    task: int
    received: int
    stat: WriteStat | None


def write_file(storage: Storage, spec: WriteSpec, task: FileTask, rows: pa.Table, token: str) -> FileResult:
    """Write the base file of one task.

    Args:
        storage: the table's files.
        spec: the write.
        task: which file.
        rows: the records routed to it in order of arrival: record key, partition path and the table's columns, typed
            as the table's schema says; for a delete the keys are enough.
        token: write token, another one for every attempt.

    Raises:
        CorruptError: the base file to replace can't be read.
    """
    received = rows.num_rows
    if spec.deduplicate and spec.operation is not Operation.DELETE:
        rows = latest_per_key(rows, RECORD_KEY, spec.rule)
    name = BaseFileName(task.file_id, token, spec.instant)
    writer = _SliceWriter(storage, spec, task, name)
    if task.base is None:
        return FileResult(task.number, received, writer.create(rows))
    return FileResult(task.number, received, writer.rewrite(rows, task.base))


@dataclass(frozen=True, slots=True)
class _SliceWriter:
    storage: Storage
    spec: WriteSpec
    task: FileTask
    name: BaseFileName

    def create(self, rows: pa.Table) -> WriteStat | None:
        """First base file of a file group; none when every record is a delete."""
        if DELETED in rows.column_names:
            rows = rows.filter(pc.invert(pc.fill_null(rows[DELETED], False)))
        if not rows.num_rows:
            return None
        columns = [self._new_meta(name, rows) for name in META_FIELDS]
        columns += [rows[name] for name in self.spec.schema.names]
        table = pa.table(columns, names=[*META_FIELDS, *self.spec.schema.names])
        return self._write(table, inserts=rows.num_rows, updates=0, deletes=0, prev=None)

    def rewrite(self, rows: pa.Table, base: BaseFile) -> WriteStat:
        """Next version of a file group: base rows keep their order, inserts follow (HoodieWriteMergeHandle)."""
        full = with_meta_fields(self.spec.schema)
        old = conform_read(BaseFileReader(self.storage, base).read(), full)
        if self.spec.operation is Operation.INSERT:
            kept, taken, inserted = np.arange(old.num_rows), np.full(old.num_rows, -1), np.arange(rows.num_rows)
            deleted = updated = 0
        else:
            laid = overlay(
                old, rows, RECORD_KEY, self.spec.rule, unconditional_delete=self.spec.operation is Operation.DELETE
            )
            kept, taken, inserted = laid.base_rows, laid.taken_from, laid.inserted
            deleted, updated = laid.deleted, laid.updated
        if not updated and not len(inserted):
            table = old if len(kept) == old.num_rows else old.take(pa.array(kept))
            new_rows = rows.slice(0, 0)
        else:
            table, new_rows = _patch(old, rows, kept, taken, inserted, self.spec.schema.names)
        table = self._stamp(table, new_rows, taken, len(inserted))
        return self._write(table, inserts=len(inserted), updates=updated, deletes=deleted, prev=base)

    def _stamp(self, table: pa.Table, new_rows: pa.Table, taken: np.ndarray, inserted: int) -> pa.Table:
        """Give new versions their meta fields; every row gets the new file's name."""
        if new_rows.num_rows:
            is_new = np.concatenate([taken >= 0, np.ones(inserted, dtype=bool)])
            mask = pa.array(is_new)
            for name in (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH):
                fresh = self._new_meta(name, new_rows)
                if isinstance(fresh, pa.DictionaryArray):
                    fresh = fresh.dictionary_decode()
                column = _whole(table[name])
                fresh = _whole(fresh).cast(column.type)
                position = table.schema.get_field_index(name)
                table = table.set_column(position, name, pc.replace_with_mask(column, mask, fresh))
        position = table.schema.get_field_index(FILE_NAME)
        return table.set_column(position, FILE_NAME, _constant(self.name.name, table.num_rows))

    def _new_meta(self, name: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """A meta field's values for newly written records."""
        if name == COMMIT_TIME:
            return _constant(self.spec.instant, rows.num_rows)
        if name == COMMIT_SEQNO:
            prefix = f"{self.spec.instant}_{self.task.number}_"
            numbers = pc.cast(pa.array(np.arange(rows.num_rows)), pa.string())
            return pc.binary_join_element_wise(prefix, numbers, "")
        if name == PARTITION_PATH:
            return _constant(self.task.partition, rows.num_rows)
        if name == FILE_NAME:
            return _constant(self.name.name, rows.num_rows)
        return rows[RECORD_KEY]

    def _write(self, table: pa.Table, *, inserts: int, updates: int, deletes: int, prev: BaseFile | None) -> WriteStat:
        partition = self.task.partition
        path = f"{partition}/{self.name.name}" if partition else self.name.name
        Markers(self.storage, self.spec.instant).create(partition, self.name.name, self.task.io_type)
        size = BaseFileWriter(self.storage, self.spec.avro_schema, self.spec.parquet).write(path, table)
        return WriteStat(
            file_id=self.task.file_id,
            path=path,
            prev_commit=prev.instant if prev else NO_COMMIT,
            prev_base_file=prev.name.name if prev else None,
            num_writes=table.num_rows,
            num_deletes=deletes,
            num_update_writes=updates,
            num_inserts=inserts,
            total_write_bytes=size,
            total_write_errors=0,
            partition_path=partition,
            file_size_in_bytes=size,
        )


def _patch(
    old: pa.Table, rows: pa.Table, kept: np.ndarray, taken: np.ndarray, inserted: np.ndarray, columns: list[str]
) -> tuple[pa.Table, pa.Table]:
    """The result's rows with the new versions' data in place, and the new versions in the order they stand there."""
    replaced = taken >= 0
    new_rows = rows.take(pa.array(np.concatenate([taken[replaced], inserted]).astype(np.int64)))
    if len(kept) != old.num_rows:
        old = old.take(pa.array(kept))
    updates, tail = new_rows.slice(0, int(replaced.sum())), new_rows.slice(int(replaced.sum()))
    mask = pa.array(replaced)
    arrays = []
    for field in old.schema:
        column = _whole(old[field.name])
        if field.name in columns:
            fresh, added = updates[field.name], tail[field.name]
        else:  # meta fields are stamped by the caller
            blank = pa.nulls(new_rows.num_rows, field.type)
            fresh, added = blank.slice(0, updates.num_rows), blank.slice(updates.num_rows)
        if updates.num_rows and field.name in columns:
            column = _replace(column, mask, replaced, _whole(fresh))
        arrays.append(pa.concat_arrays([column, _whole(added)]) if tail.num_rows else column)
    return pa.table(arrays, schema=old.schema), new_rows


def _replace(column: pa.Array, mask: pa.BooleanArray, replaced: np.ndarray, fresh: pa.Array) -> pa.Array:
    """`column` with the values of `fresh`, in order, where `mask` is true."""
    if pa.types.is_nested(column.type):  # replace_with_mask knows flat types only
        source = np.arange(len(column))
        source[replaced] = len(column) + np.arange(len(fresh))
        return pa.concat_arrays([column, fresh]).take(pa.array(source))
    return pc.replace_with_mask(column, mask, fresh)


def _constant(value: str, length: int) -> pa.DictionaryArray:
    """One text repeated, encoded so that it costs nothing to hold or write."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, dtype=np.int32)), pa.array([value]))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
