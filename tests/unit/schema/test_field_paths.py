"""Fields inside of structs are found by dotted path, with the nulls of what they lie in, and put back alone."""

from __future__ import annotations

import pyarrow as pa

from pudi.schema import columns_holding, field_at, roots_of, values_at

INNER = pa.struct([pa.field("c", pa.int64(), nullable=False), pa.field("d", pa.string(), nullable=False)])
SCHEMA = pa.schema([("k", pa.string()), ("a", pa.struct([("b", INNER), ("e", pa.int32())])), ("l", pa.list_(INNER))])
ROWS = pa.Table.from_pylist(
    [{"a": {"b": {"c": 1, "d": "x"}, "e": 2}}, {"a": {"b": None, "e": 3}}, {"a": None}], schema=SCHEMA
)


def test_values_have_the_nulls_of_what_they_lie_in() -> None:
    found = {path: values_at(ROWS, path) for path in ("a.b.c", "a.e", "k")}
    assert {path: values and values.to_pylist() for path, values in found.items()} == {
        "a.b.c": [1, None, None],
        "a.e": [2, 3, None],
        "k": [None, None, None],
    }


def test_there_is_no_field_in_anything_but_structs() -> None:
    for path in ("l.element.c", "l.c", "k.x", "a.x", "x", "x.y", ("a.b", "c")):
        assert field_at(SCHEMA, path) is None
        assert values_at(ROWS, path) is None
    assert field_at(SCHEMA, ("a", "b", "c")) == INNER.field("c")


def test_columns_hold_the_values_alone() -> None:
    assert roots_of(["a.b.c", "k", "a.e"]) == ("a", "k")
    made = columns_holding({"a.b.c": pa.array([7, None], pa.int64()), "k": pa.array(["x", None])}, SCHEMA)
    rows = pa.table(made)
    assert rows.schema.field("a").type == SCHEMA.field("a").type
    assert rows["k"].to_pylist() == ["x", None]
    assert [values_at(rows, path).to_pylist() for path in ("a.b.c", "a.e")] == [[7, None], [None, None]]  # type: ignore[union-attr]
