"""Orders of records by several columns: linear, z-order and Hilbert curve, computed on whole columns.

A curve visits the cells of a grid. Each column is divided into cells of about as many rows each, by the rank of its
values: so skewed values, texts with common beginnings and every other type that can be sorted are divided evenly. A
curve is never stored: nothing but the order of rows and the statistics of files depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.config import LayoutStrategy
from pudi.errors import InvalidArgumentError

_WORD = 64
"""Bits of a word of a curve's position."""
_MOST_BITS = 16
_LEAST_BITS = 4
"""Bits by which a column's cells are numbered."""
_SAMPLE = 10_000
"""Number of rows by which distinct values are counted."""


def row_order(columns: pa.Table, layout: LayoutStrategy, files: int = 1) -> np.ndarray:
    """Return the numbers of rows in the order of a layout; rows that are equal in it keep their order.

    A curve that is cut into files at any place makes files of odd shapes. So files get the tiles of a grid over the
    ranks of all columns, each with as many rows, and rows follow the curve within a file: a filter over a tenth of one
    of two columns then reads 10 to 20 of 100 files, where files cut from a Hilbert curve would be 27.

    Args:
        columns: the columns to order by, at least one; missing values come last.
        layout: the order.
        files: into how many files, each of as many rows, the result will be cut.

    Raises:
        InvalidArgumentError: values of a column have no order.
    """
    for field in columns.schema:
        check_sortable(field)
    if layout is LayoutStrategy.LINEAR or columns.num_columns == 1:
        keys = [(str(number), "ascending") for number in range(columns.num_columns)]
        named = columns.rename_columns([name for name, _ in keys])
        order = pc.sort_indices(named, sort_keys=keys)
        return np.asarray(order).astype(np.int64)
    ranks = [np.asarray(_ranks(column)) for column in columns.columns]
    cells, bits = _grid_of(ranks)
    words = hilbert_positions(cells, bits) if layout is LayoutStrategy.HILBERT else z_positions(cells, bits)
    if files == 1:
        return _by_words(words)
    distinct = [len(np.unique(rank[:: max(1, len(rank) // _SAMPLE)])) for rank in ranks]
    dimensions = tuple((ranks[n], distinct[n]) for n in np.argsort(distinct, kind="stable"))
    tiles = _Tiles(len(ranks[0]), files).divide(np.arange(len(ranks[0])), 0, files, dimensions)
    return np.concatenate([rows[_by_words([word[rows] for word in words])] for rows in tiles])


def _by_words(words: Sequence[np.ndarray]) -> np.ndarray:
    return np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0], kind="stable")


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Divides rows among files by a grid over several columns: slabs by the first column, these by the next one.

    Attributes:
        rows: number of rows.
        files: number of files.
    """

    rows: int
    files: int

    def divide(
        self, rows: np.ndarray, first: int, end: int, dimensions: Sequence[tuple[np.ndarray, int]]
    ) -> Iterator[np.ndarray]:
        """Yield the rows of files, one file after the other.

        Args:
            rows: numbers of the rows of these files.
            first: the first of the files.
            end: the one after the last.
            dimensions: for each column left the ranks of all rows, and about how many values there are.
        """
        count = end - first
        if count == 1 or not dimensions:
            yield rows
            return
        (ranks, distinct), rest = dimensions[0], dimensions[1:]
        slabs = max(1, min(round(count ** (1 / len(dimensions))), distinct, count))
        ordered = rows[np.argsort(ranks[rows], kind="stable")]
        starts = [first + count * number // slabs for number in range(slabs + 1)]
        for begin, until in pairwise(starts):
            part = ordered[self._row(begin) - self._row(first) : self._row(until) - self._row(first)]
            yield from self.divide(part, begin, until, rest)

    def _row(self, file: int) -> int:
        return self.rows * file // self.files


def check_sortable(field: pa.Field) -> None:
    """Refuse a column whose values have no order.

    Raises:
        InvalidArgumentError: it holds lists, maps or structs.
    """
    if pt.is_nested(field.type):
        raise InvalidArgumentError(
            f"records can't be ordered by column {field.name!r} of type {field.type}: name columns of plain values"
        )


def grid_cells(columns: pa.Table) -> tuple[list[np.ndarray], int]:
    """Return for each column the cells of its rows, and the number of bits of a cell.

    Equal values are in one cell, greater values never in an earlier one.
    """
    return _grid_of([np.asarray(_ranks(column)) for column in columns.columns])


def _grid_of(ranks: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int]:
    bits = max(_LEAST_BITS, min(_MOST_BITS, _WORD // len(ranks)))
    return [_cells(each, bits) for each in ranks], bits


def z_positions(cells: Sequence[np.ndarray], bits: int) -> list[np.ndarray]:
    """Return the positions of grid cells on the z-order curve, as words of 64 bits, the most significant one first.

    Args:
        cells: for each dimension the cells' numbers, below 2 to the power of `bits`.
        bits: bits of a number.
    """
    words: list[np.ndarray] = []
    taken = _WORD
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for cell in cells:
            if taken == _WORD:
                words.append(np.zeros(len(cell), dtype=np.uint64))
                taken = 0
            np.left_shift(words[-1], one, out=words[-1])
            words[-1] |= (cell >> np.uint64(bit)) & one
            taken += 1
    return words


def hilbert_positions(cells: Sequence[np.ndarray], bits: int) -> list[np.ndarray]:
    """Return the positions of grid cells on the Hilbert curve; arguments and result as of `z_positions`.

    Cells that follow each other on the curve are neighbours. Source: J. Skilling, Programming the Hilbert curve (2004).
    """
    axes = [cell.copy() for cell in cells]
    first = axes[0]
    for bit in range(bits - 1, 0, -1):
        here = np.uint64(1 << bit)
        below = np.uint64((1 << bit) - 1)
        for axis in axes:
            is_set = (axis & here) != 0
            if axis is first:
                first ^= np.where(is_set, below, np.uint64(0))
                continue
            swapped = np.where(is_set, np.uint64(0), (first ^ axis) & below)
            first ^= np.where(is_set, below, swapped)
            np.bitwise_xor(axis, swapped, out=axis)
    for before, number in pairwise(range(len(axes))):
        axes[number] ^= axes[before]
    turned = np.zeros(len(first), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        turned ^= np.where((axes[-1] & np.uint64(1 << bit)) != 0, np.uint64((1 << bit) - 1), np.uint64(0))
    return z_positions([axis ^ turned for axis in axes], bits)


def _cells(ranks: np.ndarray, bits: int) -> np.ndarray:
    """Return the cells of a column's rows, by rank; nulls are in the last ones."""
    scale = (1 << bits) / max(1, len(ranks))
    return np.minimum((ranks.astype(np.float64) - 1) * scale, (1 << bits) - 1).astype(np.uint64)


def _ranks(column: pa.ChunkedArray) -> pa.Array:
    """Return for each row the number of rows before its value, from 1; NaN is above numbers, null above NaN."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pt.is_boolean(column.type):
        column = column.cast(pa.int8())
    return pc.rank(column, sort_keys="ascending", tiebreaker="min")
