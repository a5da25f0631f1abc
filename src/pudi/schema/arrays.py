"""Join chunks and take rows of columns, however much text they hold: the one place that does so.

The offsets of texts, lists and maps have 32 bits, so that one array has at most 2 GiB of text, also within structs and
lists. Arrow's own `take`, `combine_chunks` and `concat_arrays` make one array of all chunks and fail with more. Rows of
a table go through `take`, `portions` and `decoded_column`, which cut what is too long into several chunks; keys, and
other columns that are known to be small, through `one_array`, `joined_arrays` and `encoded_column`, which refuse it.

`groups_of` and `places_of` give the row numbers of each group of equal values, by one sort for any number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import NotSupportedError

_MOST = (1 << 31) - (1 << 20)
"""Maximum bytes of text, plus elements of lists, in one array."""

Rows: TypeAlias = "np.ndarray | pa.Array"
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


def take(rows: pa.Table, places: Rows) -> pa.Table:
    """Return the rows of a table at some places; see `take_column`.

    Args:
        rows: the table.
        places: numbers of rows, null for a row of nulls.
    """
    places = places if isinstance(places, pa.Array) else pa.array(places)
    columns = [take_column(column, places) for column in rows.columns]
    return pa.table(columns, schema=rows.schema)


def take_column(column: Column, places: Rows) -> pa.ChunkedArray:
    """Return the values of a column at some places, in chunks that arrays have room for.

    Args:
        column: the column.
        places: numbers of rows, null for a null.
    """
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    places = places if isinstance(places, pa.Array) else pa.array(places)
    if pt.is_dictionary(column.type) or not _has_offsets(column.type) or _has_room(column, places):
        return column.take(places)
    known, at = np.asarray(places.is_valid()), np.asarray(places.fill_null(0)).astype(np.int64)
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return pa.chunked_array([pa.nulls(len(places), column.type)])
    sizes = np.concatenate([_sizes(chunk) for chunk in chunks])
    ends = np.cumsum(np.where(known, sizes[at], 0))
    starts = np.cumsum([0, *map(len, chunks)])
    pieces = [_gathered(chunks, starts, at[start:end], known[start:end]) for start, end in _runs([ends])]
    return pa.chunked_array(pieces, column.type)


def list_offsets(lists: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps, null where the value is: pyarrow before 17 takes no `mask` for maps.

    Args:
        lists: an array that isn't a part of another one, whose offsets don't begin at 0.
    """
    if not lists.null_count:
        return lists.offsets
    null = joined_arrays([lists.is_null(), pa.array([False])])
    return pc.if_else(null, pa.scalar(None, lists.offsets.type), lists.offsets)


def ordered_by(rows: pa.Table, column: str) -> pa.Table:
    """Return the rows of a table in the order of a column."""
    return take(rows, pc.sort_indices(rows, [(column, "ascending")]))


def portions(rows: pa.Table, most_rows: int | None = None) -> Iterator[pa.Table]:
    """Cut a table into tables of consecutive rows, each of whose columns has room in one array.

    Args:
        rows: the table; dictionaries count as the values that they stand for.
        most_rows: maximum rows of a part.

    Yields:
        The parts; none of a table without rows.
    """
    for start, end in common_runs([rows], most_rows):
        yield rows.slice(start, end - start)


