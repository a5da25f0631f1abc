"""Run Quint's simulator on every module, and compare its runs with the renderings: `make spec`.

The modules beside `right` leave out a rule, and must break an invariant. Prints the table of README.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import leases
import services
from agrees import compare

HERE = Path(__file__).parent
QUINT = HERE.parent / "build" / "quint" / "node_modules" / ".bin" / "quint"


class Specification(NamedTuple):
    """How a specification is run.

    Attributes:
        name: its file.
        broken: its modules without `right`.
        samples: runs of `right`.
        most: runs of the others at most.
        steps: of a run at most.
        compared: runs for the comparison with the rendering; 0 where there is none.
        rare: modules that such runs don't break: a search of all states does.
    """

    name: str
    broken: tuple[str, ...]
    samples: int
    most: int
    steps: int
    compared: int = 0
    rare: tuple[str, ...] = ()


SPECIFICATIONS = (
    Specification("commits", ("blind", "deaf", "rash", "late"), 10_000, 100_000, 40, compared=500),
    Specification("buckets", ("by_request", "own_ids", "unlooked", "same_id"), 1_000, 100_000, 30),
    Specification(
        "leases",
        tuple(leases.MODULES)[1:],
        10_000,
        50_000,
        40,
        compared=300,
        rare=("unstarted", "inflight_last"),
    ),
    Specification("services", tuple(services.MODULES)[1:], 1_000, 5_000, 40, compared=200, rare=("named_only",)),
)


def _quint(spec: Specification, module: str, samples: int, *more: str) -> str:
    command = [QUINT, "run", f"--main={module}", f"--max-samples={samples}", f"--max-steps={spec.steps}", "--seed=1"]
    done = subprocess.run(
        [*command, *more, HERE / f"{spec.name}.qnt"], capture_output=True, text=True, check=False, timeout=3600
    )
    return done.stdout + done.stderr


def _verdict(output: str) -> str:
    if "No violation found" in output:
        return "no violation"
    if re.search(r"\[violation\]", output):
        return "violated"
    raise SystemExit(f"Quint failed:\n{output[-2000:]}")


def _checked(spec: Specification, module: str) -> tuple[str, bool]:
    """Return what became of a module's runs, and whether that isn't as expected."""
    if module in spec.rare:
        return "broken by the search only", False
    if module != "right":
        found = _verdict(_quint(spec, module, spec.most, "--invariant=safe"))
        return found, found != "violated"
    found = _verdict(_quint(spec, module, spec.samples, "--invariant=safe"))
    reached = _verdict(_quint(spec, module, spec.samples, "--invariant=nothing_happens"))
    return f"{found} in {spec.samples:,} runs", (found, reached) != ("no violation", "violated")


def _compared(spec: Specification, module: str, samples: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        _quint(spec, module, samples, f"--n-traces={samples}", f"--out-itf={folder}/{{seq}}.itf.json")
        found = compare(spec.name, module, sorted(Path(folder).iterdir()))
    if found.odd:
        raise SystemExit(f"{spec.name}.py, {module}: {found}")
    return f"{found.runs} runs, {found.taken.total():,} steps"


def main() -> int:
    """Run all of them; the number of modules whose result is not as expected."""
    if not QUINT.exists():
        print(f"Quint is not installed in {QUINT.parents[2]}: it needs npm")
        return 0
    wrong = 0
    for spec in SPECIFICATIONS:
        for module in ("right", *spec.broken):
            told, is_wrong = _checked(spec, module)
            wrong += is_wrong
            if spec.compared:
                told += f"; the rendering has {_compared(spec, module, spec.compared if module == 'right' else 100)}"
            print(f"{spec.name} {module}: {told}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
