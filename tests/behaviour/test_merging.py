"""Partial updates, payload classes and mergers of the user's in tables, on both engines: what a user sees."""

from __future__ import annotations

import datetime as dt
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.client.properties import read_properties
from pudi.config import merging
from pudi.context import Context
from pudi.format import decode_table_properties, encode_table_properties
from pudi.merge import mergers
from pudi.storage import open_storage
from support.engines import Engine, LocalEngine, SparkEngine
from support.rows import Row

MODELS = "org.apache.hudi.common.model."
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("bid", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("Op", pa.string()),
    ]
)
AUCTION = "6f0f6d2e-5a53-4c1e-9a43-0c7f2a6f8e11"
CUSTOM = {"hoodie.record.merge.strategy.id": AUCTION, "hoodie.record.merge.property.least": "2"}


class KeepHighestBid(pudi.RecordMerger):
    """The higher bid stands; bids below the table's least one take the record away."""

    strategy_id = AUCTION

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        stays = pc.fill_null(pc.greater(older["bid"], newer["bid"]), False)
        columns = [pc.if_else(stays, older[name], newer[name]) for name in older.schema.names]
        low = pc.less(columns[older.schema.names.index("bid")], int(context.properties["least"]))
        columns[-1] = pc.or_(columns[-1], pc.fill_null(low, False))
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)


class Broken(pudi.RecordMerger):
    """Gives back one row too few."""

    strategy_id = AUCTION

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        return newer.slice(1)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(mergers, "_REGISTERED", {})
    monkeypatch.setattr(mergers, "_FOR_PAYLOADS", {})
    monkeypatch.setattr(merging, "_registered_payloads", set())
    monkeypatch.setattr(merging, "_registered_mergers", set())
    if "spark" in request.node.name:  # as if the mergers were of the script that is run: workers can't import tests
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])


def rows(*records: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, record, strict=True)) for record in records], SCHEMA)


def one(number: int, ts: int, name: str | None, bid: int | None, tags: Any = None, op: str = "I") -> tuple[Any, ...]:
    return (f"k{number}", ts, name, bid, tags, op)


class Held:
    """A table and the engine that writes and reads it."""

    def __init__(self, engine: Engine, path: Path, **options: str) -> None:
        self.engine = engine
        self.table = pudi.create(str(path), SCHEMA, record_key="id", ordering="ts", options=options)

    def write(self, verb: str, *records: tuple[Any, ...], **options: str) -> Any:
        return getattr(self.table, verb)(self.engine.frame(rows(*records)), options=options)

    def read(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.engine.read(self.table.scan())}

    def values(self) -> dict[str, tuple[Any, ...]]:
        return {k: (r["ts"], r["name"], r["bid"], r["tags"]) for k, r in sorted(self.read().items())}


def payload(name: str, version: int) -> dict[str, str]:
    return {"hoodie.datasource.write.payload.class": MODELS + name, "hoodie.write.table.version": str(version)}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_nulls_are_filled_by_event_time(engine: Engine, tmp_path: Path, version: int) -> None:
    held = Held(engine, tmp_path / "t", **payload("PartialUpdateAvroPayload", version))
    first = held.write(
        "upsert", one(1, 5, "a", None, ["x"]), one(2, 5, "b", 2), one(3, 5, "c", 3, ["z"]), one(5, 5, "e", 5, [])
    )
    second = held.write(
        "upsert",
        one(1, 6, None, 1),
        one(2, 4, "late", None, ["t"]),
        one(4, 2, None, 4),
        one(4, 1, "d", None, ["u"]),
        one(5, 4, "late", 1),
    )
    assert held.values() == {
        "k1": (6, "a", 1, ["x"]),
        "k2": (5, "b", 2, ["t"]),
        "k3": (5, "c", 3, ["z"]),
        "k4": (2, "d", 4, ["u"]),
        "k5": (5, "e", 5, []),
    }
    times = {key: row["_hoodie_commit_time"] for key, row in held.read().items()}
    late = first if version == 9 else second  # a payload class makes a record of two, even if it's the old one
    expected = {"k1": second, "k2": second, "k3": first, "k4": second, "k5": late}
    assert times == {key: result.instant for key, result in expected.items()}
    assert (second.records_updated, second.records_inserted) == (2 if version == 9 else 3, 1)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_late_record_in_a_log_file_leaves_its_meta_fields(tmp_path: Path, version: int) -> None:
    """PartialUpdateAvroPayload below version 9 makes a record of two, which has those of the one that came last."""
    options = payload("PartialUpdateAvroPayload", version)
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type="mor", options=options)
    first = table.bulk_insert(rows(one(1, 5, "a", 1), one(2, 5, "b", None), one(3, 5, "c", 3)))
    second = table.upsert(rows(one(1, 4, "late", 9), one(2, 4, "late", 2)))
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert {key: (row["name"], row["bid"]) for key, row in found.items()} == {
        "k1": ("a", 1),
        "k2": ("b", 2),
        "k3": ("c", 3),
    }
    late = first if version == 9 else second
    times = {key: row["_hoodie_commit_time"] for key, row in found.items()}
    assert times == {"k1": late.instant, "k2": late.instant, "k3": first.instant}
    table.compact()
    assert {row["id"]: row["_hoodie_commit_time"] for row in table.scan().to_arrow().to_pylist()} == times


