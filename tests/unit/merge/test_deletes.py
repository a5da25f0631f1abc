"""Delete markers, and the order of values that Hudi 1.2.0 was seen to decide by."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from pudi import NotSupportedError, SchemaError
from pudi.config import MergeMode
from pudi.merge import MergeRule, check_delete_marker, latest_per_key, overlay

MARKED = MergeRule(MergeMode.EVENT_TIME, ("x",), ("op", "D"))


def test_markers_and_flags_both_delete() -> None:
    rows = pa.table({"op": ["I", "D", None, "d", "I"], "_hoodie_is_deleted": [False, None, None, True, None]})
    assert MARKED.deletes(rows).tolist() == [False, True, False, True, False]
    assert not MARKED.marks_deletes(pa.table({"x": [1]}))
    assert MergeRule(MergeMode.COMMIT_TIME).deletes(rows).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize(("column", "marker"), [([1, 0, None], "1"), ([True, False, None], "true")])
def test_markers_are_compared_as_text(column: list[object], marker: str) -> None:
    rule = MergeRule(MergeMode.COMMIT_TIME, (), ("op", marker))
    assert rule.deletes(pa.table({"op": column})).tolist() == [True, False, False]


def test_marked_deletes_obey_the_order() -> None:
    base = pa.table({"key": ["a", "c"], "x": [5, 5], "op": ["I", "I"]})
    incoming = pa.table({"key": ["a", "c", "h"], "x": [5, 4, 1], "op": ["D", "D", "D"]})
    merged = overlay(base, incoming, "key", MARKED, unconditional_delete=False)
    assert merged.base_rows.tolist() == [1]
    assert merged.taken.tolist() == [-1]
    assert not len(merged.inserted)


def test_columns_that_mark_deletes() -> None:
    schema = pa.schema([("op", pa.string()), ("f", pa.float64())])
    check_delete_marker(None, schema, table="t")
    check_delete_marker(("op", "D"), schema, table="t")
    with pytest.raises(SchemaError, match="nope"):
        check_delete_marker(("nope", "D"), schema, table="t")
    with pytest.raises(NotSupportedError, match="double"):
        check_delete_marker(("f", "1.0"), schema, table="t")


@pytest.mark.parametrize(
    ("kind", "old", "new", "newer_wins"),
    [
        (pa.int32(), None, -5, False),  # null is 0
        (pa.int32(), None, 0, True),
        (pa.int64(), None, -5, True),
        (pa.int64(), -5, None, False),
        (pa.float64(), 1.0, math.nan, True),
        (pa.float64(), math.nan, 1.0, False),
        (pa.float64(), math.nan, math.nan, True),
        (pa.float64(), 0.0, -0.0, False),
        (pa.float64(), -0.0, 0.0, True),
        (pa.float64(), -1.0, -2.0, False),
        (pa.float32(), -math.inf, -1.0, True),
        (pa.string(), "\uffff", "\U0001f600", True),
        (pa.string(), "a", "B", False),
        (pa.bool_(), True, False, False),
    ],
)
def test_the_order_of_two_values(kind: pa.DataType, old: object, new: object, newer_wins: bool) -> None:
    rule = MergeRule(MergeMode.EVENT_TIME, ("x",))
    older, newer = (
        pa.table({"key": ["k"], "x": pa.array([value], kind), "n": [n]}) for n, value in enumerate((old, new))
    )
    assert rule.newer_wins(older, newer).tolist() == [newer_wins]
    assert latest_per_key(pa.concat_tables([older, newer]), "key", rule)["n"].to_pylist() == [int(newer_wins)]


def test_several_fields_decide_in_turn() -> None:
    rule = MergeRule(MergeMode.EVENT_TIME, ("x", "y"))
    older = pa.table({"x": [5] * 5, "y": ["m"] * 5})
    newer = pa.table({"x": [5, 5, 5, 4, 6], "y": ["m", "l", "n", "z", "a"]})
    assert rule.newer_wins(older, newer).tolist() == [True, False, True, False, True]
