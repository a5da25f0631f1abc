"""The rows of a scan as a LazyFrame of polars: what polars pushes becomes columns, conditions and a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl
from polars.io.plugins import register_io_source

from pudi.expr import from_polars, real_predicate

if TYPE_CHECKING:
    from pudi.scan.dataset import NarrowableRows


def scan_lazily(scan: NarrowableRows) -> pl.LazyFrame:
    """Return a LazyFrame of a scan's rows, by polars' interface for readers ("IO plugins")."""
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
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
