"""A table's columns change, by what is written and by verbs; old files are read and rewritten right."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.disk import tree
from support.engines import THREE_WAYS, Engine, per_engine

PLACE = pa.struct([("x", pa.int32()), ("name", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("ratio", pa.float32()),
        ("place", PLACE),
        ("items", pa.list_(pa.struct([("x", pa.int32())]))),
        ("part", pa.string()),
    ]
)
FILL = {"hoodie.write.set.null.for.missing.columns": "true"}


def _row(key: str, part: str = "a", **values: Any) -> dict[str, Any]:
    row = {"id": key, "n": 1, "ratio": 0.1, "place": {"x": 1, "name": "p"}, "items": [{"x": 1}], "part": part}
    return row | values


def _data(*rows: dict[str, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema)


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = pudi.create(str(tmp_path / "t"), SCHEMA, record_key="id", partition_by="part")
    made.bulk_insert(_data(_row("1"), _row("2"), _row("3", "b")))
    return made.path


def _rows(engine: Engine, path: str, **arguments: Any) -> dict[str, dict[str, Any]]:
    rows = engine.read(pudi.Table(path).scan(meta_fields=False, **arguments))
    return {row["id"]: row for row in rows}


def test_columns_are_added_widened_and_moved_by_a_write(engine: Engine, path: str) -> None:
    place = pa.struct([("name", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
    items = pa.list_(pa.struct([("x", pa.float64()), ("z", pa.string())]))
    schema = pa.schema([("tip", pa.float64()), ("place", place), ("n", pa.int64()), ("ratio", pa.float64()),
                        ("items", items), ("part", pa.string()), ("id", pa.string())])  # fmt: skip
    new = {"id": "2", "n": 2**40, "ratio": 0.2, "place": {"name": "q", "x": 2**33, "y": 0.5}, "part": "a"}
    new |= {"items": [{"x": 1.5, "z": "z"}], "tip": 9.0}
    table = pudi.Table(path)
    table.upsert(engine.frame(_data(new, schema=schema)))
    assert table.schema.names == [*SCHEMA.names, "tip"]
    assert table.schema.field("n").type == pa.int64()
    assert [field.name for field in table.schema.field("place").type] == ["x", "name", "y"]
    rows = _rows(engine, path)
    assert rows["2"] == new
    for key in "13":  # one rewritten, one in an older file
        expected = _row(key, rows[key]["part"], place={"x": 1, "name": "p", "y": None}, items=[{"x": 1.0, "z": None}])
        assert rows[key] == expected | {"tip": None}
    assert set(_rows(engine, path, where="tip is null and ratio = 0.1")) == {"1", "3"}
    first = table.timeline.commits[0].requested
    assert pudi.Table(path).scan(as_of=first).schema.field("n").type == pa.int32()


def test_narrower_data_becomes_the_tables_type(engine: Engine, tmp_path: Path) -> None:
    kinds = {"l": pa.int64(), "d": pa.float64(), "m": pa.decimal128(10, 2), "s": pa.string(), "day": pa.date32()}
    table = pudi.create(str(tmp_path / "t"), pa.schema([("id", pa.string()), *kinds.items()]), record_key="id")
    given = {"l": pa.int32(), "d": pa.float32(), "m": pa.string(), "s": pa.decimal128(4, 1), "day": pa.string()}
    schema = pa.schema([("id", pa.string()), *given.items()])
    row = {"id": "1", "l": 7, "d": 0.1, "m": "12.5", "s": 1, "day": "2024-01-02"}
    table.upsert(engine.frame(_data(row, schema=schema)))
    assert table.schema.names == ["id", *kinds]
    assert table.schema.field("l").type == pa.int64()
    expected = {"id": "1", "l": 7, "d": 0.1, "m": "12.50", "s": "1.0", "day": "2024-01-02"}
    assert _rows(engine, table.path) == {"1": expected}
    bad = _data(row | {"day": "soon"}, schema=schema)
    with pytest.raises(pudi.SchemaError, match="'day'"):
        table.upsert(engine.frame(bad))
    assert _rows(engine, table.path) == {"1": expected}


def test_missing_columns_are_an_error_or_null(engine: Engine, path: str) -> None:
    table = pudi.Table(path)
    place = pa.struct([("name", pa.string())])
    schema = pa.schema([("part", pa.string()), ("id", pa.string()), ("n", pa.int32()), ("place", place)])
    data = engine.frame(_data({"part": "a", "id": "1", "n": 5, "place": {"name": "q"}}, schema=schema))
    before = tree(Path(path))
    with pytest.raises(pudi.SchemaError, match=r"ratio.*set\.null"):
        table.upsert(data)
    assert tree(Path(path)) == before
    for verb in (table.upsert, table.insert, table.bulk_insert):
        verb(data, options=FILL)
    assert table.schema == SCHEMA
    assert len(engine.read(table.scan())) == 5
    null = _row("1", n=5, ratio=None, place={"x": None, "name": "q"}, items=None)
    assert _rows(engine, path)["1"] == null


def test_a_column_is_made_nullable(engine: Engine, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int32(), nullable=False)])
    table = pudi.create(str(tmp_path / "t"), schema, record_key="id")
    table.upsert(engine.frame(_data({"id": "1", "v": 1}, schema=schema)))
    assert table.schema == schema
    table.upsert(engine.frame(_data({"id": "2", "v": None}, schema=pa.schema([schema[0], ("v", pa.int32())]))))
    assert table.schema == pa.schema([schema[0], ("v", pa.int32())])
    assert {key: row["v"] for key, row in _rows(engine, table.path).items()} == {"1": 1, "2": None}


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("n", pa.bool_(), "'n' has type bool in the data and int32 in the table"),
        ("ratio", pa.timestamp("us"), r"'ratio' has type timestamp\[us\] in the data and float"),
        ("place", pa.struct([("x", pa.bool_()), ("name", pa.string())]), r"'place\.x' has type bool"),
        ("items", pa.list_(pa.int32()), r"'items\.element' has type int32"),
    ],
)
def test_what_can_not_evolve_is_refused_by_name(
    engine: Engine, path: str, name: str, kind: pa.DataType, says: str
) -> None:
    schema = SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind))
    before = tree(Path(path))
    with pytest.raises(pudi.SchemaError, match=says):
        pudi.Table(path).upsert(engine.frame(_data(_row("1") | {name: None}, schema=schema)))
    assert tree(Path(path)) == before


_KEPT = pa.schema([("id", pa.int64()), ("at", pa.int32()), ("cost", pa.decimal128(5, 2)), ("part", pa.int32())])


def _kept_table(engine: Engine, path: Path) -> pudi.Table:
    made = pudi.create(path, _KEPT, record_key="id", ordering=["at", "cost"], partition_by="part")
    made.upsert(engine.frame(_data({"id": 1, "at": 1, "cost": Decimal("1.00"), "part": 7}, schema=_KEPT)))
    return made


@pytest.mark.parametrize(
    ("engine", "name", "kind", "value"),
    per_engine(
        [
            ("id", pa.string(), "1"),
            ("id", pa.float64(), 1.0),
            ("id", pa.decimal128(20, 0), Decimal(1)),
            ("at", pa.string(), "1"),
            ("at", pa.float32(), 1.0),
            ("at", pa.int64(), 1 << 31),
            ("at", pa.uint64(), 1 << 31),
            ("cost", pa.string(), "1.00"),
            ("cost", pa.decimal128(6, 3), Decimal("1.001")),
            ("cost", pa.decimal128(8, 2), Decimal("1000.00")),
            ("cost", pa.int64(), 1000),
            ("part", pa.string(), "7"),
            ("part", pa.int64(), -(1 << 31) - 1),
        ],
        [
            ("id", pa.string(), "1"),
            ("at", pa.int64(), 1 << 31),
            ("cost", pa.decimal128(6, 3), Decimal("1.001")),
            ("cost", pa.decimal128(8, 2), Decimal("1000.00")),
        ],
    ),
    indirect=["engine"],
)
def test_keys_keep_their_type(engine: Engine, tmp_path: Path, name: str, kind: pa.DataType, value: object) -> None:
    """Else one batch with texts would turn an integer key into text, and every later filter on it would fail."""
    made = _kept_table(engine, tmp_path / "t")
    changed = _KEPT.set(_KEPT.get_field_index(name), pa.field(name, kind))
    before = tree(tmp_path / "t")
    with pytest.raises(pudi.SchemaError) as caught:
        made.upsert(
            engine.frame(_data({"id": 1, "at": 1, "cost": Decimal("1.00"), "part": 7} | {name: value}, schema=changed))
        )
    assert all(said in str(caught.value) for said in (name, str(kind), str(_KEPT.field(name).type)))
    assert tree(tmp_path / "t") == before
    assert made.schema.field(name).type == _KEPT.field(name).type


@THREE_WAYS
def test_values_of_other_widths_become_the_keys_type(engine: Engine, tmp_path: Path) -> None:
    made = _kept_table(engine, tmp_path / "t")
    wider = pa.schema([("id", pa.int32()), ("at", pa.int64()), ("cost", pa.decimal128(12, 4)), ("part", pa.int64())])
    rows = [{"id": n, "at": 2, "cost": Decimal("2.5000"), "part": 7} for n in (1, 2)]
    made.upsert(engine.frame(_data(*rows, schema=wider)))
    made.bulk_insert(engine.frame(_data({"id": 3, "at": 3, "cost": Decimal("9.5000"), "part": 8}, schema=wider)))
    assert made.schema == _KEPT
    found = engine.read(made.scan(meta_fields=False))
    assert {row["id"]: (row["at"], row["cost"], row["part"]) for row in found} == {
        1: (2, "2.50", 7),
        2: (2, "2.50", 7),
        3: (3, "9.50", 8),
    }
    assert len(engine.read(made.scan(where="id >= 2 AND at = 2"))) == 1


def test_keys_in_structs_keep_their_type(tmp_path: Path) -> None:
    schema = pa.schema([("who", pa.struct([("id", pa.int32()), ("n", pa.int32())])), ("v", pa.int32())])
    made = pudi.create(tmp_path / "t", schema, record_key="who.id")
    made.upsert(_data({"who": {"id": 1, "n": 1}, "v": 1}, schema=schema))

    def given(kind: pa.DataType, value: object) -> pa.Table:
        who = pa.struct([("id", kind), ("n", pa.int64())])
        return _data({"who": {"id": value, "n": 2}, "v": 2}, schema=schema.set(0, pa.field("who", who)))

    for kind, value in ((pa.string(), "1"), (pa.int64(), 1 << 40)):
        with pytest.raises(pudi.SchemaError, match=r"who\.id"):
            made.upsert(given(kind, value))
    for change in (
        lambda: made.change_type("who.id", pa.string()),
        lambda: made.rename_column("who.id", "key"),
        lambda: made.drop_column("who.id"),
        lambda: made.rename_column("who", "whom"),
    ):
        with pytest.raises(pudi.SchemaError, match=r"'who\.id' is a key"):
            change()
    made.upsert(given(pa.int64(), 1))
    assert made.scan(meta_fields=False).to_arrow().to_pylist() == [{"who": {"id": 1, "n": 2}, "v": 2}]
    assert made.schema.field("who").type == pa.struct([("id", pa.int32()), ("n", pa.int64())])


def test_a_write_that_retypes_a_column_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32()), ("s", pa.struct([("x", pa.int64())]))])
    made = pudi.create(tmp_path / "t", schema, record_key="id")
    made.upsert(_data({"id": "1", "n": 1, "s": {"x": 1}}, schema=schema))
    assert not caplog.records
    wider = pa.schema([("id", pa.string()), ("n", pa.int64()), ("s", pa.struct([("x", pa.string())]))])
    made.upsert(_data({"id": "2", "n": 1, "s": {"x": "1"}}, schema=wider))
    told = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "column 'n' of the table from int32 to int64" in told[0]
    assert "column 's.x' of the table from int64 to string" in told[1]


def test_columns_change_by_verbs(engine: Engine, path: str) -> None:
    table = pudi.Table(path)
    before = {file for file in tree(Path(path)) if file.endswith(".parquet")}
    table.rename_column("ratio", "share")
    table.rename_column("place.name", "label")
    table.rename_column("items.element.x", "y")
    table.drop_column("n")
    table.add_column("n", pa.string())
    table.add_column("ratio", pa.float64())
    result = table.change_type("place.x", pa.string())
    assert result.operation == "ALTER_SCHEMA"
    assert result.files_written == 0
    assert {file for file in tree(Path(path)) if file.endswith(".parquet")} == before
    assert table.schema.names == ["id", "share", "place", "items", "part", "n", "ratio"]

    def row(key: str, part: str, **values: Any) -> dict[str, Any]:
        stored = {"id": key, "share": 0.1, "place": {"x": "1", "label": "p"}, "items": [{"y": 1}], "part": part}
        return stored | {"n": None, "ratio": None} | values

    old = {"1": row("1", "a"), "2": row("2", "a"), "3": row("3", "b")}
    assert _same(_rows(engine, path), old)
    assert set(_rows(engine, path, where="share < 0.2 and n is null")) == {"1", "2", "3"}
    assert _rows(engine, path, columns=["n", "id"]) == {key: {"id": key, "n": None} for key in "123"}
    new = row("1", "a", n="new", ratio=2.0, share=3.0)
    table.upsert(engine.frame(_data(new, schema=table.schema)))
    assert _same(_rows(engine, path), old | {"1": new})  # 2 was rewritten, 3 not
    assert set(_rows(engine, path, where="ratio = 2")) == {"1"}
    grown = table.schema.append(pa.field("more", pa.int64()))
    table.upsert(engine.frame(_data(new | {"more": 1}, schema=grown)))
    table.rename_column("more", "most")
    assert [row["most"] for _, row in sorted(_rows(engine, path).items())] == [1, None, None]
    first = table.timeline.commits[0].requested
    assert _same(_rows(engine, path, as_of=first), {k: _row(k, r["part"]) for k, r in old.items()})


def _same(rows: dict[str, Any], expected: dict[str, Any]) -> bool:
    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(inner) for key, inner in value.items()}
        return round(value, 6) if isinstance(value, float) else value

    return bool(rounded(rows) == rounded(expected))


def test_a_dropped_column_never_comes_back(path: str) -> None:
    table = pudi.Table(path)
    table.add_column("x", pa.int64())
    table.upsert(_data(_row("1") | {"x": 5}, schema=table.schema))
    table.drop_column("x")  # it had the greatest id, which Hudi would give to the next column
    table.add_column("y", pa.int64())
    assert table.scan(["y"]).to_arrow()["y"].to_pylist() == [None, None, None]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.drop_column("id"),
        lambda t: t.rename_column("part", "p"),
        lambda t: t.rename_column("n", "ratio"),
        lambda t: t.add_column("RATIO", pa.int32()),
        lambda t: t.add_column("a b", pa.int32()),
        lambda t: t.add_column("n.x", pa.int32()),
        lambda t: t.change_type("n", pa.bool_()),
        lambda t: t.change_type("place", pa.string()),
        lambda t: t.change_type("id", pa.binary()),
        lambda t: t.drop_column("items.element"),
        lambda t: t.drop_column("nothing"),
        lambda t: t.add_column("x", "nonsense"),
    ],
)
def test_changes_that_can_not_be_made_leave_nothing(path: str, change: Any) -> None:
    before = tree(Path(path))
    with pytest.raises(pudi.SchemaError):
        change(pudi.Table(path))
    assert tree(Path(path)) == before


def test_local_timestamps_and_ids_do_not_go_together_in_hudi(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us"))])
    table = pudi.create(str(tmp_path / "t"), schema, record_key="id")
    with pytest.raises(pudi.NotSupportedError, match="'at'"):
        table.add_column("x", pa.int32())
