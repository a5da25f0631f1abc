"""Append to a file group: write records into new log files of data and delete blocks (HoodieAppendHandle).

Deletes by key take their ordering values from the stored records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import BaseFile, FileSlice, LogFile, Markers, encode_parquet, open_base_file
from pudi.filegroup.formats import values_of
from pudi.format import LogFileName, WriteStat, file_path, instant_token
from pudi.format.delete_encode import encode_deletes
from pudi.format.hfile_rows import encode_rows, without_dictionaries
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.format.log_data import encode_avro, encode_positions
from pudi.merge import Versions, apply_updates, latest_per_key
from pudi.merge.versions import in_one
from pudi.plan import Append, FileTask, LogOptions, Merging, WriteSpec
from pudi.plan.entry_staging import StagedEntries, WrittenLog, WrittenLogs
from pudi.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    conform_read,
)
from pudi.schema.arrays import constant_text, decoded_column, one_array, portions, take, text_array
from pudi.task.file_stats import stats_of_log
from pudi.task.merged import MergedSlices
from pudi.task.table_rows import read_base_rows

_DIGITS = {width: np.array([f"{n:0{width}}" for n in range(10**width)], dtype=f"S{width}") for width in (1, 2, 3)}
"""The numbers of one to three digits as texts with leading zeros, by number of digits."""
_MOST_BYTES = 1 << 30


def sequence_numbers(instant: str, task: int, first: int, count: int) -> pa.ChunkedArray:
    """Return the sequence numbers of a task's records (HoodieRecord.generateSequenceId).

    Args:
        instant: requested time of the write.
        task: number of the task.
        first: number of the first record.
        count: number of records.

    Returns:
        `{instant}_{task}_{number}` for each record; the numbers ascend by one.
    """
    prefix, at, end, chunks = f"{instant}_{task}_".encode(), first, first + count, []
    while at < end:
        digits = len(str(at))
        stop = min(end, 10**digits, at + _MOST_BYTES // (len(prefix) + digits))
        chunks.append(_of_one_width(prefix, at, stop, digits))
        at = stop
    return pa.chunked_array(chunks, pa.string())


def _of_one_width(prefix: bytes, start: int, stop: int, digits: int) -> pa.Array:
    """Return the texts of numbers with equal digit counts, in one array of fixed-size records."""
    widths = [*([digits % 3] if digits % 3 else []), *[3] * (digits // 3)]
    parts = [("prefix", f"S{len(prefix)}"), *((str(place), f"S{width}") for place, width in enumerate(widths))]
    texts = np.empty(stop - start, dtype=np.dtype(parts))
    texts["prefix"] = prefix
    rest = np.arange(start, stop, dtype=np.int32 if stop < 1 << 31 else np.int64)
    for place in reversed(range(len(widths))):
        above = rest // 1000 if place else np.zeros_like(rest)
        texts[str(place)] = _DIGITS[widths[place]].take(rest - above * 1000)
        rest = above
    offsets = np.arange(len(texts) + 1, dtype=np.int32) * np.int32(texts.itemsize)
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])


BASE_ROW = "_pudi_base_row"
"""Column of records to write: their row numbers in the base file of their slice; -1 if unknown."""
_PATHS = "_pudi_partition"
"""Column of deletes: the partition path, which delete blocks hold."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block to write: its bytes and its records."""

    content: bytes
    rows: pa.Table | None = None
    deleted: int = 0

    @property
    def written(self) -> int:
        """Return the number of records in the block."""
        return 0 if self.rows is None else int(self.rows.num_rows)


@dataclass(frozen=True, slots=True)
class Appended:
    """Blocks that were appended to a file group.

    Attributes:
        stats: the write statistics, one for each log file.
        staged: the entries of indexes that change by it.
    """

    stats: tuple[WriteStat, ...] = ()
    staged: tuple[StagedEntries, ...] = ()


