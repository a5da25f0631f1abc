"""Winners by column against the obvious loop over records."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pudi.config import MergeMode
from pudi.merge import MergeRule, latest_per_key, overlay

COMMIT = MergeRule(MergeMode.COMMIT_TIME)
EVENT = MergeRule(MergeMode.EVENT_TIME, ("a", "b"))

keys = st.sampled_from(["k0", "k1", "k2", "k3", "é", ""])
ordering = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.integers(-2, 2)),
        "b": st.one_of(st.none(), st.sampled_from([0.0, 1.5, -1.0, math.nan, math.inf, -0.0])),
    }
)
records = st.lists(st.tuples(keys, ordering, st.one_of(st.none(), st.booleans())), max_size=30)


def table(rows: list[tuple[str, dict[str, Any], bool | None]]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([key for key, _, _ in rows], pa.string()),
            "a": pa.array([values["a"] for _, values, _ in rows], pa.int64()),
            "b": pa.array([values["b"] for _, values, _ in rows], pa.float64()),
            "_hoodie_is_deleted": pa.array([deleted for _, _, deleted in rows], pa.bool_()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )


def rank(value: float | None) -> tuple[int, float, float]:
    """Java's order of ordering values, null first: NaN is the greatest number, and -0.0 is below 0.0."""
    if value is None:
        return (0, 0.0, 0.0)
    return (2, 0.0, 0.0) if math.isnan(value) else (1, value, math.copysign(1.0, value))


def order(values: dict[str, Any]) -> tuple[tuple[int, float, float], ...]:
    return (rank(values["a"]), rank(values["b"]))


def beats(rule: MergeRule, newer: dict[str, Any], older: dict[str, Any]) -> bool:
    return not rule.compares or order(newer) >= order(older)


@given(records, st.sampled_from([COMMIT, EVENT]))
def test_latest_per_key(rows: list[tuple[str, dict[str, Any], bool | None]], rule: MergeRule) -> None:
    expected: dict[str, int] = {}
    for number, (key, values, _) in enumerate(rows):
        if key not in expected or beats(rule, values, rows[expected[key]][1]):
            expected[key] = number
    assert latest_per_key(table(rows), "key", rule)["n"].to_pylist() == sorted(expected.values())


@given(records, records, st.sampled_from([COMMIT, EVENT]), st.booleans())
def test_overlay(
    base: list[tuple[str, dict[str, Any], bool | None]],
    more: list[tuple[str, dict[str, Any], bool | None]],
    rule: MergeRule,
    delete: bool,
) -> None:
    incoming = list({key: (key, values, deleted) for key, values, deleted in more}.values())
    by_key = {key: number for number, (key, _, _) in enumerate(incoming)}
    expected: list[tuple[int, int]] = []
    for number, (key, values, _) in enumerate(base):
        partner = by_key.get(key)
        if partner is None or not (delete or beats(rule, incoming[partner][1], values)):
            expected.append((number, -1))
        elif not (delete or incoming[partner][2]):
            expected.append((number, partner))
    known = {key for key, _, _ in base}
    inserted = [n for n, (key, _, gone) in enumerate(incoming) if key not in known and not delete and not gone]

    laid = overlay(table(base), table(incoming), "key", rule, unconditional_delete=delete)
    assert list(zip(laid.base_rows.tolist(), laid.taken.tolist(), strict=True)) == expected
    assert laid.inserted.tolist() == inserted
    assert laid.deleted == len(base) - len(expected)
    assert len(laid.replaced) == sum(partner >= 0 for _, partner in expected)
