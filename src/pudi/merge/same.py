"""Compare values of two columns row by row, for every type of a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> np.ndarray:
    """Return a mask of the rows with equal values in two columns of one type; nulls are equal, and NaNs too."""
    return _same(_whole(left), _whole(right))


def _same(left: pa.Array, right: pa.Array) -> np.ndarray:
    left_null, right_null = np.asarray(left.is_null()), np.asarray(right.is_null())
    both = ~left_null & ~right_null
    same: np.ndarray = (left_null & right_null) | (both & _values(left, right, both))
    return same


def _values(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    """Compare two columns for rows where `both` is true; other rows are undefined."""
    kind = left.type
    if pa.types.is_struct(kind):
        same = np.ones(len(left), dtype=bool)
        for number in range(kind.num_fields):
            same &= _same(pc.struct_field(left, number), pc.struct_field(right, number))
        return same
    if pa.types.is_map(kind):
        listed = pa.list_(pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)]))
        left, right = left.cast(listed), right.cast(listed)
    if pa.types.is_list(left.type) or pa.types.is_large_list(left.type):
        return _lists(left, right, both)
    equal: np.ndarray = np.array(pc.fill_null(pc.equal(left, right), False), dtype=bool)
    if pa.types.is_floating(kind):
        equal |= np.array(pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False), dtype=bool)
    return equal


def _lists(left: pa.Array, right: pa.Array, both: np.ndarray) -> np.ndarray:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(left), -1))
    same: np.ndarray = both & (lengths == np.asarray(pc.fill_null(pc.list_value_length(right), -1)))
    rows = np.flatnonzero(same & (lengths > 0))
    if not len(rows):
        return same
    items = [pc.list_flatten(side.take(pa.array(rows))) for side in (left, right)]
    alike = _same(items[0], items[1])
    starts = np.concatenate([[0], np.cumsum(lengths[rows])[:-1]])
    same[rows] = np.logical_and.reduceat(alike, starts)
    return same


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
