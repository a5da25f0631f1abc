"""Run a part of the damage matrix by hand: `PYTHONPATH=src:tests python -m support.matrix "mor9 | log * | * | scan"`.

The parts are table, kind of file, damage and verb, as shell patterns; `--every N` takes one case of N.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
import time
from pathlib import Path

from support.matrix.damages import kinds
from support.matrix.judge import cases, judge
from support.matrix.limits import limit_of
from support.matrix.tables import SCRIPTS, make


def main() -> int:
    """Print each case whose outcome isn't right, and how many there were."""
    parser = argparse.ArgumentParser(prog="python -m support.matrix")
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    parts = [part.strip() for part in asked.pattern.split("|")]
    parts += ["*"] * (4 - len(parts))
    count = wrong = 0
    begun = time.perf_counter()
    for name in fnmatch.filter(SCRIPTS, parts[0]):
        with tempfile.TemporaryDirectory() as folder:
            made = make(Path(folder), name)
            for kind in fnmatch.filter(kinds(made.path), parts[1]):
                for case, file, damage in cases(made, name, kind, asked.every):
                    if not fnmatch.fnmatch(case.damage, parts[2]) or not fnmatch.fnmatch(case.verb, parts[3]):
                        continue
                    count += 1
                    if (found := judge(made, case, file, damage, Path(folder))) is not None:
                        wrong += 1
                        excused = "limit" if limit_of(case, found) else "WRONG"
                        print(f"{excused} {case} -> {type(found).__name__}: {str(found)[:300]}", flush=True)
    print(f"{count} cases, {wrong} not right, {time.perf_counter() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
