"""Write the next version of a base file: copy what is unchanged, and encode only what changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pudi.filegroup import BaseFileReader, VirtualKeyReader
from pudi.filegroup.basefile_copies import GroupPart, MovableFile
from pudi.filegroup.basefile_encode import MOST_GROUP_ROWS
from pudi.format import BloomFilter
from pudi.format.parquet_chunks import NotMovableError
from pudi.merge import Overlay, overlay
from pudi.plan import Operation, WriteSpec
from pudi.plan.entry_staging import Columns
from pudi.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    conform_read,
)
from pudi.schema.arrays import decoded_column, fits, in_step, one_array, take, take_column
from pudi.tagging import candidate_groups, key_span

LEAST_ROWS = 20_000
"""Number of rows of a file above which searching for unchanged parts is faster than encoding everything."""

_TEXT = pa.dictionary(pa.int32(), pa.string())

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
NewMeta: TypeAlias = Callable[[str, int, int, "Column | None"], "Column"]
"""Makes a meta field's values for new versions, from their first number, count and keys."""


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """The next version of a base file.

    Attributes:
        content: the file.
        num_rows: its rows.
        merged: the outcome for old rows that may have keys of the new versions.
        old: reads columns of these rows.
    """

    content: pa.Buffer
    num_rows: int
    merged: Overlay
    old: Columns


@dataclass(slots=True)
class _Group:
    """The outcome for one row group.

    Attributes:
        number: its number.
        rows: number of rows.
        keep: for each row whether it stays.
        taken: for each row the new version that replaces it, or -1.
        start: position of its first row among the rows whose keys were compared; -1 if none of its keys can match.
    """

    number: int
    rows: int
    keep: np.ndarray
    taken: np.ndarray
    start: int = -1

    @property
    def whole(self) -> bool:
        """Whether all its rows stay or are replaced."""
        return bool(self.keep.all())

    @property
    def changed(self) -> bool:
        """Whether a row is removed or replaced."""
        return not self.whole or bool(np.any(self.taken >= 0))


