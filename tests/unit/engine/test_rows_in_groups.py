"""Row numbers as bits of longs, 64 rows together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pudi.engine.spark.read_tasks import in_groups


@given(st.sets(st.integers(0, 400) | st.integers(0, 2**62)))
def test_in_groups(rows: set[int]) -> None:
    groups, bits = in_groups(np.array(sorted(rows), dtype=np.int64))
    assert groups.dtype == bits.dtype == np.int64
    assert len(set(groups.tolist())) == len(groups)
    found = [64 * g + n for g, b in zip(groups.tolist(), bits.tolist(), strict=True) for n in range(64) if b >> n & 1]
    assert found == sorted(rows)
