"""Listing many files through the metadata table, cold and warm, beside listing their folders.

python bench/metadata_listing.py --files 1000000 --partitions 10000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.filegroup import StorageListing
from pudi.format.avro_encode import encode_records
from pudi.format.hfile_write import encode_hfile
from pudi.format.metadata_partitions import FILES
from pudi.metadata import ALL_PARTITIONS, RECORD_AVRO, RECORD_SCHEMA, RecordType, all_columns
from pudi.schema import META_FIELDS

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string())])
FIRST = "20260101000000000"
SOLO = "00000000000000000"


def records(keys: list[str], each: int, names: pa.Array, kind: RecordType) -> pa.Table:
    """Records of the partition `files`: each key with so many of the names."""
    maps = RECORD_SCHEMA.field("filesystemMetadata").type
    offsets = pa.array(np.arange(len(keys) + 1) * each, pa.int32())
    sizes, no = np.full(len(names), 1), np.zeros(len(names), dtype=bool)
    infos = pa.StructArray.from_arrays([pa.array(sizes), pa.array(no)], fields=list(maps.item_type))
    made = pa.MapArray.from_arrays(offsets, names, infos, type=maps)
    types = pa.array(np.full(len(keys), kind, dtype=np.int32))
    rows = all_columns(pa.table({"key": pa.array(keys), "type": types, "filesystemMetadata": made}))
    for name in reversed(META_FIELDS):
        rows = rows.add_column(0, name, pa.nulls(len(keys), pa.string()))
    return rows


def make(root: Path, files: int, partitions: int) -> None:
    """A table of empty files that a commit named, and a metadata table made after it."""
    pudi.create(str(root), SCHEMA, record_key="id", partition_by="day", options={"hoodie.metadata.enable": "false"})
    each = files // partitions
    keys = [f"2026-{number // 1000:03}/{number % 1000:03}" for number in range(partitions)]
    names = [f"{number:08x}-dc9d-4e05-815e-b3a0cc232ab5-0_0-13-13_{FIRST}.parquet" for number in range(files)]
    for place, key in enumerate(keys):
        folder = root / key
        folder.mkdir(parents=True)
        (folder / ".hoodie_partition_metadata").write_text("#\npartitionDepth=2\n")
        for name in names[place * each : (place + 1) * each]:
            (folder / name).write_bytes(b"x")
    metadata = root / ".hoodie" / "metadata"
    (metadata / FILES).mkdir(parents=True)
    timeline = metadata / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (timeline / f"{SOLO}_{FIRST}.deltacommit").write_bytes(b"")
    parts = [
        records([ALL_PARTITIONS], partitions, pa.array(keys), RecordType.ALL_PARTITIONS),
        records(keys, each, pa.array(names), RecordType.FILES),
    ]
    empty_key = [part.set_column(5, "key", pa.array([""] * part.num_rows)) for part in parts]
    values = pa.concat_arrays([encode_records(RECORD_AVRO, part, unions=True) for part in empty_key])
    all_keys = pa.array([ALL_PARTITIONS, *keys]).cast(pa.binary())
    order = pa.compute.sort_indices(all_keys)
    content = encode_hfile(all_keys.take(order), values.take(order), avro_schema=RECORD_AVRO)
    (metadata / FILES / f"files-0000-0_0-0-0_{SOLO}.hfile").write_bytes(content)
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + f"hoodie.table.metadata.partitions={FILES}\n")


def seconds(what: Callable[[], Any]) -> tuple[float, int]:
    """How long a listing takes, and how many files it has."""
    start = time.perf_counter()
    found = what()
    return time.perf_counter() - start, sum(len(files) for files in found.values())


def main() -> None:
    """List, and say how long it took."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--files", type=int, default=1_000_000)
    arguments.add_argument("--partitions", type=int, default=10_000)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "table"
        make(root, given.files, given.partitions)
        meta = MetaClient.open(str(root), None, {})
        timeline = meta.store.load()
        folders = seconds(lambda: StorageListing(meta.storage).all_files())
        cold = seconds(lambda: TableSnapshot(MetaClient.open(str(root), None, {}), timeline).listing().all_files())
        TableSnapshot(meta, timeline).listing().all_files()
        warm = seconds(lambda: TableSnapshot(meta, timeline).listing().all_files())
    assert cold[1] == warm[1] == given.files
    said = {
        "files": given.files,
        "partitions": given.partitions,
        "folders": folders[0],
        "cold": cold[0],
        "warm": warm[0],
    }
    print(json.dumps({**said, "cold_ratio": folders[0] / cold[0], "warm_ratio": folders[0] / warm[0]}, indent=2))


if __name__ == "__main__":
    main()
