"""The data of the bench: generated trips, the same in every run, and the batches that change them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

CITIES = ["amsterdam", "berlin", "chennai", "nyc"]
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("rider", pa.string()),
        ("driver", pa.string()),
        ("begin_lat", pa.float64()),
        ("begin_lon", pa.float64()),
        ("end_lat", pa.float64()),
        ("end_lon", pa.float64()),
        ("fare", pa.float64()),
        ("city", pa.string()),
    ]
)
BATCHES = ["trips", "upsert_10", "upsert_1_new", "delete_1", "one_row", "random_1"]
_START = np.datetime64("2026-01-01T00:00:00", "us")


def write_trips(folder: Path, rows: int) -> dict[str, int]:
    """Write the batches as folders of Parquet files, each once; returns the rows of each.

    `upsert_10` has a tenth of the keys, spread over all, with a later time and another fare; `upsert_1_new` a
    hundredth of new keys; `delete_1` a hundredth of the keys; `one_row` one of the keys, not deleted; `random_1` a
    hundredth of the keys.
    """
    sizes = {"trips": rows, "upsert_10": rows // 10, "upsert_1_new": rows // 100, "delete_1": rows // 100, "one_row": 1}
    sizes["random_1"] = rows // 100
    if all((folder / name / "1.parquet").exists() for name in BATCHES):
        return sizes
    rng = np.random.default_rng(rows)
    trips = make(rng, rows, _START)
    later = _START + np.timedelta64(30, "D")
    chosen = rng.permutation(rows)[: sizes["upsert_10"] + sizes["delete_1"] + 1]
    updated, deleted, one = np.split(chosen, [sizes["upsert_10"], -1])
    batches = {
        "trips": trips,
        "upsert_10": again(rng, trips, updated, later),
        "upsert_1_new": make(rng, sizes["upsert_1_new"], later),
        "delete_1": again(rng, trips, deleted, later),
        "one_row": again(rng, trips, one, later),
        "random_1": again(rng, trips, rng.permutation(rows)[: sizes["random_1"]], later),
    }
    for name, batch in batches.items():
        write_batch(folder / name, batch)
    return sizes


def write_batch(folder: Path, batch: pa.Table) -> None:
    """A batch as two files, so that two cores can read them."""
    folder.mkdir(parents=True, exist_ok=True)
    half = (batch.num_rows + 1) // 2
    pq.write_table(batch.slice(0, half), folder / "0.parquet", compression="zstd")
    pq.write_table(batch.slice(half), folder / "1.parquet", compression="zstd")


def write_groups(path: Path, data: Path, options: dict[str, str], groups: int = 1000) -> None:
    """A table of the trips in so many file groups, written by pudi's local engine with a bloom filter in each file."""
    import pudi

    trips = pq.read_table(data / "trips").sort_by("city")
    size = trips.nbytes // groups
    for _ in range(5):  # how far files can be compressed shows when they're written
        shutil.rmtree(path, ignore_errors=True)
        pudi.create(path, SCHEMA, name="trips", record_key="uuid", partition_by="city", ordering="ts")
        table = pudi.Table(path, options=options | {"hoodie.parquet.max.file.size": str(size)})
        table.bulk_insert(trips)
        found = len(table.file_slices())
        if 0.9 * groups < found < 1.1 * groups:
            return
        size = size * found // groups
    raise RuntimeError(f"{found} file groups, where {groups} were wanted")


def write_logs(path: Path, data: Path, options: dict[str, str], commits: int = 10) -> None:
    """A merge-on-read table of the trips in a file group for each city, with log files of so many upserts of 1%."""
    import pudi

    trips = pq.read_table(data / "trips")
    pudi.create(path, SCHEMA, name="trips", record_key="uuid", partition_by="city", ordering="ts", table_type="mor")
    table = pudi.Table(path, options=options)
    table.bulk_insert(trips)
    rng = np.random.default_rng(3)
    for number in range(commits):
        rows = rng.choice(trips.num_rows, trips.num_rows // 100, replace=False)
        table.upsert(again(rng, trips, rows, _START + np.timedelta64(40 + number, "D")))
    found = [len(file_slice.logs) for file_slice in table.file_slices()]
    if set(found) != {commits}:
        raise RuntimeError(f"{found} log files over base files, where {commits} were wanted")


def write_lineitem(folder: Path) -> None:
    """TPC-H's lineitem at scale factor 1 by tpchgen-cli, its row to refresh with (new keys), and rows to delete."""
    import subprocess
    import sys

    if (folder / "rf2" / "1.parquet").exists():
        return
    tool = Path(sys.executable).with_name("tpchgen-cli")
    made = folder / "made"
    command = [str(tool), "parquet", "--scale-factor", "1", "--tables", "lineitem", "--output-dir", str(made)]
    subprocess.run(command, check=True)
    lines = pq.read_table(next(made.glob("lineitem*.parquet")) if made.is_dir() else made)
    lines = lines.cast(pa.schema([f.with_type(_plain(f.type)) for f in lines.schema]))
    rng = np.random.default_rng(1)
    chosen = pa.array(rng.permutation(lines.num_rows)[: lines.num_rows // 1000])
    fresh = lines.take(chosen)
    moved = pa.compute.add(fresh["l_orderkey"], 6_000_001)
    fresh = fresh.set_column(0, lines.schema.field(0), moved.cast(lines.schema.field(0).type))
    gone = lines.take(pa.array(rng.permutation(lines.num_rows)[: lines.num_rows // 1000]))
    for name, batch in {"lineitem": lines, "rf1": fresh, "rf2": gone}.items():
        write_batch(folder / name, batch)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) else kind


def make(rng: np.random.Generator, rows: int, start: np.datetime64) -> pa.Table:
    """New trips within a month of `start`, in no order."""
    columns = {
        "uuid": uuids(rng, rows),
        "ts": pa.array(start + rng.integers(0, 30 * 86_400_000_000, rows).astype("m8[us]")),
        "rider": names(rng, "rider", rows, 50_000),
        "driver": names(rng, "driver", rows, 5_000),
        **{name: pa.array(rng.random(rows)) for name in ("begin_lat", "begin_lon", "end_lat", "end_lon")},
        "fare": pa.array(np.round(rng.random(rows) * 100, 2)),
        "city": pa.array(CITIES).take(pa.array(rng.integers(0, len(CITIES), rows))),
    }
    return pa.table(columns).cast(SCHEMA)


def again(rng: np.random.Generator, trips: pa.Table, rows: np.ndarray, start: np.datetime64) -> pa.Table:
    """New versions of some trips: same key and city, the rest new."""
    old = trips.take(pa.array(rows))
    new = make(rng, len(rows), start)
    for name in ("uuid", "city"):
        new = new.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), old[name])
    return new


def uuids(rng: np.random.Generator, rows: int) -> pa.Array:
    """Random UUIDs as text, 36 characters each."""
    digits = np.frombuffer(rng.bytes(16 * rows).hex().encode(), "u1").reshape(rows, 32)
    text = np.full((rows, 36), ord("-"), "u1")
    for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)):
        shift = {0: 0, 8: 1, 12: 2, 16: 3, 20: 4}[start]
        text[:, start + shift : end + shift] = digits[:, start:end]
    offsets = np.arange(0, 36 * rows + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def names(rng: np.random.Generator, prefix: str, rows: int, distinct: int) -> pa.Array:
    """Some of `distinct` names."""
    return pa.array([f"{prefix}-{i:06}" for i in range(distinct)]).take(pa.array(rng.integers(0, distinct, rows)))
