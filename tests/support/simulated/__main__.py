"""Search many schedules for anomalies, `python -m support.simulated 1000`, or tell one, `--seed 7`.

`--mutants 100` looks for each mutant in up to 100 schedules.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import count, islice
from typing import NamedTuple

from support.simulated.mutants import MUTANTS
from support.simulated.plans import Plan
from support.simulated.run import play
from support.simulated.shrink import Shrinker, story
from support.simulated.traces import verdict
from support.simulated.work import first_files

_SHOWN = 3
"""Failures that are shrunk and told; of others only the seed."""


class Found(NamedTuple):
    """What one schedule showed."""

    seed: int
    kind: str
    calls: int
    problem: str


def search(seed: int) -> Found:
    """Play the schedule of a seed, judge it, and compare it with the specification."""
    plan = Plan.of(seed)
    played = play(plan)
    return Found(seed, str(plan), len(played.notes), next(iter(verdict(played)), ""))


def tell(seed: int, broken: Callable[[], AbstractContextManager[None]] = nullcontext) -> str:
    """Shrink the failing schedule of a seed, and tell it."""
    shortest = Shrinker(broken).run(Plan.of(seed))
    with broken():
        return story(shortest)


class Caught(NamedTuple):
    """How a mutant was found."""

    name: str
    seed: int | None
    schedules: int
    problem: str


def hunt(number: int, most: int, first: int = 0) -> Caught:
    """Look for a mutant in schedules that can show it, by the seeds from `first` up, or from it, or -1, down."""
    mutant = MUTANTS[number]
    numbers = count(min(first, -1), -1) if mutant.nonblocking else count(first)
    seeds = islice((seed for seed in numbers if mutant.wants(Plan.of(seed))), most)
    for tried, seed in enumerate(seeds, 1):
        first_files(Plan.of(seed).kind)  # by whole code
        with mutant.applied():
            problem = search(seed).problem
        if problem:
            return Caught(mutant.name, seed, tried, problem.splitlines()[0])
    return Caught(mutant.name, None, most, "")


def _in_processes(jobs: int, function: Callable[..., object], *arguments: object) -> Iterator[object]:
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(function, *arguments, chunksize=1)  # type: ignore[arg-type]


def _search_all(seeds: range, jobs: int) -> int:
    began, kinds, calls, failed = time.monotonic(), Counter[str](), 0, []
    for found in _in_processes(jobs, search, seeds):
        assert isinstance(found, Found)
        kinds[found.kind] += 1
        calls += found.calls
        if found.problem:
            failed.append(found.seed)
            print(f"seed {found.seed} ({found.kind}): {found.problem.splitlines()[0]}", flush=True)
    print(
        f"{len(seeds)} schedules of {len(kinds)} kinds of tables, {calls:,} calls, {len(failed)} with anomalies, "
        f"{time.monotonic() - began:.0f} s"
    )
    for seed in failed[:_SHOWN]:
        print(f"\n{tell(seed)}")
    return 1 if failed else 0


def _hunt_all(most: int, jobs: int, named: str) -> int:
    missed = 0
    numbers = [number for number, mutant in enumerate(MUTANTS) if named in mutant.name]
    for found in _in_processes(jobs, hunt, numbers, [most] * len(numbers)):
        assert isinstance(found, Caught)
        missed += found.seed is None
        what = "NOT FOUND" if found.seed is None else f"seed {found.seed}"
        print(f"| {found.name} | {what} | {found.schedules} | {found.problem[:120]} |", flush=True)
    print(f"{missed} of {len(numbers)} mutants were not found")
    return 1 if missed else 0


def main() -> int:
    """Parse the command line and search."""
    parser = argparse.ArgumentParser(prog="support.simulated", description=__doc__)
    parser.add_argument("schedules", nargs="?", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="shrink and tell this one")
    parser.add_argument("--mutants", type=int, help="look for each mutant in so many schedules")
    parser.add_argument("--named", default="", help="only mutants whose names have this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args()
    if given.seed is not None:
        print(tell(given.seed) if search(given.seed).problem else story(play(Plan.of(given.seed))))
        return 0
    if given.mutants is not None:
        return _hunt_all(given.mutants, given.jobs, given.named)
    return _search_all(range(given.first, given.first + given.schedules), given.jobs)


if __name__ == "__main__":
    sys.exit(main())
