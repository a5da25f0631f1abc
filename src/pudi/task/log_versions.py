"""Read the record versions in a slice's log files, in memory if they fit, otherwise into a temporary file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import BaseFile, read_content, virtual_keys
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.log_data import decode_in_parts, decode_positions
from pudi.format.log_deletes import decode_deletes
from pudi.merge import Versions
from pudi.merge.deletes import OPERATION
from pudi.plan import Merging
from pudi.schema import RECORD_KEY, FieldNames, columns_holding, conform_read
from pudi.schema.internal import SchemaHistory
from pudi.task.spilled import ROW, Buckets, joined
from pudi.task.table_rows import names_in, stored_names

_MOST_BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class LogCounts:
    """Counts of the blocks and records in a slice's log files.

    Attributes:
        blocks: data and delete blocks that count.
        records: record versions in them, deletes included.
        size: bytes of the blocks' contents.
        keys: distinct keys among these records.
        instants: requested times of the instants that wrote the blocks, in merge order.
        avro: whether the newest data block is an Avro block.
        partial: whether a block contains partial updates.
    """

    blocks: int = 0
    records: int = 0
    size: int = 0
    keys: int = 0
    instants: tuple[str, ...] = ()
    avro: bool = False
    partial: bool = False

    @classmethod
    def of(cls, blocks: Sequence[LogBlock], records: int = 0) -> LogCounts:
        """Return the counts of some blocks, oldest first, with this number of versions."""
        return cls(
            blocks=len(blocks),
            records=records,
            size=sum(block.size for block in blocks),
            instants=tuple(dict.fromkeys(block.instant for block in blocks)),
            avro=[BlockKind.AVRO, *(block.kind for block in blocks if block.kind.is_data)][-1] is BlockKind.AVRO,
            partial=any(block.is_partial for block in blocks),
        )

    @property
    def of_rest(self) -> LogCounts:
        """Return the counts for later parts of a slice whose first part carries these counts."""
        return replace(self, blocks=0, records=0, size=0, keys=0)

    def __add__(self, other: LogCounts) -> LogCounts:
        """Return the sum of both counts."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in ("blocks", "records", "size", "keys")}
        return replace(self, **sums)


