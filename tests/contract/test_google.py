"""What is particular to Google Cloud Storage: writes are conditional on an object's generation."""

from __future__ import annotations

import pudi
from pudi.storage import open_storage, replacing
from support.gcs import BUCKET, GcsServer
from support.trips import SCHEMA, table, trip


def test_writes_are_conditional_on_the_generation(gcs: GcsServer) -> None:
    storage = open_storage(gcs.new_root(), gcs.options())
    storage.create("a", b"1")
    cas = replacing(storage)
    assert cas is not None
    _, version = cas.read_version("a")
    cas.replace("a", b"2", version)
    below = storage.root.removeprefix(f"gs://{BUCKET}/")
    assert [condition for key, condition in gcs.conditions if key == f"{below}/a"] == ["0", version]


def test_a_create_whose_answer_was_lost_knows_its_own_work(gcs: GcsServer) -> None:
    storage = open_storage(gcs.new_root(), gcs.options())
    gcs.lost.add(f"{storage.root.removeprefix(f'gs://{BUCKET}/')}/a")
    storage.create("a", b"")
    assert not gcs.lost
    assert storage.read("a") == b""


def test_verbs_and_reads(gcs: GcsServer) -> None:
    made = pudi.create(
        gcs.new_root(), SCHEMA, record_key="uuid", partition_by="city", ordering="ts", storage_options=gcs.options()
    )
    made.bulk_insert(table([trip(n, 10) for n in range(6)]))
    made.upsert(table([trip(0, 20), trip(9, 20)]))
    made.delete(table([trip(1, 0)]))
    found = pudi.Table(made.path, storage_options=gcs.options()).scan().to_arrow()
    assert sorted(found["uuid"].to_pylist()) == ["k0000", "k0002", "k0003", "k0004", "k0005", "k0009"]
    assert made.check().ok
