"""Check what the metadata table says of files: column statistics, bloom filters, results of expression indexes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.errors import CorruptError, NotFoundError, NotSupportedError
from pudi.expr import Call, depends_on_zone, keeps_order, type_of, widened
from pudi.filegroup import AnyBaseFile, BaseFile, LogFile, open_base_file
from pudi.format import BloomFilter
from pudi.format.metadata_partitions import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from pudi.metadata import Ranges, StatsSpec, leaf_values, ranges_of, stats_of_files, stats_of_records
from pudi.metadata.keys import bloom_key, column_stats_keys, expression_partition_keys, partition_stats_keys
from pudi.metadata.table import PartitionSnapshot
from pudi.metadata.value_types import leaf_type
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import joined_arrays, one_array
from pudi.schema.internal import SchemaHistory
from pudi.task.expression_values import ExpressionSpec, result_texts
from pudi.task.file_stats import stats_of_file
from pudi.task.index_keys import KeyReading
from pudi.task.jobs import FileResult
from pudi.task.table_rows import same_named

SHOWN = 5
"""Maximum number of keys named in one finding."""

DATA_FILES = "data files"
"""The index name in findings about the table's own files."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference that a check found.

    Attributes:
        index: a partition of the metadata table, `DATA_FILES` or `record keys`.
        path: the file, the file group or the partition concerned, relative to the table's root.
        what: the stated and the actual state; for record keys the rest of a sentence that begins with them.
        keys: number of record keys; 0 for other findings.
        sample: some of the keys.
    """

    index: str
    path: str
    what: str
    keys: int = 0
    sample: tuple[str, ...] = ()

    @classmethod
    def of_keys(cls, index: str, path: str, keys: pa.Array | pa.ChunkedArray, what: str) -> Finding:
        """A finding about record keys."""
        return cls(index, path, what, len(keys), tuple(keys.slice(0, SHOWN).to_pylist()))

    @property
    def text(self) -> str:
        """Return the finding as text, without its path."""
        if not self.keys:
            return self.what
        shown = ", ".join(map(repr, self.sample))
        more = f", and {self.keys - len(self.sample):,} more" if self.keys > len(self.sample) else ""
        subject = f"{self.keys:,} record keys ({shown}{more}) are" if self.keys > 1 else f"record key {shown} is"
        return f"{subject} {self.what}"


@dataclass(frozen=True, slots=True)
class Findings(FileResult):
    """The findings of one check job.

    Attributes:
        found: all findings.
        unread: numbers of unreadable file groups.
    """

    found: tuple[Finding, ...] = ()
    unread: tuple[int, ...] = ()


def merge_findings(parts: Iterable[Findings]) -> Sequence[Finding]:
    """Merge the findings of all jobs about the same thing; ordered by path."""
    folded: dict[tuple[str, str, str], Finding] = {}
    for part in parts:
        for each in part.found:
            place = (each.path, each.index, each.what)
            known = folded.get(place)
            if known is None:
                folded[place] = each
            elif each.keys:
                sample = tuple(sorted({*known.sample, *each.sample})[:SHOWN])
                folded[place] = Finding(each.index, each.path, each.what, known.keys + each.keys, sample)
    return [folded[place] for place in sorted(folded)]


UNREADABLE = (CorruptError, NotFoundError, NotSupportedError)
"""Errors of damaged or wrong files."""


@dataclass(frozen=True, slots=True)
class StatedMetadata:
    """The parts of the metadata table to compare with files; picklable.

    Attributes:
        schema: the table's columns, meta fields first where it has them.
        spec: the columns with statistics; None compares none.
        columns: the column statistics of files.
        partitions: the partition statistics, if the table has them.
        blooms: the bloom filters, if the table has them.
        history: the schemas of older files, in a table with schema on read.
    """

    schema: pa.Schema
    spec: StatsSpec | None = None
    columns: PartitionSnapshot | None = None
    partitions: PartitionSnapshot | None = None
    blooms: PartitionSnapshot | None = None
    history: SchemaHistory | None = None


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The value range of one column in one file.

    Attributes:
        least: the minimum; null if there are no values.
        greatest: the maximum; ignores NaN.
        nulls: number of nulls; None if unknown.
    """

    least: pa.Scalar
    greatest: pa.Scalar
    nulls: int | None

    @classmethod
    def of(cls, values: pa.Array | pa.ChunkedArray, nulls: int | None) -> ValueRange:
        """Return the range of some values."""
        numbers = values.filter(pc.invert(pc.is_nan(values))) if pa.types.is_floating(values.type) else values
        ends = pc.min_max(numbers)
        return cls(ends["min"], ends["max"], nulls)


@dataclass(frozen=True, slots=True)
class _Stated:
    """Statements of the metadata table about some files.

    Attributes:
        kinds: the types of the columns with statistics.
        ranges: by index and column, the ranges of the files, and of their partitions.
        blooms: the bloom filters by key; None without such an index.
    """

    kinds: Mapping[str, pa.DataType]
    ranges: Mapping[str, Mapping[str, Ranges]]
    blooms: dict[str, dict[str, object]] | None


