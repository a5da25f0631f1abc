"""Merge one slice's base file and log files: Arrow in and out, on either engine, in bounded memory.

Newer versions that win over whatever the base file holds, by the bounds in its footer, need no comparison of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import AnyBaseFile, BaseFile, BaseFileReader, FileSlice, open_base_file, read_log_blocks
from pudi.merge import MergeResult, MergeRule, Versions, apply_updates, fold
from pudi.plan import Merging
from pudi.schema import COMMIT_TIME, RECORD_KEY, FieldNames
from pudi.schema.arrays import take
from pudi.schema.internal import SchemaHistory
from pudi.task.log_versions import LogCounts, LogVersions, nullable, store_positions
from pudi.task.spilled import ROW, Buckets
from pudi.task.table_rows import names_in, read_base_rows


@dataclass(frozen=True, slots=True)
class Merged:
    """Some of a slice's records after merging.

    Attributes:
        rows: the records.
        logs: counts of its log files. `keys` counts this part; everything else stands in the first part.
        updated: number of base rows that a version in the logs replaced.
        deleted: number of base rows that a version in the logs deleted.
        inserted: number of records that the base file lacks.
    """

    rows: pa.Table
    logs: LogCounts = field(default_factory=LogCounts)
    updated: int = 0
    deleted: int = 0
    inserted: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """Base rows, and the outcome of merging for them.

    Attributes:
        base: the rows.
        numbers: their numbers in the base file.
        merged: the outcome; None if no log block counts.
        logs: see `Merged`.
        spilled: whether unchanged base rows come after all parts, in their order.
    """

    base: pa.Table
    numbers: np.ndarray
    merged: MergeResult | None
    logs: LogCounts
    spilled: bool = False


@dataclass(frozen=True, slots=True)
class MergedSlices:
    """Reads slices with log files.

    If the versions in a slice's log files fit in memory (`Merging.memory`), they are applied to the base file, for a
    large base file to a few row groups at a time. Otherwise they and the keys of the base file (all columns, if
    versions are mixed) go to a temporary file by hash of their keys, and are merged bucket by bucket.

    Args:
        storage: the table's files.
        merging: how slices are merged.
        schema: every column of the table, meta fields first where it has them.
        history: the schemas of older files, in a table with schema on read.
        commit_times: only base rows of these commits count; None for all.
    """

    storage: Storage
    merging: Merging
    schema: pa.Schema
    history: SchemaHistory | None
    commit_times: frozenset[str] | None = None

    def parts(self, file_slice: FileSlice, wanted: Sequence[str]) -> Iterator[Merged]:
        """Yield the records of a slice after merging, unfiltered, in parts.

        Base rows come first, in their order; if the logs don't fit in memory, they come last.

        Args:
            file_slice: a base file, log files, or both.
            wanted: the columns to return, in the table's types.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: a file can't be read.
            NotSupportedError: log files of a kind that this release can't read.
            RefusedError: there is no disk space for the temporary file.
        """
        target = self._target(wanted)
        gone: list[np.ndarray] | None = None
        for part in self._merge(file_slice, target, target, wanted):
            if part.merged is None:
                yield Merged(self._as_wanted(part.base, wanted), part.logs)
                continue
            rows = _winners(part.merged) if part.spilled else _gather(part.base, part.merged, wanted)
            if part.spilled:
                gone = [*(gone or ()), np.delete(part.numbers, part.merged.staying)]
            yield Merged(
                rows=self._as_wanted(rows, wanted),
                logs=part.logs,
                updated=len(part.merged.replaced),
                deleted=part.merged.deleted,
                inserted=len(part.merged.inserted),
            )
        if gone is not None:
            yield from self._remaining(file_slice, np.concatenate(gone), target, wanted)

    def _remaining(
        self, file_slice: FileSlice, gone: np.ndarray, target: pa.Schema, wanted: Sequence[str]
    ) -> Iterator[Merged]:
        """Yield the base rows except those with some numbers."""
        for numbers, base in self._base(file_slice, target):
            stays = ~np.isin(numbers, gone, assume_unique=True)
            yield Merged(self._as_wanted(base.filter(pa.array(stays)), wanted))

    def read(self, file_slice: FileSlice, wanted: Sequence[str]) -> pa.Table:
        """Return the records of a slice as one table, for few columns; arguments and errors as of `parts`."""
        return pa.concat_tables([part.rows for part in self.parts(file_slice, wanted)])

    def winners(self, file_slice: FileSlice, wanted: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the records of a slice that come from its log files, unfiltered: replaced base rows and new records.

        Together with the base rows that `replaced` doesn't name they are the slice's records. Arguments and errors as
        of `parts`.
        """
        for part in self._merge(file_slice, self._target(wanted), self._light):
            if part.merged is not None:
                yield self._as_wanted(_winners(part.merged), wanted)

    def replaced(self, file_slice: FileSlice) -> np.ndarray:
        """Return the row numbers of replaced and deleted base rows; errors as of `parts`."""
        gone = [np.zeros(0, dtype=np.int64)]
        for part in self._merge(file_slice, self._light, self._light):
            if part.merged is not None:
                gone.append(np.delete(part.numbers, part.merged.staying))
        return np.sort(np.concatenate(gone))

    def folded(self, file_slice: FileSlice, target: pa.Schema) -> Iterator[tuple[Versions, LogCounts]]:
        """Merge the versions in a slice's log files among themselves; yield each key once, in parts.

        Args:
            file_slice: the slice.
            target: the wanted columns and the columns that merging needs.

        Returns:
            Versions with counts, see `Merged`; nothing if no block counts.
        """
        blocks = read_log_blocks(self.storage, file_slice.logs, self.merging.scope, self.merging.memory.share // 4)
        if not blocks:
            return
        versions, buckets, records = self._logs.collect(blocks, target)
        counts = LogCounts.of(blocks, records)
        if buckets is None:
            newer = fold(versions, RECORD_KEY, self.merging.rule)
            yield newer, replace(counts, keys=len(newer))
            return
        with buckets:
            for runs, _ in buckets.parts(pa.table({})):
                newer = fold(runs, RECORD_KEY, self.merging.rule)
                yield newer, replace(counts, keys=len(newer))
                counts = counts.of_rest

    def _target(self, wanted: Sequence[str]) -> pa.Schema:
        """Return the columns to read for some wanted columns."""
        needed = {*wanted, *self.merging.columns(self.schema)}
        return pa.schema([f for f in self.schema if f.name in needed])

    @property
    def _light(self) -> pa.Schema:
        """The columns that decide which version wins."""
        return self._target(())

    @property
    def _logs(self) -> LogVersions:
        return LogVersions(self.storage, self.merging, self.history)

    def _merge(
        self, file_slice: FileSlice, of_logs: pa.Schema, of_base: pa.Schema, staying: Sequence[str] | None = None
    ) -> Iterator[_Part]:
        """Yield base rows with the outcome of merging.

        Args:
            file_slice: the slice.
            of_logs: columns of newer versions, including those that merging needs.
            of_base: columns of base rows, likewise.
            staying: the columns of unchanged base rows; None if these rows aren't wanted.
        """
        scope, memory = self.merging.scope, self.merging.memory
        blocks = read_log_blocks(self.storage, file_slice.logs, scope, memory.share // 4)
        partial = any(block.is_partial for block in blocks)
        if scope.among is not None and partial:
            # Columns that partial updates lack may come from commits outside the range; Hudi 1.2 fails on these reads.
            everything = replace(self.merging, scope=replace(scope, among=None))
            yield from replace(self, merging=everything, commit_times=None)._merge(
                file_slice, of_logs, of_base, staying
            )
            return
        if not blocks:
            for numbers, base in self._base(file_slice, of_base):
                yield _Part(base, numbers, None, LogCounts())
            return
        mixes = partial or self.merging.rule.mixes
        by_row = self._by_row and not mixes and store_positions(blocks, file_slice.base)
        versions, buckets, records = self._logs.collect(blocks, of_logs, positions=by_row)
        counts = LogCounts.of(blocks, records)
        del blocks  # including their contents
        if buckets is None:
            key = ROW if by_row else RECORD_KEY
            newer = fold(versions, key, self.merging.rule)
            del versions
            groups = self._base(file_slice, of_logs if mixes else of_base)
            if by_row:
                groups = self._base_rows(file_slice, of_base, newer, staying)
            yield from self._over_groups(groups, newer, replace(counts, keys=len(newer)), key)
            return
        with buckets:
            yield from self._over_buckets(self._base(file_slice, of_logs if mixes else self._light), buckets, counts)

    def _over_groups(
        self, groups: Iterator[tuple[np.ndarray, pa.Table]], newer: Versions, counts: LogCounts, key: str
    ) -> Iterator[_Part]:
        """Apply versions in memory to the rows of a base file, in one table or in parts."""
        new = np.ones(len(newer), dtype=bool)
        coming = next(groups, None)
        while coming is not None:
            (numbers, base), coming = coming, next(groups, None)
            merged = apply_updates(base, newer, key, self.merging.rule, remixed=True)
            unmet = np.zeros(len(newer), dtype=bool)
            unmet[merged.inserted] = True
            new &= unmet
            inserted = np.flatnonzero(new) if coming is None else merged.inserted[:0]
            yield _Part(base, numbers, replace(merged, inserted=inserted), counts)
            counts = counts.of_rest

    def _over_buckets(
        self, groups: Iterable[tuple[np.ndarray, pa.Table]], buckets: Buckets, counts: LogCounts
    ) -> Iterator[_Part]:
        """Apply versions on disk to the rows of a base file, by key."""
        rule, empty = self.merging.rule, None
        for numbers, base in groups:
            rows = base.append_column(ROW, pa.array(numbers, pa.int64()))
            empty = rows.slice(0, 0)
            buckets.add_base(rows)
        assert empty is not None
        for runs, rows in buckets.parts(empty):
            newer = fold(runs, RECORD_KEY, rule)
            base = rows.drop_columns([ROW])
            merged = apply_updates(base, newer, RECORD_KEY, rule, remixed=True)
            yield _Part(base, np.asarray(rows[ROW]), merged, replace(counts, keys=len(newer)), spilled=True)
            counts = counts.of_rest

    @property
    def _by_row(self) -> bool:
        return self.merging.by_position and self.merging.keys is None

    def _base_rows(
        self, file_slice: FileSlice, of_base: pa.Schema, newer: Versions, staying: Sequence[str] | None
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Like `_base`, but with row numbers (`ROW`) instead of record keys, which are read only if they are wanted.

        If unchanged base rows aren't wanted, it yields only rows with newer versions, with nothing but ordering values.
        If the footer shows that all of these lose, their ordering values are replaced by a bound.
        """
        if staying is not None:
            target = pa.schema([f for f in of_base if f.name != RECORD_KEY or f.name in staying])
            for numbers, base in self._base(file_slice, target if target.names else of_base):
                yield numbers, base.append_column(ROW, pa.array(numbers, pa.int64()))
            return
        rule, places = self.merging.rule, np.sort(np.asarray(newer.rows[ROW]))
        target = pa.schema([f for f in of_base if rule.compares and f.name in rule.ordering_columns])
        assert file_slice.base is not None
        bound: dict[str, pa.Scalar] | None = {}
        if target.names:
            stored = self._open(file_slice.base), names_in(self.history, file_slice.base.instant)
            bound = bound_that_loses(stored, target, newer, rule)
        if bound is not None:
            values = {name: pa.repeat(value, len(places)) for name, value in bound.items()}
            yield places, pa.table({ROW: pa.array(places, pa.int64()), **values})
            return
        for numbers, base in self._base(file_slice, target):
            at = _found(numbers, places)
            yield numbers[at], take(base, at).append_column(ROW, pa.array(numbers[at], pa.int64()))

    def _base(self, file_slice: FileSlice, target: pa.Schema) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield row numbers and rows of the base file, in one table unless it is large; at least one table."""
        if file_slice.base is None:
            yield np.zeros(0, dtype=np.int64), nullable(self._with_key(target).empty_table())
            return
        file = self._open(file_slice.base)
        target = self._with_key(target)
        start = 0
        for groups in _portions(file, file_slice.base.size, self.merging.memory.share):
            rows = read_base_rows(file, file_slice.base, target, self.history, groups)
            numbers = np.arange(start, start + rows.num_rows)
            start += rows.num_rows
            if self.commit_times is not None:
                chosen = pa.array(sorted(self.commit_times), pa.string())
                kept = pc.is_in(rows[COMMIT_TIME], value_set=chosen)
                rows, numbers = rows.filter(kept), numbers[np.asarray(kept)]
            yield numbers, nullable(rows)

    def _with_key(self, target: pa.Schema) -> pa.Schema:
        """Return columns to read of a base file, with record keys where only their columns are named."""
        if self.merging.keys is None or RECORD_KEY in target.names:
            return target
        return target.append(pa.field(RECORD_KEY, pa.string()))

    def _open(self, base: BaseFile) -> AnyBaseFile:
        return open_base_file(self.storage, replace(base, keys=self.merging.keys))

    def _as_wanted(self, rows: pa.Table, wanted: Sequence[str]) -> pa.Table:
        """Return the result columns in the table's types; non-nullable columns must have no nulls."""
        if not wanted:  # a table without columns still has a length
            return rows.select([])
        schema = pa.schema([self.schema.field(name) for name in wanted])
        return pa.Table.from_arrays([rows[name] for name in wanted], schema=schema)


def _found(numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the positions of some numbers among ascending numbers; meant for few among many."""
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(numbers, places), len(numbers) - 1)
    found: np.ndarray = at[numbers[at] == places]
    return found


def _portions(file: AnyBaseFile, size: int, most: int) -> list[list[int] | None]:
    """Return row groups to read together: all of them, unless the file is large."""
    if isinstance(file, BaseFileReader):
        sizes = [file.metadata.row_group(number).total_byte_size for number in range(file.num_groups)]
    else:
        sizes = [_ORC_SWELLS * size // max(1, file.num_groups)] * file.num_groups
    if sum(sizes) <= most or len(sizes) <= 1:
        return [None]
    groups: list[list[int]] = [[]]
    held = 0
    for number, each in enumerate(sizes):
        if groups[-1] and held + each > most:
            groups.append([])
            held = 0
        groups[-1].append(number)
        held += each
    return [*groups]


_ORC_SWELLS = 4
"""Approximate ratio of the size of Arrow columns to ORC bytes."""


def _winners(merged: MergeResult) -> pa.Table:
    """Return the versions that replace base rows, and new records."""
    return take(merged.rows, merged.fresh)


def _gather(base: pa.Table, merged: MergeResult, wanted: Sequence[str]) -> pa.Table:
    """Return columns of merged records: unchanged and replaced base rows in order, then new records."""
    names = list(wanted) or base.column_names[:1]
    replaced = np.where(merged.taken < 0, merged.base_rows, base.num_rows + merged.taken)
    places = np.concatenate([replaced, base.num_rows + merged.inserted])
    rows = merged.rows.select(base.column_names)
    if not base.num_rows and len(places) == rows.num_rows:
        return rows
    return take(pa.concat_tables([base, rows]).select(names), places)


def bound_that_loses(
    stored: tuple[AnyBaseFile, FieldNames | None], fields: pa.Schema, newer: Versions, rule: MergeRule
) -> dict[str, pa.Scalar] | None:
    """Return ordering values that lose to every newer version and are an upper bound of a base file's; None if unknown.

    Using them instead of the rows' own values gives the same winners.

    Args:
        stored: the base file and the names of columns in it; None if the names are the same.
        fields: the columns of the ordering fields, in the table's types; footers bound none inside of structs here.
        newer: the versions.
        rule: a rule that compares by these fields and doesn't mix versions.
    """
    file, names = stored
    bound = {}
    for each in fields:
        value = _greatest(file, each, each.name if names is None else names.of(each.name)[0])
        if value is None:
            return None
        bound[each.name] = value
    older = pa.table({name: pa.repeat(value, len(newer)) for name, value in bound.items()})
    return bound if bool(np.all(newer.unconditional | rule.newer_wins(older, newer.rows))) else None


def _greatest(file: AnyBaseFile, field: pa.Field, name: str | None) -> pa.Scalar | None:
    """Return a column's maximum; None if it is unknown, or if nulls may rank above it."""
    if not isinstance(file, BaseFileReader):
        return None
    place = -1 if name is None else file.schema.get_field_index(name)
    if place < 0 or file.schema.field(place).type != field.type or not _is_exact(field.type):
        return None
    greatest = []
    for group in file.statistics(file.schema.field(place).name):
        if group is None or group.maximum is None or group.null_count != 0:
            return None
        greatest.append(group.maximum)
    return pa.scalar(max(greatest), field.type) if greatest else None


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether footers hold exact bounds of a type, ordered as ordering values are; not for texts and floats."""
    types = pa.types
    return bool(
        types.is_signed_integer(kind) or types.is_date32(kind) or (types.is_timestamp(kind) and kind.unit != "ns")
    )
