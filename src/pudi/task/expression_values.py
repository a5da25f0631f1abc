"""The values that an expression index stores of a file: statistics or a bloom filter of an expression's results.

Source: SparkMetadataWriterUtils.getExpressionIndexRecordsUsingColumnStats and its counterpart for bloom filters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.context import Storage
from pudi.errors import InvalidArgumentError
from pudi.expr import Call, Column, evaluate
from pudi.filegroup import BaseFile, FileSlice, LogFile, read_all_blocks
from pudi.format import BloomFilter, BloomOptions
from pudi.format.log_data import decode_data
from pudi.metadata import FILE_STATS, StatsSpec, leaf_values, log_file_stats
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import WrittenBase, WrittenLog, WrittenLogs
from pudi.schema import conform_read
from pudi.schema.arrays import one_array
from pudi.task.index_keys import KeyReading
from pudi.task.jobs import FileResult
from pudi.task.read import SliceReader


@dataclass(frozen=True, slots=True)
class IndexedValues:
    """The index values of one file; both are None if they are unknown.

    Attributes:
        partition: partition path.
        file: name of the file.
        instant: the instant of the file.
        stats: a table of `FILE_STATS`.
        bloom: a filter of the results as texts.
        index: the index's partition of the metadata table; empty if the reader of the result knows it.
    """

    partition: str
    file: str
    instant: str
    stats: pa.Table | None = None
    bloom: BloomFilter | None = None
    index: str = ""


@dataclass(frozen=True, slots=True)
class ExpressionSpec:
    """An expression index; picklable.

    Attributes:
        column: name of the column; dots separate the fields of a struct.
        value: the expression: the bound column itself, or a function of it.
        version: version of the index's values, see `StatsSpec`.
        bloom: options of bloom filters; None for an index of statistics.
    """

    column: str
    value: Call | Column
    version: int
    bloom: BloomOptions | None = None

    def keep(self, storage: Storage, file: BaseFile | LogFile, reading: KeyReading) -> IndexedValues:
        """Read a file.

        Raises:
            NotFoundError: it's gone.
            CorruptError: it can't be read.
        """
        return self.of_results(self.results(storage, file, reading), file)

    @property
    def top(self) -> str:
        """The column, or the struct that holds it."""
        return self.column.split(".", 1)[0]

    def of_rows(self, rows: pa.Table, file: BaseFile | LogFile) -> IndexedValues:
        """Return the values of a file by its rows, which have `top` in the table's type."""
        return self.of_results(self._results(rows), file)

    def of_results(self, results: pa.Array | None, file: BaseFile | LogFile) -> IndexedValues:
        """Return the values of a file by the expression's results; None if these are unknown."""
        if results is None:
            return IndexedValues(file.partition, file.name.name, file.instant)
        if self.bloom is None:
            stats = self._stats(results, file)
            return IndexedValues(file.partition, file.name.name, file.instant, stats=stats)
        texts = result_texts(results)
        bloom = None if texts is None else BloomFilter.build(_hashed(texts), self.bloom)
        return IndexedValues(file.partition, file.name.name, file.instant, bloom=bloom)

    def results(self, storage: Storage, file: BaseFile | LogFile, reading: KeyReading) -> pa.Array | None:
        """Compute the expression on a file's rows, in a log file on all versions; None if it can't be computed.

        Raises:
            NotFoundError: it's gone.
            CorruptError: it can't be read.
        """
        if reading.history is not None:  # the column may have another name in the file
            return None
        return self._results(self._rows(storage, file, reading))

    def _rows(self, storage: Storage, file: BaseFile | LogFile, reading: KeyReading) -> pa.Table:
        """Return the column in the table's type; of a log file, in all its versions."""
        field = reading.schema.field(self.top)
        target = pa.schema([field.with_nullable(True)])
        if isinstance(file, BaseFile):
            plan = ReadPlan(storage.root, reading.schema, (field.name,), history=reading.history)
            batches = SliceReader(storage, plan).read(FileSlice(file.partition, file.file_id, file))
            return pa.Table.from_batches(batches, pa.schema([field])).cast(target)
        parts = [target.empty_table()]
        assert reading.merging is not None
        for block in read_all_blocks(storage, [file], reading.merging.scope):
            if not block.kind.is_data:
                continue
            rows = decode_data(block, {field.name})
            if field.name in rows.column_names:
                parts.append(conform_read(rows, target, path=file.path))
            elif not block.is_partial:  # rows without the column: a partial update of them leaves it unchanged
                parts.append(pa.table([pa.nulls(rows.num_rows, field.type)], schema=target))
        return pa.concat_tables(parts)

    def _results(self, rows: pa.Table) -> pa.Array | None:
        """Return the expression's results; None if they can't be computed."""
        if isinstance(self.value, Column):
            return one_array(leaf_values(rows, self.column))
        try:
            return evaluate(self.value, rows) if rows.num_rows else pa.nulls(0, self.value.type)
        except InvalidArgumentError:
            return None

    def _stats(self, results: pa.Array, file: BaseFile | LogFile) -> pa.Table | None:
        """Return statistics as Hudi makes them.

        The value count excludes nulls. The total size is the file's size, the uncompressed size twice that.
        """
        if not len(results) and isinstance(file, BaseFile):
            return None
        table = pa.table([results], names=["result"])
        found = log_file_stats(table, StatsSpec(("result",), self.version)).to_pylist()
        said = {
            "column": self.column,
            "value_count": len(results) - results.null_count,
            "total_size": file.size,
            "total_uncompressed_size": 2 * file.size,
        }
        return pa.Table.from_pylist([{**row, **said} for row in found], FILE_STATS) if found else None


