"""Payload classes, merge modes and deletes beside Apache Hudi's: the same batches to a table of each, then turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.format import decode_table_properties
from support.engines import Engine, LocalEngine, SparkEngine
from support.hudi import HudiTable
from support.layouts import pairwise
from support.rows import PLACE_FIELDS, Row, assert_same

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MODELS = "org.apache.hudi.common.model."
PG, MYSQL = "debezium.PostgresDebeziumAvroPayload", "debezium.MySqlDebeziumAvroPayload"
UNAVAILABLE = "__debezium_unavailable_value"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int32()),
        ("a", pa.string()),
        ("b", pa.int64()),
        ("Op", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_event_bin_file", pa.string()),
        ("_event_pos", pa.int64()),
        ("_event_seq", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
PAYLOADS = (
    None,
    "DefaultHoodieRecordPayload",
    "EventTimeAvroPayload",
    "OverwriteWithLatestAvroPayload",
    "OverwriteNonDefaultsWithLatestAvroPayload",
    "PartialUpdateAvroPayload",
    "AWSDmsAvroPayload",
    PG,
    MYSQL,
)
PAIRS = pairwise(PAYLOADS, (6, 8, 9), ("local", "spark"))


def row(key: str, ts: int, a: str | None, b: int | None, op: str = "I", gone: bool = False) -> tuple[Any, ...]:
    change = "d" if op == "D" else "c"
    return (key, ts, a, b, op, change, ts, f"f{ts // 10:03}", ts % 10, f"{ts // 10}.{ts % 10}", gone)


def batch(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, values, strict=True)) for values in rows], SCHEMA)


FIRST = batch(
    *(row(f"k{n}", 50, f"a{n}", n) for n in range(14)),
    row("k14", 50, None, 1),
    row("k15", 50, "x", None),
    row("k16", 99, "x", 1),
    row("k17", 99, "x", 1),
)
SECOND = batch(
    row("k0", 60, None, 100), row("k1", 40, None, 100), row("k2", 60, "n", None), row("k3", 40, "n", None),
    row("k4", 60, "x", 4, "D"), row("k5", 40, "x", 5, "D"),
    row("k6", 60, "x", 6, gone=True), row("k7", 40, "x", 7, gone=True),
    row("k8", 60, UNAVAILABLE, 8), row("k9", 40, UNAVAILABLE, 9), row("k10", 50, "tie", None),
    row("k11", 61, "first", None), row("k11", 60, "second", 11), row("k12", 60, None, 12), row("k12", 61, "z", None),
    row("k14", 40, "late", None), row("k15", 40, None, None),
    row("k16", 100, "more than 99", 3), row("k17", 0, "x", 0, gone=True),
    row("n1", 1, None, None), row("n2", 1, None, None, "D"), row("n3", 1, None, None, gone=True),
)  # fmt: skip
THIRD = batch(
    row("k0", 60, "back", None), row("k3", 70, None, 7), row("k4", 1, "again", 1), row("k13", 50, None, None),
    row("n1", 0, "late", 5),
)  # fmt: skip


def options(payload: str | None, version: int) -> dict[str, str]:
    newest = version == 9
    ordering = {PG: "_event_lsn", MYSQL: "_event_bin_file,_event_pos" if newest else "_event_seq"}
    made = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.ordering.fields": ordering.get(payload or "", "ts"),
    }
    return made if payload is None else {**made, "hoodie.datasource.write.payload.class": MODELS + payload}


def stored(path: Path) -> dict[str, str]:
    properties = decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    return {k: v for k, v in properties.items() if any(w in k for w in ("merge", "payload", "ordering", "partial"))}


def by_commit(rows: list[Row], instants: list[str]) -> list[Row]:
    """Rows with the number of their commit in the place of its time."""
    return [{**each, "_hoodie_commit_time": instants.index(each["_hoodie_commit_time"])} for each in rows]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("payload", "version", "on"), PAIRS)
def test_the_same_rows_stand(spark: Any, tmp_path: Path, payload: str | None, version: int, on: str) -> None:
    engine: Engine = SparkEngine(spark) if on == "spark" else LocalEngine()
    hudis = HudiTable(spark, tmp_path / "hudi", options(payload, version))
    pudis = HudiTable(spark, tmp_path / "pudi", options(payload, version))
    ordering = pudis.options["hoodie.table.ordering.fields"].split(",")
    given = {k: v for k, v in pudis.options.items() if "payload" in k or "version" in k}
    pudi.create(str(pudis.path), SCHEMA, record_key="id", ordering=ordering, name="t", options=given)
    instants: dict[str, list[str]] = {"hudi": [], "pudi": []}
    for verb, data in (("bulk_insert", FIRST), ("upsert", SECOND), ("upsert", THIRD)):
        instants["hudi"].append(hudis.write(verb, data)[0])
        instants["pudi"].append(getattr(pudi.Table(str(pudis.path)), verb)(engine.frame(data)).instant)
        expected = by_commit(hudis.snapshot(), instants["hudi"])
        mine = engine.read(pudi.Table(str(pudis.path)).scan())
        assert_same(by_commit(mine, instants["pudi"]), expected, PLACE_FIELDS, f"{verb} by pudi, read by pudi")
        assert_same(by_commit(pudis.snapshot(), instants["pudi"]), expected, PLACE_FIELDS, f"{verb}, read by Hudi")
    assert stored(pudis.path) == stored(hudis.path)

    pudi.Table(str(hudis.path)).upsert(engine.frame(SECOND))
    pudis.write("upsert", SECOND)
    ignored = (*PLACE_FIELDS, "_hoodie_commit_time")
    assert_same(hudis.snapshot(), pudis.snapshot(), ignored, "each other's tables")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "blocks"), [(6, "avro"), (8, "parquet")])
def test_meta_fields_of_late_records_in_log_files(spark: Any, tmp_path: Path, version: int, blocks: str) -> None:
    payload = options("PartialUpdateAvroPayload", version)
    given = {k: v for k, v in payload.items() if "payload" in k or "version" in k}
    hudi = HudiTable(spark, tmp_path / "t", payload)
    pudi.create(hudi.path, SCHEMA, record_key="id", ordering="ts", name="t", table_type="mor", options=given)
    table = pudi.Table(str(hudi.path), options={"hoodie.logfile.data.block.format": blocks})
    table.bulk_insert(batch(row("k0", 5, "a", 1), row("k1", 5, "b", None), row("k2", 5, "c", 3), row("k3", 5, "d", 4)))
    table.upsert(batch(row("k0", 4, "late", 9), row("k1", 4, "late", 2), row("k2", 6, "new", None)))
    table.upsert(batch(row("k2", 5, "late", 7), row("k3", 5, "tie", None)))
    expected = hudi.snapshot()
    assert len({each["_hoodie_commit_time"] for each in expected}) > 1
    assert_same(LocalEngine().read(table.scan()), expected, about="read from logs")


class Longest(pudi.RecordMerger):
    """The longer text stands."""

    strategy_id = "0b3e8a80-5a7e-4d0c-8a1c-6e9d2f10aa01"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        stays = pc.greater(pc.utf8_length(older["a"]), pc.utf8_length(newer["a"]))
        columns = [pc.if_else(stays, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [8, 9])
def test_hudi_reads_what_a_merger_made(spark: Any, tmp_path: Path, version: int) -> None:
    pudi.register_merger(Longest())
    identifier = {"hoodie.write.record.merge.strategy.id": Longest.strategy_id}
    hudi = HudiTable(spark, tmp_path / "t", options(None, version))
    given = {**identifier, "hoodie.write.table.version": str(version)}
    table = pudi.create(str(hudi.path), SCHEMA, record_key="id", ordering="ts", name="t", options=given)
    table.upsert(batch(row("k1", 1, "aaa", 1), row("k2", 1, "a", 1)))
    table.upsert(batch(row("k1", 2, "bb", 2), row("k2", 2, "bb", 2)))
    mine = LocalEngine().read(table.scan())
    assert sorted((each["id"], each["a"]) for each in mine) == [("k1", "aaa"), ("k2", "bb")]
    assert_same(hudi.snapshot(), mine, about="read by Hudi")


class Lowest(pudi.RecordMerger):
    """What ReverseOrderHoodieRecordPayload does: the lower ordering value stands."""

    strategy_id = "0b3e8a80-5a7e-4d0c-8a1c-6e9d2f10aa02"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        [name] = context.ordering_fields
        stays = pc.less(older[name], newer[name])
        columns = [pc.if_else(stays, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), [(version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")])
def test_a_payload_class_and_its_merger_in_turns(spark: Any, tmp_path: Path, version: int, kind: str) -> None:
    """A class that pudi has no rule for, with a merger that stands for it."""
    pudi.register_merger(Lowest(), payload_class=f"{MODELS}ReverseOrderHoodieRecordPayload")
    job = options("ReverseOrderHoodieRecordPayload", version)
    job |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ"} if kind == "mor" else {}
    hudi = HudiTable(spark, tmp_path / "t", job | {"hoodie.compact.inline": "false"})
    hudi.write("upsert", batch(*(row(f"k{n}", 50, "first", n) for n in range(6))))
    mine = pudi.Table(hudi.path)
    mine.upsert(batch(row("k0", 40, "pudi", 0), row("k1", 60, "late", 1), row("k6", 50, "pudi", 6)))
    hudi.write("upsert", batch(row("k2", 40, "Hudi", 2), row("k3", 60, "late", 3), row("k6", 30, "Hudi", 6)))
    mine.upsert(batch(row("k4", 45, "b", 4), row("k4", 41, "pudi", 4), row("k4", 44, "c", 4)))
    names = {"k0": "pudi", "k1": "first", "k2": "Hudi", "k3": "first", "k4": "pudi", "k5": "first", "k6": "Hudi"}
    found = LocalEngine().read(mine.scan())
    assert {each["id"]: each["a"] for each in found} == names
    assert_same(hudi.snapshot(), found, about="read by Hudi")
    if kind == "mor":
        assert mine.compact() is not None
        assert_same(hudi.snapshot(), LocalEngine().read(mine.scan()), about="compacted by pudi")
