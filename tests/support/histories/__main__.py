"""Search histories for differences, `python -m support.histories --seeds 1000 --first 0`, or tell one, `--seed 7`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from support.histories.place import Memory, OnSpark, Place, one_thread
from support.histories.run import STEPS, play
from support.histories.setups import Setup
from support.histories.shrink import shrink
from support.spark import start


def main() -> int:
    """Parse the command line and search."""
    parser = argparse.ArgumentParser(prog="support.histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="tell this one, shrunk if it fails")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--spark", action="store_true", help="on Spark, in sessions with other time zones")
    parser.add_argument("--refusals", action="store_true", help="list what was refused")
    given = parser.parse_args()
    if not given.spark:
        with one_thread():
            return _search(given, Setup.of, Memory)
    with TemporaryDirectory() as folder:
        session = start(Path(folder), {})
        return _search(given, Setup.on_spark, partial(OnSpark, session, Path(folder)))


def _search(
    given: argparse.Namespace, setup_of: Callable[[int], Setup], place: Callable[[Setup, pa.Schema], Place]
) -> int:
    if given.seed is not None:
        played = play(setup_of(given.seed), steps=given.steps, place=place)
        print((shrink(played) if played.problem and not given.spark else played).story())
        return 1 if played.problem else 0
    began, failed, refused = time.monotonic(), 0, Counter[str]()
    for seed in range(given.first, given.first + given.seeds):
        played = play(setup_of(seed), steps=given.steps, place=place)
        refused += played.refused
        if played.problem:
            failed += 1
            last = played.operations[-1].line()[:100] if played.operations else "create"
            print(
                f"seed {seed} ({played.setup}), step {len(played.operations)}, {last}:\n    {played.problem[:600]}",
                flush=True,
            )
    print(f"{given.seeds} histories of {given.steps} steps, {failed} differ, {time.monotonic() - began:.0f} s")
    for what, count in sorted(refused.items()) if given.refusals else ():
        print(f"{count:5} {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
