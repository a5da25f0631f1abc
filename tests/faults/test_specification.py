"""All states of the specification within small bounds: no invariant is broken, and each rule left out breaks one.

`python spec/search.py --help` says how to search larger bounds; spec/README.md has what these were.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.specifications import specification

COMMITS, LEASES, SERVICES = (specification(name) for name in ("commits", "leases", "services"))
visit = specification("visit").visit

SMALL = {"writers": 2, "keepers": 1, "mishaps": 2}
LEFT_OUT = {
    "blind": "acknowledged_stay",
    "deaf": "acknowledged_stay",
    "rash": "serialisable",
    "late": "metadata_follows",
}

LEASES_LEFT_OUT = {
    "blind": "files_stay",
    "unnoted": "newest_completes",
    "unstarted": "files_stay",
    "inflight_last": "files_stay",
    "own_names": "index_follows",
}

ALONE = {"writers": 2, "keepers": 1, "mishaps": 0}
TAKEN_OVER = {"writers": 1, "keepers": 2, "mishaps": 1}
SAVED_EARLY = {
    **ALONE,
    "plans": 2,
    "groups": 2,
    "story": ("schedule 1 cluster 1", "plan 1 2 False", "complete 1", "save", "lease 11 1", "write 11", "end 11"),
}
"""A savepoint is made while a clustering is pending, which then completes."""
SERVICES_LEFT_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "rash": ("nothing_lost", ALONE),
    "trespassing": ("nothing_lost", ALONE),
    "double": ("files_stay", TAKEN_OVER),
    "same_names": ("files_stay", TAKEN_OVER),
    "uncapped": ("writes_have_files", ALONE),
    "greedy": ("writes_have_files", ALONE),
    "prompt": ("writes_have_files", ALONE),
    "unsaved": ("files_stay", ALONE),
    "named_only": ("files_stay", SAVED_EARLY),
}


def search(spec: Any, module: str, bounds: dict[str, Any]) -> Any:
    return visit(spec.first_tables(spec.MODULES[module], **bounds), spec.steps, spec.broken_invariant)


@pytest.mark.parametrize(
    "bounds",
    [
        SMALL,
        {**SMALL, "keepers": 2},
        pytest.param({"writers": 3, "keepers": 1, "mishaps": 1}, marks=pytest.mark.slow),
        pytest.param({"writers": 2, "keepers": 2, "mishaps": 3}, marks=pytest.mark.slow),
        pytest.param({"writers": 3, "keepers": 1, "mishaps": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_no_state_of_commits_breaks_an_invariant(bounds: dict[str, Any]) -> None:
    found = search(COMMITS, "right", bounds)
    assert found.broken is None, str(found)


@pytest.mark.parametrize("module", LEFT_OUT)
def test_a_rule_of_commits_that_is_left_out_breaks_an_invariant(module: str) -> None:
    found = search(COMMITS, module, SMALL)
    assert found.broken == LEFT_OUT[module], str(found)


@pytest.mark.parametrize(
    "bounds",
    [
        ALONE,
        TAKEN_OVER,
        SAVED_EARLY,
        pytest.param({**TAKEN_OVER, "plans": 2}, marks=pytest.mark.slow),
        pytest.param({**ALONE, "groups": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_no_state_of_services_breaks_an_invariant(bounds: dict[str, Any]) -> None:
    found = search(SERVICES, "right", bounds)
    assert found.broken is None, str(found)


@pytest.mark.parametrize("module", SERVICES_LEFT_OUT)
def test_a_rule_of_services_that_is_left_out_breaks_an_invariant(module: str) -> None:
    invariant, bounds = SERVICES_LEFT_OUT[module]
    found = search(SERVICES, module, bounds)
    assert found.broken == invariant, str(found)


@pytest.mark.parametrize(
    ("keepers", "mishaps"),
    [(3, 2), pytest.param(2, 3, marks=pytest.mark.slow), pytest.param(3, 3, marks=pytest.mark.slow)],
)
def test_no_state_of_leases_breaks_an_invariant(keepers: int, mishaps: int) -> None:
    found = search(LEASES, "right", {"keepers": keepers, "mishaps": mishaps})
    assert found.broken is None, str(found)


@pytest.mark.parametrize("module", LEASES_LEFT_OUT)
def test_a_rule_of_leases_that_is_left_out_breaks_an_invariant(module: str) -> None:
    found = search(LEASES, module, {"keepers": 2, "mishaps": 2})
    assert found.broken == LEASES_LEFT_OUT[module], str(found)


def test_every_rule_is_left_out() -> None:
    assert LEASES.MODULES.keys() == {"right", *LEASES_LEFT_OUT}
    assert COMMITS.MODULES.keys() == {"right", *LEFT_OUT}
    assert SERVICES.MODULES.keys() == {"right", *SERVICES_LEFT_OUT}


def test_states_have_commits_and_rollbacks() -> None:
    """A search that gets nowhere would find nothing either."""

    def got_somewhere(table: Any) -> str | None:
        return "found" if table.completed and table.gone and table.mishaps == 1 else None

    found = visit(COMMITS.first_tables(COMMITS.MODULES["right"], 2, 1, 1), COMMITS.steps, got_somewhere)
    assert found.broken == "found"


def test_states_have_services() -> None:
    def got_somewhere(table: Any) -> str | None:
        kinds = {commit.kind for commit in table.commits}
        return "found" if kinds == {"write", "compact"} and table.cleaned and table.saved else None

    found = visit(SERVICES.first_tables(SERVICES.MODULES["right"], **ALONE), SERVICES.steps, got_somewhere)
    assert found.broken == "found", str(found)


def test_states_have_plans_that_were_taken_over() -> None:
    def got_somewhere(table: Any) -> str | None:
        return "found" if table.completed == (2,) and table.files == {2} else None

    found = visit(LEASES.first_tables(LEASES.MODULES["right"], 2, 1), LEASES.steps, got_somewhere)
    assert found.broken == "found", str(found)
