"""Records that come after their delete with a lower ordering value: Hudi reads what pudi reads, whoever wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.hudi import HudiTable
from support.layouts import Layout
from support.rows import only

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCHEMA = pa.schema([("uuid", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
BLOCKS = "hoodie.logfile.data.block.format"
PARTIAL = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
KEYS = ("k0", "k1", "k2", "k3", "k4")


def rows(*given: tuple[str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"uuid": k, "city": "nyc", "ts": ts, "v": v} for k, ts, v in given], schema=SCHEMA)


def make(spark: Any, path: Path, version: int, options: dict[str, str], payload: str | None = None) -> HudiTable:
    layout = Layout("simple", "plain", "event", version, "mor")
    described = layout.create_arguments()
    if payload is not None:
        described["options"]["hoodie.datasource.write.payload.class"] = payload
    pudi.create(path, SCHEMA, **described)
    return HudiTable(spark, path, layout.hudi_options(path.name) | options | {"hoodie.compact.inline": "false"})


def values(hudi: HudiTable, table: pudi.Table) -> dict[str, str]:
    mine = only(table.scan().to_arrow().to_pylist(), ("uuid", "v"))
    assert sorted(map(str, only(hudi.snapshot(), ("uuid", "v")))) == sorted(map(str, mine))
    return {row["uuid"]: row["v"] for row in mine}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("version", "options"),
    [(6, {BLOCKS: "avro"}), (8, BUCKET | {BLOCKS: "parquet"}), (9, {BLOCKS: "parquet"})],
)
def test_the_deleted_record_stays_deleted(spark: Any, tmp_path: Path, version: int, options: dict[str, str]) -> None:
    hudi = make(spark, tmp_path / "t", version, options)
    table = pudi.Table(str(hudi.path), options=options)
    table.bulk_insert(rows(*((k, 5, "old") for k in KEYS)))
    table.upsert(rows(("k1", 7, "newer")))
    table.delete(pa.table({"uuid": KEYS, "city": ["nyc"] * len(KEYS)}))
    table.upsert(rows(("k0", 3, "late"), ("k1", 6, "late"), ("k2", 5, "as old"), ("k3", 6, "new")))
    hudi.write("upsert", rows(("k4", 3, "late by Hudi")))
    expected = {"k2": "as old", "k3": "new"}
    assert values(hudi, table) == expected
    table.compact()
    assert values(hudi, table) == expected


@pytest.mark.slow
def test_where_nothing_in_a_log_file_helps(spark: Any, tmp_path: Path) -> None:
    """Hudi's own deletes have no ordering value, and PartialUpdateAvroPayload heeds none below version 9."""
    hudi = make(spark, tmp_path / "hudi", 9, {BLOCKS: "parquet"})
    table = pudi.Table(str(hudi.path))
    table.bulk_insert(rows(("k0", 5, "old"), ("k1", 5, "old")))
    hudi.write("delete", rows(("k0", 0, ""), ("k1", 0, "")))
    table.upsert(rows(("k0", 3, "late")))
    assert values(hudi, table) == {"k0": "old"}
    named = [each.what for each in table.check().differences]
    assert len(named) == 1
    assert "record key 'k0' is deleted in log files without an ordering value, and visible again" in named[0]
    table.delete(pa.table({"uuid": ["k0"], "city": ["nyc"]}))
    table.upsert(rows(("k0", 3, "late")))
    assert values(hudi, table) == {}
    assert table.check().ok
    hudi = make(spark, tmp_path / "payload", 8, {BLOCKS: "parquet"}, PARTIAL)
    table = pudi.Table(str(hudi.path))
    table.bulk_insert(rows(("k0", 5, "old"), ("k1", 5, "old")))
    table.delete(pa.table({"uuid": ["k0", "k1"], "city": ["nyc", "nyc"]}))
    table.upsert(rows(("k0", 3, "late")))
    assert values(hudi, table) == {"k0": "old"}
