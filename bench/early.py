"""The share of its work that a losing writer does, with early conflict detection and without.

python bench/early.py --rounds 9

Two processes upsert a tenth of a million rows of 20 columns, in all 16 file groups of a copy-on-write table. The second
one begins in the first half of the first one's time, at another moment each round, so that one of them must lose. Work
is the loser's CPU time over that of the same upsert alone.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import pudi
from pudi.testing.race import START_TIMEOUT, Barrier, race

ROWS, FILES = 1_000_000, 16
NUMBERS, TEXTS = [f"n{n}" for n in range(12)], [f"t{n}" for n in range(5)]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())]
    + [(name, pa.float64()) for name in NUMBERS]
    + [(name, pa.string()) for name in TEXTS]
)
EARLY = {
    "hoodie.write.concurrency.early.conflict.detection.enable": "true",
    "hoodie.write.concurrency.early.conflict.check.commit.conflict": "true",
}


def rows(numbers: np.ndarray, value: int) -> pa.Table:
    """Records by number, of one partition for each file."""
    parts = pa.array([f"p{number}" for number in range(FILES)]).take(pa.array(numbers % FILES))
    chance = np.random.default_rng(value)
    values = [pa.array(chance.random(len(numbers)).round(4)) for _ in NUMBERS]
    words = pa.array([f"word {n}" for n in range(1000)])
    texts = [words.take(pa.array(chance.integers(0, 1000, len(numbers)))) for _ in TEXTS]
    arrays = [pa.array(numbers), parts, pa.repeat(value, len(numbers)), *values, *texts]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def run(barrier: Barrier, number: int, path: str, alone: float, rounds: int, early: bool) -> list[float]:
    """Upsert once a round; return the CPU time of lost attempts."""
    table = pudi.Table(path, options=EARLY if early else {})
    data, lost = rows(np.arange(0, ROWS, 10), number), []
    for turn in range(rounds):
        barrier.wait(START_TIMEOUT)
        if number == 1:
            time.sleep(alone * (turn + 0.5) / rounds / 2)
        began = time.process_time()
        try:
            table.upsert(data)
        except pudi.ConflictError:
            lost.append(time.process_time() - began)
    return lost


def main() -> None:
    """Print the loser's share of work for both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "t"))
        table = pudi.create(path, SCHEMA, record_key="id", partition_by="part")
        table.bulk_insert(rows(np.arange(ROWS), 0))
        times, works = [], []
        for turn in range(3):
            data, began, computed = rows(np.arange(0, ROWS, 10), turn), time.perf_counter(), time.process_time()
            table.upsert(data)
            times.append(time.perf_counter() - began)
            works.append(time.process_time() - computed)
        alone, work = statistics.median(times), statistics.median(works)
        print(f"alone: {alone:.2f} s, {work:.2f} s of CPU")
        for early in (False, True):
            lost = [each for told in race(run, (path, alone, rounds, early), racers=2) for each in told]
            share = statistics.median(lost) / work if lost else float("nan")
            name = "with early detection" if early else "without"
            print(f"{name}: {len(lost)} of {rounds} lost, after {share:.0%} of the work (median)", flush=True)


if __name__ == "__main__":
    main()
