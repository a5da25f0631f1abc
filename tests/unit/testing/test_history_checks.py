"""The checker of histories: real orders pass, and each kind of anomaly is found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.simulated.histories import Outcome, Step, Value, contradictions


def append(began: float, ended: float, value: Value, *keys: str, outcome: Outcome = "done") -> Step:
    return Step(f"writer {value}", began, ended, appended=dict.fromkeys(keys or ("x",), value), outcome=outcome)


def read(began: float, ended: float, **lists: Sequence[Value]) -> Step:
    return Step("reader", began, ended, seen=lists)


GOOD = {
    "one after the other": [append(0, 1, 1), read(2, 3, x=[1]), append(4, 5, 2), read(6, 7, x=[1, 2])],
    "a read beside a write, before it": [append(0, 9, 1), read(1, 2, x=[]), read(3, 4, x=[1])],
    "what wasn't done isn't seen": [append(0, 1, 1, outcome="not done"), read(2, 3, x=[])],
    "what may have been done is seen": [append(0, 1, 1, outcome="unknown"), read(2, 3, x=[1]), read(4, 5, x=[1])],
    "what may have been done is not seen": [append(0, 1, 1, outcome="unknown"), read(2, 3, x=[])],
    "late effect of what may have been done": [append(0, 1, 1, outcome="unknown"), read(2, 3, x=[]), read(4, 5, x=[1])],
    "two in either order": [append(0, 5, 1), append(0, 5, 2), read(6, 7, x=[2, 1])],
    "both keys at once": [append(0, 1, 1, "x", "y"), read(2, 3, x=[1], y=[1])],
    "other keys aren't asked for": [append(0, 1, 1, "x", "y"), read(2, 3, x=[1])],
}
BAD = {
    "a lost append": [append(0, 1, 1), append(2, 3, 2), read(4, 5, x=[2])],
    "an append that is never seen": [append(0, 1, 1), read(2, 3, x=[])],
    "an append that was seen is gone": [append(0, 9, 1), read(1, 2, x=[1]), read(3, 4, x=[])],
    "a stale read": [append(0, 1, 1), append(2, 3, 2), read(4, 5, x=[1]), read(4, 5, x=[1, 2])],
    "a torn commit": [append(0, 1, 1, "x", "y"), read(0, 1, x=[1], y=[]), read(2, 3, x=[1], y=[1])],
    "two readers disagree on the order": [
        append(0, 9, 1, "x"), append(0, 9, 2, "y"), read(1, 2, x=[1], y=[]), read(1, 2, x=[], y=[2]),
    ],
    "real time is not kept": [append(0, 1, 1), append(2, 3, 2), read(4, 5, x=[2, 1])],
    "neither list begins the other": [append(0, 9, 1), append(0, 9, 2), read(1, 2, x=[1, 2]), read(1, 2, x=[2, 1])],
    "done twice": [append(0, 1, 1), read(2, 3, x=[1, 1])],
    "what wasn't done is seen": [append(0, 1, 1, outcome="not done"), read(2, 3, x=[1])],
    "nobody wrote it": [read(2, 3, x=[7])],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_order_that_explains_all_is_found(name: str) -> None:
    assert contradictions(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_an_anomaly_is_found(name: str) -> None:
    assert contradictions(BAD[name])


def test_a_long_history_takes_no_long_time() -> None:
    steps: list[Step] = []
    for number in range(3_000):
        steps += [append(number * 4, number * 4 + 1, number, f"k{number % 50}")]
        if number % 10 == 0:
            lists = {f"k{key}": list(range(key, number + 1, 50)) for key in range(50)}
            steps.append(read(number * 4 + 2, number * 4 + 3, **lists))
    assert contradictions(steps) == []
