"""Rule for choosing and mixing the versions of a record, as one picklable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from pudi.merge.deletes import delete_columns, delete_mask
from pudi.merge.mergers import MergeContext, RecordMerger
from pudi.merge.ordering import column_of, comparable_columns, greater_and_equal, is_default


class MergeMode(str, Enum):
    """`hoodie.record.merge.mode` (RecordMergeMode)."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdate(str, Enum):
    """Mode of completing a winning record from the losing one (PartialUpdateMode and its predecessors)."""

    KEEP_VALUES = "KEEP_VALUES"
    """Columns that a partial update lacks come from the other version; also without any mode."""
    FILL_DEFAULTS = "FILL_DEFAULTS"
    """Columns that a partial update lacks are null."""
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Null columns of the winner come from the loser."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """Texts of the winner that hold a marker come from the loser."""


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Rule for merging two versions of one record (spec 'record mergers'; BufferedRecordMergerFactory).

    Attributes:
        mode: COMMIT_TIME: the newer version wins. EVENT_TIME: the newer wins unless its ordering value is lower.
            CUSTOM: `merger` says.
        ordering_fields: columns of the ordering value, compared in this order; used by EVENT_TIME only.
        delete_marker: a column and the value that marks deletes; None without a marker.
        partial_update: how the winner is completed; None where it isn't, but for columns that it lacks.
        unavailable: the marker of FILL_UNAVAILABLE.
        defaults: for IGNORE_DEFAULTS, columns with a default that isn't null: a number, a truth value or a text.
        merger: the user's rule, for CUSTOM.
        properties: properties handed to it, by key.
        columns: all columns of the table: mergers see them even where versions lack some.
        key_fields: columns that make the record key, which a merger leaves as they are.
        batches_by_order: versions within one batch are decided by ordering value all the same: `preCombine` of payload
            classes that else go by commit time.
        deletes_win: outside batches a delete wins regardless of its ordering value, and the version that beats a record
            is rewritten with the meta fields of the losing one: PartialUpdateAvroPayload below version 9.
        binlog: the ordering field holds texts `file.position` of MySQL's log, see `comparable_columns`.
    """

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    delete_marker: tuple[str, str] | None = None
    partial_update: PartialUpdate | None = None
    unavailable: str | None = None
    defaults: tuple[tuple[str, bool | int | float | str], ...] = ()
    merger: RecordMerger | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    columns: pa.Schema | None = None
    key_fields: tuple[str, ...] = ()
    batches_by_order: bool = False
    deletes_win: bool = False
    binlog: bool = False

    def marks_deletes(self, rows: pa.Table) -> bool:
        """Whether records of this kind can mark themselves as deletes."""
        return bool(delete_columns(rows, self.delete_marker))

    def deletes(self, rows: pa.Table) -> np.ndarray:
        """Return a mask of the records that mark themselves as deletes."""
        return delete_mask(rows, self.delete_marker)

    @property
    def compares(self) -> bool:
        """Whether ordering values decide anything."""
        return self.mode is MergeMode.EVENT_TIME and bool(self.ordering_fields)

    @property
    def fills(self) -> bool:
        """Whether columns of a winner are completed from the loser even if both have all columns."""
        return self.partial_update in {PartialUpdate.IGNORE_DEFAULTS, PartialUpdate.FILL_UNAVAILABLE}

    @property
    def mixes(self) -> bool:
        """Return whether merging two whole versions can yield a record that equals neither."""
        return self.fills or self.merger is not None

    @property
    def in_batches(self) -> MergeRule:
        """The rule among records of one batch, before they meet those that are stored (pre-combine)."""
        if not self.batches_by_order:
            return replace(self, deletes_win=False)
        return replace(self, mode=MergeMode.EVENT_TIME, partial_update=None, batches_by_order=False)

    def newer_wins(self, older: pa.Table, newer: pa.Table) -> np.ndarray:
        """Return a mask of the rows whose newer version wins; the tables are aligned row by row.

        Equal values let the newer win. Null is 0 among ints, as Hudi 1.2.0 has it, and lower than any other value of
        other types, on which Hudi fails. -0.0 is lower than 0.0, and NaN greater than any number (`Double.compareTo`).
        """
        if not self.compares:
            return np.ones(newer.num_rows, dtype=bool)
        older_wins = np.zeros(newer.num_rows, dtype=bool)
        undecided = np.ones(newer.num_rows, dtype=bool)
        pairs = zip(self.order_of(older), self.order_of(newer), strict=True)
        for old, new in pairs:
            old_greater, equal = greater_and_equal(old.cast(new.type) if old.type != new.type else old, new)
            older_wins |= undecided & old_greater
            undecided &= equal
        return ~older_wins

    def order_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Columns that order as the rows' ordering values do, see `comparable_columns`."""
        return comparable_columns(rows, self.ordering_fields, binlog=self.binlog)

    def unconditional(self, rows: pa.Table, deleted: np.ndarray) -> np.ndarray:
        """Select deletes that beat every older version, regardless of ordering values, and lose to every newer one.

        They have no ordering value, or the one that stands for none (BufferedRecord.isCommitTimeOrderingDelete); a
        tuple of several fields is always one. To a merger of the user's a delete is a version like others.
        """
        if self.deletes_win:
            return deleted
        if self.merger is not None or len(self.ordering_fields) > 1 or not deleted.any():
            return np.zeros(rows.num_rows, dtype=bool)
        if not self.ordering_fields:
            return deleted
        found: np.ndarray = deleted & is_default(column_of(rows, self.ordering_fields[0]))
        return found

    def context(self, schema: pa.Schema) -> MergeContext:
        """The context for the merger.

        Args:
            schema: the table's columns.
        """
        return MergeContext(schema, self.ordering_fields, dict(self.properties))
