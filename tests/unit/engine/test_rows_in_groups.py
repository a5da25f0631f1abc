"""Row numbers as bits of longs, 64 rows together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pudi.engine.spark.columns import in_groups, place_by_size


@given(st.sets(st.integers(0, 400) | st.integers(0, 2**62)))
def test_in_groups(rows: set[int]) -> None:
    groups, bits = in_groups(np.array(sorted(rows), dtype=np.int64))
    assert groups.dtype == bits.dtype == np.int64
    assert len(set(groups.tolist())) == len(groups)
    found = [64 * g + n for g, b in zip(groups.tolist(), bits.tolist(), strict=True) for n in range(64) if b >> n & 1]
    assert found == sorted(rows)


@given(st.sets(st.tuples(st.integers(1, 2**37 - 1), st.integers(0, 2**26 - 1)), min_size=2))
def test_places_of_groups_differ(pairs: set[tuple[int, int]]) -> None:
    places = [int(place_by_size(size, np.array([group]))[0]) for size, group in pairs]
    assert len(set(places)) == len(pairs)
