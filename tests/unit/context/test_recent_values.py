"""Values that were used recently are kept in bounded memory."""

from __future__ import annotations

import pickle

from pudi.context import RecentValues


def _values(most: int) -> RecentValues[str, str]:
    return RecentValues(most)


def test_what_was_used_longest_ago_goes_first() -> None:
    recent = _values(30)
    for name in "abc":
        recent.keep(name, name, 9)
    assert recent.get("a") == "a"
    recent.keep("d", "d", 9)
    assert [name for name in "abcd" if recent.get(name)] == ["a", "c", "d"]


def test_a_value_larger_than_the_bound_is_kept_alone() -> None:
    recent = _values(30)
    recent.keep("a", "a", 8)
    recent.keep("large", "large", 100)
    assert (recent.get("large"), recent.get("a")) == ("large", None)
    recent.keep("b", "b", 8)
    assert (recent.get("large"), recent.get("b")) == (None, "b")


def test_the_bound_holds_however_many_come() -> None:
    recent: RecentValues[int, int] = RecentValues(100)
    for number in range(1000):
        recent.keep(number % 300, 1 + number % 7, 1 + number % 7)
    kept = [found for number in range(300) if (found := recent.get(number))]
    assert 90 < sum(kept) <= 100


def test_a_forgotten_value_makes_room() -> None:
    recent = _values(20)
    recent.keep("a", "a", 10)
    recent.keep("b", "b", 10)
    recent.forget(["a", "never there"])
    recent.keep("c", "c", 10)
    assert [recent.get(name) for name in "abc"] == [None, "b", "c"]


def test_a_value_kept_again_replaces_the_older_one() -> None:
    recent = _values(20)
    recent.keep("a", "a", 15)
    recent.keep("a", "A", 5)
    recent.keep("b", "b", 15)
    assert (recent.get("a"), recent.get("b")) == ("A", "b")


def test_a_copy_for_another_process_begins_empty() -> None:
    recent = _values(30)
    recent.keep("a", "a", 1)
    copy = pickle.loads(pickle.dumps(recent))
    assert (copy.get("a"), copy.most) == (None, 30)
