"""Find what the records in log files change in a file slice, key by key: the rows before and after, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.filegroup import FileSlice, LogFile
from pudi.merge import MergeRule, apply_updates
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array
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
    group: tuple[str, str],
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
        gone = np.ones(old.num_rows, dtype=bool)
        gone[merged.base_rows] = False
        replaced = merged.taken >= 0
        yield KeyChanges(
            old, merged.rows, np.flatnonzero(gone), merged.base_rows[replaced], merged.taken[replaced], merged.inserted
        )


def _numbers(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts).astype(np.int64)
