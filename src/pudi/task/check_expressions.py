"""Check expression indexes: compare their entries for files with the results computed from the files' rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.expr import Call, depends_on_zone, keeps_order, type_of, widened
from pudi.filegroup import BaseFile, LogFile
from pudi.metadata import Ranges
from pudi.metadata.keys import bloom_key, expression_partition_keys
from pudi.metadata.table import PartitionSnapshot
from pudi.task.check_files import (
    UNREADABLE,
    FileNames,
    Seen,
    describe_difference,
    missing_from_filter,
    stated_filters,
    stated_ranges,
)
from pudi.task.expression_values import ExpressionSpec, result_texts
from pudi.task.finding import DATA_FILES, Finding, Findings
from pudi.task.index_keys import KeyReading


@dataclass(frozen=True, slots=True)
class ExpressionCheck:
    """Compare the entries of an expression index for some files with the files. Picklable.

    A range wider than needed is no difference, and neither is a file without an entry: both only mean that readers read
    the file.

    Attributes:
        number: number of the job, from 0.
        index: the index.
        spec: its expression.
        reading: how files are read.
        files: files of the table's newest slices.
    """

    number: int
    index: PartitionSnapshot
    spec: ExpressionSpec
    reading: KeyReading
    files: tuple[BaseFile | LogFile, ...]

    def run(self, storage: Storage, attempt: int) -> Findings:
        """Compare them; see `FileJob.run`."""
        try:
            found = list(self._filters(storage) if self.spec.bloom is not None else self._ranges(storage))
        except UNREADABLE as error:
            found = [Finding(self.index.name, "", f"can't be read: {error}")]
        return Findings(self.number, len(self.files), None, found=tuple(found))

    def _results(self, storage: Storage, file: BaseFile | LogFile) -> pa.Array | Finding | None:
        """Return the expression's results for a file, or a finding; None if the results can't be computed."""
        try:
            return self.spec.results(storage, file, self.reading)
        except UNREADABLE as error:
            return Finding(DATA_FILES, file.path, f"can't be read: {error}")

    def _filters(self, storage: Storage) -> Iterator[Finding]:
        said = stated_filters(storage, self.index, self.files)
        for file in self.files:
            stored = said.get(bloom_key(file.partition, file.name.name))
            if stored is None:
                continue
            results = self._results(storage, file)
            if isinstance(results, Finding):
                yield results
                continue
            texts = None if results is None else result_texts(results)
            if texts is not None:
                yield from missing_from_filter(
                    self.index.name, file.path, stored, pa.chunked_array([texts.drop_null()])
                )

    def _ranges(self, storage: Storage) -> Iterator[Finding]:
        column, value, names = self.spec.column, self.spec.value, FileNames.of(self.files)
        if isinstance(value, Call) and depends_on_zone(value) and not keeps_order(value):
            return  # the writer's session may have had another time zone, so a difference proves nothing
        kinds = {column: type_of(value)}
        of_files = stated_ranges(storage, self.index, {column: names.keys(column)}, kinds, of_partitions=False)
        keys = expression_partition_keys(pa.repeat(column, len(self.files)), names.partitions)
        of_partitions = stated_ranges(storage, self.index, {column: keys}, kinds, of_partitions=True)
        sides = self._widened(of_files[column][0]), self._widened(of_partitions[column][0])
        for place, file in enumerate(self.files):
            if not any(ranges.known[place] for ranges in sides):
                continue
            results = self._results(storage, file)
            if isinstance(results, Finding):
                yield results
                continue
            if results is None:
                continue
            seen = _seen(results, file)
            for ranges, whole in zip(sides, (False, True), strict=True):
                wrong = describe_difference(seen, ranges, place, exact=not whole and isinstance(file, BaseFile))
                if wrong is not None:
                    where, of_file = (file.partition, f" in {file.path}") if whole else (file.path, "")
                    yield Finding(self.index.name, where, f"results for {column!r}{of_file}: {wrong}")

    def _widened(self, said: Ranges) -> Ranges:
        """Return the stated range, widened to what a writer in any time zone may have meant."""
        value = self.spec.value
        if not isinstance(value, Call) or not depends_on_zone(value):
            return said
        least, greatest = widened(value, said.least, said.greatest)
        lost = pc.and_(said.least.is_valid(), pc.or_(least.is_null(), greatest.is_null()))
        known = said.known & ~np.asarray(lost)
        return Ranges(least, greatest, known, said.nan_free, said.null_count, said.value_count)


def _seen(results: pa.Array, file: BaseFile | LogFile) -> Seen:
    numbers = results.filter(pc.invert(pc.is_nan(results))) if pa.types.is_floating(results.type) else results
    ends = pc.min_max(numbers)
    return Seen(ends["min"], ends["max"], results.null_count if isinstance(file, BaseFile) else None)
