"""Compare a Python rendering with its Quint: each step of runs that Quint made must be a step of the rendering.

    python spec/agrees.py commits right build/quint/*.itf.json

`quint.py` makes such runs, and compares them, for every module.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import commits
import leases
import services

RENDERINGS = {"commits": commits, "leases": leases, "services": services}


class Compared(NamedTuple):
    """What a comparison found: the number of runs, steps by action, and the steps that the rendering doesn't have."""

    runs: int
    taken: Counter[str]
    odd: list[str]

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {count}" for name, count in self.taken.most_common())
        said = (
            f"{self.runs} runs, {self.taken.total():,} steps, {len(self.odd)} that the rendering doesn't have: {steps}"
        )
        return "\n  ".join((said, *self.odd[:10]))


def value(found: Any) -> Any:
    """A value of the Informal Trace Format; records are dicts."""
    if isinstance(found, list):
        return tuple(map(value, found))
    if not isinstance(found, dict):
        return found
    if "#bigint" in found:
        return int(found["#bigint"])
    if "#set" in found:
        return frozenset(map(_hashable, map(value, found["#set"])))
    if "#map" in found:
        return {value(key): value(each) for key, each in found["#map"]}
    return {key: value(each) for key, each in found.items()}


def _hashable(found: Any) -> Any:
    return tuple(sorted(found.items())) if isinstance(found, dict) else found


def compare(specification: str, module: str, paths: Iterable[str | Path]) -> Compared:
    """Compare runs of a module with the rendering of its specification."""
    spec = RENDERINGS[specification]
    rules = spec.MODULES[module]
    runs, taken, odd = 0, Counter[str](), []
    for path in paths:
        runs += 1
        found = [next(value(each) for key, each in state.items() if key.endswith("::t")) for state in _states(path)]
        tables = [spec.table_of(each, rules) for each in found]
        for number, (before, after) in enumerate(pairwise(tables)):
            name = next((name for name, each in spec.steps(before) if each == after), None)
            taken[name.split()[0] if name else "none"] += 1
            broken = spec.broken_invariant(after) if rules == spec.MODULES["right"] else None
            if name is None or broken is not None:
                odd.append(f"{path}: step {number}: {name}, {broken}")
    return Compared(runs, taken, odd)


def _states(path: str | Path) -> list[dict[str, Any]]:
    return list(json.loads(Path(path).read_text())["states"])


def main() -> int:
    """Compare the runs that the command line names."""
    found = compare(*sys.argv[1:3], sys.argv[3:])
    print(found)
    return 1 if found.odd else 0


if __name__ == "__main__":
    sys.exit(main())