@pytest.mark.parametrize("version", [6, 8, 9])
def test_nulls_are_filled_by_commit_time(engine: Engine, tmp_path: Path, version: int) -> None:
    held = Held(engine, tmp_path / "t", **payload("OverwriteNonDefaultsWithLatestAvroPayload", version))
    held.write("upsert", one(1, 5, "a", None, ["x"]))
    held.write("upsert", one(1, 4, None, 1))
    assert held.values() == {"k1": (4, "a", 1, ["x"])}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_change_streams_mark_deletes(engine: Engine, tmp_path: Path, version: int) -> None:
    held = Held(engine, tmp_path / "t", **payload("AWSDmsAvroPayload", version))
    held.write("upsert", one(1, 5, "a", 1), one(2, 5, "b", 2), one(3, 5, "c", 3))
    held.write("upsert", one(1, 4, "x", 1, None, "D"), one(2, 4, None, 9), one(9, 1, "x", 1, None, "D"))
    assert held.values() == {"k2": (4, None, 9, None), "k3": (5, "c", 3, None)}


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_delete_takes_all_copies_of_a_key(tmp_path: Path, table_type: str, version: int) -> None:
    """Positions in MySQL's log are compared as numbers: 99 is before 154."""
    schema = pa.schema([("id", pa.string()), ("_event_seq", pa.string()), ("_change_operation_type", pa.string())])
    options = payload("debezium.MySqlDebeziumAvroPayload", version)
    table = pudi.create(tmp_path / "t", schema, record_key="id", table_type=table_type, options=options)
    copies = [("a", "000003.154", "c"), ("a", "000003.99", "u"), ("b", "000003.7", "c")]
    table.bulk_insert(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in copies], schema))
    table.delete(pa.table({"id": ["a"]}))
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == ["b"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("kind", "lower", "greater"),
    [
        (pa.int32(), -5, None),
        (pa.date32(), dt.date(1960, 1, 1), None),
        (pa.int64(), None, -5),
        (pa.float64(), -0.0, 0.0),
        (pa.float32(), float("inf"), float("nan")),
    ],
    ids=str,
)
def test_versions_of_one_batch_under_a_global_index(
    engine: Engine, tmp_path: Path, kind: pa.DataType, lower: Any, greater: Any
) -> None:
    """The engine combines them before it looks keys up."""
    schema = pa.schema([("id", pa.string()), ("ts", kind), ("v", pa.string())])
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table = pudi.create(tmp_path / "t", schema, record_key="id", ordering="ts", options=options)
    given = [("a", greater, "greater"), ("a", lower, "lower"), ("b", lower, "lower"), ("b", greater, "greater")]
    table.upsert(
        engine.frame(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in given], schema))
    )
    assert {row["id"]: row["v"] for row in engine.read(table.scan())} == {"a": "greater", "b": "greater"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_flinks_deletes_count_whatever_columns_are_read(engine: Engine, tmp_path: Path, version: int) -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.int64()), ("_hoodie_operation", pa.string())])
    options = {"hoodie.write.table.version": str(version), "hoodie.schema.on.read.enable": "true"}
    table = pudi.create(tmp_path / "t", schema, record_key="id", table_type="mor", options=options)
    table.bulk_insert(engine.frame(pa.table({"id": ["a", "b", "c"], "v": [1, 1, 1], "_hoodie_operation": ["I"] * 3})))
    table.upsert(engine.frame(pa.table({"id": ["a", "b", "c"], "v": [2, 2, 2], "_hoodie_operation": ["D", "U", "-U"]})))

    def found(*columns: str) -> list[str]:
        return [row["id"] for row in engine.read(table.scan(columns=list(columns) or None))]

    assert found("id") == found("id", "v") == found() == ["b"]
    assert len(engine.read(table.scan(columns=["v"], where="v > 0"))) == 1
    table.drop_column("_hoodie_operation")  # Flink's tables don't name it among their columns
    assert found("id") == found() == ["b"]
    table.compact()
    assert found() == ["b"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert"])
def test_a_merger_of_the_user_s(engine: Engine, tmp_path: Path, verb: str) -> None:
    pudi.register_merger(KeepHighestBid())
    held = Held(engine, tmp_path / "t", **CUSTOM)
    combine = {} if verb == "upsert" else {"hoodie.combine.before.insert": "true"}
    first = held.write(verb, one(1, 5, "a", 7), one(2, 5, "b", 7), one(1, 5, "c", 9), one(2, 5, "d", 3), **combine)
    assert held.values() == {"k1": (5, "c", 9, None), "k2": (5, "b", 7, None)}
    second = held.write("upsert", one(1, 9, "e", 8), one(2, 1, "f", 8, ["x"]), one(3, 1, "g", 1))
    assert held.values() == {"k1": (5, "c", 9, None), "k2": (1, "f", 8, ["x"]), "k3": (1, "g", 1, None)}
    times = {key: row["_hoodie_commit_time"] for key, row in held.read().items()}
    assert times == {"k1": first.instant, "k2": second.instant, "k3": second.instant}
    held.write("upsert", one(3, 1, "h", 1))
    assert sorted(held.values()) == ["k1", "k2"]  # below the least bid
    held.write("delete", one(2, 1, None, None))
    assert sorted(held.values()) == ["k1"]


BIDS = "com.acme.HighestBidPayload"
MERGERS = "hoodie.write.record.merge.custom.implementation.classes"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_merger_stands_for_a_payload_class(engine: Engine, tmp_path: Path, version: int, table_type: str) -> None:
    least = {"hoodie.record.merge.property.least": "2"}
    options = {**least, "hoodie.datasource.write.payload.class": BIDS, "hoodie.write.table.version": str(version)}
    arguments: dict[str, Any] = {"record_key": "id", "ordering": "ts", "table_type": table_type, "options": options}
    with pytest.raises(pudi.NotSupportedError, match=rf"payload class {BIDS} is not known .*register_merger"):
        pudi.create(tmp_path / "t", SCHEMA, **arguments)
    pudi.register_merger(KeepHighestBid(), payload_class=BIDS)
    table = pudi.create(tmp_path / "t", SCHEMA, **arguments)
    table.upsert(engine.frame(rows(one(1, 5, "a", 7), one(2, 5, "b", 7), one(1, 5, "c", 9))))
    table.upsert(engine.frame(rows(one(1, 9, "e", 8), one(2, 1, "f", 8))))
    found = {row["id"]: (row["name"], row["bid"]) for row in engine.read(table.scan())}
    assert found == {"k1": ("c", 9), "k2": ("f", 8)}
    assert table.config.compaction_payload_class == BIDS
    merging._registered_payloads.clear()
    mergers._FOR_PAYLOADS.clear()
    with pytest.raises(pudi.NotSupportedError, match=rf"{BIDS}.*register a pudi.RecordMerger"):
        pudi.Table(tmp_path / "t").upsert(engine.frame(rows(one(1, 9, "e", 8))))


def test_payload_classes_that_pudi_has_take_no_merger() -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="pudi has the rule of this class itself"):
        pudi.register_merger(KeepHighestBid(), payload_class=f"{MODELS}AWSDmsAvroPayload")
    with pytest.raises(pudi.InvalidArgumentError, match="give the full name"):
        pudi.register_merger(KeepHighestBid(), payload_class=" ")


