"""Change the rows of one file that match a predicate: update their columns or delete them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pudi.config import PartialUpdate
from pudi.context import Storage
from pudi.errors import SchemaError
from pudi.expr import columns, evaluate, evaluate_all
from pudi.filegroup import BaseFile, open_base_file
from pudi.merge import Overlay, Versions, mix
from pudi.plan import Change, FileTask, WriteSpec
from pudi.plan.read import ReadPlan, needed_columns
from pudi.schema import RECORD_KEY, TableSchema
from pudi.schema.arrays import mask_of, take
from pudi.task.append import LogAppender, not_in_base
from pudi.task.file_stats import with_event_times
from pudi.task.jobs import FileResult
from pudi.task.read import SliceReader
from pudi.task.table_rows import read_base_rows
from pudi.task.write import SliceWriter


def change_file(storage: Storage, spec: WriteSpec, task: FileTask, change: Change, token: str) -> FileResult:
    """Write the next base file, or a log file for the slice, if the change matches rows in it.

    In base files rows are changed by position: of several copies of a key, those that match change. With event-time
    ordering a new version with a lower ordering value loses, as in an upsert. Log files hold changes by key: all copies
    of the key change, with event-time ordering those with no greater ordering value.

    Args:
        storage: the table's files.
        spec: the write.
        task: the file.
        change: the predicate and the new values.
        token: write token, unique per attempt.

    Raises:
        CorruptError: the base file can't be read.
        InvalidArgumentError: an expression fails on a row.
    """
    if task.append is not None:
        return _append(storage, spec, task, change, token)
    assert task.base is not None
    places = _places(storage, change.read, task.base)
    if not len(places):
        return FileResult(task.number, 0, None)
    writer = SliceWriter(storage, spec, task, spec.files.name(task.file_id, token, spec.instant))
    old = writer.read(task.base)
    keep = np.ones(old.num_rows, dtype=bool)
    taken = np.full(old.num_rows, -1)
    rows = old.slice(0, 0)
    if change.assignments is None:
        keep[places] = False
    else:
        before = take(old, places)
        rows = _assigned(before, change, spec.schema.columns, storage.root)
        none = np.zeros(len(places), dtype=bool)
        stored = Versions(before.select(rows.column_names), none, none)
        mixed = mix(stored, Versions.of(rows, spec.rule), spec.rule, none)
        if mixed.is_older.all():
            return FileResult(task.number, 0, None)
        rows = mixed.versions.rows
        taken[places] = np.where(mixed.is_older, -1, np.arange(len(places)))
        keep[places[mixed.versions.deleted]] = False
    merged = Overlay(
        base_rows=np.flatnonzero(keep),
        taken=taken[keep],
        inserted=np.empty(0, dtype=np.int64),
        deleted=int(np.count_nonzero(~keep)),
    )
    result = writer.replace(old, rows, merged, task.base)
    stats = with_event_times(result.stats, rows, spec.event_time)
    return FileResult.of(task.number, result.received, stats, result.staged)


def _append(storage: Storage, spec: WriteSpec, task: FileTask, change: Change, token: str) -> FileResult:
    """Write changed records of a slice to log files."""
    assert task.append is not None
    assert task.append.slice is not None
    partial = _some_columns(spec, change)
    written = spec if partial is None else replace(spec, schema=partial)
    order = spec.deleted.rule.ordering_schema(spec.schema.columns).names if spec.deleted is not None else ()
    wanted = [RECORD_KEY, *(order if change.assignments is None else written.schema.columns.names)]
    if partial is not None:
        wanted += sorted({name for _, value in change.assignments or () for name in columns(value)} - {*wanted})
    plan = replace(change.read, columns=tuple(wanted))
    found = SliceReader(storage, plan).read(task.append.slice)
    before = pa.Table.from_batches(found, schema=plan.output_schema)
    appender, none = LogAppender(storage, written, task, token, partial is not None), before.slice(0, 0)
    if change.assignments is None:
        certain = not_in_base(storage, spec, task.append.slice, before[RECORD_KEY])
        appended = appender.append(none, before, unconditional=certain)
        return FileResult.of(task.number, 0, appended.stats, appended.staged)
    rows = _assigned(before, change, written.schema.columns, storage.root)
    rows = rows.filter(pa.array(spec.rule.newer_wins(before, rows)))
    gone = spec.rule.deletes(rows) if spec.rule.marks_deletes(rows) else np.zeros(rows.num_rows, dtype=bool)
    kept, dropped = rows.filter(pa.array(~gone)), rows.filter(pa.array(gone))
    appended = appender.append(kept, dropped, unconditional=np.zeros(dropped.num_rows, dtype=bool))
    return FileResult.of(task.number, 0, with_event_times(appended.stats, rows, spec.event_time), appended.staged)


def _some_columns(spec: WriteSpec, change: Change) -> TableSchema | None:
    """Return the columns that a partial update writes: changed columns and ordering columns. None for whole records.

    Whole records are written if the table mixes versions by a rule of its own, or has schema on read.
    """
    rule = spec.rule
    plain = not rule.mixes and rule.partial_update in {None, PartialUpdate.KEEP_VALUES} and spec.history is None
    if spec.logs is None or not spec.logs.partial or change.assignments is None or not plain:
        return None
    names = {*rule.ordering_columns, *(name for name, _ in change.assignments)}
    some = pa.schema([f for f in spec.schema.columns if f.name in names])
    return spec.schema.evolved(some, json.loads(spec.schema.avro)["name"])


def _places(storage: Storage, read: ReadPlan, base: BaseFile) -> np.ndarray:
    """Return the numbers of matching rows; skips row groups by their statistics."""
    file = open_base_file(storage, base)
    candidates = set(SliceReader(storage, read).candidate_groups(file, read.names(base.instant)))
    target = pa.schema([read.schema.field(name) for name in needed_columns(read)])
    found, start = [], 0
    for group in range(file.num_groups):
        count = file.group_rows(group)
        if group in candidates and read.where is None:
            found.append(np.arange(start, start + count))
        elif group in candidates:
            mask = evaluate(read.where, read_base_rows(file, base, target, read.history, [group]))  # type: ignore[arg-type]
            found.append(start + np.flatnonzero(mask_of(mask)))
        start += count
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _assigned(before: pa.Table, change: Change, schema: pa.Schema, root: str) -> pa.Table:
    """Return record key and columns with new values, all computed from old values."""
    values = dict(change.assignments or ())
    made = [before[RECORD_KEY]]
    for field in schema:
        column = evaluate_all(values[field.name], before) if field.name in values else before[field.name]
        if field.name in values and not field.nullable and column.null_count:
            raise SchemaError(f"column {field.name!r} must not be null, and its new value is", table=root)
        made.append(column if column.type == field.type else column.cast(field.type))
    return pa.table(made, names=[RECORD_KEY, *schema.names])
