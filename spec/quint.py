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

import services
from agrees import compare

HERE = Path(__file__).parent
QUINT = HERE.parent / "build" / "quint" / "node_modules" / ".bin" / "quint"


class Specification(NamedTuple):
    """How a specification is run: its modules without `right`, runs for `right` and for others, steps of a run.

    `compared` is the number of runs for the comparison with the rendering; 0 where there is none.
    """

    name: str
    broken: tuple[str, ...]
    samples: int
    most: int
    steps: int
    compared: int = 0


SPECIFICATIONS = (
    Specification("commits", ("blind", "deaf", "rash", "late"), 10_000, 100_000, 40, compared=500),
    Specification("buckets", ("by_request", "own_ids", "unlooked", "same_id"), 1_000, 100_000, 30),
    Specification("services", tuple(services.MODULES)[1:], 1_000, 5_000, 40, compared=200),
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
            is_right = module == "right"
            samples = spec.samples if is_right else spec.most
            found = _verdict(_quint(spec, module, samples, "--invariant=safe"))
            wrong += found != ("no violation" if is_right else "violated")
            wrong += is_right and _verdict(_quint(spec, module, samples, "--invariant=nothing_happens")) != "violated"
            compared = (
                _compared(spec, module, spec.compared if is_right else spec.compared // 5) if spec.compared else ""
            )
            told = f"{found} in {samples:,} runs" if is_right else found
            print(f"{spec.name} {module}: {told}{'; the rendering has ' + compared if compared else ''}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
