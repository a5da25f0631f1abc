"""What the default metadata table adds to a one-row upsert into a small local table, and to a scan of it.

python bench/small_table.py --rounds 30
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import pudi

ROWS = 2_000
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("text", pa.string()), ("part", pa.string())])


def made(path: Path, metadata: str) -> pudi.Table:
    """A table in four partitions with a dozen commits."""
    options = {"hoodie.metadata.enable": metadata}
    pudi.create(path, SCHEMA, record_key="id", ordering="ts", partition_by="part", options=options)
    table = pudi.Table(path, options=options)
    table.bulk_insert(rows(range(ROWS), 1))
    for number in range(12):
        table.upsert(rows([number], 2))
    return table


def rows(numbers: range | list[int], ts: int) -> pa.Table:
    """Records by number."""
    values = [{"id": str(n), "ts": ts, "text": "x", "part": str(n % 4)} for n in numbers]
    return pa.Table.from_pylist(values, SCHEMA)


def main() -> None:
    """Take turns with and without a metadata table; say the medians of CPU time in milliseconds, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    taken: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        tables = {kind: made(Path(folder) / kind, kind) for kind in ("true", "false")}
        for number in range(rounds):
            for kind, table in tables.items():
                began = time.process_time()
                table.upsert(rows([number % 50], 3 + number))
                taken.setdefault(("upsert", kind), []).append(time.process_time() - began)
                began = time.process_time()
                pudi.Table(Path(folder) / kind, options={"hoodie.metadata.enable": kind}).scan().to_arrow()
                taken.setdefault(("scan", kind), []).append(time.process_time() - began)
    for what in ("upsert", "scan"):
        own, plain = (statistics.median(taken[what, kind]) * 1000 for kind in ("true", "false"))
        print(f"{what}: {own:.1f} ms with a metadata table, {plain:.1f} ms without: {own / plain:.2f} times")


if __name__ == "__main__":
    main()