@dataclass(frozen=True, slots=True)
class FilesCheck:
    """Compare some files with the metadata table. Picklable.

    A range wider than needed is no difference, and neither is a file without statistics: both only mean that readers
    read the file.

    Attributes:
        number: number of the job, from 0.
        stated: the metadata to compare with.
        files: files of the table's newest slices.
    """

    number: int
    stated: StatedMetadata
    files: tuple[BaseFile | LogFile, ...]

    def run(self, storage: Storage, attempt: int) -> Findings:
        """Compare the files with their index entries; see `FileJob.run`."""
        found = list(self._found(storage))
        return Findings(self.number, len(self.files), None, found=tuple(found))

    def _found(self, storage: Storage) -> Iterator[Finding]:
        stated, names = self.stated, FileNames.of(self.files)
        kinds = {
            n: k for n in (stated.spec.columns if stated.spec else ()) if (k := leaf_type(stated.schema, n)) is not None
        }
        kinds = {name: kind for name, kind in kinds.items() if not pa.types.is_nested(kind)}
        said: dict[str, Mapping[str, Ranges]] = {}
        for index in (stated.columns, stated.partitions):
            if index is not None and kinds:
                try:
                    said[index.name] = _ranges(storage, index, kinds, names)
                except UNREADABLE as error:
                    yield Finding(index.name, "", f"can't be read: {error}")
        blooms: dict[str, dict[str, object]] | None = None
        if stated.blooms is not None:
            try:
                blooms = stated_filters(storage, stated.blooms, [f for f in self.files if isinstance(f, BaseFile)])
            except UNREADABLE as error:
                yield Finding(stated.blooms.name, "", f"can't be read: {error}")
        for place, file in enumerate(self.files):
            try:
                yield from self._of_file(storage, place, _Stated(kinds, said, blooms))
            except UNREADABLE as error:
                yield Finding(DATA_FILES, file.path, f"can't be read: {error}")

    def _of_file(self, storage: Storage, place: int, stated: _Stated) -> Iterator[Finding]:
        file, kinds, said, blooms = self.files[place], stated.kinds, stated.ranges, stated.blooms
        base = None if isinstance(file, LogFile) else open_base_file(storage, file)
        asked = [name for name in kinds if any(ranges[name].known[place] for ranges in said.values())]
        asked = list(same_named(asked, file, self.stated.history))
        seen = _of_base(base, asked, kinds) if base is not None else self._of_log(storage, file, asked, kinds)
        for name, values in seen:
            for index, ranges in said.items():
                wrong = describe_difference(
                    values, ranges[name], place, exact=base is not None and index == COLUMN_STATS
                )
                if wrong is not None:
                    where = file.partition if index == PARTITION_STATS else file.path
                    of_file = f" in {file.path}" if index == PARTITION_STATS else ""
                    yield Finding(index, where, f"column {name!r}{of_file}: {wrong}")
        if base is not None and blooms is not None:
            yield from _of_bloom(base, file, blooms)

    def _of_log(
        self, storage: Storage, file: BaseFile | LogFile, asked: Sequence[str], kinds: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[str, ValueRange]]:
        if not asked:
            return
        assert self.stated.spec is not None
        stats = stats_of_file(storage, file, StatsSpec(tuple(asked), self.stated.spec.version))
        if stats is None:
            return
        rows = stats_of_files([(file.partition, basename(file.path), stats)])
        for name in asked:
            ranges = ranges_of(rows.filter(pc.equal(rows["column"], name)), kinds[name])
            if len(ranges.known) and ranges.known[0]:
                yield name, ValueRange(ranges.least[0], ranges.greatest[0], None)


@dataclass(frozen=True, slots=True)
class FileNames:
    """Partition paths and names of files."""

    partitions: pa.Array
    files: pa.Array

    @classmethod
    def of(cls, files: Sequence[BaseFile | LogFile]) -> FileNames:
        """Return the paths and names of some files."""
        names = [basename(file.path) for file in files]
        return cls(pa.array([file.partition for file in files], pa.string()), pa.array(names, pa.string()))

    def keys(self, column: str, *, of_partitions: bool = False) -> pa.Array:
        """Return the keys of a column's statistics, by file or by partition."""
        columns = pa.repeat(column, len(self.files))
        if of_partitions:
            return partition_stats_keys(columns, self.partitions)
        return column_stats_keys(columns, self.partitions, self.files)


def _ranges(
    storage: Storage, index: PartitionSnapshot, kinds: Mapping[str, pa.DataType], names: FileNames
) -> Mapping[str, Ranges]:
    """Return the index's statistics of each column in each file; unknown files have unknown ranges."""
    of_partitions = index.name == PARTITION_STATS
    keys = {name: names.keys(name, of_partitions=of_partitions) for name in kinds}
    return stated_ranges(storage, index, keys, kinds, of_partitions=of_partitions)


