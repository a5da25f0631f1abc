"""Compare `commits.py` with `commits.qnt`: each step of runs that Quint made must be a step of the Python rendering.

build/quint/node_modules/.bin/quint run --main=right --n-traces=500 --max-samples=500 --max-steps=40 --seed=1 \
--out-itf='build/quint/{seq}.itf.json' spec/commits.qnt
python spec/agrees.py build/quint/*.itf.json
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import commits


def value(found: Any) -> Any:
    """A value of the Informal Trace Format."""
    if isinstance(found, list):
        return tuple(map(value, found))
    if not isinstance(found, dict):
        return found
    if "#bigint" in found:
        return int(found["#bigint"])
    if "#set" in found:
        return frozenset(map(value, found["#set"]))
    if "#map" in found:
        return {value(key): value(each) for key, each in found["#map"]}
    return {key: value(each) for key, each in found.items()}


def table(state: dict[str, Any]) -> commits.Table:
    """A state of a trace."""
    found = next(value(each) for key, each in state.items() if key.endswith("::t"))
    writers = {
        w: commits.Writer(**{**each, "group": frozenset({each["group"]})}) for w, each in found["writers"].items()
    }
    keepers = {k: commits.Keeper(**each) for k, each in found["keepers"].items()}
    return commits.Table(**{**found, "writers": writers, "keepers": keepers, "most": 3})


def main() -> int:
    """Compare traces; the number of steps that the rendering doesn't have."""
    taken, odd = Counter[str](), 0
    for path in sys.argv[1:]:
        states = [table(each) for each in json.loads(Path(path).read_text())["states"]]
        for number, (before, after) in enumerate(pairwise(states)):
            name = next((name for name, found in commits.steps(before) if found == after), None)
            taken[name.split()[0] if name else "none"] += 1
            if name is None or commits.broken_invariant(after):
                odd += 1
                print(f"{path}: step {number}: {name}, {commits.broken_invariant(after)}")
    print(
        f"{len(sys.argv) - 1} runs, {sum(taken.values())} steps, {odd} that the rendering doesn't have: {dict(taken)}"
    )
    return odd


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
