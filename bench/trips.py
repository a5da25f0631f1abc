"""The data of the bench: generated trips, the same in every run, and the batches that change them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
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
BATCHES = ["trips", "upsert_10", "upsert_1_new", "delete_1", "one_row"]
_START = np.datetime64("2026-01-01T00:00:00", "us")


def write_trips(folder: Path, rows: int) -> dict[str, int]:
    """Write the batches as folders of Parquet files, each once; returns the rows of each.

    `upsert_10` has a tenth of the keys, spread over all, with a later time and another fare; `upsert_1_new` a
    hundredth of new keys; `delete_1` a hundredth of the keys; `one_row` one of the keys, not deleted.
    """
    sizes = {"trips": rows, "upsert_10": rows // 10, "upsert_1_new": rows // 100, "delete_1": rows // 100, "one_row": 1}
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
    }
    for name, batch in batches.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        half = (batch.num_rows + 1) // 2  # two files, so that two cores can read them
        pq.write_table(batch.slice(0, half), folder / name / "0.parquet", compression="zstd")
        pq.write_table(batch.slice(half), folder / name / "1.parquet", compression="zstd")
    return sizes


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
    return pa.array(text.reshape(-1).view("S36")).cast(pa.string())


def names(rng: np.random.Generator, prefix: str, rows: int, distinct: int) -> pa.Array:
    """Some of `distinct` names."""
    return pa.array([f"{prefix}-{i:06}" for i in range(distinct)]).take(pa.array(rng.integers(0, distinct, rows)))
