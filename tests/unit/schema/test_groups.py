"""Groups of rows against the obvious dictionary of lists."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pudi.schema.arrays import groups_of

rows = st.lists(st.tuples(st.sampled_from(["", "a", "b/c", "é"]), st.integers(0, 3)), max_size=40)


@given(rows, st.integers(0, 40))
def test_groups_of(pairs: list[tuple[str, int]], cut: int) -> None:
    expected: dict[tuple[str, int], list[int]] = {}
    for number, pair in enumerate(pairs):
        expected.setdefault(pair, []).append(number)
    names = pa.chunked_array([[p for p, _ in pairs[:cut]], [p for p, _ in pairs[cut:]]], pa.string())
    table = pa.table({"name": names, "number": pa.array([n for _, n in pairs], pa.int32())})
    found = [(group, places.to_pylist()) for group, places in groups_of(table, ["name", "number"])]
    assert found == sorted(expected.items())
