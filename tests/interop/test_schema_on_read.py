"""Columns renamed, dropped, added and retyped by pudi, read by Apache Hudi; and taking turns on such a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine
from support.hudi import HudiTable, table_options
from support.rows import assert_same, from_arrow, from_spark

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON_READ = {"hoodie.schema.on.read.enable": "true"}
PLACE = pa.struct([("x", pa.int32()), ("name", pa.string())])
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32()), ("note", pa.string()), ("day", pa.date32()),
                    ("price", pa.decimal128(10, 2)), ("place", PLACE), ("tags", pa.list_(pa.string())),
                    ("part", pa.string())])  # fmt: skip


def _row(key: str, part: str, **values: Any) -> dict[str, Any]:
    row = {"id": key, "n": 1, "note": f"note {key}", "day": 19_000, "price": "1.25", "part": part}
    return row | {"place": {"x": 1, "name": "p"}, "tags": ["t"]} | values


def _data(*rows: dict[str, Any]) -> pa.Table:
    plain = pa.Table.from_pylist([row | {"price": None} for row in rows], SCHEMA)
    price = pa.array([row["price"] for row in rows]).cast(SCHEMA.field("price").type)
    return plain.set_column(SCHEMA.get_field_index("price"), SCHEMA.field("price"), price)


def _made(path: Path) -> pudi.Table:
    table = pudi.create(str(path), SCHEMA, record_key="id", partition_by="part", name="t")
    table.upsert(_data(_row("1", "a"), _row("2", "a"), _row("3", "b")))
    return table


def _hudi_reads(spark: Any, table: pudi.Table, engine: Engine, about: str) -> None:
    vectorised = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(vectorised, "false")  # Hudi's reader can't change types inside structs otherwise
    try:
        frame = HudiTable(spark, Path(table.path)).frame(**ON_READ)
        names, rows = frame.columns, from_spark(frame)
    finally:
        spark.conf.unset(vectorised)
    assert names == table.scan().schema.names, about
    assert_same(rows, engine.read(table.scan()), about=about)


@pytest.mark.sampled(1)
def test_hudi_reads_what_pudi_changed(spark: Any, engine: Engine, tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    steps = {
        "rename": lambda: table.rename_column("note", "remark"),
        "add": lambda: table.add_column("tip", pa.float64()),
        "widen": lambda: table.change_type("n", pa.int64()),
        "drop": lambda: table.drop_column("tags"),
        "date to text": lambda: table.change_type("day", pa.string()),
        "decimal": lambda: table.change_type("price", pa.decimal128(14, 4)),
        "rename in a struct": lambda: table.rename_column("place.name", "label"),
        "add in a struct": lambda: table.add_column("place.y", pa.int32()),
        "add nested": lambda: table.add_column("box", pa.struct([("w", pa.int32()), ("l", pa.list_(pa.string()))])),
    }
    for name, step in steps.items():
        step()
        _hudi_reads(spark, table, engine, name)
    row = table.scan(where="id = '1'", meta_fields=False).to_arrow()
    table.upsert(engine.frame(row))
    _hudi_reads(spark, table, engine, "after a write")
    assert table.scan(["remark"]).to_arrow()["remark"].to_pylist().count(None) == 0


def test_hudi_and_pudi_write_in_turns(spark: Any, tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    table.rename_column("note", "remark")
    table.add_column("tip", pa.float64())
    options = table_options("t", "id", "part") | ON_READ
    hudi = HudiTable(spark, tmp_path / "t", options)
    schema = table.schema

    def changed(key: str, part: str, tip: float) -> pa.Table:
        row = {"id": key, "n": 2, "remark": f"by {tip}", "part": part, "tip": tip}
        return pa.Table.from_pylist([row], schema)

    hudi.write("upsert", changed("2", "a", 1.0))
    table.upsert(changed("3", "b", 2.0))
    table.rename_column("remark", "memo")
    schema = table.schema
    table.upsert(pa.Table.from_pylist([{"id": "4", "part": "b", "memo": "new", "tip": 3.0}], schema))
    hudi.write("upsert", pa.Table.from_pylist([{"id": "1", "part": "a", "memo": "hudi", "tip": 4.0}], schema))
    memos = {row["id"]: row["memo"] for row in from_arrow(table.scan(["id", "memo"]).to_arrow())}
    assert memos == {"1": "hudi", "2": "by 1.0", "3": "by 2.0", "4": "new"}
    frame = HudiTable(spark, tmp_path / "t").frame(**ON_READ)
    assert {row["id"]: row["memo"] for row in frame.collect()} == memos


@pytest.mark.slow
@pytest.mark.sampled(1)
def test_a_column_that_hudi_renames_is_read(spark: Any, engine: Engine, tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    settings = ON_READ | {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
                          "hoodie.metadata.enable": "false"}  # fmt: skip
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"CREATE TABLE renamed USING hudi LOCATION '{table.path}'")
        spark.sql("ALTER TABLE renamed RENAME COLUMN note TO remark")
        spark.sql("ALTER TABLE renamed DROP COLUMN tags")
        spark.sql("ALTER TABLE renamed ALTER COLUMN n TYPE double")
    finally:
        spark.sql("DROP TABLE IF EXISTS renamed")
        for key in settings:
            spark.conf.unset(key)
    rows = {row["id"]: row for row in engine.read(table.scan(meta_fields=False))}
    assert [rows[key]["remark"] for key in "123"] == ["note 1", "note 2", "note 3"]
    assert [rows[key]["n"] for key in "123"] == [1.0, 1.0, 1.0]
    assert "tags" not in rows["1"]


def _read(spark: Any, path: Path, where: str = "true", **options: str) -> dict[str, Any]:
    frame = HudiTable(spark, path).frame(**ON_READ, **options).where(where)
    return {row["id"]: row["remark"] for row in frame.collect()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_hudi_finds_renamed_columns_when_only_services_follow(spark: Any, version: str, tmp_path: Path) -> None:
    """It looks for the ids of columns in writes of the active timeline, and archiving keeps the last one for it."""
    few = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4",
           "hoodie.metadata.compact.max.delta.commits": "1", "hoodie.write.table.version": version}  # fmt: skip
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part", options=few)
    table.upsert(_data(_row("1", "a"), _row("2", "b")))
    table.rename_column("note", "remark")
    for _ in range(6):  # the file of partition b stays
        assert table.cluster(order_by="id", partitions="a") is not None
        table.maintain()
    assert _read(spark, tmp_path / "t") == {"1": "note 1", "2": "note 2"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_hudi_reads_what_plans_wrote_that_are_older_than_the_columns(spark: Any, service: str, tmp_path: Path) -> None:
    kind = "mor" if service == "compaction" else "cow"
    options = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.clustering.async.max.commits": "1",
               "hoodie.clustering.plan.strategy.sort.columns": "id"}  # fmt: skip
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options)
    for _ in range(2):
        table.upsert(_data(_row("1", "a")))
    assert pudi.Table(tmp_path / "t", options=options).schedule(service) is not None
    table.rename_column("note", "remark")
    assert len(pudi.Table(tmp_path / "t").run_pending()) == 1
    assert _read(spark, tmp_path / "t") == {"1": "note 1"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("built", ["before", "after"])
@pytest.mark.parametrize("version", ["8", "9"])
def test_hudi_skips_no_files_by_statistics_of_a_dropped_column(
    spark: Any, built: str, version: str, tmp_path: Path
) -> None:
    """A column that was dropped and added again is null in older files, whatever their statistics said of it."""
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": "true"}
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="part", options=options)
    table.upsert(_data(_row("1", "a")))
    if built == "before":
        table.create_index("column_stats")
    table.drop_column("note")
    table.add_column("note", pa.string())
    if built == "after":
        table.create_index("column_stats")
    table.upsert(pa.Table.from_pylist([{"id": "2", "part": "b", "note": "new", "tags": None}], table.schema))
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true",
                "hoodie.metadata.index.column.stats.enable": "true"}  # fmt: skip
    frame = HudiTable(spark, tmp_path / "t").frame(**ON_READ, **skipping)
    assert [row["id"] for row in frame.where("note is null").collect()] == ["1"]
    assert [row["id"] for row in frame.where("note = 'new'").collect()] == ["2"]
    assert table.check().ok