def test_mergers_named_by_an_option(tmp_path: Path) -> None:
    held = Held(LocalEngine(), tmp_path / "t")
    own = f"{KeepHighestBid.__module__}.{KeepHighestBid.__qualname__}"
    stock = "org.apache.hudi.DefaultSparkRecordMerger,org.apache.hudi.common.model.HoodieAvroRecordMerger"
    held.write("upsert", one(1, 5, "a", 7), **{MERGERS: stock})
    for named in (own, "com.acme.Merger", f"{stock},os.system"):
        with pytest.raises(pudi.NotSupportedError, match="never loaded by name"):
            held.write("upsert", one(1, 6, "b", 7), **{MERGERS: named})
    pudi.register_merger(KeepHighestBid())
    held.write("upsert", one(1, 6, "b", 7), **{MERGERS: f"{stock}, {own}"})
    assert held.values() == {"k1": (6, "b", 7, None)}


@pytest.mark.parametrize("index", ["BLOOM", "BUCKET"])
def test_a_merger_with_other_indexes(engine: Engine, tmp_path: Path, index: str) -> None:
    pudi.register_merger(KeepHighestBid())
    held = Held(
        engine, tmp_path / "t", **CUSTOM, **{"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "2"}
    )
    held.write("upsert", *(one(n, 5, "a", 5) for n in range(6)))
    held.write("upsert", *(one(n, 5, "b", 3 + n) for n in range(6)))
    assert [row[1] for row in held.values().values()] == ["a", "a", "b", "b", "b", "b"]


def test_updates_by_predicate_go_through_a_merger(engine: Engine, tmp_path: Path) -> None:
    pudi.register_merger(KeepHighestBid())
    held = Held(engine, tmp_path / "t", **CUSTOM)
    held.write("upsert", one(1, 5, "a", 7), one(2, 5, "b", 7))
    held.table.update({"bid": 9, "name": "'up'"}, where="id = 'k1'")
    assert held.table.update({"bid": 3}, where="id = 'k2'") is None
    assert held.values() == {"k1": (5, "up", 9, None), "k2": (5, "b", 7, None)}


class Newest(pudi.RecordMerger):
    """The greater `ts` stands, deletes among them; a delete without one takes the record away."""

    strategy_id = AUCTION

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        assert older["id"].equals(newer["id"])
        assert not newer["id"].null_count
        stays = pc.fill_null(pc.greater(older["ts"], newer["ts"]), False)
        columns = [pc.if_else(stays, older[name], newer[name]) for name in older.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)


@pytest.mark.parametrize("payload", [None, "DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_merger_stays_through_an_upgrade_and_back(tmp_path: Path, table_type: str, payload: str | None) -> None:
    """Its payload class may be that of any merge mode, and decides nothing (EightToNineUpgradeHandler)."""
    pudi.register_merger(KeepHighestBid())
    options = {**CUSTOM, "hoodie.write.table.version": "8"}
    pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type=table_type, options=options)
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    stored = decode_table_properties(path.read_bytes())
    stored.pop("hoodie.compaction.payload.class")
    if payload:
        stored["hoodie.compaction.payload.class"] = f"org.apache.hudi.common.model.{payload}"
    path.write_bytes(encode_table_properties(stored, 0))
    made = pudi.Table(tmp_path / "t")
    made.upsert(rows(one(1, 1, "first", 20)))
    for version in (9, 8):
        made.upgrade(version)
        made.upsert(rows(one(1, 2 + version, "lower", 10)))
        assert made.scan().to_arrow()["bid"].to_pylist() == [20]
        assert (made.config.merge_mode, made.config.merge_strategy_id) == ("CUSTOM", AUCTION)
    assert decode_table_properties(path.read_bytes()).get("hoodie.compaction.payload.class") == stored.get(
        "hoodie.compaction.payload.class"
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_merger_sees_keys_and_ordering_values_of_deletes(
    engine: Engine, tmp_path: Path, table_type: str, version: int
) -> None:
    pudi.register_merger(Newest())
    options = {**CUSTOM, "hoodie.write.table.version": str(version)}
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type=table_type, options=options)
    table.bulk_insert(engine.frame(rows(*(one(n, 5, "old", 1) for n in range(1, 5)))))
    marked = rows(one(1, 3, "late", 2), one(2, 5, "new", 2), one(3, 3, "late", 2))
    table.upsert(engine.frame(marked.append_column("_hoodie_is_deleted", pa.array([True, True, False]))))
    table.delete(engine.frame(rows(one(4, 9, None, None))))
    expected = {"k1": (5, "old"), "k3": (5, "old")}

    def found() -> dict[str, tuple[Any, ...]]:
        return {row["id"]: (row["ts"], row["name"]) for row in engine.read(table.scan())}

    assert found() == expected
    if table_type == "mor":
        assert table.compact(log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "2"})
        assert found() == expected
        assert table.compact()
        assert found() == expected


def test_a_broken_merger_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    pudi.register_merger(KeepHighestBid())
    held = Held(engine, tmp_path / "t", **CUSTOM)
    held.write("upsert", one(1, 5, "a", 7), one(2, 5, "b", 7))
    before = held.read()
    pudi.register_merger(Broken())
    with pytest.raises(pudi.MergerError, match=f"Broken.*{AUCTION}.*answered"):
        held.write("upsert", one(1, 6, "c", 9))
    assert held.read() == before
    assert len(held.table.timeline.commits) == 1


def test_a_merger_that_is_not_registered(engine: Engine, tmp_path: Path) -> None:
    held = Held(engine, tmp_path / "t", **CUSTOM)
    held.write("insert", one(1, 5, "a", 7), **{"hoodie.merge.allow.duplicate.on.inserts": "true"})  # merges nothing
    assert len(held.read()) == 1
    for write in (
        lambda: held.write("upsert", one(1, 6, "c", 9)),
        lambda: held.table.update({"bid": 1}, where="ts > 1"),
    ):
        with pytest.raises(pudi.MergerError, match=f"{AUCTION}.*register_merger"):
            write()
    held.write("delete", one(1, 1, None, None))
    assert held.read() == {}


def test_mixing_and_global_indexes_are_refused(engine: Engine, tmp_path: Path) -> None:
    held = Held(engine, tmp_path / "t", **payload("PartialUpdateAvroPayload", 9))
    with pytest.raises(pudi.NotSupportedError, match="global index"):
        held.write("upsert", one(1, 5, "a", 7), **{"hoodie.index.type": "GLOBAL_SIMPLE"})


def test_what_a_table_stores(tmp_path: Path) -> None:
    pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id", options=CUSTOM)
    storage = open_storage(str(tmp_path / "t"), None, context=Context())
    stored = read_properties(storage, Context())
    assert stored["hoodie.record.merge.mode"] == "CUSTOM"
    assert stored["hoodie.record.merge.strategy.id"] == AUCTION
    assert stored["hoodie.record.merge.property.least"] == "2"
    assert "hoodie.compaction.payload.class" not in stored


@pytest.mark.spark
def test_workers_must_be_able_to_import_a_merger(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_DRIVER_RECORDS", "_DRIVER_JOBS"):  # the driver, which can import it, does no work of tasks
        monkeypatch.setattr(f"pudi.engine.spark.engine.{limit}", 0)
    module = types.ModuleType("mergers_of_the_driver")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Elsewhere = type("Elsewhere", (KeepHighestBid,), {"__module__": module.__name__})  # type: ignore[attr-defined]
    pudi.register_merger(module.Elsewhere())
    held = Held(SparkEngine(spark), tmp_path / "t", **CUSTOM)
    with pytest.raises(pudi.SetupError, match=module.__name__):
        held.write("upsert", one(1, 5, "a", 7))
