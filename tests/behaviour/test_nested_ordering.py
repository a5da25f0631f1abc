"""Tables whose records are ordered by a field of a struct: all verbs and reads do as if it were a column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.statement import local
from support.engines import Engine, LocalEngine, per_engine

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        ("a", pa.struct([("c", pa.string()), ("b", pa.int64()), ("d", pa.struct([("e", pa.int64())]))])),
        ("v", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
NO_STRUCT = object()
AVRO = {"hoodie.logfile.data.block.format": "avro"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
MOVES = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
PARTIAL = {"pudi.update.partial": "true"}
CHANGES = {"hoodie.table.cdc.enabled": "true"}


def rows(*given: tuple[int, Any, str], p: str = "p") -> pa.Table:
    """Records of id, ordering value and text; a column and two fields of a struct hold the value. `gone` deletes."""
    made = []
    for key, order, text in given:
        value = None if order is NO_STRUCT else order
        inside = None if order is NO_STRUCT else {"c": text, "b": value, "d": {"e": value}}
        made.append({"id": key, "p": p, "ts": value, "a": inside, "v": text, "_hoodie_is_deleted": text == "gone"})
    return pa.Table.from_pylist(made, schema=SCHEMA)


def keys(*given: int) -> pa.Table:
    return pa.table({"id": pa.array(given, pa.int64()), "p": ["p"] * len(given)})


class Pair:
    """Two tables alike, one ordered by a column, one by a field of a struct that holds the same value."""

    def __init__(
        self, engine: Engine, folder: Path, kind: str, version: int, options: dict[str, str], ordering: str = "a.b"
    ) -> None:
        self.engine, self.options = engine, options
        made = {"hoodie.write.table.version": str(version)} | {k: v for k, v in options.items() if k in CHANGES}
        for name, order in (("column", "ts"), ("field", ordering)):
            described = {"partition_by": "p", "ordering": order, "table_type": kind, "options": made}
            pudi.create(folder / name, SCHEMA, record_key="id", **described)
        given = {key: value for key, value in options.items() if key not in CHANGES}
        self.tables = [pudi.Table(folder / name, options=given) for name in ("column", "field")]

    def do(self, verb: Callable[[pudi.Table], Any]) -> None:
        """Run a verb on both; it counts alike."""
        counts = []
        for table in self.tables:
            found = verb(table)
            counted = [getattr(found, f"records_{each}", None) for each in ("inserted", "updated", "deleted")]
            counts.append(counted)
        assert counts[0] == counts[1]

    def upsert(self, *given: tuple[int, Any, str], p: str = "p") -> None:
        self.do(lambda table: table.upsert(self.engine.frame(rows(*given, p=p))))

    def values(self) -> dict[int, str]:
        """The texts by id, alike in both tables."""
        found = [self.sorted(table.scan(meta_fields=False)) for table in self.tables]
        assert found[0] == found[1]
        for row in found[1]:
            assert (row["a"] or {"b": None})["b"] == row["ts"], row
        return {row["id"]: row["v"] for row in found[1]}

    def changed(self, **how: Any) -> list[Any]:
        """All changes, alike in both tables."""
        found = [self.sorted(table.changes(meta_fields=False, **how)) for table in self.tables]
        for row in (row for each in found for row in each if "op" in row):  # images name instants and files
            row["ts_ms"] = None
            for image in ("before", "after"):
                row[image] = row[image] and row[image].partition('"id"')[2]
        assert found[0] == found[1]
        return found[1]

    def sorted(self, scan: Any) -> list[dict[str, Any]]:
        return sorted(self.engine.read(scan), key=lambda row: (row.get("id", 0), row.get("v", ""), str(row)))


LOCAL = [
    ("cow", 6, {}),
    ("cow", 8, BUCKET),
    ("cow", 9, MOVES),
    ("mor", 6, AVRO),
    ("mor", 6, BUCKET),
    ("mor", 8, {}),
    ("mor", 8, MOVES | AVRO),
    ("mor", 9, PARTIAL | CHANGES),
    ("mor", 9, BUCKET | AVRO),
    ("cow", 9, CHANGES),
]
SPARK = [("mor", 6, AVRO), ("cow", 9, MOVES), ("mor", 9, {})]


@pytest.mark.parametrize(("engine", "kind", "version", "options"), per_engine(LOCAL, SPARK), indirect=["engine"])
def test_every_verb_orders_by_it(
    engine: Engine, tmp_path: Path, kind: str, version: int, options: dict[str, str]
) -> None:
    pair = Pair(engine, tmp_path, kind, version, options)
    given = [*((key, 5, "old") for key in range(10)), (10, None, "old"), (11, NO_STRUCT, "old")]
    pair.do(lambda table: table.bulk_insert(engine.frame(rows(*given[:10]))))  # into base files, also in buckets
    pair.do(lambda table: table.insert(engine.frame(rows(*given[10:]))))
    pair.upsert((0, 6, "late in its batch"), (0, 8, "new"), (0, 7, "late in its batch"), (1, 3, "late"), (2, 5, "tie"))
    pair.upsert((3, NO_STRUCT, "late"), (4, None, "late"), (10, -1, "new"), (11, 0, "new"), (12, NO_STRUCT, "first"))
    expected = {0: "new", 1: "old", 2: "tie", **dict.fromkeys(range(3, 10), "old"), 10: "new", 11: "new", 12: "first"}
    assert pair.values() == expected
    pair.do(lambda table: table.delete(where="id = 5"))
    pair.do(lambda table: table.delete(engine.frame(keys(6, 12, 99))))
    pair.upsert((5, 4, "late"), (6, 4, "late"), (12, 2, "again"))
    late = {5: "late", 6: "late"} if kind == "cow" else {}  # files without a trace of the deleted record
    expected = {key: text for key, text in expected.items() if key not in {5, 6}} | late | {12: "again"}
    assert pair.values() == expected
    source = rows((7, 9, "merged"), (7, 8, "late among the source's"), (8, 4, "late"), (0, 9, "gone"), (20, 1, "first"))

    def merge(table: pudi.Table) -> Any:
        verb = table.merge(engine.frame(source)).when_matched_delete(condition="source.v = 'gone'")
        return verb.when_matched_update().when_not_matched_insert().execute()

    pair.do(merge)
    pair.upsert((1, 4, "gone"), (2, 6, "gone"), (21, 7, "gone"))  # the first is late
    pair.upsert((2, 5, "late"))
    del expected[2]
    expected |= {2: "late"} if kind == "cow" else {}
    pair.do(lambda table: table.update({"v": "'changed'"}, where="id = 9"))
    del expected[0]
    expected |= {7: "merged", 9: "changed", 20: "first"}
    assert pair.values() == expected
    if options == MOVES:
        pair.upsert((1, 4, "late"), (2, 6, "moved"), p="q")
        expected[2] = "moved"
        assert pair.values() == expected
    assert pair.changed()
    if CHANGES.items() <= options.items():
        assert pair.changed(format="cdc")
    if kind == "mor":
        pair.do(lambda table: table.compact())
        assert pair.values() == expected
        pair.upsert((1, 4, "late"), (7, 10, "new"))
        expected[7] = "new"
    if BUCKET.keys() - options.keys():
        pair.do(lambda table: table.cluster())
    pair.upsert((4, 4, "late"), (9, 5, "tie"))
    assert pair.values() == expected | {9: "tie"}
    for table in pair.tables:
        assert table.check().ok, table.check()


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("ordering", ["a.d.e", ["a.b", "a.d.e"], ["ts", "a.b"]])
def test_deeper_and_several_fields(tmp_path: Path, version: int, ordering: Any) -> None:
    pair = Pair(LocalEngine(), tmp_path, "mor", version, {}, ordering)
    pair.upsert((1, 5, "old"), (2, 5, "old"), (3, 5, "old"), (4, 5, "old"))
    pair.upsert((1, 4, "late"), (2, 6, "new"))
    pair.do(lambda table: table.delete(keys(3)))
    pair.upsert((3, 4, "late"), (4, 6, "new"))
    assert pair.values() == {1: "old", 2: "new", 4: "new"}
    if version > 6:
        pair.do(lambda table: table.schedule("log_compaction"))
        pair.do(lambda table: table.run_pending())
    assert pair.values() == {1: "old", 2: "new", 4: "new"}
    pair.upsert((3, 5, "as old"), (4, 5, "late"))
    pair.do(lambda table: table.compact())
    assert pair.values() == {1: "old", 2: "new", 3: "as old", 4: "new"}


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_a_source_whose_structs_take_no_nulls_is_merged(engine: Engine, tmp_path: Path) -> None:
    """As those that SQL makes of constants."""
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="a.b", table_type="mor")
    table.upsert(rows((1, 5, "old"), (2, 5, "old")))
    fields = {"c": pa.string(), "b": pa.int64(), "d": pa.struct([pa.field("e", pa.int64(), nullable=False)])}
    filled = pa.struct([pa.field(name, kind, nullable=False) for name, kind in fields.items()])
    source = rows((1, 4, "late"), (2, 7, "new"), (2, 6, "late among the source's"), (3, 1, "first"))
    inside = pa.array(source["a"].to_pylist(), filled)
    source = source.set_column(3, pa.field("a", filled, nullable=False), inside)
    table.merge(engine.frame(source)).when_matched_update().when_not_matched_insert().execute()
    assert {row["id"]: row["v"] for row in engine.read(table.scan())} == {1: "old", 2: "new", 3: "first"}
    assert table.schema == SCHEMA


def test_its_column_stays_and_keeps_its_type(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="a.b")
    table.upsert(rows((1, 5, "old")))
    for change in (
        lambda: table.drop_column("a.b"),
        lambda: table.drop_column("a"),
        lambda: table.rename_column("a", "x"),
    ):
        with pytest.raises(pudi.SchemaError, match=r"'a\.b' is a key, partition or ordering column"):
            change()
    narrow = pa.struct([("c", pa.string()), ("b", pa.int16()), ("d", pa.struct([("e", pa.int64())]))])
    data = rows((1, 6, "new"))
    table.upsert(data.set_column(3, "a", data["a"].cast(narrow)))
    assert table.schema == SCHEMA
    assert table.scan(columns=["v"]).to_arrow()["v"].to_pylist() == ["new"]


@pytest.mark.parametrize(
    ("kind", "ordering", "reads"), [("cow", "a.b", True), ("mor", "a.b", False), ("mor", "ts", True)]
)
def test_the_doctor_names_who_merges_otherwise(tmp_path: Path, kind: str, ordering: str, reads: bool) -> None:
    older = {"hoodie.write.table.version": "6"}
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering=ordering, table_type=kind, options=older)
    found = {each.who.removeprefix("Apache Hudi "): each for each in table.doctor().access}
    for who in ("hudi-rs 0.5", "0.15"):
        assert found[who].reads is reads
        assert reads or "an ordering field inside of a struct" in found[who].why
    assert found["1.0"].reads


def _renamed_ordering(folder: Path, ordering: str) -> pudi.Table:
    """A table whose properties name another ordering field than it was made with."""
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text("utf-8")
    for key in ("hoodie.table.ordering.fields", "hoodie.table.precombine.field"):
        text = text.replace(f"{key}=ts\n", f"{key}={ordering}\n")
    properties.write_text(text, "utf-8")
    return pudi.Table(folder)


@pytest.mark.parametrize(
    ("ordering", "why"),
    [
        ("a", "of type struct<.*: Hudi has no order for it"),
        ("l.element", "'l' is of type list<.*: only fields of structs order records"),
        ("m.value", "'m' is of type map<.*: only fields of structs order records"),
        ("a.b.x", "'b' is of type int64: only fields of structs order records"),
        ("a.x", "not among c, b, d"),
    ],
)
def test_what_has_no_order_is_refused(tmp_path: Path, ordering: str, why: str) -> None:
    more = [pa.field("l", pa.list_(pa.int64())), pa.field("m", pa.map_(pa.string(), pa.int64()))]
    schema = pa.schema([*SCHEMA, *more])
    with pytest.raises(pudi.SchemaError, match=f"ordering names '{ordering}', .*{why}"):
        pudi.create(tmp_path / "none", schema, record_key="id", ordering=ordering)
    assert not (tmp_path / "none").exists()
    if ordering == "a.x":  # to Hudi, records without the field are equal
        return
    data = rows((1, 5, "old"))
    for field in more:
        data = data.append_column(field, pa.nulls(1, field.type))
    pudi.create(tmp_path / "t", schema, record_key="id", ordering="ts", table_type="mor").upsert(data)
    table = _renamed_ordering(tmp_path / "t", ordering)
    for verb in (lambda: table.scan().to_arrow(), lambda: table.upsert(data), table.compact):
        with pytest.raises(pudi.NotSupportedError, match=f"ordering.fields names '{ordering}', .*{why}"):
            verb()


def test_sql_makes_and_merges_such_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    pudi.sql(
        "CREATE TABLE kept (id INT, a STRUCT<b: BIGINT, c: STRING>, v STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'a.b', type = 'mor') LOCATION '{tmp_path / 't'}'"
    )
    assert pudi.Table(tmp_path / "t").config.ordering_fields == ("a.b",)
    struct = "named_struct('b', CAST({} AS BIGINT), 'c', 'x')"
    values = ", ".join(f"({key}, {struct.format(5)}, 'old')" for key in (1, 2, 3))
    pudi.sql(f"INSERT INTO kept VALUES {values}")
    source = " UNION ALL ".join(
        f"SELECT {key} AS id, {struct.format(order)} AS a, '{text}' AS v"
        for key, order, text in ((1, 4, "late"), (2, 7, "new"), (2, 6, "late in its batch"), (3, 5, "gone"))
    )
    pudi.sql(
        f"MERGE INTO kept USING ({source}) s ON kept.id = s.id WHEN MATCHED AND s.v = 'gone' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert pudi.sql("SELECT id, v FROM kept ORDER BY id").to_pylist() == [{"id": 1, "v": "old"}, {"id": 2, "v": "new"}]
