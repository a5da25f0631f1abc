"""Writes by every index on both engines, against the model; settings that contradict the table are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import pudi
from pudi.context import Context
from pudi.format import bucket_of_file_id
from pudi.schema import RECORD_KEY
from pudi.tagging import Buckets
from support.engines import THREE_WAYS, Engine, per_engine
from support.layouts import Layout
from support.model_global import GlobalModel
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import SCHEMA, steps, table, trip

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
BLOOM = {"hoodie.index.type": "BLOOM", "hoodie.index.bloom.num_entries": "1000"}
GLOBAL_SIMPLE = {"hoodie.index.type": "GLOBAL_SIMPLE"}
GLOBAL_BLOOM = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.index.bloom.num_entries": "1000"}
STAYING_SIMPLE = {**GLOBAL_SIMPLE, "hoodie.simple.index.update.partition.path": "false"}
STAYING_BLOOM = {**GLOBAL_BLOOM, "hoodie.bloom.index.update.partition.path": "false"}
SPREAD_OUT = {"hoodie.parquet.small.file.limit": "0"}
"""Inserts make new file groups, so that there are many to look into."""

LOCAL = [
    (BUCKET, Layout()),
    (BUCKET, Layout("complex", "hive", "commit")),
    (BUCKET | {"hoodie.bucket.index.hash.field": "leg"}, Layout("complex", "flat", "event")),
    (BLOOM | SPREAD_OUT, Layout()),
    (BLOOM, Layout("complex", "flat", "commit")),
    (GLOBAL_SIMPLE | SPREAD_OUT, Layout()),
    (GLOBAL_SIMPLE, Layout("simple", "hive", "commit")),
    (GLOBAL_SIMPLE, Layout("complex", "flat", "event")),
    (GLOBAL_BLOOM, Layout()),
    (STAYING_SIMPLE, Layout("complex", "plain", "event")),
    (STAYING_BLOOM | SPREAD_OUT, Layout("simple", "hive", "commit")),
]
SPARK = [LOCAL[0], LOCAL[5]]
SPREAD = [LOCAL[2], LOCAL[3]]


def _model(layout: Layout, options: dict[str, str]) -> Any:
    if not options["hoodie.index.type"].startswith("GLOBAL"):
        return layout.model()
    moves = "false" not in options.values()
    return GlobalModel(
        layout.key_fields, layout.partition_fields, layout.ordering, layout.folders == "hive", moves=moves
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("engine", "options", "layout"), per_engine(LOCAL, SPARK, SPREAD), indirect=["engine"])
def test_random_writes(engine: Engine, tmp_path: Path, options: dict[str, str], layout: Layout) -> None:
    model = _model(layout, options)
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, layout)
    trips.options = options
    for number, step in enumerate(steps(31, 12 if engine.name == "local" else 6)):
        getattr(model, step.verb)(from_arrow(step.data), *trips.write(step.verb, step.data))
        assert_same(trips.snapshot(), model.snapshot(), PLACE_FIELDS, f"{number}: {step.verb}")
    if options["hoodie.index.type"] == "BUCKET":
        _check_buckets(trips, layout, options)


def _check_buckets(trips: PudiTable, layout: Layout, options: dict[str, str]) -> None:
    """One file group a bucket, and the keys of that bucket in it."""
    fields = options.get("hoodie.bucket.index.hash.field", ",".join(layout.key_fields)).split(",")
    slices = trips.table.file_slices()
    seen = {(s.partition, bucket_of_file_id(s.file_id)) for s in slices}
    assert len(seen) == len(slices)
    assert {bucket for _, bucket in seen} <= {0, 1, 2, 3}
    rows = trips.table.scan().to_arrow()
    named = [bucket_of_file_id(name) for name in rows["_hoodie_file_name"].to_pylist()]
    assert Buckets(4, tuple(fields)).of(rows[RECORD_KEY]).tolist() == named


@pytest.mark.sampled(2)
@THREE_WAYS
def test_many_records_go_to_their_buckets(engine: Engine, tmp_path: Path) -> None:
    """More than Spark writes partition by partition in one task each: it routes them by bucket."""
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout("simple", "flat", "event"))
    trips.options = BUCKET
    first = pa.concat_tables([table(trip(number, 1, city="nyc") for number in range(0, 9999, 7))] * 40)
    trips.write("insert", first)
    trips.write("upsert", table(trip(number, 2, "bob", "nyc") for number in range(0, 700, 7)))
    trips.write("delete", table(trip(number, 3) for number in range(0, 70, 7)))
    rows = trips.table.scan(columns=["uuid", "rider"]).to_arrow()
    assert len(trips.table.file_slices()) == 4
    assert len(rows) == len(first) - 10 * 40
    assert rows["rider"].to_pylist().count("bob") == 90 * 40
    _check_buckets(trips, Layout("simple", "flat", "event"), BUCKET)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_copies_of_a_key_move_and_go_together(engine: Engine, tmp_path: Path) -> None:
    trips = PudiTable.create(engine, tmp_path / "trips", SCHEMA, Layout())
    trips.options = GLOBAL_SIMPLE | SPREAD_OUT
    trips.write("insert", table([trip(1, 10, city="nyc"), trip(2, 10, city="nyc"), trip(3, 50, city="nyc")]))
    trips.write("insert", table([trip(1, 10, city="nyc"), trip(2, 10, city="sf")]))
    late = trip(3, 20, "late", "sf")
    trips.write("upsert", table([trip(1, 20, "bob", "sf"), trip(2, 20, "bob", "sf"), late, trip(4, 1, "new", "sf")]))
    places = sorted((row["uuid"], row["city"], row["rider"]) for row in trips.snapshot())
    assert places == [
        ("k0001", "sf", "bob"), ("k0002", "sf", "bob"), ("k0003", "nyc", "ann"), ("k0004", "sf", "new"),
    ]  # fmt: skip
    trips.write("delete", table([trip(3, 0, city="elsewhere"), trip(4, 0, city="nyc")]))
    assert sorted(row["uuid"] for row in trips.snapshot()) == ["k0001", "k0002"]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_flagged_deletes_reach_other_partitions(engine: Engine, tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    trips = PudiTable.create(engine, tmp_path / "trips", schema, Layout())
    trips.options = GLOBAL_SIMPLE

    def flagged(*rows: tuple[dict[str, Any], bool]) -> pa.Table:
        return pa.Table.from_pylist([{**row, "_hoodie_is_deleted": gone} for row, gone in rows], schema=schema)

    trips.write("insert", flagged(*((trip(n, 10, city="nyc"), False) for n in range(4))))
    trips.write(
        "upsert",
        flagged(
            (trip(0, 20, city="sf"), True),  # newer: gone
            (trip(1, 5, city="sf"), True),  # late: stays
            (trip(2, 20, city="sf"), False),  # moves
            (trip(9, 20, city="sf"), True),  # not there
        ),
    )
    assert sorted((r["uuid"], r["city"]) for r in trips.snapshot()) == [
        ("k0001", "nyc"), ("k0002", "sf"), ("k0003", "nyc"),
    ]  # fmt: skip


def _written(path: Path, options: dict[str, str], rows: int = 30) -> str:
    made = pudi.create(
        str(path), SCHEMA, record_key=["uuid", "leg"], partition_by="city", ordering="ts", options=options
    )
    made.insert(table(trip(number, 10) for number in range(rows)))
    return str(path)


def test_ids_of_digits_alone_are_no_buckets(tmp_path: Path) -> None:
    with patch.object(Context, "new_id", lambda _: "92345678-1234-1234-1234-123456789012"):
        path = _written(tmp_path / "trips", {})
    with pytest.raises(pudi.InvalidArgumentError, match="whose files are no buckets"):
        pudi.Table(path, options=BUCKET).upsert(table([trip(1, 20)]))


@pytest.mark.parametrize(
    ("made", "opened", "says"),
    [
        (BUCKET, {**BUCKET, "hoodie.bucket.index.num.buckets": "8"}, "it has 4 buckets"),
        (BUCKET, {**BUCKET, "hoodie.bucket.index.num.buckets": "3"}, "it has 4 buckets"),
        (BUCKET, {**BUCKET, "hoodie.bucket.index.hash.field": "rider"}, "not a column of the record key"),
        (BUCKET, {**BUCKET, "hoodie.bucket.index.hash.field": "leg"}, "hash.field=leg contradicts"),
        (BUCKET, {"hoodie.index.type": "SIMPLE"}, "whose files are buckets"),
        (BUCKET, GLOBAL_BLOOM, "whose files are buckets"),
        ({}, BUCKET, "whose files are no buckets"),
        (BLOOM, BUCKET, "whose files are no buckets"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, made: dict[str, str], opened: dict[str, str], says: str) -> None:
    path = _written(tmp_path / "trips", made)
    with pytest.raises(pudi.InvalidArgumentError, match=says):
        pudi.Table(path, options=opened)
    before = pudi.Table(path)
    with pytest.raises(pudi.InvalidArgumentError, match=says):
        before.upsert(table([trip(1, 99)]), options=opened)
    assert len(before.timeline.commits) == 1


def test_contradictions_are_refused_before_the_table_is_there(tmp_path: Path) -> None:
    options = {**BUCKET, "hoodie.bucket.index.hash.field": "city"}
    with pytest.raises(pudi.InvalidArgumentError, match="not a column of the record key"):
        pudi.create(str(tmp_path / "trips"), SCHEMA, record_key="uuid", partition_by="city", options=options)
    assert not (tmp_path / "trips" / ".hoodie" / "hoodie.properties").exists()
    consistent = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    with pytest.raises(pudi.NotSupportedError, match="CONSISTENT_HASHING"):
        pudi.create(str(tmp_path / "trips"), SCHEMA, record_key="uuid", options=consistent)


def test_files_tell_how_many_buckets_there_are(tmp_path: Path) -> None:
    path = _written(tmp_path / "trips", BUCKET | {"hoodie.bucket.index.hash.field": "uuid"})
    fields = {"hoodie.bucket.index.hash.field": "uuid"}
    pudi.Table(path, options={"hoodie.index.type": "BUCKET", **fields}).upsert(table([trip(1, 20, "bob")]))
    pudi.Table(path, options=fields).upsert(table([trip(2, 20, "bob")]))  # that there are some
    pudi.Table(path).upsert(table([trip(3, 20, "bob")]))  # and what is hashed
    with pytest.raises(pudi.InvalidArgumentError, match="whose files are buckets"):
        pudi.Table(path, options={"hoodie.index.type": "SIMPLE"})
    rows = pudi.Table(path).scan(columns=["rider"]).to_arrow()["rider"].to_pylist()
    assert (len(rows), rows.count("bob")) == (30, 3)


def test_without_a_number_there_are_256_buckets_as_in_hudi(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BUCKET"}
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", options=options)
    made.insert(table([trip(number, 10) for number in range(40)]))
    buckets = {int(each.file_id[:8]) for each in made.file_slices()}
    assert max(buckets) > 40
    assert max(buckets) < 256
    assert len(made.scan().to_arrow()) == 40


@pytest.mark.parametrize("number", ["many", "0", "4.5", ""])
@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING"])
def test_a_property_that_is_no_number_of_buckets_is_named(tmp_path: Path, engine: str, number: str) -> None:
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": engine}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city", table_type="mor", options=bucket)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.bucket.index.num.buckets={number}\n")
    with pytest.raises(pudi.CorruptError, match=r"hoodie\.bucket\.index\.num\.buckets='.*' is not a whole number"):
        pudi.Table(made.path, options=bucket).upsert(table([trip(1, 10)]))


def test_an_overwrite_begins_its_buckets_anew(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options=options)
    made.insert(table(trip(number, 10) for number in range(20)), options=options)
    made.insert_overwrite_table(table(trip(number, 20) for number in range(10, 30)), options=options)
    assert {s.file_id[:8] for s in made.file_slices()} == {f"{bucket:08}" for bucket in range(4)}
    made.upsert(table(trip(number, 30) for number in range(25, 40)), options=options)
    found = made.scan(["uuid", "ts"]).to_arrow()
    assert sorted(found["ts"].to_pylist()) == [20] * 15 + [30] * 15
    assert len(set(found["uuid"].to_pylist())) == 30
