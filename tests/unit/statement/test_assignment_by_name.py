"""Fields of nested values go to the table's fields of the same names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.statement.store_assignment import _arranged

GIVEN = pa.struct([("a", pa.int32()), ("b", pa.int32())])
WANTED = pa.struct([("b", pa.int32()), ("a", pa.int32())])
MOVED = {"b": 2, "a": 1}


@pytest.mark.parametrize(
    ("given", "wanted", "values", "expected"),
    [
        (
            pa.map_(pa.string(), GIVEN),
            pa.map_(pa.string(), WANTED),
            [[("x", {"a": 1, "b": 2})], None, [], [("y", None)]],
            [[("x", MOVED)], None, [], [("y", None)]],
        ),
        (pa.list_(GIVEN), pa.list_(WANTED), [[{"a": 1, "b": 2}], None, []], [[MOVED], None, []]),
        (pa.list_(GIVEN), pa.list_(WANTED), [], []),
    ],
)
@pytest.mark.parametrize("begin", [0, 1])
def test_nested_values_are_arranged_by_name(given, wanted, values, expected, begin):
    array = pa.array(values, given)[begin:]
    arranged = _arranged(array, wanted, by_name=True)
    assert arranged.type == wanted
    assert arranged.to_pylist() == expected[begin:]
