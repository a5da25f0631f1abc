"""One slice's base file and log files merged: Arrow in, Arrow out, on either engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, open_base_file, read_log_blocks
from pudi.format.log_block import BlockKind, LogBlock
from pudi.format.log_data import decode_data
from pudi.format.log_deletes import decode_deletes
from pudi.merge import Laid, Versions, fold, lay_over
from pudi.plan.merging import Merging
from pudi.schema import COMMIT_TIME, RECORD_KEY, FieldNames, conform_read
from pudi.schema.internal import SchemaHistory


@dataclass(frozen=True, slots=True)
class LogCounts:
    """What was found in a slice's log files.

    Attributes:
        blocks: data and delete blocks that count.
        records: record versions in them, deletes included.
        size: bytes of the blocks' contents.
        keys: keys among these records.
        instants: requested times of the instants that wrote the blocks, in the order in which they're merged.
        avro: whether the newest block of records is an Avro block.
        partial: whether a block holds some columns only.
    """

    blocks: int = 0
    records: int = 0
    size: int = 0
    keys: int = 0
    instants: tuple[str, ...] = ()
    avro: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """A slice after merging.

    Attributes:
        rows: its records, base rows first, in their order.
        logs: what was found in its log files.
        updated: base rows that a version in the logs replaced.
        deleted: base rows that one took out.
        inserted: records that the base file hasn't.
    """

    rows: pa.Table
    logs: LogCounts = field(default_factory=LogCounts)
    updated: int = 0
    deleted: int = 0
    inserted: int = 0


@dataclass(frozen=True, slots=True)
class MergedSlices:
    """Reads slices with log files.

    Args:
        storage: the table's files.
        merging: how.
        schema: every column of the table, meta fields first where it has them.
        history: the schemas by which files are read, in a table with schema on read.
        commit_times: base rows of these commits only count; None for all.
    """

    storage: Storage
    merging: Merging
    schema: pa.Schema
    history: SchemaHistory | None = None
    commit_times: frozenset[str] | None = None

    def read(self, file_slice: FileSlice, wanted: Sequence[str]) -> pa.Table:
        """The records of a slice as they are after merging, unfiltered; base rows first, in their order.

        Args:
            file_slice: a base file, log files, or both.
            wanted: columns that come back, in the table's types.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: a file can't be read.
            NotSupportedError: log files of a kind that this release can't read.
        """
        return self.merge(file_slice, wanted).rows

    def merge(self, file_slice: FileSlice, wanted: Sequence[str]) -> Merged:
        """The records of a slice, with what was done to get them; as `read`."""
        needed = {*wanted, *self.merging.columns(self.schema)}
        target = pa.schema([f for f in self.schema if f.name in needed])
        base, laid, counts = self._laid(file_slice, target, target)
        if laid is None:
            return Merged(self._as_wanted(base, wanted), counts)
        return Merged(
            rows=self._as_wanted(_gather(base, laid, wanted), wanted),
            logs=counts,
            updated=int(np.count_nonzero(laid.taken >= 0)),
            deleted=base.num_rows - len(laid.base_rows),
            inserted=len(laid.inserted),
        )

    def winners(self, file_slice: FileSlice, wanted: Sequence[str]) -> pa.Table:
        """The records of a slice that its log files bring: those that replace base rows, and new ones; unfiltered.

        With the base rows that `replaced` doesn't name they are the slice's records. Arguments and errors as `read`.
        """
        needed = {*wanted, *self.merging.columns(self.schema)}
        target = pa.schema([f for f in self.schema if f.name in needed])
        _, laid, _ = self._laid(file_slice, target, self._light)
        if laid is None:
            return self._as_wanted(_nullable(target.empty_table()), wanted)
        places = np.concatenate([laid.taken[laid.taken >= 0], laid.inserted])
        return self._as_wanted(laid.rows.take(pa.array(places)), wanted)

    def replaced(self, file_slice: FileSlice) -> np.ndarray:
        """Row numbers of the base file that don't stay as they are: replaced or deleted; errors as `read`."""
        base, laid, _ = self._laid(file_slice, self._light, self._light)
        stays = np.zeros(base.num_rows, dtype=bool)
        stays[slice(None) if laid is None else laid.base_rows[laid.taken < 0]] = True
        return np.flatnonzero(~stays)

    @property
    def _light(self) -> pa.Schema:
        """The columns that decide which version wins."""
        return pa.schema([f for f in self.schema if f.name in self.merging.columns(self.schema)])

    def _laid(
        self, file_slice: FileSlice, of_logs: pa.Schema, of_base: pa.Schema
    ) -> tuple[pa.Table, Laid | None, LogCounts]:
        """Base rows, and what becomes of them; None where no block of the logs counts."""
        scope = self.merging.scope
        blocks = read_log_blocks(self.storage, file_slice.logs, scope)
        if scope.among is not None and any(block.is_partial for block in blocks):
            # What partial updates lack may be of commits out of the range; Hudi 1.2 fails on such reads.
            everything = replace(self.merging, scope=replace(scope, among=None))
            return replace(self, merging=everything, commit_times=None)._laid(file_slice, of_logs, of_base)
        if self.merging.rule.mixes or any(block.is_partial for block in blocks):
            # whether what comes of two versions is one of them is told by all columns, whoever asks
            of_logs = of_base = self.schema
        base = self._base(file_slice, of_base)
        newer, counts = self._folded(blocks, of_logs)
        return base, None if newer is None else lay_over(base, newer, RECORD_KEY, self.merging.rule), counts

    def _as_wanted(self, rows: pa.Table, wanted: Sequence[str]) -> pa.Table:
        """The columns that come back, as the table has them: no null is in one that has none."""
        if not wanted:  # a table without columns still has a length
            return rows.select([])
        schema = pa.schema([self.schema.field(name) for name in wanted])
        return pa.Table.from_arrays([rows[name] for name in wanted], schema=schema)

    def folded(self, file_slice: FileSlice, target: pa.Schema) -> tuple[Versions | None, LogCounts]:
        """The versions in a slice's log files merged among themselves, and counts; None where no block counts.

        Args:
            file_slice: the slice.
            target: the table's columns that are wanted, with those that merging looks at.
        """
        return self._folded(read_log_blocks(self.storage, file_slice.logs, self.merging.scope), target)

    def _folded(self, blocks: Sequence[LogBlock], target: pa.Schema) -> tuple[Versions | None, LogCounts]:
        runs = [self._versions(block, target) for block in blocks]
        if not runs:
            return None, LogCounts()
        newer = fold(runs, RECORD_KEY, self.merging.rule)
        counts = LogCounts(
            blocks=len(blocks),
            records=sum(run.rows.num_rows for run in runs),
            size=sum(len(block.content) for block in blocks),
            keys=newer.rows.num_rows,
            instants=tuple(dict.fromkeys(block.instant for block in blocks)),
            avro=[BlockKind.AVRO, *(block.kind for block in blocks if block.kind.is_data)][-1] is BlockKind.AVRO,
            partial=any(block.is_partial for block in blocks),
        )
        return newer, counts

    def _base(self, file_slice: FileSlice, target: pa.Schema) -> pa.Table:
        if file_slice.base is None:
            return self._keyed(_nullable(target.empty_table()))
        file = open_base_file(self.storage, file_slice.base)
        names = None if self.history is None else self.history.names(file_slice.base.instant)
        known = set(file.schema.names)
        present = [name for name in _stored(target, names) if name in known]
        rows = conform_read(file.read(present or file.schema.names[:1]), target, path=file_slice.base.path, names=names)
        if self.commit_times is not None:
            chosen = pa.array(sorted(self.commit_times), pa.string())
            rows = rows.filter(pc.is_in(rows[COMMIT_TIME], value_set=chosen))
        return self._keyed(_nullable(rows))

    def _versions(self, block: LogBlock, target: pa.Schema) -> Versions:
        return self._deletes(block, target) if block.kind is BlockKind.DELETE else self._records(block, target)

    def _records(self, block: LogBlock, target: pa.Schema) -> Versions:
        names = None if self.history is None else self.history.names(block.instant)
        stored = decode_data(block, set(_stored(target, names)))
        if block.is_partial:
            there = set(stored.column_names)
            target = pa.schema([f for f in target if (f.name if names is None else names.of(f.name)[0]) in there])
        rows = self._keyed(_nullable(conform_read(stored, target, path=block.path, names=names)))
        return Versions.of(rows, self.merging.rule, partial=block.is_partial)

    def _deletes(self, block: LogBlock, target: pa.Schema) -> Versions:
        rule = self.merging.rule
        fields = [target.field(name) for name in (rule.ordering_fields if rule.compares else ())]
        found = decode_deletes(block, [field.type for field in fields])
        count = len(found.keys)
        known = {RECORD_KEY: found.keys, **{f.name: v for f, v in zip(fields, found.ordering, strict=True)}}
        names = target.names if RECORD_KEY in target.names else [*target.names, RECORD_KEY]
        columns = [known[name] if name in known else pa.nulls(count, target.field(name).type) for name in names]
        # to a merger of the user's a delete is a version like others
        unconditional = found.unconditional if rule.merger is None else np.zeros(count, dtype=bool)
        return Versions(pa.table(columns, names=names), np.ones(count, dtype=bool), unconditional)

    def _keyed(self, rows: pa.Table) -> pa.Table:
        keys = self.merging.keys
        return rows if keys is None else rows.append_column(RECORD_KEY, keys.record_keys(rows))


def _gather(base: pa.Table, laid: Laid, wanted: Sequence[str]) -> pa.Table:
    """Columns of merged records: base rows that stay, versions in the place of others, then new records."""
    names = list(wanted) or [RECORD_KEY]
    replaced = np.where(laid.taken < 0, laid.base_rows, base.num_rows + laid.taken)
    places = np.concatenate([replaced, base.num_rows + laid.inserted])
    rows = laid.rows.select(base.column_names)
    if not base.num_rows and len(places) == rows.num_rows:
        return rows
    return pa.concat_tables([base, rows]).select(names).take(pa.array(places))


def _stored(target: pa.Schema, names: FieldNames | None) -> list[str]:
    """What the wanted columns are called in a file."""
    found = [name if names is None else names.of(name)[0] for name in target.names]
    return [name for name in found if name is not None]


def _nullable(rows: pa.Table) -> pa.Table:
    """The same columns, all nullable: deletes have nothing but a key and an ordering value."""
    return pa.Table.from_arrays(rows.columns, names=rows.column_names)