def common_runs(tables: Sequence[pa.Table], most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield start and end of runs of rows that have room in one array each, in all columns of tables of one length."""
    columns = [column for rows in tables for column in rows.columns if _may_be_long(column)]
    ends = [np.cumsum(np.concatenate([_sizes(chunk) for chunk in column.chunks])) for column in columns]
    count = tables[0].num_rows
    yield from _runs([np.zeros(count, dtype=np.int64), *ends], most_rows)


def pieces_of(array: pa.Array) -> list[pa.Array]:
    """Cut an array of any layout into arrays that have room for their values in a layout with 32-bit offsets."""
    if not _may_be_long(array):
        return [array]
    runs = list(_runs([np.cumsum(_sizes(array))]))
    if len(runs) <= 1:
        return [array]
    # offsets of a part of an array don't begin at 0, and casts look at the last of them
    return [pa.concat_arrays([array.slice(start, end - start)]) for start, end in runs]


def decoded_column(column: Column) -> pa.ChunkedArray:
    """Return the values that a column of dictionaries stands for; any other column as it is."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if not pt.is_dictionary(column.type):
        return pa.chunked_array(chunks, column.type)
    values = [piece for chunk in chunks for piece in take_column(chunk.dictionary, chunk.indices).chunks]
    return pa.chunked_array(values, column.type.value_type)


def fits(column: Column) -> bool:
    """Return whether one array has room for the values of a column."""
    return not _may_be_long(column) or _size(column) <= _MOST


def repeated(value: pa.Scalar, count: int) -> pa.ChunkedArray:
    """Return a column of one text, or value of another plain type, in all rows."""
    size = int(_sizes(pa.array([value.as_py()], value.type))[0]) if _has_offsets(value.type) else 0
    most = max(1, _MOST // size) if size else max(1, count)
    parts = [pa.repeat(value, min(most, count - start)) for start in range(0, count, most)]
    return pa.chunked_array(parts, value.type)


def in_step(*columns: Column) -> Iterator[tuple[pa.Array, ...]]:
    """Yield the parts of columns of one length between any two ends of chunks."""
    rows = pa.table(list(columns), names=[str(number) for number in range(len(columns))])
    for batch in rows.to_batches():
        yield tuple(batch.columns)


def one_array(column: Column) -> pa.Array:
    """Return a column of keys, or of something else that is small, as one array.

    Raises:
        NotSupportedError: it's longer than an array can be.
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if len(chunks) == 1 and not chunks[0].offset:
        return chunks[0]
    if (
        len(chunks) > 1
        and _may_be_long(column)
        and not pt.is_dictionary(column.type)
        and (size := _size(column)) > _MOST
    ):
        raise NotSupportedError(
            f"the keys of one step of the work, or other values that are needed together, have {size:,} bytes where an "
            f"array has room for {_MOST:,}; write in smaller batches, or into more and smaller file groups"
        )
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type)


def text_array(column: Column) -> pa.Array:
    """Return a column of keys as one array of texts, in whichever layout they come; see `one_array`."""
    return one_array(column).cast(pa.string())


def joined_arrays(arrays: Sequence[pa.Array], kind: pa.DataType | None = None) -> pa.Array:
    """Return arrays of keys, one after the other, as one array; see `one_array`.

    Args:
        arrays: the arrays, of one type.
        kind: their type, where there may be none.
    """
    return one_array(pa.chunked_array(list(arrays), kind))


def offsets_of(values: pa.Array) -> np.ndarray:
    """Return where each cell of a text or binary array begins in its data, and where the last one ends, as int64."""
    _, ends, _ = values.buffers()
    if ends is None or not len(values):
        return np.zeros(len(values) + 1, dtype=np.int64)
    wide = pt.is_large_string(values.type) or pt.is_large_binary(values.type)
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)
    return offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)


def content_of(values: pa.Array) -> memoryview:
    """Return the cells of a text or binary array one after the other, without a copy."""
    offsets, data = offsets_of(values), values.buffers()[2]
    return memoryview(b"" if data is None else data)[int(offsets[0]) : int(offsets[-1])]


def places_among(values: Column, among: pa.Array) -> np.ndarray:
    """Return the place of each value in an array without duplicates; -1 if it isn't there."""
    found: np.ndarray = np.asarray(pc.fill_null(pc.index_in(values, value_set=among), -1))
    return found.astype(np.int64, copy=False)


def mask_of(values: Column) -> np.ndarray:
    """Return a boolean column as an array; null is false."""
    filled: np.ndarray = np.array(pc.fill_null(values, False), dtype=bool)
    return filled


def constant_text(value: str, count: int) -> pa.DictionaryArray:
    """Return a column of one text in all rows, as a dictionary of one value."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def encoded_column(column: Column) -> pa.DictionaryArray:
    """Return a column of keys as one array with one dictionary."""
    codes = column if pt.is_dictionary(column.type) else pc.dictionary_encode(column)
    return one_array(codes.unify_dictionaries()) if isinstance(codes, pa.ChunkedArray) else codes


def _gathered(chunks: Sequence[pa.Array], starts: np.ndarray, at: np.ndarray, known: np.ndarray) -> pa.Array:
    """Return values of chunks that have room in one array."""
    of = np.searchsorted(starts, at, side="right") - 1
    order = np.argsort(of, kind="stable")
    bounds = np.searchsorted(of[order], np.arange(len(chunks) + 1))
    parts = [
        chunk.take(pa.array(at[order[bounds[number] : bounds[number + 1]]] - starts[number]))
        for number, chunk in enumerate(chunks)
        if bounds[number] < bounds[number + 1]
    ]
    together = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if known.all() and len(parts) == 1:
        return together
    back = np.empty(len(at), dtype=np.int64)
    back[order] = np.arange(len(at))
    return together.take(pa.array(back, mask=~known))


def _runs(ends: Sequence[np.ndarray], most_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut rows into runs of at most `_MOST` by each of several running sums; a longer row is a run of its own."""
    count = len(ends[0])
    start = 0
    while start < count:
        end = count if most_rows is None else min(count, start + most_rows)
        for sums in ends:
            before = int(sums[start - 1]) if start else 0
            end = min(end, int(np.searchsorted(sums, before + _MOST, side="right")))
        end = max(start + 1, end)
        yield start, end
        start = end


def _has_room(column: pa.ChunkedArray, places: pa.Array) -> bool:
    """Return whether the values at some places fit, and all chunks of the column together."""
    most, count = _at_most(column), len(places)
    if most > _MOST:
        return False
    if most * count <= _MOST or _is_ascending(places):
        return True
    return max((int(_sizes(chunk).max(initial=0)) for chunk in column.chunks), default=0) * count <= _MOST


def _is_ascending(places: pa.Array) -> bool:
    """Return whether places come in order, each once: what is taken is then a part of the column."""
    at = np.asarray(places)
    return not places.null_count and bool((at[1:] > at[:-1]).all())


def _may_be_long(column: Column) -> bool:
    """Return whether the values of a column may be more than an array has room for."""
    return _has_offsets(column.type) and (_has_codes(column.type) or _at_most(column) > _MOST)


def _at_most(column: Column) -> int:
    """Return no less than the size of a column without codes: booleans in lists have one bit, and count as elements."""
    return int(column.nbytes) * (8 if pt.is_nested(column.type) else 1)


def _has_codes(kind: pa.DataType) -> bool:
    """Return whether values of a type are stored shorter than they are."""
    if pt.is_nested(kind):
        return any(_has_codes(kind.field(number).type) for number in range(kind.num_fields))
    return _is_coded(kind)


def _size(column: Column) -> int:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return int(sum(_sizes(chunk).sum() for chunk in chunks))


def _is_coded(kind: pa.DataType) -> bool:
    return bool(pt.is_dictionary(kind) or pt.is_string_view(kind) or pt.is_binary_view(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind))


def _has_offsets(kind: pa.DataType) -> bool:
    """Return whether values of a type have no fixed size."""
    if pt.is_dictionary(kind):
        return _has_offsets(kind.value_type)
    if pt.is_struct(kind):
        return any(_has_offsets(field.type) for field in kind)
    if pt.is_fixed_size_list(kind):
        return _has_offsets(kind.value_type)
    return _is_text(kind) or _is_coded(kind) or bool(pt.is_nested(kind))


def _sizes(values: pa.Array) -> np.ndarray:
    """Return for each row the bytes of its texts plus the elements of its lists."""
    kind, none = values.type, np.zeros(len(values), dtype=np.int64)
    if not _has_offsets(kind):
        return none
    if pt.is_dictionary(kind):
        sizes = _sizes(values.dictionary)
        return sizes[np.asarray(values.indices.fill_null(0))] if len(sizes) else none
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        values = values.cast(pa.large_binary())
    if not pt.is_nested(kind):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0)).astype(np.int64)
    if pt.is_struct(kind):
        return sum((_sizes(values.field(number)) for number in range(kind.num_fields)), none)
    if pt.is_fixed_size_list(kind):
        items = _sizes(values.values.slice(values.offset * kind.list_size, len(values) * kind.list_size))
        return items.reshape(len(values), kind.list_size).sum(axis=1) + kind.list_size if kind.list_size else none
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind)):
        return none  # unions, views of lists: no table has them
    offsets = np.asarray(values.offsets).astype(np.int64)
    elements = values.values.slice(offsets[0], offsets[-1] - offsets[0])
    sums = np.concatenate([[0], np.cumsum(_sizes(elements))])
    inner: np.ndarray = np.diff(sums[offsets - offsets[0]])
    return inner + np.diff(offsets)


