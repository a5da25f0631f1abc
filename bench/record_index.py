"""Looking keys up in a large record index: what one lookup reads, and how long many take beside a full scan.

python bench/record_index.py --keys 100000000 --shards 100
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from hfile import best
from metadata_listing import SCHEMA, SOLO
from trips import uuids

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.context import Context, FileInfo, Storage
from pudi.format import instant_to_millis
from pudi.format.hfile_write import encode_hfile
from pudi.format.metadata_partitions import FILES, RECORD_INDEX
from pudi.metadata import RECORD_AVRO
from pudi.metadata.keys import shard_of
from pudi.metadata.record_index import RecordShards, encode_location, shard_id
from pudi.storage import StorageWrapper, open_storage

T = TypeVar("T")
BATCH = 1_000_000
GROUPS = 28
"""File groups of the table, each in a partition of its own."""
SPILLED = pa.schema([("key", pa.string())])
POINTS = 20
"""Single keys that are looked up."""


class Watched(StorageWrapper):
    """Counts requests, and the bytes that they bring, by the first folders of the path."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        found = do()
        if kind != "local_path":  # no request: a file is about to be opened by its name
            part = "index" if f"metadata/{RECORD_INDEX}" in path else "else"
            self.requests[part] += 1
            self.bytes[part] += size(found)
        return found


def size(found: object) -> int:
    """Bytes of what a request brought; a listing's are those of its names."""
    if isinstance(found, bytes | memoryview | pa.Buffer):
        return len(memoryview(found))
    if isinstance(found, FileInfo):
        return len(found.path)
    if isinstance(found, str):
        return len(found)
    return sum(map(size, found)) if isinstance(found, list | tuple) else 0


def make(root: Path) -> None:
    """A table of a few rows with a metadata table."""
    files_only = {"hoodie.metadata.index.column.stats.enable": "false"}
    pudi.create(root, SCHEMA, record_key="id", partition_by="day", options=files_only)
    rows = [{"id": str(number), "day": f"2026-01-{number + 1:02}"} for number in range(GROUPS)]
    table = pudi.Table(root, options=files_only)
    table.bulk_insert(pa.Table.from_pylist(rows, SCHEMA))


def add_index(root: Path, keys: int, shards: int) -> None:
    """A record index of random keys, each in one of the table's file groups."""
    folder = root / ".hoodie" / "metadata" / RECORD_INDEX
    folder.mkdir()
    slices = pudi.Table(root).file_slices()
    locations = [encode_location(s.partition, s.file_id, instant_to_millis(s.instant, "UTC")) for s in slices]
    values = pa.array(locations, pa.binary())
    with tempfile.TemporaryDirectory(dir=root.parent) as spilled:
        spill(Path(spilled), keys, shards)
        rng = np.random.default_rng(5)
        for number in range(shards):
            with pa.ipc.open_file(str(Path(spilled) / f"{number}")) as file:
                own = file.read_all()["key"].combine_chunks().sort().cast(pa.binary())
            held = values.take(pa.array(rng.integers(0, len(values), len(own))))
            content = encode_hfile(own, held, avro_schema=RECORD_AVRO)
            (folder / f"{shard_id(number)}_0-0-0_{SOLO}.hfile").write_bytes(content)
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace(f"partitions={FILES}\n", f"partitions={FILES},record_index\n"))


def spill(folder: Path, keys: int, shards: int) -> None:
    """Keys in a file for each file group of the index."""
    rng = np.random.default_rng(4)
    writers = [pa.ipc.new_file(str(folder / f"{number}"), SPILLED) for number in range(shards)]
    for begin in range(0, keys, BATCH):
        rows = uuids(rng, min(BATCH, keys - begin))
        numbers = shard_of(rows, shards)
        rows = rows.take(pa.array(np.argsort(numbers, kind="stable")))
        ends = np.cumsum(np.bincount(numbers, minlength=shards)).tolist()
        for writer, start, end in zip(writers, [0, *ends], ends, strict=False):
            writer.write_batch(pa.record_batch([rows.slice(start, end - start)], schema=SPILLED))
    for writer in writers:
        writer.close()


def one_lookup(root: Path, key: str) -> dict[str, float]:
    """What the planning of a query for one key reads: of the index, and of all else."""
    watched = Watched(open_storage(str(root)))
    table = pudi.Table.of(MetaClient.open(str(root), None, {}, Context(), watched), {})
    start = time.perf_counter()
    plan = table.scan(where=f"id = '{key}'").plan
    took = time.perf_counter() - start
    assert len(plan.slices) == 1, "one file group holds the key"
    found = {"seconds": took}
    for part in ("index", "else"):
        found |= {f"{part}_requests": watched.requests[part], f"{part}_bytes": watched.bytes[part]}
    return found


def index_of(root: Path) -> RecordShards:
    """The table's record index, opened."""
    meta = MetaClient.open(str(root), None, {})
    table = TableSnapshot.load(meta).metadata_table()
    return RecordShards.of(table.storage, table.shards(RECORD_INDEX).all, table.scope, partitioned=False)


def many_lookups(root: Path, keys: pa.Array, repeats: int) -> dict[str, float]:
    """Seconds that many keys of one file group of the index take, and a full scan of it."""
    index = index_of(root)
    seconds, found = best(lambda: index.find(0, keys), repeats)
    assert found.num_rows == len(keys)
    scan, everything = best(lambda: index.scan(0), repeats)
    return {
        "keys": everything.num_rows,
        "lookups": len(keys),
        "lookup_seconds": seconds,
        "scan_seconds": scan,
        "ratio": scan / seconds,
    }


def some_keys(root: Path, count: int) -> pa.Array:
    """Keys of the first file group of the index."""
    keys = index_of(root).scan(0)["_hoodie_record_key"].combine_chunks()
    chosen = np.random.default_rng(1).choice(len(keys), min(count, len(keys)), replace=False)
    return keys.take(pa.array(chosen))


def middle(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    """Make the index, look keys up, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--lookups", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "table"
        make(root)
        start = time.perf_counter()
        add_index(root, given.keys, given.shards)
        made = time.perf_counter() - start
        stored = sum(file.stat().st_size for file in (root / ".hoodie" / "metadata" / RECORD_INDEX).iterdir())
        keys = some_keys(root, given.lookups)
        points = middle([one_lookup(root, key) for key in keys.slice(0, POINTS).to_pylist()])
        many = many_lookups(root, keys, given.repeats)
    said = {"keys": given.keys, "shards": given.shards, "made_seconds": made, "bytes_per_key": stored / given.keys}
    print(json.dumps({**said, "point": points, "shard": many}, indent=2))


if __name__ == "__main__":
    main()
