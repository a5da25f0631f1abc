"""Tables without meta fields: every verb and service, with record keys computed from columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.filegroup import open_base_file
from pudi.format.log_block import BlockKind, decode_blocks
from pudi.format.log_data import decode_data
from pudi.format.log_deletes import decode_deletes
from pudi.storage import open_storage
from support.engines import Engine, LocalEngine, per_engine
from support.layouts import Layout
from support.rows import META_FIELDS
from support.trips import SCHEMA, steps, table, trip
from support.virtual import VIRTUAL, assert_same_data, made_virtual

WITHIN = ("insert", "upsert", "upsert", "delete")
VERBS = (*WITHIN, "insert_overwrite", "delete_partitions")
LAYOUTS = [
    Layout(),
    Layout("complex", "hive", "commit", 6),
    Layout("complex", "flat", "event", 8),
    Layout("simple", "plain", "event", 9, "mor"),
    Layout("complex", "hive", "commit", 6, "mor"),
    Layout("simple", "flat", "event", 8, "mor"),
]


@pytest.mark.parametrize(("engine", "layout"), per_engine(LAYOUTS, LAYOUTS[3:4]), indirect=["engine"])
def test_verbs(engine: Engine, tmp_path: Path, layout: Layout) -> None:
    made, model = made_virtual(engine, tmp_path / "trips", layout), layout.model()
    verbs = WITHIN if layout.folders == "flat" else VERBS
    for number, step in enumerate(steps(7, 9 if engine.name == "local" else 5, verbs)):
        getattr(model, step.verb)(step.data.to_pylist(), *made.write(step.verb, step.data))
        rows = made.snapshot()
        assert_same_data(rows, model.snapshot(), f"{number}: {step.verb}")
        assert not {*META_FIELDS} & set(rows[0] if rows else ())
    if layout.kind == "mor":
        made.table.compact(options={"pudi.compaction.verify": "true"})
        assert_same_data(made.snapshot(), model.snapshot(), "compaction")
    on = {} if engine.name == "local" else {"spark": engine.spark}  # type: ignore[attr-defined]
    made.table.update({"fare": "0.0"}, where="leg = 1", **on)
    made.table.delete(where="leg = 2", **on)
    expected = [row | ({"fare": 0.0} if row["leg"] == 1 else {}) for row in rows if row["leg"] != 2]
    assert_same_data(made.snapshot(), expected, "update and delete by predicate")
    made.table.cluster()
    assert_same_data(made.snapshot(), expected, "clustering")
    assert not made.table.check().differences
    assert made.table.repair().ok


@pytest.mark.parametrize("layout", [Layout(version=6), Layout("complex", "hive", "commit", 9, "mor")], ids=str)
@pytest.mark.parametrize("base", ["ORC", "HFILE"])
def test_other_base_files(tmp_path: Path, base: str, layout: Layout) -> None:
    kept = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    more = {"hoodie.table.base.file.format": base}
    made, model = made_virtual(LocalEngine(), tmp_path / "trips", layout, kept, **more), layout.model()
    for step in steps(11, 6, VERBS):
        getattr(model, step.verb)(step.data.to_pylist(), *made.write(step.verb, step.data))
        assert_same_data(made.snapshot(), model.snapshot(), step.verb)
    if layout.kind == "mor":
        made.table.compact(options={"pudi.compaction.verify": "true"})
    made.table.update({"fare": "0.0"}, where="leg = 1")
    if base == "ORC":
        made.table.cluster()
    expected = [row | ({"fare": 0.0} if row["leg"] == 1 else {}) for row in model.snapshot()]
    assert_same_data(made.snapshot(), expected, "services")
    assert not made.table.check().differences
    [*_, newest] = [each.base for each in made.table.file_slices() if each.base is not None]
    reader = open_base_file(open_storage(str(made.path)), replace(newest, keys=None))
    assert reader.schema.names == SCHEMA.names
    assert newest.name.extension == base.lower()


def test_files_hold_no_meta_fields(tmp_path: Path) -> None:
    made = made_virtual(LocalEngine(), tmp_path / "trips", Layout("simple", "flat", "event", 9, "mor"))
    made.write("upsert", table(trip(n, 10) for n in range(4)))
    made.write("upsert", table(trip(n, 20) for n in range(2)))
    footer = pq.read_metadata(next(made.path.glob("*.parquet")))
    assert footer.schema.to_arrow_schema().names == SCHEMA.names
    assert not [key for key in footer.metadata if key.startswith(b"hoodie_")]
    assert not any(name in footer.metadata[b"parquet.avro.schema"].decode() for name in META_FIELDS)
    blocks = [each for path in made.path.glob(".*.log.*") for each in decode_blocks(path.read_bytes())]
    assert [block.kind for block in blocks] == [BlockKind.PARQUET]
    logged = decode_data(blocks[0], None)
    assert logged.column_names == [*META_FIELDS, *SCHEMA.names]
    assert {name: logged[name].null_count for name in META_FIELDS} == dict.fromkeys(META_FIELDS, 2)


@pytest.mark.parametrize(("version", "spelled"), [(6, "k0001"), (8, "k0001"), (9, "uuid:k0001")])
def test_complex_keys_of_one_column(tmp_path: Path, version: int, spelled: str) -> None:
    options = VIRTUAL | {
        "hoodie.table.keygenerator.type": "COMPLEX",
        "hoodie.write.table.version": str(version),
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "op_key_only",
    }
    arguments = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": "mor"}
    made = pudi.create(tmp_path / "t", SCHEMA, **arguments, options=options)
    first = made.upsert(table(trip(n, 10, city="nyc") for n in range(4)))
    made.upsert(table([trip(0, 20, "bob", "nyc")]))
    made.delete(table([trip(1, 30, city="nyc")]))
    blocks = [each for path in made_logs(tmp_path / "t") for each in decode_blocks(path.read_bytes())]
    [deleted] = [decode_deletes(each).keys.to_pylist() for each in blocks if each.kind is BlockKind.DELETE]
    assert deleted == [spelled]
    expected = {"k0000": "bob", "k0002": "ann", "k0003": "ann"}
    for step in (lambda: None, made.compact, made.cluster):
        step()
        assert {row["uuid"]: row["rider"] for row in made.scan().to_arrow().to_pylist()} == expected
    changed = made.changes(since=first.completion_time, format="cdc", images="struct").to_arrow().to_pylist()
    assert [(row["op"], row["before"]["rider"]) for row in changed] == [("u", "ann"), ("d", "ann")]
    assert made.check().ok
    if version == 9:
        return
    with pytest.raises(pudi.NotSupportedError, match="record keys that begin with 'uuid:'"):
        made.upsert(table([trip(1, 30, city="nyc") | {"uuid": "uuid:k0001"}]))


def made_logs(path: Path) -> list[Path]:
    return [each for each in path.rglob(".*.log.*") if "metadata" not in each.parts and "-cdc" not in each.name]


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_other_indexes(tmp_path: Path, index: str, kind: str) -> None:
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "2"}
    made = made_virtual(LocalEngine(), tmp_path / "trips", Layout("simple", "plain", "event", 9, kind), options)
    made.write("upsert", table(trip(n, 10, city="nyc") for n in range(6)))
    made.write("upsert", table(trip(n, 20, "bob", "nyc" if index == "BUCKET" else "chennai") for n in range(3)))
    made.write("delete", table([trip(5, 30, city="nyc")]))
    riders = [(row["uuid"], row["rider"]) for row in sorted(made.snapshot(), key=lambda row: row["uuid"])]
    assert riders == [(f"k{n:04}", "bob" if n < 3 else "ann") for n in range(5)]


def test_change_data_and_log_compaction(tmp_path: Path) -> None:
    layout = Layout("simple", "flat", "event", 9, "mor")
    logged = {"hoodie.table.cdc.enabled": "true"}
    made = made_virtual(LocalEngine(), tmp_path / "trips", layout, {}, **logged)
    first = made.write("upsert", table(trip(n, 10) for n in range(4)))
    made.write("upsert", table([trip(0, 20, "bob")]))
    made.write("delete", table([trip(1, 30)]))
    assert made.table.compact(log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "2"}) is not None
    assert {row["uuid"]: row["rider"] for row in made.snapshot()} == {"k0000": "bob", "k0002": "ann", "k0003": "ann"}
    changed = made.table.changes(since=first[1], format="cdc", images="struct").to_arrow().to_pylist()
    assert [(row["op"], (row["before"] or {}).get("rider")) for row in changed] == [("u", "ann"), ("d", "ann")]


def test_many_rows_are_rewritten_by_copying(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": [f"k{n:06}" for n in range(30_000)], "n": pa.array(range(30_000), pa.int64()), "x": [0.5] * 30_000}
    )
    made = pudi.create(tmp_path / "t", rows.schema, record_key=["id"], options=VIRTUAL)
    made.bulk_insert(rows)
    changed = rows.slice(7, 3).set_column(1, "n", pa.array([-1, -2, -3], pa.int64()))
    made.upsert(pa.concat_tables([changed, pa.table({"id": ["new"], "n": pa.array([5], pa.int64()), "x": [1.5]})]))
    made.delete(pa.table({"id": ["k000001"]}))
    found = made.scan().to_arrow().sort_by("id")
    expected = pa.concat_tables([rows.slice(0, 1), rows.slice(2, 5), changed, rows.slice(10)])
    assert found.slice(0, 29_999).equals(expected)
    assert found["n"][29_999].as_py() == 5


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ({"record_key": ["uuid"], "partition_by": ["ts"]}, {"hoodie.table.keygenerator.type": "CUSTOM"}, "CUSTOM"),
        ({"record_key": []}, {}, "without record keys"),
        ({"record_key": ["uuid"]}, {"hoodie.index.type": "BLOOM"}, "no bloom filters"),
        ({"record_key": ["uuid"]}, {"hoodie.index.type": "RECORD_INDEX"}, "record index"),
    ],
)
def test_what_hudi_refuses(
    tmp_path: Path, arguments: dict[str, list[str]], options: dict[str, str], words: str
) -> None:
    with pytest.raises(pudi.PudiError, match=words):
        pudi.create(tmp_path / "t", SCHEMA, **arguments, options=VIRTUAL | options)
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_incremental_queries_are_refused(tmp_path: Path) -> None:
    made = made_virtual(LocalEngine(), tmp_path / "trips", Layout())
    made.write("upsert", table([trip(0, 1)]))
    with pytest.raises(pudi.NotSupportedError, match="which commit wrote a record"):
        made.table.changes()
    with pytest.raises(pudi.NotSupportedError, match="record index"):
        made.table.create_index("record_index")


def test_import(tmp_path: Path) -> None:
    rows = pa.table({"id": [f"k{n}" for n in range(50)], "n": pa.array(range(50), pa.int64())})
    (tmp_path / "plain").mkdir()
    pq.write_table(rows, tmp_path / "plain" / "one.parquet")
    made = pudi.import_table(str(tmp_path / "plain"), tmp_path / "made", record_key="id", options=VIRTUAL)
    assert made.scan().to_arrow().sort_by("n").equals(rows)
    assert pq.read_schema(next((tmp_path / "made").glob("*.parquet"))).names == ["id", "n"]
