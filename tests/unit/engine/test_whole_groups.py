"""Records of one bucket stay together, however Spark cuts them into batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.engine.spark import file_tasks
from pudi.engine.spark.buckets import whole_groups
from pudi.engine.spark.columns import GROUP

_GROUPS = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), max_size=6, unique_by=lambda group: group[0])


@given(_GROUPS, st.lists(st.integers(0, 5), max_size=12), st.sampled_from([1, 40, 1 << 20]))
def test_no_group_is_parted(groups: list[tuple[int, int]], cuts: list[int], step: int) -> None:
    values = [group for group, count in sorted(groups) for _ in range(count)]
    rows = pa.table({GROUP: pa.array(values, pa.int64()), "row": pa.array(range(len(values)), pa.int64())})
    batches, begin = [], 0
    for length in [*cuts, len(values)]:
        batches += rows.slice(begin, length).to_batches()
        begin += length
    with pytest.MonkeyPatch.context() as during:
        during.setattr(file_tasks, "_STEP_BYTES", step)
        found = list(whole_groups(batches))
    assert [row for part in found for row in part["row"].to_pylist()] == list(range(len(values)))
    seen: set[int] = set()
    for part in found:
        own = set(part[GROUP].to_pylist())
        assert own and not own & seen
        seen |= own
