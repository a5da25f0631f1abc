"""Read one file slice: the wanted rows and columns in the table's types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.expr import ColumnBounds, columns, evaluate, prune
from pudi.filegroup import AnyBaseFile, FileSlice, open_base_file
from pudi.format import ColumnStatistics
from pudi.plan.read import ReadPlan, needed_columns
from pudi.schema import COMMIT_TIME, FieldNames
from pudi.task.merged import MergedSlices
from pudi.task.table_rows import read_base_rows


@dataclass(frozen=True, slots=True)
class SliceReader:
    """Reads slices of one plan.

    Args:
        storage: the table's files.
        plan: the read.
    """

    storage: Storage
    plan: ReadPlan

    def read(self, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a slice, row group by row group.

        Raises:
            CorruptError: the file can't be read, or lacks a required column.
        """
        if file_slice.logs and self.plan.merging is not None:
            yield from self._merged(file_slice)
            return
        file = open_base_file(self.storage, file_slice.base_file)
        names = self.plan.names(file_slice.instant)
        target = pa.schema([self.plan.schema.field(name) for name in needed_columns(self.plan)])
        if self.plan.commit_times is not None and COMMIT_TIME not in file.schema.names:
            raise file.corrupt(f"no column {COMMIT_TIME}")
        for group in self.candidate_groups(file, names):
            rows = read_base_rows(file, file_slice.base_file, target, self.plan.history, [group])
            yield from self._keep(rows).to_batches()

    def _merged(self, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a slice with log files; filters apply to merged records only."""
        for part in self._slices.parts(file_slice, needed_columns(self.plan)):
            yield from self._keep(part.rows).to_batches()

    def winners(self, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a slice that come from its log files; see `MergedSlices.winners`."""
        for rows in self._slices.winners(file_slice, needed_columns(self.plan)):
            yield from self._keep(rows).to_batches()

    def replaced(self, file_slice: FileSlice) -> np.ndarray:
        """Return the row numbers of replaced and deleted base rows; see `MergedSlices.replaced`."""
        return self._slices.replaced(file_slice)

    @property
    def _slices(self) -> MergedSlices:
        plan = self.plan
        assert plan.merging is not None
        times = plan.commit_times if plan.merging.scope.among is not None else None  # else base rows take part too
        return MergedSlices(self.storage, plan.merging, plan.schema, plan.history, times)

    def candidate_groups(self, file: AnyBaseFile, names: FieldNames | None) -> list[int]:
        """Return the row groups whose statistics allow a matching row.

        Args:
            file: the base file.
            names: the names of the columns in the file; None if they are the same.
        """
        groups = list(range(file.num_groups))
        where, times = self.plan.narrowed, self.plan.commit_times
        if where is None and times is None:
            return groups
        bounds = self._bounds(file, names)
        return [
            group
            for group in groups
            if (where is None or prune(where, {name: _bounds_of(known) for name, known in bounds[group].items()}))
            and (times is None or _may_hold(bounds[group].get(COMMIT_TIME), times))
        ]

    def _bounds(self, file: AnyBaseFile, names: FieldNames | None) -> list[dict[str, ColumnStatistics]]:
        """Return statistics of the filtered columns by row group; none for columns stored in another type."""
        bounds: list[dict[str, ColumnStatistics]] = [{} for _ in range(file.num_groups)]
        physical = file.schema
        where = self.plan.narrowed
        filtered = set() if where is None else set(columns(where))
        if self.plan.commit_times is not None:
            filtered.add(COMMIT_TIME)
        for name in filtered:
            stored = name if names is None else names.of(name)[0]
            position = -1 if stored is None else physical.get_field_index(stored)
            if position < 0 or physical.field(position).type != self.plan.schema.field(name).type:
                continue
            for group, found in enumerate(file.statistics(physical.field(position).name)):
                if found is not None:
                    bounds[group][name] = found
        return bounds

    def _keep(self, table: pa.Table) -> pa.Table:
        if self.plan.commit_times is not None:
            chosen = pa.array(sorted(self.plan.commit_times), pa.string())
            table = table.filter(pc.is_in(table[COMMIT_TIME], value_set=chosen))
        if self.plan.where is not None:
            table = table.filter(evaluate(self.plan.where, table))
        if self.plan.keys is not None:
            table = table.filter(self.plan.keys.matches(table))
        return table.select(list(self.plan.columns))


def _bounds_of(known: ColumnStatistics) -> ColumnBounds:
    return ColumnBounds(known.minimum, known.maximum, known.null_count, known.num_rows, known.has_nan)


def _may_hold(bounds: ColumnStatistics | None, times: frozenset[str]) -> bool:
    if bounds is None or bounds.minimum is None or bounds.maximum is None:
        return True
    return any(bounds.minimum <= time <= bounds.maximum for time in times)
