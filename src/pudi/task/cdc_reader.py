"""Read what single commits changed in single file groups: operation, and the record before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.expr import evaluate
from pudi.filegroup import BaseFile, FileSlice, LogFile, read_blocks, virtual_keys
from pudi.format.cdc import AFTER, BEFORE, CDC_RECORD_KEY, DELETE, INSERT, OP, TS_MS, UPDATE, LoggingMode
from pudi.format.json_text import avro_text, avro_texts, plain_text
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import decode_share
from pudi.plan.cdc import ChangeCase, ChangePlan, ChangeSplit
from pudi.schema import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY, conform_read, without_meta_fields
from pudi.schema.arrays import joined_arrays, one_array, take
from pudi.task.cdc_log import KeyChanges, changes_by_logs
from pudi.task.merged import MergedSlices
from pudi.task.table_rows import names_in

_PART_RECORDS = 16_384
"""Changes that come together, so that who takes them works while the next ones are read."""


@dataclass(frozen=True, slots=True)
class Images:
    """The records before or after some changes.

    Attributes:
        rows: a row for each change; those of changes without a record are null.
        there: whether a change has one.
        logged: whether they come from a CDC file.
    """

    rows: pa.Table
    there: np.ndarray
    logged: bool = False

    @classmethod
    def of(cls, rows: pa.Table, places: np.ndarray) -> Images:
        """Return some of a table's rows; a place below 0 gives no row."""
        there = places >= 0
        return cls(take(rows, pa.array(places, mask=~there)), there)


