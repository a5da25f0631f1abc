"""Merge-on-read: records that come after their delete with a lower ordering value never bring the deleted one back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, LocalEngine, per_engine

SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
KEYS = ("k0", "k1", "k2", "k3", "k4")


def rows(*given: tuple[str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "p": "p", "ts": ts, "v": v} for k, ts, v in given], schema=SCHEMA)


def keys(*given: str) -> pa.Table:
    return pa.table({"k": given, "p": ["p"] * len(given)})


def found(engine: Engine, table: pudi.Table) -> dict[str, str]:
    read = engine.read(table.scan(columns=["k", "v"]))
    assert len({row["k"] for row in read}) == len(read)
    return {row["k"]: row["v"] for row in read}


def create(path: Path, version: int = 9, options: dict[str, str] | None = None, schema: pa.Schema = SCHEMA) -> Any:
    made = {"hoodie.write.table.version": str(version), **(options or {})}
    return pudi.create(path, schema, record_key="k", partition_by="p", ordering="ts", table_type="mor", options=made)


RECORDS = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
LOCAL = [
    (6, {}, "parquet", True),
    (6, BUCKET, "avro", False),
    (8, {"hoodie.index.type": "GLOBAL_SIMPLE"}, "avro", False),
    (9, BUCKET, "parquet", True),
    (9, {}, "parquet", False),
    (9, RECORDS, "parquet", False),
]


@pytest.mark.parametrize(
    ("engine", "version", "index", "block", "by_predicate"), per_engine(LOCAL, LOCAL[4:5]), indirect=["engine"]
)
def test_the_deleted_record_stays_deleted(
    engine: Engine, tmp_path: Path, version: int, index: dict[str, str], block: str, by_predicate: bool
) -> None:
    options = index | {"hoodie.logfile.data.block.format": block}
    create(tmp_path / "t", version)
    table = pudi.Table(str(tmp_path / "t"), options=options)
    table.bulk_insert(rows(*((k, 5, "old") for k in KEYS)))
    table.upsert(rows(("k1", 7, "newer, in a log file"), ("k2", 2, "late")))
    if by_predicate:
        table.delete(where="v <> ''")
    else:
        table.delete(engine.frame(keys(*KEYS, "unknown")))
    table.upsert(
        engine.frame(
            rows(("k0", 3, "late"), ("k1", 6, "late"), ("k2", 3, "late"), ("k3", 5, "as old"), ("k4", 6, "new"))
        )
    )
    assert found(engine, table) == {"k3": "as old", "k4": "new"}
    assert table.delete(keys("k0", "k1")) is None, "they are deleted already"
    table.upsert(rows(("k0", 4, "late")))
    table.upsert(rows(("k1", 7, "as old")))
    expected = {"k1": "as old", "k3": "as old", "k4": "new"}
    assert found(engine, table) == expected
    assert table.check().ok, table.check()
    table.compact()
    assert found(engine, table) == expected
    table.upsert(rows(("k0", 3, "nothing tells of the deleted one")))
    assert found(engine, table) == expected | {"k0": "nothing tells of the deleted one"}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_a_record_that_moved_away_stays_away(engine: Engine, tmp_path: Path) -> None:
    """By a global index a record goes to another partition, is deleted there, and a late one comes to the first."""
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    create(tmp_path / "t")
    table = pudi.Table(str(tmp_path / "t"), options=options)
    table.bulk_insert(rows(("k0", 5, "old"), ("k1", 5, "old")))
    moved = rows(("k0", 6, "moved")).set_column(1, "p", pa.array(["q"]))
    table.upsert(engine.frame(moved))
    table.delete(engine.frame(keys("k0")))
    assert found(engine, table) == {"k1": "old"}
    table.upsert(engine.frame(rows(("k0", 3, "late"))))
    assert found(engine, table) == {"k1": "old"}


def test_several_ordering_columns_and_nulls(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("n", pa.int32()))
    made = pudi.create(tmp_path / "t", schema, record_key="k", ordering=["ts", "n"], table_type="mor")

    def write(verb: str, *given: tuple[str, int, int | None, str]) -> None:
        data = [{"k": k, "p": "p", "ts": ts, "n": n, "v": v} for k, ts, n, v in given]
        getattr(made, verb)(pa.Table.from_pylist(data, schema=schema))

    write("bulk_insert", *((k, 5, None if k == "k0" else 5, "old") for k in KEYS))
    made.delete(pa.table({"k": KEYS}))
    write("upsert", ("k0", 4, 9, "late"), ("k1", 5, 4, "late"), ("k2", 5, 5, "as old"), ("k3", 6, None, "new"))
    assert found(LocalEngine(), made) == {"k2": "as old", "k3": "new"}


def test_said_where_log_files_cannot_hold_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PartialUpdateAvroPayload heeds no delete's ordering value below version 9."""
    payload = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
    for version in (8, 9):
        table = create(tmp_path / str(version), version, payload)
        table.bulk_insert(rows(("k0", 5, "old")))
        caplog.clear()
        table.delete(keys("k0"))
        table.upsert(rows(("k0", 3, "late")))
        assert ("brings the deleted one back" in caplog.text) == (version == 8)
        assert found(LocalEngine(), table) == ({"k0": "old"} if version == 8 else {})
        named = [each.what for each in table.check().differences]
        assert len(named) == (version == 8)
        assert all("'k0'" in what and "visible again" in what for what in named)
        table.delete(keys("k0"))
        assert found(LocalEngine(), table) == {}
        assert table.check().ok
