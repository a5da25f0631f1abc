"""Record versions as values: rows with their delete and order marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.merge.merge_rule import MergeRule
from pudi.schema.arrays import mask_of, take


@dataclass(frozen=True, slots=True)
class Versions:
    """Record versions in order, oldest first; a key may come more than once.

    Attributes:
        rows: record key column, meta fields and those of the table's columns that the versions have; a column that a
            partial update lacks is not there.
        deleted: for each row whether the version is a delete, from a delete block or marked in the row.
        unconditional: for each row whether it's a delete without ordering value: one that beats anything older and
            loses to anything newer.
        partial: whether the versions are partial updates (an IS_PARTIAL block).
        missing: by column, the rows that have no value of it, which is not null; for versions folded from partial
            updates of different columns.
    """

    rows: pa.Table
    deleted: np.ndarray
    unconditional: np.ndarray
    partial: bool = False
    missing: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: pa.Table, rule: MergeRule, *, partial: bool = False, operations: pa.ChunkedArray | None = None
    ) -> Versions:
        """Records as versions, deletes being those that the records mark themselves.

        Args:
            rows: the records.
            rule: how deletes are marked, and ordered.
            partial: whether they're partial updates.
            operations: of records in a log file, Flink's `_hoodie_operation`, which marks deletes too
                (RecordContext.isDeleteHoodieOperation); None without that column.
        """
        deleted = rule.deletes(rows) if rule.marks_deletes(rows) else np.zeros(rows.num_rows, dtype=bool)
        if operations is not None:
            deleted |= mask_of(pc.is_in(operations.cast(pa.string()), value_set=pa.array(["D", "-U"])))
        return cls(rows, deleted, rule.unconditional(rows, deleted), partial)

    def __len__(self) -> int:
        """Return the number of versions."""
        return int(self.rows.num_rows)

    def take(self, places: np.ndarray) -> Versions:
        """Some of them, by row number."""
        missing = {name: mask[places] for name, mask in self.missing.items()}
        rows = take(self.rows, places)
        return Versions(rows, self.deleted[places], self.unconditional[places], self.partial, missing)

    def slice(self, start: int, stop: int) -> Versions:
        """The versions from one row number up to another."""
        missing = {name: mask[start:stop] for name, mask in self.missing.items()}
        rows = self.rows.slice(start, stop - start)
        return Versions(rows, self.deleted[start:stop], self.unconditional[start:stop], self.partial, missing)

    def lacking(self, name: str) -> np.ndarray:
        """Return a mask of the rows without a value of a column."""
        known = self.missing.get(name)
        return np.full(len(self), self.rows.schema.get_field_index(name) < 0) if known is None else known

    def with_columns(self, schema: pa.Schema) -> Versions:
        """Return the versions with only these columns; new ones are null, or missing in partial updates."""
        missing = dict(self.missing)
        there, columns = set(self.rows.column_names), []
        for wanted in schema:
            if wanted.name in there:
                column = self.rows[wanted.name]
                columns.append(column if column.type == wanted.type else column.cast(wanted.type))
                continue
            columns.append(pa.chunked_array([pa.nulls(len(self), wanted.type)]))
            if self.partial:
                missing[wanted.name] = np.ones(len(self), dtype=bool)
        rows = pa.table(columns, schema=schema)  # a delete has nulls also where the table takes none
        kept = set(schema.names)
        missing = {name: mask for name, mask in missing.items() if name in kept}
        return Versions(rows, self.deleted, self.unconditional, self.partial, missing)

    def padded(self, rule: MergeRule) -> Versions:
        """Return the versions with all columns of the rule's merger; partial updates keep their own columns."""
        if rule.merger is None or rule.columns is None or self.partial:
            return self
        there = set(self.rows.column_names)
        more = [f.with_nullable(True) for f in rule.columns if f.name not in there]
        return self.with_columns(pa.schema([*self.rows.schema, *more])) if more else self


def in_one(parts: Sequence[Versions]) -> Versions:
    """Versions one after the other, with the columns of all.

    Args:
        parts: at least one.
    """
    if len(parts) == 1:
        return parts[0]
    fields: dict[str, pa.Field] = {}
    for part in parts:
        for column in part.rows.schema:
            if column.name not in fields or pa.types.is_null(fields[column.name].type):
                fields[column.name] = column
    schema = pa.schema(list(fields.values()))
    parts = [part.with_columns(schema) for part in parts]
    names = {name for part in parts for name in part.missing}
    return Versions(
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.deleted for part in parts]),
        np.concatenate([part.unconditional for part in parts]),
        any(part.partial for part in parts),
        {name: np.concatenate([_lacks(part, name) for part in parts]) for name in sorted(names)},
    )


def _lacks(part: Versions, name: str) -> np.ndarray:
    known = part.missing.get(name)
    return np.zeros(len(part), dtype=bool) if known is None else known
