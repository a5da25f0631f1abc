"""Take rows of columns that hold more text than 32-bit offsets can count: one array then has at most `_MOST` bytes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MOST = (1 << 31) - (1 << 20)
"""Maximum bytes of text in one array: its offsets have 31 bits."""
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}

Rows: TypeAlias = "np.ndarray | pa.Array"


def take(rows: pa.Table, places: Rows) -> pa.Table:
    """Return the rows of a table at some places; see `take_column`.

    Args:
        rows: the table.
        places: numbers of rows, null for a row of nulls.
    """
    places = places if isinstance(places, pa.Array) else pa.array(places)
    columns = [take_column(column, places) for column in rows.columns]
    return pa.table(columns, schema=rows.schema)


def take_column(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    """Return the values of a column at some places, in chunks of at most `_MOST` bytes of text.

    `ChunkedArray.take` brings all chunks into one array, before or after it takes the values, and fails where that
    is too long.

    Args:
        column: the column.
        places: numbers of rows, null for a null.
    """
    large = _LARGE.get(column.type)
    if large is None:
        return column.take(places)
    if column.nbytes <= _MOST and _longest(column) * len(places) <= _MOST:
        return column.take(places)
    taken = column.cast(large).take(places)
    return pa.chunked_array(
        [piece for chunk in taken.chunks for piece in _pieces(chunk, column.type)], type=column.type
    )


def _longest(column: pa.ChunkedArray) -> int:
    return max((pc.max(pc.binary_length(chunk)).as_py() or 0 for chunk in column.chunks), default=0)


def _pieces(texts: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Cut a large array into arrays of ordinary offsets."""
    ends = np.cumsum(np.asarray(pc.fill_null(pc.binary_length(texts), 0)).astype(np.int64))
    found, start = [], 0
    while start < len(texts):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _MOST, side="right")))
        # offsets of a part of an array don't begin at 0, and a cast looks at the last of them
        found.append(pc.cast(pa.concat_arrays([texts.slice(start, end - start)]), kind))
        start = end
    return found
