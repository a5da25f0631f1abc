"""Many processes at one table by a seed: no schedule shows an anomaly, and every broken protocol does.

`make simulate` searches more schedules, and all mutants; `python -m support.simulated --seed N` shrinks and tells one.
"""

from __future__ import annotations

import pytest

from support.simulated.__main__ import hunt, search, tell
from support.simulated.judge import anomalies, history_of
from support.simulated.mutants import MUTANTS
from support.simulated.plans import Plan
from support.simulated.run import play
from support.simulated.service_traces import ServiceTrace
from support.simulated.traces import Trace, contradiction
from support.simulated.work import KINDS, NONBLOCKING_KINDS, first_files

pytestmark = pytest.mark.metadata_by_default

TURNS = 13
"""Runs of each kind of table: 7 that are drawn freely, in all kinds of weather, and 6 that lead to a situation."""
NONBLOCKING_TURNS = 4
QUICK = {
    "no conflict check": 1,
    "the conflict check is made before the lock is taken": 0,
    "no lock is taken": 0,
    "a lease that still runs is taken over": 2,
    "the lock is released before the instant appears": 0,
    "a rollback forgets the metadata table": 81,
    "a clean deletes what savepoints keep": 18,
    "a clean deletes what readers of retained commits need": 0,
    "the requested time is made before the lock is taken": 1,
    "two writers insert new keys into one partition": 261,
    "a process that lost the lock undoes what the next one did": 43,
    "the id of a replaced file group is given again": -5,
}
"""First seeds for a mutant: the first schedules from there on find it, mostly at once."""
TRIES = 4
"""Schedules that a mutant may take: a change elsewhere moves what a seed's schedule meets."""


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda number: str(KINDS[number]))
def test_no_schedule_shows_an_anomaly(kind: int) -> None:
    """Every other turn: the even ones of one kind, the odd ones of the next."""
    check_seeds(_every_other(kind, kind % 2))


@pytest.mark.parametrize("kind", range(len(NONBLOCKING_KINDS)), ids=lambda number: str(NONBLOCKING_KINDS[number]))
def test_no_schedule_of_writers_that_dont_block_each_other_shows_an_anomaly(kind: int) -> None:
    check_seeds(range(kind - NONBLOCKING_TURNS * len(NONBLOCKING_KINDS), 0, len(NONBLOCKING_KINDS)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda number: str(KINDS[number]))
def test_no_schedule_of_many_shows_an_anomaly(kind: int) -> None:
    check_seeds(_every_other(kind, 1 - kind % 2))
    check_seeds(range(kind + TURNS * len(KINDS), 3 * TURNS * len(KINDS), len(KINDS)))


def _every_other(kind: int, first: int) -> range:
    return range(kind + first * len(KINDS), TURNS * len(KINDS), 2 * len(KINDS))


def check_seeds(seeds: range) -> None:
    failed = [found for seed in seeds if (found := search(seed)).problem]
    assert not failed, "\n\n".join(f"{each}" for each in failed)


def test_the_default_run_has_250_schedules() -> None:
    turns = [_every_other(kind, kind % 2) for kind in range(len(KINDS))]
    assert sum(map(len, turns)) + NONBLOCKING_TURNS * len(NONBLOCKING_KINDS) > 250


@pytest.mark.parametrize("seed", [3, 110])
def test_a_seed_gives_one_schedule(seed: int) -> None:
    first, again = play(Plan.of(seed)), play(Plan.of(seed))
    assert first.notes == again.notes
    assert first.disk.files == again.disk.files
    assert first.notes != play(Plan.of(seed + len(KINDS))).notes


def test_schedules_have_what_goes_wrong() -> None:
    met = [fate for seed in (73, 82, 87) for fate in play(Plan.of(seed)).script.met.values()]
    assert {fate.fault for fate in met} == {"", "error", "lost answer", "crash before", "crash after"}
    assert any(fate.pauses for fate in met)


def test_histories_of_appends_are_judged_too() -> None:
    plans = [plan for plan in map(Plan.of, range(40)) if _only_appends(plan)][:2]
    told = [history_of(play(plan)) for plan in plans]
    assert all(steps is not None and len(steps) > 3 for steps in told)


def _only_appends(plan: Plan) -> bool:
    done = [each for process in plan.processes for each in process.operations]
    return all(each.verb in {"update", "append"} for each in done if each.is_write)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_breaks_what_is_there(mutant: object) -> None:
    with mutant.applied():  # type: ignore[attr-defined]
        pass


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_protocol_is_found(name: str) -> None:
    number = next(number for number, each in enumerate(MUTANTS) if each.name == name)
    assert hunt(number, TRIES, QUICK[name]).seed is not None


def test_runs_are_steps_of_the_specification() -> None:
    trace = Trace(play(Plan.of(54)))
    trace.run()
    assert trace.problem is None
    assert {each.split()[0] for each in trace.steps} >= {"request", "take", "check", "complete_metadata", "complete"}


@pytest.mark.parametrize(
    ("name", "seed", "said"),
    [("no conflict check", 0, "had to fail"), ("no lock is taken", 0, "while the lock is None")],
)
def test_the_specification_lacks_steps_of_a_broken_protocol(name: str, seed: int, said: str) -> None:
    mutant = next(each for each in MUTANTS if each.name == name)
    first_files(Plan.of(seed).kind)  # by whole code
    with mutant.applied():
        found = contradiction(play(Plan.of(seed)))
    assert found is not None
    assert said in found


def test_services_of_runs_are_steps_of_the_specification() -> None:
    trace = ServiceTrace(play(Plan.of(20045)))
    trace.run()
    assert trace.problem is None
    taken = {each.split()[0] for each in trace.steps}
    assert taken == {
        "plan_all", "complete", "abort", "schedule_all", "lease", "write_all", "end", "schedule_clean_of", "delete",
        "end_clean", "save",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seed", "said"),
    [
        ("a clean deletes what savepoints keep", 18, "names files that are needed"),
        (
            "a write to a file group of a pending clustering completes, and the clustering too",
            1500,
            "had to be refused",
        ),
    ],
)
def test_the_specification_lacks_steps_of_broken_services(name: str, seed: int, said: str) -> None:
    mutant = next(each for each in MUTANTS if each.name == name)
    first_files(Plan.of(seed).kind)  # by whole code
    with mutant.applied():
        trace = ServiceTrace(play(Plan.of(seed)))
    trace.run()
    assert trace.problem is not None
    assert said in trace.problem


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_every_broken_protocol_is_found(number: int) -> None:
    found = hunt(number, 300)
    assert found.seed is not None, found.name


@pytest.mark.slow
def test_a_failure_is_shrunk_and_told() -> None:
    told = tell(2, MUTANTS[0].applied)
    assert "ANOMALY" in told
    assert len(told.splitlines()) < 60
    assert anomalies(play(Plan.of(2))) == []