@dataclass(frozen=True, slots=True)
class LogAppender:
    """Writes the log files of one task.

    It never appends to an existing log file. Every task creates files of its own, so a file that a dead writer left
    incomplete does no harm to later writes.

    Args:
        storage: the table's files.
        spec: the write.
        task: the file group.
        token: write token, unique per attempt.
        partial: whether records have only some of the table's columns, namely those of the spec.
    """

    storage: Storage
    spec: WriteSpec
    task: FileTask
    token: str
    partial: bool = False

    def append(self, rows: pa.Table, deletes: pa.Table, *, unconditional: np.ndarray) -> Appended:
        """Write new versions of records and deletes.

        Args:
            rows: record key and the table's columns; also `BASE_ROW` if an index found their rows.
            deletes: record key, the ordering columns if deletes have ordering values, and `BASE_ROW` as for `rows`.
            unconditional: bool per delete: whether it has no ordering value, even if the columns hold one.
        """
        if self.spec.early is not None:
            self.spec.early.check(self.storage, self.task.group)
        values_of(self.storage, self.task.partition)  # readers must find them
        rows = _placed(rows)
        deletes = _placed(deletes)
        if BASE_ROW in deletes.column_names:
            order = _in_base_order(deletes)
            deletes, unconditional = take(deletes, order), unconditional[np.asarray(order)]
        blocks = [*self._data_blocks(rows), *self._delete_blocks(deletes, unconditional)]
        files = list(self._files(blocks))
        staged: list[StagedEntries] = []
        if files and self.spec.staging:
            logs = tuple(log for _, log in files)
            keys, deleted = (text_array(side[RECORD_KEY]) for side in (rows, deletes))
            written = WrittenLogs(self.task.partition, self.task.file_id, self._over.slice, logs, keys, deleted)
            staged = [entries for each in self.spec.staging for entries in each.of_logs(self.storage, written)]
        return Appended(tuple(stat for stat, _ in files), tuple(staged))

    @property
    def _options(self) -> LogOptions:
        assert self.spec.logs is not None
        return self.spec.logs

    @property
    def _over(self) -> Append:
        assert self.task.append is not None
        return self.task.append

    def _headers(self, rows: pa.Table) -> dict[Header, str]:
        headers = {Header.INSTANT_TIME: self.spec.instant, Header.SCHEMA: self.spec.schema.stored_avro}
        base = None if self._over.slice is None else self._over.slice.base
        if base is None or BASE_ROW not in rows.column_names:
            return headers
        return headers | {
            Header.RECORD_POSITIONS: encode_positions(np.asarray(rows[BASE_ROW])),
            Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base.instant,
        }

    def _data_blocks(self, rows: pa.Table) -> Iterator[_Block]:
        if not rows.num_rows:
            return
        rows = take(rows, _in_base_order(rows)) if BASE_ROW in rows.column_names else rows
        most = max(1, int(self._options.max_block_bytes * rows.num_rows / max(1, rows.nbytes)))
        start = 0
        for part in portions(rows, most):
            whole = self._with_meta(part, start)
            start += part.num_rows
            if self._options.hfile:
                content, kind = encode_rows(whole, self.spec.schema.stored_avro, part[RECORD_KEY]), BlockKind.HFILE
            elif self._options.avro:
                content, kind = encode_avro(without_dictionaries(whole), self.spec.schema.stored_avro), BlockKind.AVRO
            else:
                content, kind = encode_parquet(whole, self.spec.files.parquet).to_pybytes(), BlockKind.PARQUET
            headers = self._headers(part) | ({Header.IS_PARTIAL: "true"} if self.partial else {})
            yield _Block(encode_block(kind, headers, content), whole)

    def _delete_blocks(self, deletes: pa.Table, unconditional: np.ndarray) -> Iterator[_Block]:
        if not deletes.num_rows:
            return
        rule = self.spec.rule if self.spec.deleted is None else self.spec.deleted.rule
        partitions = constant_text(self.task.partition, deletes.num_rows)
        start = 0
        for part in portions(deletes.append_column(_PATHS, partitions)):
            ordering = [one_array(values) for values in rule.ordering_values(part)]
            certain = unconditional[start : start + part.num_rows]
            content = encode_deletes(
                one_array(part[RECORD_KEY]),
                one_array(decoded_column(part[_PATHS])),
                ordering,
                certain if certain.any() else None,
            )
            yield _Block(encode_block(BlockKind.DELETE, self._headers(part), content), deleted=part.num_rows)
            start += part.num_rows

    def _with_meta(self, rows: pa.Table, first: int) -> pa.Table:
        """Return records with their meta fields; in a log file `_hoodie_file_name` holds the file id.

        Of a table without meta fields log files have them all the same, all null (HoodieAppendHandle).
        """
        count = rows.num_rows
        if not self.spec.files.populated:
            return without_meta_values(rows.select(self.spec.schema.columns.names))
        metas = {
            COMMIT_TIME: constant_text(self.spec.instant, count),
            COMMIT_SEQNO: sequence_numbers(self.spec.instant, self.task.number, first, count),
            RECORD_KEY: rows[RECORD_KEY],
            PARTITION_PATH: constant_text(self.task.partition, count),
            FILE_NAME: constant_text(self.task.file_id, count),
        }
        names = self.spec.schema.columns.names
        return pa.table(
            [*(metas[name] for name in META_FIELDS), *(rows[n] for n in names)], names=[*META_FIELDS, *names]
        )

    def _files(self, blocks: list[_Block]) -> Iterator[tuple[WriteStat, WrittenLog]]:
        """Distribute blocks over files: each file is filled before the next begins (rollOverIfNeeded)."""
        version = self._over.version(self._options.layout)
        buffered: list[_Block] = []
        for block in blocks:
            if buffered and sum(len(each.content) for each in buffered) > self._options.max_file_bytes:
                yield self._write(version, buffered)
                buffered, version = [], version + 1
            buffered.append(block)
        if buffered:
            yield self._write(version, buffered)

    def _write(self, version: int, blocks: list[_Block]) -> tuple[WriteStat, WrittenLog]:
        options, over, task = self._options, self._over, self.task
        base_instant = over.instant(self.spec.instant, options.layout)
        parsed = LogFileName(task.file_id, base_instant, version, self._file_token())
        name = parsed.name
        path = file_path(task.partition, name)
        Markers(self.storage, self.spec.instant).create(task.partition, name, options.io_type)
        content = b"".join([block.content for block in blocks])
        self.storage.create(path, content)
        written, deleted = sum(b.written for b in blocks), sum(b.deleted for b in blocks)
        rows = [b.rows for b in blocks if b.rows is not None]
        file = LogFile(task.partition, parsed, len(content), len(content))
        schema = self.spec.schema.stored
        log = WrittenLog(file, frozenset(schema.names), partial(_columns, rows, schema))
        new, prev_commit, by_slice = over.slice is None, base_instant, rules_of(options.layout).logs_name_their_slice
        if over.slice is not None and self.spec.changes is not None and not by_slice:
            # readers of changes compare log records with the slice before, which the statistics name for them
            prev_commit, by_slice = over.slice.instant, True
        stat = WriteStat(
            file_id=task.file_id,
            path=path,
            prev_commit=prev_commit,
            base_file=over.base_file if by_slice else "",
            log_files=(*over.logs, name) if by_slice else (name,),
            log_version=version,
            log_offset=0,
            num_writes=written,
            num_deletes=deleted,
            num_update_writes=0 if new else written,
            num_inserts=written if new else 0,
            total_write_bytes=len(content),
            total_write_errors=0,
            partition_path=task.partition,
            file_size_in_bytes=len(content),
            column_stats=stats_of_log(rows, schema, self.spec.stats),
        )
        return stat, log

    def _file_token(self) -> str:
        """Return the write token of the file name; in layout 1 an `instant_token`."""
        if rules_of(self._options.layout).logs_name_their_commit:
            return self.token
        task, _, attempt = self.token.split("-")
        return instant_token(self.spec.instant, int(task), int(attempt))


