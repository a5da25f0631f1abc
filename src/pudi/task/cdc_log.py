"""Write CDC files: what a task changed in a base file, beside the new base file (HoodieCDCLogger).

Changes in log files are found key by key: the rows before and after, by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogFile, Markers
from pudi.format import BaseFileName, FileGroupId, IOType, LogFileName, file_path
from pudi.format.cdc import AFTER, BEFORE, CDC_RECORD_KEY, DELETE, INSERT, OP, TS_MS, UPDATE, LoggingMode
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.format.log_data import encode_avro
from pudi.merge import MergeRule, apply_updates
from pudi.plan.cdc import ChangeLogging
from pudi.plan.entry_staging import WrittenBase
from pudi.schema import RECORD_KEY, avro_to_arrow
from pudi.schema.arrays import (
    decoded_column,
    in_step,
    joined_arrays,
    one_array,
    portions,
    take,
    take_column,
    text_array,
)
from pudi.task.merged import MergedSlices


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """Rows that meet newer versions, and what happens to them.

    Attributes:
        old: rows before.
        new: newer versions.
        removed: numbers of old rows that are deleted.
        updated: numbers of old rows that are replaced.
        taken: for each of these the number of the new row.
        inserted: numbers of new rows without an old one.
    """

    old: pa.Table
    new: pa.Table
    removed: np.ndarray
    updated: np.ndarray
    taken: np.ndarray
    inserted: np.ndarray

    @classmethod
    def nothing(cls) -> KeyChanges:
        """Return no changes."""
        rows, none = pa.table({RECORD_KEY: pa.array([], pa.string())}), np.zeros(0, dtype=np.int64)
        return cls(rows, rows, none, none, none, none)

    @property
    def before(self) -> np.ndarray:
        """Return the old row of each change, -1 for none: inserts, updates, deletes."""
        return _numbers(np.full(len(self.inserted), -1), self.updated, self.removed)

    @property
    def after(self) -> np.ndarray:
        """Return the new row of each change, -1 for none."""
        return _numbers(self.inserted, self.taken, np.full(len(self.removed), -1))


def changes_by_logs(
    newer: MergedSlices,
    logs: Sequence[LogFile],
    rows_before: Callable[[], Iterator[pa.Table]],
    rule: MergeRule,
    group: FileGroupId,
) -> Iterator[KeyChanges]:
    """Yield what log files change, as merging them does, in parts with different keys.

    Args:
        newer: reads the log files.
        logs: the log files.
        rows_before: opens the rows before, with their record keys, at least one table.
        rule: how versions are merged.
        group: partition path and file id.
    """
    target = pa.schema([field.with_nullable(True) for field in newer.schema])
    for versions, _ in newer.folded(FileSlice(*group, None, tuple(logs)), target):
        keys = one_array(versions.rows[RECORD_KEY])
        old = pa.concat_tables([rows.filter(pc.is_in(rows[RECORD_KEY], value_set=keys)) for rows in rows_before()])
        merged = apply_updates(old, versions, RECORD_KEY, rule)
        gone = merged.gone(old.num_rows)
        yield KeyChanges(old, merged.rows, gone, merged.replaced, merged.replacing, merged.inserted)


def _numbers(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Changes of records: numbers of rows before and after, -1 for none.

    Attributes:
        old: rows before; data columns as far as the logging mode needs them.
        new: rows after, likewise.
        before: for each change the row before.
        after: for each change the row after.
        keys: for each change the record key.
    """

    old: pa.Table
    new: pa.Table
    before: np.ndarray
    after: np.ndarray
    keys: pa.Array

    @property
    def operations(self) -> pa.Array:
        """Return the operation of each change."""
        names = np.where(self.before < 0, INSERT, np.where(self.after < 0, DELETE, UPDATE))
        return pa.array(names, pa.string())


