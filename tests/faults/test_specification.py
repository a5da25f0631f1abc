"""All states of the specification within small bounds: no invariant is broken, and each rule left out breaks one.

`python spec/search.py --help` says how to search larger bounds; spec/README.md has what these were.
"""

from __future__ import annotations

import pytest

from support.specifications import specification

COMMITS = specification("commits")
visit = specification("visit").visit


def search_commits(module: str, writers: int, keepers: int, mishaps: int) -> object:
    first = COMMITS.first_tables(COMMITS.MODULES[module], writers, keepers, mishaps)
    return visit(first, COMMITS.steps, COMMITS.broken_invariant)


@pytest.mark.parametrize(
    ("writers", "keepers", "mishaps"),
    [
        (2, 1, 2),
        (2, 2, 2),
        (3, 1, 1),
        pytest.param(2, 2, 3, marks=pytest.mark.slow),
        pytest.param(3, 1, 2, marks=pytest.mark.slow),
    ],
)
def test_no_state_of_commits_breaks_an_invariant(writers: int, keepers: int, mishaps: int) -> None:
    found = search_commits("right", writers, keepers, mishaps)
    assert found.broken is None, str(found)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "invariant"),
    [
        ("blind", "acknowledged_stay"),
        ("deaf", "acknowledged_stay"),
        ("rash", "serialisable"),
        ("late", "metadata_follows"),
    ],
)
def test_a_rule_of_commits_that_is_left_out_breaks_an_invariant(module: str, invariant: str) -> None:
    found = search_commits(module, 2, 1, 2)
    assert found.broken == invariant, str(found)  # type: ignore[attr-defined]


def test_every_module_of_commits_is_searched() -> None:
    assert COMMITS.MODULES.keys() == {"right", "blind", "deaf", "rash", "late"}


def test_states_have_commits_and_rollbacks() -> None:
    """A search that gets nowhere would find nothing either."""

    def got_somewhere(table: object) -> str | None:
        done = table.completed and table.gone and table.mishaps == 1  # type: ignore[attr-defined]
        return "found" if done else None

    found = visit(COMMITS.first_tables(COMMITS.MODULES["right"], 2, 1, 1), COMMITS.steps, got_somewhere)
    assert found.broken == "found"
