"""Local copy-on-write beside delta-rs and beside the limit: six narrow columns, no metadata table.

Contestants take turns in one process, each upsert on a copy of the table that its bulk insert wrote, and what is
compared are ratios of one turn, of CPU time too: other work on the machine slows both alike.

python bench/narrow.py --rows 2000000 --turns 5 --partitions 4
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pudi

OPTIONS = {"hoodie.metadata.enable": "false"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("place", pa.int32()),
        ("kind", pa.string()),
        ("amount", pa.float64()),
        ("region", pa.string()),
    ]
)
_START = np.datetime64("2026-01-01T00:00:00", "us")


def make(rng: np.random.Generator, numbers: np.ndarray, partitions: int, later: int = 0) -> pa.Table:
    """The records of some numbers: keys ascend with the time."""
    count = len(numbers)
    kinds = pa.array([f"kind{n}" for n in range(20)])
    regions = pa.array([f"region{n}" for n in range(max(partitions, 1))])
    columns = [
        pa.array([f"order-{n:010d}" for n in numbers.tolist()]),
        pa.array(_START + numbers.astype("timedelta64[s]") + np.timedelta64(later, "D"), pa.timestamp("us", tz="UTC")),
        pa.array(rng.integers(0, 5_000, count).astype(np.int32)),
        kinds.take(pa.array(rng.integers(0, 20, count))),
        pa.array(np.round(rng.random(count) * 100, 2)),
        regions.take(pa.array(numbers % max(partitions, 1))),
    ]
    return pa.table(columns, schema=SCHEMA)


def main() -> None:
    """Measure in turns; say medians, and the medians of the ratios within turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4, help="values of the partition column; 0 for none")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", help="where the tables are made: on the disk to be measured")
    parser.add_argument("--options", type=json.loads, default={}, help="more options of pudi's, as JSON")
    parser.add_argument("--results", type=Path, help="file that the figures are added to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = measured(given, Path(folder))
    print(json.dumps(found, indent=1))
    if given.results is not None:
        kept = json.loads(given.results.read_text()) if given.results.exists() else {}
        kept[f"{given.rows} rows, {given.partitions} partitions"] = found
        given.results.write_text(json.dumps(kept, indent=1) + "\n")


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures by operation."""
    rng = np.random.default_rng(7)
    every = np.arange(given.rows)
    rows = make(rng, every, given.partitions)
    batches = {
        "upsert 10% spread": make(rng, np.sort(rng.permutation(given.rows)[: given.rows // 10]), given.partitions, 30),
        "upsert 10% together": make(rng, every[-(given.rows // 10) :], given.partitions, 30),
    }
    pudi_made, delta_made = folder / "pudi", folder / "delta"
    insert(pudi_made, rows, given)
    delta_insert(delta_made, rows, given)
    full = pudi.Table(pudi_made).scan().to_arrow()
    operations: dict[str, dict[str, tuple[Path | None, Callable[[Path], None]]]] = {
        "bulk_insert": {
            "pudi": (None, lambda path: insert(path, rows, given)),
            "delta-rs": (None, lambda path: delta_insert(path, rows, given)),
            "pyarrow": (None, lambda path: plain_write(path, full)),
        }
    }
    for name, batch in batches.items():
        operations[name] = {
            "pudi": (pudi_made, lambda path, batch=batch: upsert(path, batch, given)),
            "delta-rs": (delta_made, lambda path, batch=batch: delta_upsert(path, batch, given)),
        }
    result: dict[str, Any] = {"files": len(list(pudi_made.rglob("*.parquet")))}
    for operation, ways in operations.items():
        spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for turn in range(given.turns + 1):
            order = list(ways.items())
            order = order[turn % len(order) :] + order[: turn % len(order)]
            for way, (base, run) in order:
                path = folder / "table"
                if base is not None:
                    shutil.copytree(base, path)
                os.sync()  # what was copied or deleted is no part of it
                with stopwatch() as watch:
                    run(path)
                if turn:  # the first is for warming up
                    spent[way].append((watch["wall"], watch["cpu"]))
                shutil.rmtree(path)
        result[operation] = summary(spent)
    return result


def summary(spent: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Medians of seconds, and of what others took divided by what pudi took in the same turn."""
    found: dict[str, Any] = {}
    for way, turns in spent.items():
        found[way] = {"wall": _median(w for w, _ in turns), "cpu": _median(c for _, c in turns)}
        if way != "pudi":
            pairs = list(zip(turns, spent["pudi"], strict=True))
            found[way]["wall of pudi's"] = _median(theirs[0] / ours[0] for theirs, ours in pairs)
            found[way]["cpu of pudi's"] = _median(theirs[1] / ours[1] for theirs, ours in pairs)
    return found


def insert(path: Path, rows: pa.Table, given: argparse.Namespace) -> None:
    by = {"partition_by": "region"} if given.partitions else {}
    pudi.create(path, SCHEMA, record_key="id", ordering="ts", options=OPTIONS, **by)
    pudi.Table(path, options=OPTIONS | given.options).bulk_insert(rows)


def upsert(path: Path, rows: pa.Table, given: argparse.Namespace) -> None:
    pudi.Table(path, options=OPTIONS | given.options).upsert(rows)


def delta_insert(path: Path, rows: pa.Table, given: argparse.Namespace) -> None:
    import deltalake

    deltalake.write_deltalake(str(path), rows, partition_by=["region"] if given.partitions else None)


def delta_upsert(path: Path, rows: pa.Table, given: argparse.Namespace) -> None:
    import deltalake

    merger = deltalake.DeltaTable(str(path)).merge(
        rows,
        predicate="t.region = s.region AND t.id = s.id" if given.partitions else "t.id = s.id",
        source_alias="s",
        target_alias="t",
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def plain_write(path: Path, rows: pa.Table) -> None:
    """`write_table` of the same columns, in as many files as there are cores, side by side."""
    from concurrent.futures import ThreadPoolExecutor

    path.mkdir()
    count = os.cpu_count() or 1
    size = -(-rows.num_rows // count)
    with ThreadPoolExecutor(count) as threads:
        list(
            threads.map(
                lambda n: pq.write_table(rows.slice(n * size, size), path / f"{n}.parquet", compression="zstd"),
                range(count),
            )
        )


@contextmanager
def stopwatch() -> Iterator[dict[str, float]]:
    watch: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield watch
    watch["wall"], watch["cpu"] = time.perf_counter() - wall, time.process_time() - cpu


def _median(values: Any) -> float:
    return round(statistics.median(values), 3)


if __name__ == "__main__":
    main()
