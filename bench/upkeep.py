"""The cost of maintaining the metadata table in an upsert of a tenth of the rows over all files.

python bench/upkeep.py --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from trips import SCHEMA, write_trips

import pudi

KEPT = {
    "none": {},
    "files": {"hoodie.metadata.enable": "true"},
    "files, column_stats": {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"},
    "files, record_index": {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.index.type": "RECORD_INDEX",
    },
}
"""Writers' options by what the metadata table has then."""


def main() -> None:
    """Take turns on tables that differ in their metadata tables alone; say by how much their upserts differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kind", default="cow", help="cow or mor")
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in KEPT}
    with tempfile.TemporaryDirectory() as folder:
        data, made = Path(folder) / "data", Path(folder) / "made"
        write_trips(data, given.rows)
        trips, batch = (pq.read_table(data / name).combine_chunks() for name in ("trips", "upsert_10"))
        for place, options in enumerate(KEPT.values()):
            path = made / str(place)
            settings = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": given.kind}
            pudi.create(path, SCHEMA, **settings, options={"hoodie.metadata.enable": "false"})
            pudi.Table(path, options=options).bulk_insert(trips)
        for number in range(given.repeats + 1):
            turns = list(enumerate(KEPT.items()))
            for place, (name, options) in turns[number % len(turns) :] + turns[: number % len(turns)]:
                path = Path(shutil.copytree(made / str(place), Path(folder) / "table"))
                table = pudi.Table(path, options=options)
                start = time.perf_counter()
                table.upsert(batch)
                if number:  # the first round is for warming up
                    seconds[name].append(time.perf_counter() - start)
                shutil.rmtree(path)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    share = {name: each / found["none"] - 1 for name, each in found.items()}
    print(json.dumps({"rows": given.rows, "kind": given.kind, "seconds": found, "more": share}, indent=2))


if __name__ == "__main__":
    main()
