"""What commits say is kept in bounded memory."""

from __future__ import annotations

import pickle

from pudi.format import CommitMetadata, WriteStat
from pudi.timeline.store import RecentCommits


def _commit(files: int) -> CommitMetadata:
    return CommitMetadata({"p": tuple(WriteStat(f"f{number}", f"p/f{number}") for number in range(files))})


def test_what_was_used_longest_ago_goes_first() -> None:
    recent = RecentCommits(most=30)
    for name in "abc":
        recent.keep(name, _commit(8))
    assert recent.get("a") is not None
    recent.keep("d", _commit(8))
    assert [name for name in "abcd" if recent.get(name)] == ["a", "c", "d"]


def test_a_commit_larger_than_the_bound_is_kept_alone() -> None:
    recent = RecentCommits(most=30)
    recent.keep("a", _commit(8))
    large = recent.keep("large", _commit(100))
    assert recent.get("large") is large
    assert recent.get("a") is None
    recent.keep("b", _commit(8))
    assert (recent.get("large"), recent.get("b") is None) == (None, False)


def test_the_bound_holds_however_many_come() -> None:
    recent = RecentCommits(most=100)
    for number in range(1000):
        recent.keep(f"{number % 300}", _commit(number % 7))
    kept = [found for number in range(300) if (found := recent.get(str(number)))]
    assert 10 < sum(1 + len(each.partition_to_write_stats["p"]) for each in kept) <= 100


def test_a_copy_for_another_process_begins_empty() -> None:
    recent = RecentCommits(most=30)
    recent.keep("a", _commit(1))
    assert pickle.loads(pickle.dumps(recent)).get("a") is None
