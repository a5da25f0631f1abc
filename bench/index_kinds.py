"""The indexes that pudi writes by on Spark, side by side on the same data: what decides which one is the default.

python bench/index_kinds.py --rows 1000000 --rounds 3
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections import defaultdict
from pathlib import Path

from operations import RECORD_INDEX
from trips import write_trips

import pudi
from spark import Spark

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "buckets": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "global simple": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "global bloom": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "record index": RECORD_INDEX,
}
STEPS = [
    ("bulk_insert", "trips"),
    ("upsert", "upsert_10"),
    ("upsert", "upsert_1_new"),
    ("delete", "delete_1"),
    ("upsert", "one_row"),
]


def one_round(session: Spark, data: Path, path: Path, options: dict[str, str]) -> dict[str, float]:
    """Seconds of each step on a new table."""
    shutil.rmtree(path, ignore_errors=True)
    took = {}
    for verb, batch in STEPS:
        rows = session.session.read.parquet(str(data / batch))
        if verb == "bulk_insert":
            pudi.create(path, rows.schema, record_key="uuid", partition_by="city", ordering="ts")
        began = time.perf_counter()
        getattr(pudi.Table(path, options=options), verb)(rows)
        took[batch] = time.perf_counter() - began
    return took


def main() -> None:
    """Measure each index in turns, and print medians of all rounds but the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="the first warms up and doesn't count")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "index-kinds")
    given = parser.parse_args()
    write_trips(given.work / "data", given.rows)
    session = Spark("4g")
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(given.rounds):
        for kind, options in KINDS.items():
            for batch, took in one_round(session, given.work / "data", given.work / "table", options).items():
                seconds[batch, kind] += [took] if number or given.rounds == 1 else []
    print(f"| | {' | '.join(KINDS)} |\n|---{'|---' * len(KINDS)}|")
    for verb, batch in STEPS:
        print(f"| {verb} {batch} | {' | '.join(f'{statistics.median(seconds[batch, kind]):.2f}' for kind in KINDS)} |")
    session.close()
    shutil.rmtree(given.work)


if __name__ == "__main__":
    main()