@dataclass(frozen=True, slots=True)
class LogVersions:
    """Reads the versions in log blocks.

    Args:
        storage: the table's files.
        merging: how slices are merged.
        history: the schemas by which files are read, in a table with schema on read.
    """

    storage: Storage
    merging: Merging
    history: SchemaHistory | None

    def collect(
        self, blocks: Sequence[LogBlock], target: pa.Schema, *, positions: bool = False
    ) -> tuple[list[Versions], Buckets | None, int]:
        """Read all versions in some blocks.

        Args:
            blocks: the blocks, oldest first.
            target: the wanted columns and the columns that merging needs.
            positions: whether to return the base rows stored in the blocks (column `ROW`), if the versions fit in
                memory.

        Returns:
            The versions, oldest run first, if they fit in memory, else none; the temporary file with them otherwise,
            which the caller closes; and the number of versions.

        Raises:
            CorruptError: a block is damaged.
            RefusedError: the disk is full.
        """
        share = self.merging.memory.share
        total, seen, records, size = sum(block.size for block in blocks), 0, 0, 0
        in_memory: list[Versions] = []
        buckets: Buckets | None = None
        try:
            for block in blocks:
                seen += block.size
                for run in self._runs(read_content(self.storage, block), target, share, positions=positions):
                    in_memory.append(run)
                    records, size = records + len(run), size + run.rows.nbytes
                    if size <= share:
                        continue
                    if buckets is None:
                        count = int(2 * size * (total / max(1, seen)) / share) + 2
                        buckets = Buckets(self.merging.memory.folder, min(count, _MOST_BUCKETS), share)
                    _spill(buckets, in_memory)
                    size = 0
            if buckets is not None:
                _spill(buckets, in_memory)
        except BaseException:
            if buckets is not None:
                buckets.close()
            raise
        return in_memory, buckets, records

    def _runs(self, block: LogBlock, target: pa.Schema, most: int, *, positions: bool) -> Iterator[Versions]:
        runs = self._of_block(block, target, most)
        yield from _with_rows(block, runs) if positions else runs

    def _of_block(self, block: LogBlock, target: pa.Schema, most: int) -> Iterator[Versions]:
        if block.kind is BlockKind.DELETE:
            yield self._deletes(block, target)
            return
        names = names_in(self.history, block.instant)
        for stored in decode_in_parts(block, {*stored_names(target, names), OPERATION}, most):
            yield self._records(block, stored, target, names)

    def _records(self, block: LogBlock, stored: pa.Table, target: pa.Schema, names: FieldNames | None) -> Versions:
        if block.is_partial:
            there = set(stored.column_names)
            target = pa.schema([f for f in target if (f.name if names is None else names.of(f.name)[0]) in there])
        rows = keyed(nullable(conform_read(stored, target, path=block.path, names=names)), self.merging)
        if rows[RECORD_KEY].null_count:
            raise block.corrupt("has records without a record key")
        operations = stored[OPERATION] if OPERATION in stored.column_names else None
        return Versions.of(rows, self.merging.rule, partial=block.is_partial, operations=operations)

    def _deletes(self, block: LogBlock, target: pa.Schema) -> Versions:
        rule = self.merging.rule
        types = rule.ordering_types(target) if rule.orders_deletes else {}
        found = decode_deletes(block, list(types.values()))
        count = len(found.keys)
        keys = found.keys if self.merging.keys is None else self.merging.keys.spelled(found.keys)
        known = {RECORD_KEY: keys, **columns_holding(dict(zip(types, found.ordering, strict=True)), target)}
        names = target.names if RECORD_KEY in target.names else [*target.names, RECORD_KEY]
        columns = [known[name] if name in known else pa.nulls(count, target.field(name).type) for name in names]
        # a user's merger sees a delete as a version like others
        unconditional = found.unconditional if rule.merger is None else np.zeros(count, dtype=bool)
        unconditional |= rule.deletes_win
        return Versions(pa.table(columns, names=names), np.ones(count, dtype=bool), unconditional)


def _spill(buckets: Buckets, in_memory: list[Versions]) -> None:
    for run in joined([without_rows(run) for run in in_memory]):
        buckets.add_versions(run)
    in_memory.clear()


def store_positions(blocks: Sequence[LogBlock], base: BaseFile | None) -> bool:
    """Return whether all blocks store the row numbers of their records in a base file (extractRecordPositions)."""
    at = Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS
    return base is not None and all(
        block.headers.get(at) == base.instant and Header.RECORD_POSITIONS in block.headers for block in blocks
    )


def _with_rows(block: LogBlock, runs: Iterable[Versions]) -> Iterator[Versions]:
    """Return the versions of a block with their base rows in column `ROW`."""
    in_memory = list(runs)
    count = sum(len(run) for run in in_memory)
    rows = decode_positions(block.headers[Header.RECORD_POSITIONS], count, path=block.path)
    start = 0
    for run in in_memory:
        numbers = pa.array(rows[start : start + len(run)], pa.int64())
        yield replace(run, rows=run.rows.append_column(ROW, numbers))
        start += len(run)


def without_rows(versions: Versions) -> Versions:
    """Return versions without column `ROW`."""
    if ROW not in versions.rows.column_names:
        return versions
    return replace(versions, rows=versions.rows.drop_columns([ROW]))


def nullable(rows: pa.Table) -> pa.Table:
    """Return the columns as nullable: deletes have only a key and an ordering value."""
    return pa.Table.from_arrays(rows.columns, names=rows.column_names)


def keyed(rows: pa.Table, merging: Merging) -> pa.Table:
    """Return rows of log files with record keys; without meta fields these are computed from columns."""
    if merging.keys is None:
        return rows
    keys = virtual_keys(rows, merging.keys)
    if RECORD_KEY not in rows.column_names:
        return rows.append_column(RECORD_KEY, keys)
    return rows.set_column(rows.column_names.index(RECORD_KEY), RECORD_KEY, keys)
