"""Orders of rows: the curves are bijections, ranks keep the order of values, and the Hilbert curve makes no jumps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.config import LayoutStrategy
from pudi.errors import InvalidArgumentError
from pudi.plan.curves import grid_cells, hilbert_positions, row_order, z_positions

GRIDS = [(1, 3), (2, 1), (2, 4), (3, 3), (4, 2), (5, 2)]
VALUES = st.lists(
    st.tuples(
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        st.none() | st.text(),
        st.none() | st.floats(),
        st.none() | st.booleans(),
    ),
    min_size=1,
)


def _grid(dimensions: int, bits: int) -> list[np.ndarray]:
    axes = np.meshgrid(*[np.arange(1 << bits, dtype=np.uint64)] * dimensions, indexing="ij")
    return [axis.reshape(-1) for axis in axes]


def _table(rows: list[tuple[object, ...]]) -> pa.Table:
    types = [pa.int64(), pa.string(), pa.float64(), pa.bool_()]
    return pa.table({str(n): pa.array([row[n] for row in rows], kind) for n, kind in enumerate(types)})


@pytest.mark.parametrize(("dimensions", "bits"), GRIDS)
@pytest.mark.parametrize("positions", [z_positions, hilbert_positions])
def test_every_cell_has_a_position_of_its_own(positions: object, dimensions: int, bits: int) -> None:
    words = positions(_grid(dimensions, bits), bits)  # type: ignore[operator]
    assert len(words) == 1
    assert sorted(words[0].tolist()) == list(range(1 << (dimensions * bits)))


@pytest.mark.parametrize(("dimensions", "bits"), GRIDS)
def test_the_hilbert_curve_goes_from_neighbour_to_neighbour(dimensions: int, bits: int) -> None:
    cells = _grid(dimensions, bits)
    order = np.argsort(hilbert_positions(cells, bits)[0])
    path = np.stack(cells, axis=1).astype(np.int64)[order]
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


def test_z_order_takes_bits_in_turn() -> None:
    found = z_positions([np.array([0b10], np.uint64), np.array([0b01], np.uint64)], 2)
    assert found[0].tolist() == [0b1001]


def test_positions_of_many_columns_have_several_words() -> None:
    cells = [np.array([0, 1], np.uint64)] * 20
    words = z_positions(cells, 4)
    assert len(words) == 2
    assert [word.tolist()[0] for word in words] == [0, 0]
    assert np.lexsort(words[::-1]).tolist() == [0, 1]


@given(VALUES, st.sampled_from(LayoutStrategy), st.integers(1, 4), st.integers(1, 30))
def test_an_order_names_each_row_once(
    rows: list[tuple[object, ...]], layout: LayoutStrategy, columns: int, files: int
) -> None:
    table = _table(rows).select(range(columns))
    assert sorted(row_order(table, layout, files).tolist()) == list(range(len(rows)))


@given(VALUES)
def test_cells_keep_the_order_of_values(rows: list[tuple[object, ...]]) -> None:
    cells, bits = grid_cells(_table(rows))
    for column in (0, 1, 3):
        known = [(row[column], int(cell)) for row, cell in zip(rows, cells[column], strict=True)]
        assert all(cell < 1 << bits for _, cell in known)
        known = [(_key(value), cell) for value, cell in known if value is not None]
        for (value, cell), (other, of_other) in pairwise(known):
            if value == other:
                assert cell == of_other
            elif value < other:
                assert cell <= of_other
            else:
                assert cell >= of_other


def _key(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


@given(st.lists(st.integers() | st.none(), min_size=1).map(lambda v: [None if x is None else x % 50 for x in v]))
def test_rows_equal_in_the_order_keep_their_places(values: list[int | None]) -> None:
    order = row_order(pa.table({"a": pa.array(values, pa.int64())}), LayoutStrategy.ZORDER).tolist()
    assert order == sorted(range(len(values)), key=lambda n: (values[n] is None, values[n] or 0))


@pytest.mark.parametrize("layout", [LayoutStrategy.ZORDER, LayoutStrategy.HILBERT])
def test_skewed_values_are_divided_evenly(layout: LayoutStrategy) -> None:
    chance = np.random.default_rng(5)
    rows = 20_000
    skewed = pa.array(np.exp(chance.normal(0, 8, rows)))
    texts = pa.array([f"https://example.org/{n:09}" for n in chance.integers(0, 10**9, rows)])
    order = row_order(pa.table({"a": skewed, "b": texts}), layout, 100)
    files = [order[rows * n // 100 : rows * (n + 1) // 100] for n in range(100)]
    for column in (np.asarray(skewed), np.argsort(np.argsort(np.array(texts.to_pylist())))):
        middle = np.quantile(column, [0.45, 0.55])
        held = sum(column[f].min() <= middle[1] and column[f].max() >= middle[0] for f in files)
        assert held <= 20, f"{held} of 100 files hold a tenth of the values"


def test_a_column_of_few_values_leaves_the_files_to_the_others() -> None:
    chance = np.random.default_rng(6)
    flags, numbers = chance.permutation(np.arange(10_000) % 2), chance.random(10_000)
    order = row_order(pa.table({"n": numbers, "flag": flags}), LayoutStrategy.ZORDER, 100)
    files = [order[n * 100 : (n + 1) * 100] for n in range(100)]
    assert all(len(set(flags[rows].tolist())) == 1 for rows in files)
    assert sum(numbers[rows].min() < 0.5 and numbers[rows].max() >= 0.4 for rows in files) <= 14


def test_values_without_order_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'a'"):
        row_order(pa.table({"a": [[1]]}), LayoutStrategy.ZORDER)