def groups_of(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Array]]:
    """Return each combination of values in some columns with its row numbers, ascending.

    Args:
        rows: the rows; no nulls in these columns.
        columns: the grouping columns, of types with an order.

    Returns:
        Groups in the order of their values.
    """
    if not rows.num_rows:
        return
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    values: list[list[Any]] = []
    for column in columns:
        own, distinct = _codes(rows[column])
        codes = codes * len(distinct) + own if values else own
        values.append(distinct)
    found = {_group(code, values): places for code, places in places_of(codes)}
    for group in sorted(found):
        yield group, pa.array(found[group])


def places_of(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Return each distinct integer with its positions, both ascending."""
    if not len(values):
        return
    least = values.min()
    span = values.max() - least
    if span < _FEW:  # to look for each takes less than to sort
        small = (values - least).astype(np.uint8)
        for value in range(int(span) + 1):
            places = np.flatnonzero(small == value)
            if len(places):
                yield value + int(least), places
        return
    if span < _SMALL:
        values = (values - least).astype(np.uint16)  # numpy sorts 16 bits by counting, ten times as fast
    else:
        least = 0
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    for places in np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1):
        yield int(values[places[0]]) + int(least), places


_SMALL = 1 << 16
_FEW = 8


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[Any]]:
    """Return for each row the number of its value, and the values. Meant for few distinct values."""
    encoded = encoded_column(column)
    return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist()


def _group(code: int, values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the values that a combined code of several columns stands for."""
    group = []
    for distinct in reversed(values):
        code, place = divmod(code, len(distinct))
        group.append(distinct[place])
    return tuple(reversed(group))