def changes_of(written: WrittenBase, logging: ChangeLogging, names: list[str]) -> ChangedRows:
    """Return how a base file differs from the version before.

    Args:
        written: the file.
        logging: what is logged.
        names: the table's columns.
    """
    merged, rows = written.merged, written.rows
    old_keys = one_array(written.old([RECORD_KEY])[RECORD_KEY])
    gone = merged.gone(len(old_keys))
    touched = np.concatenate([merged.replaced, gone])
    before = np.concatenate([np.arange(len(touched)), np.full(len(merged.inserted), -1)])
    after = np.concatenate([merged.replacing, np.full(len(gone), -1), merged.inserted]).astype(np.int64)
    keys = [old_keys.take(pa.array(touched)).cast(pa.string())]
    if len(merged.inserted):
        keys.append(one_array(take_column(rows[RECORD_KEY], merged.inserted)).cast(pa.string()))
    nothing = pa.table({})
    with_old = logging.mode is not LoggingMode.OP_KEY_ONLY and len(touched)
    with_new = logging.mode is LoggingMode.DATA_BEFORE_AFTER and bool(np.any(after >= 0))
    return ChangedRows(
        old=take(written.old(names), touched) if with_old else nothing,
        new=rows.select(names) if with_new else nothing,
        before=before,
        after=after,
        keys=joined_arrays(keys),
    )


def rows_of_changes(found: KeyChanges, names: list[str]) -> ChangedRows:
    """Return the changes that log files make.

    Args:
        found: the changes.
        names: the table's columns.
    """
    before, after = found.before, found.after
    old_keys, new_keys = (text_array(rows[RECORD_KEY]) for rows in (found.old, found.new))
    of_old = old_keys.take(pa.array(before, mask=before < 0))
    keys = pc.coalesce(of_old, new_keys.take(pa.array(after, mask=after < 0)))
    there = [name for name in names if name in found.old.column_names]
    return ChangedRows(found.old.select(there), found.new.select(there), before, after, keys)


def write_changes(
    storage: Storage, logging: ChangeLogging, partition: str, base: BaseFileName, changes: Iterable[ChangedRows]
) -> dict[str, int]:
    """Write the CDC file of one base file; one without changes too, as Hudi does.

    Args:
        storage: the table's files.
        logging: what is logged.
        partition: partition path.
        base: the base file, which the write has just made.
        changes: the changes.

    Returns:
        The file's size by its path, as write statistics name it (`cdcStats`).
    """
    instant = base.instant
    name = LogFileName(base.file_id, instant, 1, base.write_token, cdc=True).name
    path = file_path(partition, name)
    headers = {Header.INSTANT_TIME: instant, Header.SCHEMA: logging.avro_schema}
    records = [part for each in changes for part in _records(each, logging, instant)]
    filled = [part for part in records if part.num_rows] or records[:1]
    blocks = [encode_block(BlockKind.CDC, headers, encode_avro(part, logging.avro_schema)) for part in filled]
    Markers(storage, instant).create(partition, name, IOType.CREATE)
    content = b"".join(blocks)
    storage.create(path, content)
    return {path: len(content)}


def _records(changes: ChangedRows, logging: ChangeLogging, instant: str) -> Iterator[pa.Table]:
    """Yield the records of CDC blocks, some at a time."""
    schema = avro_to_arrow(logging.avro_schema)
    count = len(changes.keys)
    size = (changes.old.nbytes + changes.new.nbytes + changes.keys.nbytes) // max(1, count) + 1
    step = max(1, logging.max_block_bytes // size)
    operations = changes.operations
    for start in range(0, max(1, count), step):
        part = slice(start, start + step)
        columns = {
            OP: operations[part],
            TS_MS: pa.repeat(pa.scalar(instant, pa.string()), len(operations[part])),
            CDC_RECORD_KEY: changes.keys[part],
        }
        for image, rows, places in ((BEFORE, changes.old, changes.before), (AFTER, changes.new, changes.after)):
            if image in schema.names:
                columns[image] = _image(rows, places[part], schema.field(image).type)
        made = pa.table([columns[name] for name in schema.names], schema=schema)
        yield from portions(made) if made.num_rows else [made]


def _image(rows: pa.Table, places: np.ndarray, kind: pa.StructType) -> pa.Array | pa.ChunkedArray:
    """Return rows as records; a place below 0 is null."""
    none = places < 0
    if none.all():
        return pa.nulls(len(places), kind)
    fields = list(kind)
    chosen = take(rows.select([field.name for field in fields]), pa.array(places, mask=none))
    columns = [_typed(chosen[field.name], field.type) for field in fields]
    records = [
        pa.StructArray.from_arrays(values, fields=fields, mask=missing)
        for *values, missing in in_step(*columns, pa.array(none))
    ]
    return pa.chunked_array(records, kind)


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type.equals(kind) else decoded_column(column).cast(kind)