@dataclass(frozen=True, slots=True)
class _Changes:
    """Some changes; images that aren't wanted are None."""

    operations: pa.Array
    before: Images | None
    after: Images | None


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the splits of a plan.

    A split takes memory for what changed, and for record keys of the files that are compared.

    Args:
        storage: the table's files.
        plan: the read.
    """

    storage: Storage
    plan: ChangePlan

    def read(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one commit in one file group.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: a file can't be read, or the files don't fit together.
        """
        for changes in self._changes(split):
            yield from self._wanted(changes, split).to_batches()

    def _changes(self, split: ChangeSplit) -> Iterator[_Changes]:
        if split.case is ChangeCase.AS_IS:
            for log in split.cdc:
                yield from self._logged(split, log)
        elif split.case is ChangeCase.LOG_FILE:
            yield from self._of_logs(split)
        elif split.case is ChangeCase.COMPARED:
            yield self._compared(split)
        elif split.case is ChangeCase.BASE_FILE_INSERT:
            assert split.after is not None
            yield from self._all(INSERT, self._rows(_slice_of(split.after), split))
        elif split.before is not None:
            yield from self._all(DELETE, self._rows(split.before, split))

    def _all(self, operation: str, parts: Iterator[pa.Table]) -> Iterator[_Changes]:
        for rows in parts:
            images = Images(rows, np.ones(rows.num_rows, dtype=bool))
            none = Images(rows.slice(0, 0), np.zeros(rows.num_rows, dtype=bool))
            before, after = (none, images) if operation == INSERT else (images, none)
            yield _Changes(_repeated(operation, rows.num_rows), before, after)

    def _logged(self, split: ChangeSplit, log: LogFile) -> Iterator[_Changes]:
        """Yield the changes of a CDC file (HoodieCDCLogRecordIterator)."""
        for block in read_blocks(self.storage, log):
            if block.kind is not BlockKind.CDC:
                raise block.corrupt(f"is of kind {block.kind.name}; a CDC file has none but CDC blocks")
            if block.instant != split.instant:
                raise block.corrupt(f"is of instant {block.instant}, in a CDC file of {split.instant}")
            for records in decode_share(block, split.share, _PART_RECORDS):
                yield self._of_block(split, block, records)

    def _of_block(self, split: ChangeSplit, block: LogBlock, stored: pa.Table) -> _Changes:
        lacking = [name for name in self.plan.mode.columns if name not in stored.column_names]
        if lacking:
            raise block.corrupt(f"has no field {lacking[0]!r}, which change data of mode {self.plan.mode.value} has")
        operations = one_array(stored[OP])
        known = pc.is_in(operations, value_set=pa.array([INSERT, UPDATE, DELETE]))
        if not pc.all(known).as_py() and len(operations):
            raise block.corrupt(f"has another operation than {INSERT}, {UPDATE} and {DELETE}")
        if self.plan.mode is LoggingMode.DATA_BEFORE_AFTER:
            before, after = (self._struct(one_array(stored[name]), block) for name in (BEFORE, AFTER))
            return _Changes(operations, before, after)
        logged, maker = stored[CDC_RECORD_KEY], self.plan.keys
        keys = one_array(logged if maker is None else maker.spelled(logged))
        written = None if split.after is None else _slice_of(split.after)
        after = self._found(split, keys, pc.not_equal(operations, DELETE), written, block)
        if self.plan.mode is LoggingMode.DATA_BEFORE:
            return _Changes(operations, self._struct(one_array(stored[BEFORE]), block), after)
        before = self._found(split, keys, pc.not_equal(operations, INSERT), split.before, block)
        return _Changes(operations, before, after)

    def _struct(self, records: pa.StructArray, block: LogBlock) -> Images:
        """Return images that a CDC block holds, in the table's types."""
        there = np.asarray(records.is_valid())
        rows = pa.Table.from_arrays(records.flatten(), names=[field.name for field in records.type])
        names = names_in(self.plan.history, block.instant)
        return Images(conform_read(rows, self._data, path=block.path, names=names), there, logged=True)

    def _found(
        self, split: ChangeSplit, keys: pa.Array, wanted: pa.Array, file_slice: FileSlice | None, block: LogBlock
    ) -> Images:
        """Return the records of some keys in a file slice."""
        asked = keys.filter(wanted)
        if file_slice is None or not len(asked):
            found = self._empty
            places = np.full(len(keys), -1, dtype=np.int64)
        else:
            parts = (rows.filter(pc.is_in(rows[RECORD_KEY], value_set=asked)) for rows in self._rows(file_slice, split))
            found = pa.concat_tables(parts)
            at = pc.index_in(keys, value_set=one_array(found[RECORD_KEY]))
            places = np.where(np.asarray(wanted), np.asarray(pc.fill_null(at, -1)), -1).astype(np.int64)
        if np.count_nonzero(places >= 0) < len(asked):
            where = "no file" if file_slice is None else file_slice.path
            raise block.corrupt(f"says that records changed which {where} doesn't have")
        return Images.of(found, places)

    def _of_logs(self, split: ChangeSplit) -> Iterator[_Changes]:
        """Yield what records in log files change in the slice before: as merging them over it does.

        Hudi's query compares each log file of a commit on its own, and counts every delete of a record that is there.
        """
        own = frozenset({split.instant})
        scope = replace(self.plan.merging.scope, completed=split.completed | own, among=own)
        newer = replace(self._merged(split), merging=replace(self.plan.merging, scope=scope))
        rule, group = self.plan.merging.rule, split.group
        for found in changes_by_logs(newer, split.logs, lambda: self._before(split), rule, group):
            yield _paired(found)

    def _before(self, split: ChangeSplit) -> Iterator[pa.Table]:
        yield self._empty
        if split.before is not None:
            yield from self._rows(split.before, split)

    def _compared(self, split: ChangeSplit) -> _Changes:
        """Return what a base file has and the slice before has not, and the other way round.

        Records that a commit wrote have its commit time; the others are compared by key and sequence number.
        """
        new, kept = [self._empty], [pa.array([], pa.string())]
        if split.after is not None:
            for rows in self._rows(_slice_of(split.after), split):
                fresh = pc.equal(rows[COMMIT_TIME], split.instant)
                new.append(rows.filter(fresh))
                kept.append(_identity(rows.filter(pc.invert(fresh))))
        survivors = joined_arrays(kept)
        old = [self._empty]
        if split.before is not None:
            for rows in self._rows(split.before, split):
                old.append(rows.filter(pc.invert(pc.is_in(_identity(rows), value_set=survivors))))
        before, after = pa.concat_tables(old), pa.concat_tables(new)
        partner = _partners(one_array(before[RECORD_KEY]), one_array(after[RECORD_KEY]))
        updated = np.flatnonzero(partner >= 0)
        inserted = np.setdiff1d(np.arange(after.num_rows), partner)
        found = KeyChanges(before, after, np.flatnonzero(partner < 0), updated, partner[updated], inserted)
        return _paired(found)

    @property
    def _data(self) -> pa.Schema:
        """The table's columns without meta fields, as nullable."""
        return pa.schema([field.with_nullable(True) for field in without_meta_fields(self.plan.schema)])

    @property
    def _empty(self) -> pa.Table:
        rows = pa.schema([field.with_nullable(True) for field in self.plan.schema]).empty_table()
        return self._keyed(rows)

    def _merged(self, split: ChangeSplit) -> MergedSlices:
        plan = self.plan
        scope = replace(plan.merging.scope, completed=split.completed)
        return MergedSlices(self.storage, replace(plan.merging, scope=scope), plan.schema, plan.history)

    def _rows(self, file_slice: FileSlice, split: ChangeSplit) -> Iterator[pa.Table]:
        """Yield all columns of a slice's records, in parts, with record keys; at least one table."""
        yield self._empty
        for part in self._merged(split).parts(file_slice, self.plan.schema.names):
            yield self._keyed(pa.Table.from_arrays(part.rows.columns, names=part.rows.column_names))

    def _keyed(self, rows: pa.Table) -> pa.Table:
        keys = self.plan.keys
        if keys is None:
            return rows
        return rows.append_column(RECORD_KEY, virtual_keys(rows, keys))

    def _wanted(self, changes: _Changes, split: ChangeSplit) -> pa.Table:
        """Return the wanted columns of the changes that match the predicate."""
        whole = self.plan.whole_schema
        columns = []
        images = dict(zip((BEFORE, AFTER), self._images(changes), strict=True))
        for name in whole.names:
            if name == OP:
                columns.append(changes.operations)
            elif name == TS_MS:
                columns.append(_repeated(split.instant, len(changes.operations)))
            else:
                columns.append(images[name])
        rows = pa.Table.from_arrays(columns, schema=whole)
        if self.plan.where is not None:
            rows = rows.filter(evaluate(self.plan.where, rows))
        return rows.select(list(self.plan.columns))

    def _images(self, changes: _Changes) -> tuple[pa.Array, pa.Array]:
        """Return the records before and after as they come back."""
        assert changes.before is not None
        assert changes.after is not None
        before, after = self._records(changes.before), self._records(changes.after)
        if self.plan.typed:
            return before, after
        if changes.before.logged and changes.after.logged:
            return avro_texts(before, after)
        texts = (
            avro_text(records) if images.logged else plain_text(records)
            for records, images in ((before, changes.before), (after, changes.after))
        )
        first, second = texts
        return first, second

    def _records(self, images: Images) -> pa.StructArray:
        with_meta = not self.plan.typed and not images.logged and self.plan.meta_fields
        names = self.plan.schema.names if with_meta else self._data.names
        count = len(images.there)
        if not images.rows.num_rows and count:
            columns = [pa.nulls(count, self.plan.schema.field(name).type) for name in names]
        else:
            columns = [one_array(images.rows[name]) for name in names]
        fields = [pa.field(n, self.plan.schema.field(n).type) for n in names]
        plain = [c.cast(f.type) if c.type != f.type else c for c, f in zip(columns, fields, strict=True)]
        return pa.StructArray.from_arrays(plain, fields=fields, mask=pa.array(~images.there))