@dataclass(frozen=True, slots=True)
class ExpressionStaging:
    """Recipe by which tasks compute an expression index's values for the files that they write; picklable.

    Attributes:
        index: the index's partition of the metadata table.
        spec: the index.
        renames: whether the column may have another name in a file, so that the values are unknown.
    """

    index: str
    spec: ExpressionSpec
    renames: bool = False

    def of_base(self, storage: Storage, written: WrittenBase) -> IndexedValues:
        """Compute the values of a base file; nothing is read but the rows at hand."""
        found = self.spec.of_results(None, written.file)
        if not self.renames:
            found = self.spec.of_rows(written.columns([self.spec.top]), written.file)
        return replace(found, index=self.index)

    def of_logs(self, storage: Storage, written: WrittenLogs) -> list[IndexedValues]:
        """Compute the values of log files; nothing is read but the rows at hand."""
        return [self._of_log(each) for each in written.files]

    def _of_log(self, log: WrittenLog) -> IndexedValues:
        file, spec = log.file, self.spec
        if self.renames:
            found = spec.of_results(None, file)
        elif spec.top in log.names:
            found = spec.of_rows(log.columns([spec.top]), file)
        else:  # a partial update leaves the column unchanged
            found = spec.of_results(pa.nulls(0, spec.value.type), file)
        return replace(found, index=self.index)


def result_texts(results: pa.Array) -> pa.Array | None:
    """Return results as Java prints them; None for types whose text depends on more than the value."""
    kind = results.type
    if pt.is_dictionary(kind):
        return result_texts(results.dictionary_decode())
    plain = pt.is_string(kind) or pt.is_large_string(kind) or pt.is_signed_integer(kind) or pt.is_date32(kind)
    return pc.cast(results, pa.string()) if plain else None


def _hashed(texts: pa.Array) -> pa.Array:
    """Return the texts that a bloom filter holds; Hudi's hash refuses empty ones."""
    return texts.filter(pc.greater(pc.binary_length(texts), 0))


@dataclass(frozen=True, slots=True)
class ExpressionResult(FileResult):
    """The results of an `ExpressionTask`, file by file."""

    kept: tuple[IndexedValues, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpressionTask:
    """Compute the values of an expression index for some files. Picklable.

    Attributes:
        number: number of the task, from 0.
        reading: how files are read.
        spec: the index.
        files: the files.
    """

    number: int
    reading: KeyReading
    spec: ExpressionSpec
    files: tuple[BaseFile | LogFile, ...]

    def run(self, storage: Storage, attempt: int) -> ExpressionResult:
        """Compute and return them; see `FileJob.run`."""
        kept = tuple(self.spec.keep(storage, file, self.reading) for file in self.files)
        return ExpressionResult(self.number, 0, None, kept=kept)