def stated_ranges(
    storage: Storage,
    index: PartitionSnapshot,
    keys: Mapping[str, pa.Array],
    kinds: Mapping[str, pa.DataType],
    *,
    of_partitions: bool,
) -> Mapping[str, Ranges]:
    """Return the index's statistics of columns by key; missing entries become unknown ranges.

    Args:
        storage: the table's files.
        index: the index.
        keys: record keys of the metadata table, by column.
        kinds: value types of the columns.
        of_partitions: whether the keys are those of partitions.
    """
    records = index.read(storage, joined_arrays([*keys.values()]))
    records = records.filter(records["ColumnStatsMetadata"].is_valid()).combine_chunks()
    known = one_array(records["key"]) if records.num_rows else pa.array([], pa.string())
    statistics, found = stats_of_records(records), {}
    for name, kind in kinds.items():
        own = pc.is_in(known, value_set=keys[name])
        rows = statistics.filter(own)
        if of_partitions:  # without bounds the statistics state that there are no values, as those of a log file do
            rows = rows.set_column(rows.schema.get_field_index("file"), "file", pa.repeat(".log.", rows.num_rows))
        found[name] = ranges_of(rows, kind).take(pc.index_in(keys[name], value_set=known.filter(own)))
    return found


def stated_filters(
    storage: Storage, index: PartitionSnapshot, files: Sequence[BaseFile | LogFile]
) -> dict[str, dict[str, object]]:
    """Return the bloom filters that an index has of some files, by key."""
    keys = [bloom_key(file.partition, file.name.name) for file in files]
    records = index.read(storage, pa.array(keys, pa.string()))
    return {row["key"]: row["BloomFilterMetadata"] for row in records.to_pylist()}  # files, not records


def _of_base(
    base: AnyBaseFile, asked: Sequence[str], kinds: Mapping[str, pa.DataType]
) -> Iterator[tuple[str, ValueRange]]:
    """Return the columns of a base file whose stored type equals the table's type."""
    for name in asked:
        top = name.split(".", 1)[0]
        if base.schema.get_field_index(top) < 0:
            continue
        values = leaf_values(base.read([top]), name)
        if values is None or values.type != kinds[name]:
            continue
        yield name, ValueRange.of(values, values.null_count)


def describe_difference(seen: ValueRange, said: Ranges, place: int, *, exact: bool) -> str | None:
    """Compare stated with actual statistics; return the difference, None if there is none.

    Args:
        seen: the actual values.
        said: the stated statistics.
        place: row number in `said`.
        exact: whether the statistics describe exactly these values; otherwise they may include others.
    """
    if not said.known[place]:
        return None
    least, greatest, nulls = said.least[place], said.greatest[place], said.null_count[place].as_py()
    if seen.nulls is not None and nulls is not None and (nulls != seen.nulls if exact else nulls < seen.nulls):
        return f"{nulls:,} nulls are stated, but there are {seen.nulls:,}"
    if not seen.least.is_valid:
        return None
    if greatest.is_valid and pa.types.is_floating(greatest.type) and math.isnan(greatest.as_py()):
        greatest = pa.scalar(math.inf, greatest.type)  # NaN is greater than all numbers
    if not least.is_valid or not greatest.is_valid:
        return f"states no values, but there are values from {seen.least} to {seen.greatest}"
    if pc.less(seen.least, least).as_py() or pc.greater(seen.greatest, greatest).as_py():
        return (
            f"values from {least} to {greatest} are stated, but there are values from {seen.least} to {seen.greatest}"
        )
    return None


def _of_bloom(
    base: AnyBaseFile, file: BaseFile | LogFile, blooms: Mapping[str, dict[str, object]]
) -> Iterator[Finding]:
    """Return a finding for a base file with keys that its bloom filter lacks, or without a filter."""
    stored = blooms.get(bloom_key(file.partition, file.name.name))
    if stored is None:
        yield Finding(BLOOM_FILTERS, file.path, "the file has no bloom filter in the metadata table")
        return
    yield from missing_from_filter(BLOOM_FILTERS, file.path, stored, base.read([RECORD_KEY]).column(0))


def missing_from_filter(
    index: str, path: str, stored: Mapping[str, object], texts: pa.ChunkedArray
) -> Iterator[Finding]:
    """Return a finding for texts of a file that its bloom filter lacks.

    Args:
        index: the index that has the filter.
        path: the file.
        stored: the filter in the index.
        texts: the texts, without nulls.
    """
    try:
        known = BloomFilter.from_base64(stored["bloomFilter"], str(stored["type"])).might_contain(texts)  # type: ignore[arg-type]
    except CorruptError as error:
        yield Finding(index, path, str(error))
        return
    lost = texts.filter(pc.invert(known))
    if len(lost):
        yield Finding.of_keys(index, path, lost, "missing from its bloom filter")


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
        sides = self._widened(of_files[column]), self._widened(of_partitions[column])
        for place, file in enumerate(self.files):
            if not any(ranges.known[place] for ranges in sides):
                continue
            results = self._results(storage, file)
            if isinstance(results, Finding):
                yield results
                continue
            if results is None:
                continue
            seen = ValueRange.of(results, results.null_count if isinstance(file, BaseFile) else None)
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