@dataclass(slots=True)
class FileRewriter:
    """Makes the next version of one base file.

    Args:
        reader: the file.
        spec: the write; versions meet by key and are never mixed.
        new_meta: makes meta fields.

    Raises:
        NotMovableError: the file should be read and rewritten as a whole.
    """

    reader: BaseFileReader | VirtualKeyReader
    spec: WriteSpec
    new_meta: NewMeta
    _schema: pa.Schema = field(init=False)
    _read_schema: pa.Schema = field(init=False)
    _file: MovableFile = field(init=False)
    _by_dictionary: frozenset[str] = field(init=False)
    _texts: BaseFileReader = field(init=False)
    _compared: pa.Table = field(init=False)
    _made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.reader.num_rows < LEAST_ROWS:
            raise NotMovableError(f"{self.reader.num_rows} rows", path=self.reader.path)
        self._read_schema = self.spec.schema.stored
        populated, parquet = self.spec.files.populated, self.spec.files.parquet
        self._schema = self._read_schema if populated else self.spec.schema.columns
        stored = self.reader.stored if isinstance(self.reader, VirtualKeyReader) else self.reader
        if not isinstance(stored, BaseFileReader):
            raise NotMovableError("a base file that isn't Parquet")
        self._file = MovableFile(stored, self._schema, parquet if populated else replace(parquet, bloom=None))
        self._by_dictionary = frozenset(self._file.few_valued())
        self._texts = stored.with_dictionaries(sorted(self._by_dictionary))

    def rewritten(self, rows: pa.Table) -> RewrittenFile | None:
        """Return the next version; None if nothing changes.

        Args:
            rows: new versions without duplicate keys: record key and the table's columns, or only the keys of a delete.

        Raises:
            NotMovableError: the file should be read and rewritten as a whole.
            CorruptError: the file is damaged.
        """
        spec = self.spec
        span = key_span(rows[RECORD_KEY])
        met = candidate_groups(self.reader, span) if span else []
        ordering = spec.rule.ordering_schema(spec.schema.columns).names if spec.rule.compares else []
        self._compared = self._read(self.reader, [RECORD_KEY, *ordering], met)
        merged = overlay(
            self._compared, rows, RECORD_KEY, spec.rule, unconditional_delete=spec.operation is Operation.DELETE
        )
        if not merged.matched and not len(merged.inserted):
            return None
        bloom = self._bloom_filter(merged)
        self._file.reader.prefetch()
        parts = self._parts(self._groups(met, merged), rows, merged.inserted)
        if not parts:
            raise NotMovableError("no row is left", path=self.reader.path)
        content = self._file.rewritten(parts, spec.schema.stored_avro, bloom)
        return RewrittenFile(
            content, sum(part.rows.num_rows for part in parts), merged, partial(self._compared_rows, met)
        )

    def _compared_rows(self, met: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Return columns of the rows whose keys were compared; the file is in memory."""
        further = [name for name in names if name not in self._compared.column_names]
        rows = self._compared
        if further:
            read = self._read(self.reader, further, met)
            for name in further:
                rows = rows.append_column(self._read_schema.field(name), read[name])
        return rows.select(list(names))

    def _bloom_filter(self, merged: Overlay) -> BloomFilter | None:
        if self._file.options.bloom is not None and (len(merged.inserted) or merged.deleted):
            raise NotMovableError("the bloom filter changes, which all keys make", path=self.reader.path)
        return self._file.bloom_filter()

    def _groups(self, met: Sequence[int], merged: Overlay) -> list[_Group]:
        keep = np.zeros(self._compared.num_rows, dtype=bool)
        keep[merged.base_rows] = True
        taken = np.full(self._compared.num_rows, -1)
        taken[merged.base_rows] = merged.taken
        groups, start, compared = [], 0, set(met)
        for number in range(self.reader.num_groups):
            rows = self.reader.group_rows(number)
            if number in compared:
                end = start + rows
                groups.append(_Group(number, rows, keep[start:end], taken[start:end], start))
                start = end
            else:
                groups.append(_Group(number, rows, np.ones(rows, dtype=bool), np.full(rows, -1)))
        return groups

    def _parts(self, groups: Sequence[_Group], rows: pa.Table, inserted: np.ndarray) -> list[GroupPart]:
        """Yield the new file's rows. Inserts come last; they are added to a small last row group."""
        parts = []
        last = groups[-1] if groups and groups[-1].rows < MOST_GROUP_ROWS // 2 and len(inserted) else None
        for group in groups:
            if group is last:
                continue
            if not group.changed:
                parts.append(GroupPart(self._named(group, {}), group.number))
            elif group.whole and group.rows <= 2 * MOST_GROUP_ROWS:
                parts.append(GroupPart(self._replaced(group, rows), group.number))
            elif group.keep.any():
                parts.append(GroupPart(self._reencoded(group, rows, inserted[:0])))
        if last is not None:
            parts.append(GroupPart(self._reencoded(last, rows, inserted)))
        elif len(inserted):
            parts.append(GroupPart(self._added(rows, inserted)))
        return parts

    def _replaced(self, group: _Group, rows: pa.Table) -> pa.Table:
        """Return the changed columns of a row group without added or removed rows."""
        places = np.flatnonzero(group.taken >= 0)
        fresh = take(rows, group.taken[places])
        keys, columns, first = fresh[RECORD_KEY], {}, self._next(len(places))
        names = [
            name
            for name in self.spec.schema.columns.names
            if not (
                self.spec.files.populated and fresh[name].equals(keys) and self._file.repeats_key(group.number, name)
            )
        ]
        metas = [COMMIT_TIME, COMMIT_SEQNO] if self.spec.files.populated else []
        old = self._old(group, [*metas, *names])
        source = np.arange(group.rows)
        source[places] = group.rows + np.arange(len(places))
        for name in old.column_names:
            if name in META_FIELDS:
                new = self.new_meta(name, first, len(places), keys)
            elif _is_same(take_column(old[name], places), fresh[name]):
                continue
            else:
                new = fresh[name]
            columns[name] = merge_column(old[name], new, source)
        return self._named(group, columns)

    def _named(self, group: _Group, columns: Mapping[str, Column]) -> pa.Table:
        """Return the changed columns of a row group and the file's name, which is part of the meta fields."""
        name = self.new_meta(FILE_NAME, 0, group.rows, None)
        whole = pa.table({**columns, FILE_NAME: name})
        return whole.select([name for name in self._schema.names if name in whole.column_names])

    def _reencoded(self, group: _Group, rows: pa.Table, inserted: np.ndarray) -> pa.Table:
        """Return all columns of a row group with added or removed rows."""
        stay = np.flatnonzero(group.keep)
        taken = group.taken[stay]
        numbers = np.concatenate([taken[taken >= 0], inserted])
        source = stay.copy()
        source[taken >= 0] = group.rows + np.arange(np.count_nonzero(taken >= 0))
        source = np.concatenate([source, group.rows + np.arange(len(numbers) - len(inserted), len(numbers))])
        old = self._old(group, [n for n in self._schema.names if n not in {PARTITION_PATH, FILE_NAME}])
        fresh, first, columns = take(rows, numbers), self._next(len(numbers)), []
        for name in self._schema.names:
            if name in {PARTITION_PATH, FILE_NAME}:
                columns.append(self.new_meta(name, 0, len(source), None))
            elif not len(numbers):
                columns.append(merge_column(old[name], None, source))
            else:
                new = fresh[name] if name not in META_FIELDS else None
                new = self.new_meta(name, first, len(numbers), fresh[RECORD_KEY]) if new is None else new
                columns.append(merge_column(old[name], new, source))
        return pa.table(columns, names=self._schema.names)

    def _added(self, rows: pa.Table, inserted: np.ndarray) -> pa.Table:
        """Return a row group of inserts."""
        fresh, first = take(rows, inserted), self._next(len(inserted))
        columns = [
            self.new_meta(name, first, len(inserted), fresh[RECORD_KEY]) if name in META_FIELDS else fresh[name]
            for name in self._schema.names
        ]
        return pa.table(columns, names=self._schema.names)

    def _next(self, count: int) -> int:
        """Return the number of the first of some new versions, for their sequence numbers."""
        first, self._made = self._made, self._made + count
        return first

    def _old(self, group: _Group, names: Sequence[str]) -> pa.Table:
        """Return columns of a row group; those read for the key comparison aren't read again."""
        known = [name for name in names if group.start >= 0 and name in self._compared.column_names]
        read = self._read(self._texts, [name for name in names if name not in known], [group.number])
        compared = self._compared.slice(max(group.start, 0), group.rows)
        return pa.table([compared[name] if name in known else read[name] for name in names], names=list(names))

    def _read(self, reader: BaseFileReader | VirtualKeyReader, names: Sequence[str], groups: Sequence[int]) -> pa.Table:
        wanted = [self._read_schema.field(name) for name in names]
        if reader is self._texts:
            wanted = [pa.field(f.name, _TEXT) if f.name in self._by_dictionary else f for f in wanted]
        return conform_read(reader.read(names, groups), pa.schema(wanted), path=reader.path)


def merge_column(old: pa.ChunkedArray, new: Column | None, source: np.ndarray) -> Column:
    """Combine old and new versions of a column.

    Args:
        old: values of the old rows.
        new: values of the new versions, numbered after the old rows; None without any.
        source: number of the value for each row of the result.
    """
    column = take_column(old if new is None else both(old, new), source)
    return _compact(one_array(column)) if pt.is_dictionary(column.type) else column


def both(old: pa.ChunkedArray, new: Column) -> pa.ChunkedArray:
    """Return the old and then the new values of a column; a dictionary has no room for very long ones."""
    if pt.is_dictionary(old.type) and not fits(new):
        old = decoded_column(old)
    new = cast_to(new if isinstance(new, pa.ChunkedArray) else pa.chunked_array([new]), old.type)
    return pa.chunked_array([*old.chunks, *new.chunks], old.type)


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Remove unused values from a dictionary; otherwise it would grow with every version."""
    codes = np.asarray(column.indices.fill_null(0))
    used = np.bincount(codes, minlength=len(column.dictionary)) > 0
    if used.all():
        return column
    numbers = pa.array((np.cumsum(used) - 1).astype(np.int32)[codes], mask=np.asarray(column.is_null()))
    return pa.DictionaryArray.from_arrays(numbers, column.dictionary.filter(pa.array(used)))


def _is_same(old: Column, new: Column) -> bool:
    """Return whether columns have identical bits; False if that isn't easy to check."""
    old, new = decoded_column(old), decoded_column(new)
    if old.type != new.type or pt.is_nested(old.type):
        return False
    if pt.is_floating(old.type):  # zeros of both signs compare equal, and NaN never does
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[old.type.bit_width]
        return all(one.view(bits).equals(other.view(bits)) for one, other in in_step(old, new))
    return bool(old.equals(new))


def cast_to(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Return a column as another type; also converts between dictionary and values."""
    if column.type == target:
        return column
    if pt.is_dictionary(column.type) and not pt.is_dictionary(target):
        return decoded_column(column).cast(target)
    return column.cast(target)
