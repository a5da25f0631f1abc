"""The rows of a scan for query engines that push filters: a pyarrow dataset, and a LazyFrame of polars."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs

from pudi.errors import NotSupportedError
from pudi.expr import Expr, columns_of, from_arrow, from_polars, real_predicate

if TYPE_CHECKING:
    import polars as pl

_NOT_BY_ITSELF = "a pudi scan, which is read by the methods of its dataset"
"""The file of the dataset that Arrow's C++ code sees: a reader that goes around `scanner` names it in its error."""


_counting = threading.Lock()


@contextmanager
def _one_more_thread() -> Iterator[None]:
    """Lend Arrow a thread for reading files while a scan is under way.

    A scanner takes the batches in such a thread, which waits there for files that others of them read. Without more of
    them, as many scanners at once as there are threads would wait for ever.
    """
    _change_threads(1)
    try:
        yield
    finally:
        _change_threads(-1)


def _change_threads(by: int) -> None:
    with _counting:
        pa.set_io_thread_count(pa.io_thread_count() + by)


class NarrowableRows(Protocol):
    """Rows that a query engine narrows before it reads them: a `Scan`."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    def narrowed(
        self, columns: Sequence[str] | None, where: Sequence[Expr], limit: int | None = None
    ) -> NarrowableRows:
        """Fewer columns and rows, as of `Scan.narrowed`."""

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream."""


class ScanDataset(pads.UnionDataset):  # type: ignore[misc]  # pyarrow has no types
    """The rows of a scan. DuckDB and DataFusion push columns and filters into it, and stop reading at a limit.

    It is pyarrow's own class, since DuckDB offers filters to nothing else. `scanner` is pudi's, and so are all methods
    of `Dataset` that go through it.

    Args:
        scan: the rows.
        filters: conditions of `filter`.
    """

    def __init__(self, scan: NarrowableRows, filters: Sequence[pc.Expression] = ()) -> None:
        schema, form, files = scan.schema, pads.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
        nothing = pads.FileSystemDataset([form.make_fragment(_NOT_BY_ITSELF, files)], schema, form, files)
        super().__init__(schema, [nothing])
        self._scan = scan
        self._filters = tuple(filters)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = 131_072,
        **options: Any,
    ) -> pads.Scanner:
        """Return a scanner, which can be read once.

        Args:
            columns: the columns that come back, or expressions by name; None for all.
            filter: the rows that come back.
            batch_size: greatest number of rows in a batch.
            options: the others of pyarrow's scanners, about files, are ignored; `use_threads` and `memory_pool` hold.
        """
        return self._scanner(columns, filter, None, batch_size, options)

    def head(
        self,
        num_rows: int,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> pa.Table:
        """Return some rows; arguments as of `scanner`, and their greatest number."""
        limit = num_rows if filter is None and not self._filters else None
        return self._scanner(columns, filter, limit, 131_072, options).head(num_rows)

    def _scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None,
        filter: pc.Expression | None,
        limit: int | None,
        batch_size: int,
        options: Mapping[str, Any],
    ) -> pads.Scanner:
        """Return a scanner; `limit` is for the rows before the filter."""
        whole = self._whole_filter(filter)
        schema, needed = self.schema, self._needed(columns, whole)
        names = schema.names if needed is None else [name for name in schema.names if name in needed]
        where = () if whole is None else from_arrow(whole, schema)

        def batches() -> Iterator[pa.RecordBatch]:
            with _one_more_thread():
                yield from self._scan.narrowed(names, where, limit).to_batches()

        read = pa.schema([schema.field(name) for name in names])
        kept = {name: value for name, value in options.items() if name in {"use_threads", "memory_pool"}}
        wanted = dict(columns) if isinstance(columns, Mapping) else columns if columns is None else list(columns)
        return pads.Scanner.from_batches(
            batches(), schema=read, columns=wanted, filter=whole, batch_size=batch_size, **kept
        )

    def _whole_filter(self, filter: pc.Expression | None) -> pc.Expression | None:
        whole = None
        for each in (*self._filters, *(() if filter is None else (filter,))):
            whole = each if whole is None else whole & each
        return whole

    @staticmethod
    def _needed(columns: Iterable[str] | Mapping[str, Any] | None, filter: pc.Expression | None) -> set[str] | None:
        """Return the columns to read; None for all."""
        if columns is None:
            return None
        expressions = [] if filter is None else [filter]
        if isinstance(columns, Mapping):
            expressions += columns.values()
        found: set[str] = set() if isinstance(columns, Mapping) else set(columns)
        for each in expressions:
            used = columns_of(each)
            if used is None:
                return None
            found |= used
        return found

    def filter(self, expression: pc.Expression) -> ScanDataset:
        """Return the dataset with fewer rows."""
        return ScanDataset(self._scan, (*self._filters, expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[ScanFragment]:
        """Yield the one part that it has: pudi reads several files at once by itself."""
        yield ScanFragment(self if filter is None else self.filter(filter))

    def replace_schema(self, schema: pa.Schema) -> ScanDataset:
        """Refuse another schema: a scan's rows have that of the table; raises NotSupportedError."""
        raise NotSupportedError(f"a dataset of a scan with another schema: {schema}")

    @property
    def children(self) -> list[pads.Dataset]:
        """None: it isn't made of other datasets."""
        return []

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanDataset, (self._scan, self._filters)


class ScanFragment:
    """The rows of a dataset as its only part, as DataFusion reads one.

    Args:
        dataset: the rows.
    """

    def __init__(self, dataset: ScanDataset) -> None:
        self._dataset = dataset

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """True: nothing is known about all rows."""
        return pc.scalar(True)

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> pads.Scanner:
        """Return a scanner; arguments as of the dataset's, and its own schema."""
        del schema
        return self._dataset.scanner(**options)

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows in batches."""
        yield from self.scanner(schema, **options).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """The rows."""
        return self.scanner(schema, **options).to_table()

    def count_rows(self, **options: Any) -> int:
        """The number of rows."""
        return int(self._dataset.count_rows(**options))


def scan_lazily(scan: NarrowableRows) -> pl.LazyFrame:
    """Return a LazyFrame of a scan's rows, by polars' interface for readers ("IO plugins").

    What polars pushes becomes columns, conditions and a limit of the scan.
    """
    import polars as pl  # noqa: PLC0415 - optional
    from polars.io.plugins import register_io_source  # noqa: PLC0415

    schema = scan.schema
    types = _frame(schema.empty_table()).schema

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del batch_size  # a hint
        predicate = None if predicate is None else real_predicate(predicate)
        needed = columns
        if columns is not None and predicate is not None:
            needed = list(dict.fromkeys((*columns, *predicate.meta.root_names())))
        needed = schema.names[:1] if needed == [] else needed  # the number of rows, which a batch alone doesn't keep
        # polars applies a limit before a predicate, where it pushes both
        where = () if predicate is None or rows is not None else from_polars(predicate, schema, types)
        found = False
        for batch in scan.narrowed(needed, where, rows).to_batches():
            frame = _frame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if needed is not columns:
                frame = frame.select(columns) if columns else frame.drop(frame.columns)  # which keeps the height
            found = True
            yield frame
        if not found:
            empty = pl.DataFrame(schema=types)
            yield empty if columns is None else empty.select(columns)

    try:
        return register_io_source(read, schema=types, is_pure=True)  # a query that uses it twice reads once
    except TypeError:  # earlier releases of polars don't ask
        return register_io_source(read, schema=types)


def _frame(rows: object) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - optional

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