def without_meta_values(rows: pa.Table) -> pa.Table:
    """Return columns of a table with meta fields in front that are null."""
    nothing = pa.nulls(rows.num_rows, pa.string())
    return pa.table([*([nothing] * len(META_FIELDS)), *rows.columns], names=[*META_FIELDS, *rows.column_names])


def _columns(blocks: Sequence[pa.Table], schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Return columns of the records of data blocks, in the table's types."""
    target = pa.schema([schema.field(name).with_nullable(True) for name in names])
    parts = [target.empty_table(), *(conform_read(block.select(list(names)), target) for block in blocks)]
    return pa.concat_tables(parts)


def _placed(rows: pa.Table) -> pa.Table:
    """Return records without `BASE_ROW` unless each has a distinct row (addRecordPositionsToHeader)."""
    if BASE_ROW not in rows.column_names:
        return rows
    places = np.asarray(rows[BASE_ROW])
    known = len(places) > 0 and bool(places.min() >= 0) and len(np.unique(places)) == len(places)
    return rows if known else rows.drop_columns([BASE_ROW])


def _in_base_order(rows: pa.Table) -> pa.Array:
    return pa.array(np.argsort(np.asarray(rows[BASE_ROW])))


_LOGGED = "_pudi_logged"
"""Column of stored records: whether they are only in log files."""


def with_stored_order(
    storage: Storage, spec: WriteSpec, file_slice: FileSlice, rows: pa.Table
) -> tuple[pa.Table, np.ndarray]:
    """Return deletes by key, each with the ordering value of the record that it deletes.

    Readers merge the versions in log files among themselves before they apply them to the base file. A delete without
    an ordering value loses to any later version, and a later version with a low ordering value loses to the base file's
    record: the deleted record would come back. A delete with the record's own value wins over both.

    Args:
        storage: the table's files.
        spec: the write; `deleted` determines how slices are read.
        file_slice: the slice of the records.
        rows: record keys, without duplicates; with `BASE_ROW` if their base rows are known.

    Returns:
        The rows whose key the slice holds, in their order, with the ordering columns; and a mask of those that only log
        files hold, so that they need no ordering value. A key that plain inserts stored several times has the greatest
        value.

    Raises:
        CorruptError: a file of the slice can't be read.
    """
    merging = spec.deleted
    assert merging is not None
    fields = list(merging.rule.ordering_schema(spec.schema.columns))
    keys = one_array(rows[RECORD_KEY])
    base = _in_base(storage, spec, file_slice, fields, rows)
    stored = base.append_column(_LOGGED, pa.repeat(pa.scalar(False), base.num_rows))
    newer = _in_logs(storage, spec, merging, file_slice, keys)
    if newer is not None:
        merged = apply_updates(base, newer, RECORD_KEY, merging.rule)
        logged = pa.array(np.arange(len(merged.fresh)) >= len(merged.replacing))
        brought = take(merged.rows, merged.fresh).select(base.column_names).append_column(_LOGGED, logged)
        stored = pa.concat_tables([take(stored, merged.staying), brought], promote_options="permissive")
    stored = latest_per_key(stored, RECORD_KEY, replace(merging.rule, partial_update=None, delete_marker=None))
    partner = pc.index_in(keys, value_set=one_array(stored[RECORD_KEY]))
    is_stored = pc.is_valid(partner)
    known = take(stored, partner.filter(is_stored))
    return _with_columns(rows.filter(is_stored), known.select([f.name for f in fields])), np.asarray(known[_LOGGED])


def not_in_base(storage: Storage, spec: WriteSpec, file_slice: FileSlice, keys: pa.ChunkedArray) -> np.ndarray:
    """Return which records of a slice are only in its log files; errors as of `with_stored_order`."""
    merging = spec.deleted
    if merging is None or file_slice.base is None:
        return np.ones(len(keys), dtype=bool)
    if not file_slice.logs:
        return np.zeros(len(keys), dtype=bool)
    stored = _in_base(storage, spec, file_slice, [], pa.table({RECORD_KEY: keys}))
    return np.asarray(pc.invert(pc.is_in(keys, value_set=one_array(stored[RECORD_KEY]))))


def _by_row(storage: Storage, spec: WriteSpec, base: BaseFile, fields: list[pa.Field], places: np.ndarray) -> pa.Table:
    """Return the ordering columns of some rows of a base file; reads only the row groups of these rows."""
    file = open_base_file(storage, base)
    ends = np.cumsum([file.group_rows(number) for number in range(file.num_groups)])
    group_of = np.searchsorted(ends, places, side="right")
    groups, read_as = np.unique(group_of, return_inverse=True)
    rows = read_base_rows(file, base, pa.schema(fields), spec.history, groups.tolist())
    sizes = np.array([file.group_rows(number) for number in groups])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # offset of each row group in the rows that were read
    return take(rows, places - (ends[groups] - sizes)[read_as] + begins[read_as])


def _in_base(
    storage: Storage, spec: WriteSpec, file_slice: FileSlice, fields: list[pa.Field], rows: pa.Table
) -> pa.Table:
    """Return key and ordering columns of the base records with one of some keys."""
    wanted = [RECORD_KEY, *(f.name for f in fields)]
    if file_slice.base is None:
        return pa.schema([pa.field(RECORD_KEY, pa.string()), *fields]).empty_table()
    if BASE_ROW in rows.column_names:
        places = np.asarray(rows[BASE_ROW])
        if len(places) and places.min() >= 0:
            values = _by_row(storage, spec, file_slice.base, fields, places)
            return pa.table([rows[RECORD_KEY], *values.columns], names=wanted)
    assert spec.deleted is not None
    slices = MergedSlices(storage, spec.deleted, spec.schema.stored, spec.history)
    keys = one_array(rows[RECORD_KEY])
    parts = [part.rows for part in slices.parts(replace(file_slice, logs=()), wanted)]
    return pa.concat_tables([part.filter(pc.is_in(part[RECORD_KEY], value_set=keys)) for part in parts])


def _in_logs(
    storage: Storage, spec: WriteSpec, merging: Merging, file_slice: FileSlice, keys: pa.Array
) -> Versions | None:
    """Return the merged versions of some keys in a slice's log files; None if there are none."""
    schema = spec.schema.stored
    slices = MergedSlices(storage, merging, schema, spec.history)
    target = pa.schema([f for f in schema if f.name in merging.columns(spec.schema.columns)])
    found = []
    for versions, _ in slices.folded(file_slice, target) if file_slice.logs else ():
        found.append(versions.take(np.flatnonzero(pc.is_in(versions.rows[RECORD_KEY], value_set=keys))))
    return in_one(found) if found else None


def _with_columns(rows: pa.Table, values: pa.Table) -> pa.Table:
    for name in values.column_names:
        if name in rows.column_names:
            rows = rows.drop_columns([name])
        rows = rows.append_column(values.schema.field(name), values[name])
    return rows
