"""Which records a predicate asks for by their values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.expr import bind, parse
from pudi.plan.skipping import MOST_VALUES, key_values_in_predicate, values_in_predicate

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("i", pa.int32()), ("d", pa.float64()), ("b", pa.bool_())])


def asked(where: str, column: str = "k") -> set[object] | None:
    found = values_in_predicate(bind(parse(where), SCHEMA), column)
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("k = 'a'", {"a"}),
        ("'a' = k", {"a"}),
        ("k IN ('a', 'b', NULL)", {"a", "b"}),
        ("k = 'a' OR k = 'b'", {"a", "b"}),
        ("k IN ('a', 'b') AND k IN ('b', 'c')", {"b"}),
        ("k = 'a' AND n > 3", {"a"}),
        ("(k = 'a' AND n > 3) OR (k = 'b' AND d < 1)", {"a", "b"}),
        ("k = 'a' OR n > 3", None),
        ("k <> 'a'", None),
        ("NOT k = 'a'", None),
        ("k > 'a'", None),
        ("k LIKE 'a%'", None),
        ("k IS NULL", None),
        ("k = 'a' AND k = 'b'", set()),
    ],
)
def test_values_of_a_text(where: str, expected: set[object] | None) -> None:
    assert asked(where) == expected


def test_values_of_other_types() -> None:
    assert asked("n = 3", "n") == {3}
    assert asked("i IN (1, 2)", "i") == {1, 2}
    assert asked("d = 3.0", "d") is None  # equal numbers may have different texts
    assert asked("b = true", "b") is None
    assert asked("n = 3", "k") is None


def test_keys_of_several_columns() -> None:
    where = bind(parse("k IN ('a', 'b') AND n = 7"), SCHEMA)
    rows = key_values_in_predicate(where, ["k", "n"], SCHEMA)
    assert rows is not None
    assert sorted(rows.to_pylist(), key=str) == [{"k": "a", "n": 7}, {"k": "b", "n": 7}]
    assert rows.schema == pa.schema([("k", pa.string()), ("n", pa.int64())])
    assert key_values_in_predicate(where, ["k", "i"], SCHEMA) is None


def test_too_many_records_are_not_looked_up() -> None:
    half = ", ".join(f"'{number}'" for number in range(MOST_VALUES // 100 + 1))
    numbers = ", ".join(map(str, range(100)))
    where = bind(parse(f"k IN ({half}) AND n IN ({numbers})"), SCHEMA)
    assert key_values_in_predicate(where, ["k"], SCHEMA) is not None
    assert key_values_in_predicate(where, ["k", "n"], SCHEMA) is None