def _paired(found: KeyChanges) -> _Changes:
    counts = (len(found.inserted), len(found.updated), len(found.removed))
    operations = pa.array(np.repeat(np.array([INSERT, UPDATE, DELETE]), counts), pa.string())
    return _Changes(operations, Images.of(found.old, found.before), Images.of(found.new, found.after))


def _slice_of(base: BaseFile) -> FileSlice:
    return FileSlice(base.partition, base.file_id, base)


def _identity(rows: pa.Table) -> pa.Array:
    """Return what tells a version of a record from others: its sequence number and its key."""
    return one_array(pc.binary_join_element_wise(rows[COMMIT_SEQNO], rows[RECORD_KEY], "\x00"))


def _partners(old: pa.Array, new: pa.Array) -> np.ndarray:
    """Return for each old key the place of an equal new one, each of these once; -1 where there's none."""
    codes = np.asarray(pc.dictionary_encode(joined_arrays([old, new])).indices).astype(np.int64)
    numbered = codes * (len(codes) + 1) + _occurrence(codes[: len(old)], codes[len(old) :])
    mine, theirs = numbered[: len(old)], numbered[len(old) :]
    order = np.argsort(theirs, kind="stable")
    if not len(order):
        return np.full(len(mine), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)
    return np.where(theirs[order][at] == mine, order[at], -1)


def _occurrence(*sides: np.ndarray) -> np.ndarray:
    """Return for each code how many equal ones come before it on its side."""
    counts = []
    for codes in sides:
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        first = np.searchsorted(ordered, ordered)
        found = np.empty(len(codes), dtype=np.int64)
        found[order] = np.arange(len(codes)) - first
        counts.append(found)
    return np.concatenate(counts)


def _repeated(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)
