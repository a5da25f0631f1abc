"""Tables without meta fields beside those with them, old versions beside 6: `python bench/old_and_slim.py [ROWS]`."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import pudi

_ROUNDS = 5


def _rows(count: int) -> pa.Table:
    chance = np.random.default_rng(1)
    columns = {
        "id": [f"key-{n:09}" for n in range(count)],
        "ts": np.ones(count, dtype=np.int64),
        "fare": chance.random(count),
        "rider": [f"rider-{n % 1000}" for n in range(count)],
    }
    return pa.table(columns)


def _seconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def _written(folder: Path, rows: pa.Table, changed: pa.Table, options: dict[str, str], kind: str) -> list[float]:
    made = pudi.create(folder, rows.schema, record_key="id", ordering="ts", table_type=kind, options=options)
    steps: list[Callable[[], object]] = [lambda: made.bulk_insert(rows), lambda: made.upsert(changed)]
    return [_seconds(step) for step in [*steps, lambda: made.scan().to_arrow()]]


def main(count: int) -> None:
    """Print CPU seconds, medians of turns."""
    rows = _rows(count)
    few = rows.take(pa.array(np.random.default_rng(2).choice(count, count // 10, replace=False)))
    kinds = {"with meta fields": {}, "without": {"hoodie.populate.meta.fields": "false"}}
    taken: dict[str, list[list[float]]] = {f"{kind}, {name}": [] for kind in ("cow", "mor") for name in kinds}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(_ROUNDS):
            for about, times in taken.items():
                kind, _, name = about.partition(", ")
                times.append(_written(Path(folder) / f"{turn}{about}", rows, few, kinds[name], kind))
        for name, times in taken.items():
            medians = [statistics.median(column) for column in zip(*times, strict=True)]
            print(f"{name}: bulk insert {medians[0]:.2f}, upsert of a tenth {medians[1]:.2f}, read {medians[2]:.2f} s")
        _read_old(Path(folder) / "six", rows, few)


def _read_old(path: Path, rows: pa.Table, few: pa.Table) -> None:
    options = {"hoodie.write.table.version": "6", "hoodie.metadata.enable": "false"}
    made = pudi.create(path, rows.schema, record_key="id", ordering="ts", table_type="mor", options=options)
    made.bulk_insert(rows)
    made.upsert(few)
    properties = path / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    text = "".join(f"{line}\n" for line in lines if not line.startswith("hoodie.table.checksum"))
    times: dict[str, list[float]] = {"6": [], "5": [], "4": []}
    for version in [*times, *reversed(times)] * _ROUNDS:
        properties.write_text(text.replace("hoodie.table.version=6", f"hoodie.table.version={version}"))
        times[version].append(_seconds(lambda: pudi.Table(path).scan().to_arrow()))
    for version, taken in times.items():
        print(f"version {version}: read with log files {statistics.median(taken):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
