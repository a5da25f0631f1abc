"""Bad input: each a typed error that names the thing, before anything becomes visible and with nothing left behind."""

from __future__ import annotations

import pickle
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.format import decode_table_properties, encode_table_properties
from support.disk import base_files, tree
from support.engines import Engine, LocalEngine, per_engine
from support.golden import Golden
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, table, trip

Errors = type[Exception] | tuple[type[Exception], ...]
WRITES = ("bulk_insert", "insert", "upsert")


@pytest.fixture
def made(engine: Engine, tmp_path: Path) -> PudiTable:
    """A table with six trips."""
    return _six_trips(engine, tmp_path)


@pytest.fixture
def local(tmp_path: Path) -> PudiTable:
    """The same, for what is found before an engine has a say."""
    return _six_trips(LocalEngine(), tmp_path)


def _six_trips(engine: Engine, folder: Path) -> PudiTable:
    made = PudiTable.create(LocalEngine(), folder / "trips", SCHEMA, Layout())
    made.write("bulk_insert", table([trip(number, 10) for number in range(6)]))
    return PudiTable(engine, made.path)


def _refuses(made: PudiTable, verb: str, data: pa.Table, error: Errors, names: str, **more: Any) -> None:
    """The verb raises `error`, naming `names`; table and disk are as they were; the next write works.

    A bulk insert on Spark looks at the keys while it writes, so there a rollback tells of the attempt.
    """
    before, rows = tree(made.path), made.snapshot()
    with pytest.raises(error, match=names) as caught:
        getattr(made.table, verb)(made.engine.frame(data), **more)
    assert isinstance(caught.value, pudi.PudiError)
    after = tree(made.path)
    if made.engine.name == "spark" and verb == "bulk_insert":
        after = {name: digest for name, digest in after.items() if ".rollback" not in name}
    assert after == before
    assert_same(made.snapshot(), rows)
    PudiTable(LocalEngine(), made.path).write("upsert", table([trip(1, 99, "works")]))


def _replaced(data: pa.Table, name: str, values: Any) -> pa.Table:
    return data.set_column(data.schema.get_field_index(name), name, values)


def test_no_table_there(tmp_path: Path) -> None:
    with pytest.raises(pudi.TableNotFoundError, match="nowhere"):
        pudi.Table(str(tmp_path / "nowhere"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(pudi.TableNotFoundError, match="folder"):
        pudi.Table(str(tmp_path / "folder")).scan()
    assert list((tmp_path / "folder").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_table_there_already(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pudi.create(str(path), SCHEMA, record_key="uuid", table_type="cow")
    before = tree(path)
    with pytest.raises(pudi.TableExistsError):
        pudi.create(str(path), SCHEMA, record_key="leg", table_type="cow")
    assert tree(path) == before


def test_a_timeline_without_its_table(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    made.bulk_insert(table([trip(1, 10)]))
    (tmp_path / "t/.hoodie/hoodie.properties").unlink()
    before = tree(tmp_path / "t")
    with pytest.raises(pudi.TableExistsError, match="lost its properties"):
        pudi.create(tmp_path / "t", SCHEMA, record_key="uuid")
    assert tree(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ({"record_key": "id"}, pudi.InvalidArgumentError, "'id'"),
        ({"partition_by": "town"}, pudi.InvalidArgumentError, "'town'"),
        ({"ordering": "when"}, pudi.InvalidArgumentError, "'when'"),
        ({"table_type": "row"}, pudi.InvalidArgumentError, "'row'"),
        ({"options": {"hoodie.write.table.version": "7"}}, pudi.NotSupportedError, "version=7"),
        ({"options": {"hoodie.write.table.version": "10"}}, pudi.NotSupportedError, "version=10"),
        ({"options": {"hoodie.table.base.file.format": "LANCE"}}, pudi.NotSupportedError, "LANCE"),
        ({"options": {"hoodie.tabel.name": "x"}}, pudi.InvalidArgumentError, r"hoodie\.table\.name"),
        (
            {"options": {"hoodie.datasource.write.keygenerator.class": "com.acme.Keys"}},
            pudi.NotSupportedError,
            "com.acme.Keys",
        ),
    ],
    ids=lambda value: re.sub(r"\W+", "-", str(value)) if isinstance(value, dict) else "",
)
def test_create_refuses(tmp_path: Path, arguments: dict[str, Any], error: type[Exception], names: str) -> None:
    path = tmp_path / "t"
    with pytest.raises(error, match=names):
        pudi.create(str(path), SCHEMA, **{"record_key": "uuid", "table_type": "cow", **arguments})
    assert not path.exists() or tree(path) == {}


@pytest.mark.parametrize(("engine", "verb"), per_engine(WRITES, ["upsert"]), indirect=["engine"])
def test_a_column_of_another_type(made: PudiTable, verb: str) -> None:
    data = _replaced(table([trip(1, 20)]), "fare", pa.array([True]))
    _refuses(made, verb, data, pudi.SchemaError, "fare")


@pytest.mark.parametrize(("engine", "verb"), per_engine(WRITES, ["upsert"]), indirect=["engine"])
def test_a_missing_column(made: PudiTable, verb: str) -> None:
    _refuses(made, verb, table([trip(1, 20)]).drop_columns(["rider"]), pudi.SchemaError, "rider")


def test_a_column_given_twice(made: PudiTable) -> None:
    data = table([trip(1, 20)]).append_column("FARE", pa.array([1.0]))
    _refuses(made, "upsert", data, (pudi.SchemaError, pudi.NotSupportedError), "FARE")


@pytest.mark.parametrize(
    ("engine", "verb", "name"),
    per_engine(product((*WRITES, "delete"), ("uuid", "city")), [("upsert", "city"), ("delete", "uuid")]),
    indirect=["engine"],
)
def test_a_missing_key_or_partition_column(made: PudiTable, verb: str, name: str) -> None:
    _refuses(made, verb, table([trip(1, 20)]).drop_columns([name]), pudi.SchemaError, name)


@pytest.mark.parametrize(
    ("engine", "verb", "key"),
    per_engine(product((*WRITES, "delete"), (None, "")), [("bulk_insert", None), ("upsert", ""), ("delete", None)]),
    indirect=["engine"],
)
def test_a_null_or_empty_key(made: PudiTable, verb: str, key: str | None) -> None:
    data = table([trip(1, 20), trip(2, 20) | {"uuid": key}])
    _refuses(made, verb, data, pudi.InvalidArgumentError, "uuid")


@pytest.mark.parametrize(("engine", "verb"), per_engine(WRITES, ["upsert"]), indirect=["engine"])
def test_a_missing_ordering_column(made: PudiTable, verb: str) -> None:
    _refuses(made, verb, table([trip(1, 20)]).drop_columns(["ts"]), pudi.SchemaError, r"\bts\b")


def test_an_ordering_column_of_another_type(made: PudiTable) -> None:
    _refuses(made, "upsert", _replaced(table([trip(1, 20)]), "ts", pa.array(["soon"])), pudi.SchemaError, "'ts'")


@pytest.mark.parametrize(
    ("engine", "city"),
    per_engine(["..", "../elsewhere", "a/../../b", ".hoodie", ".hoodie/timeline", "/away", "a\0b"], ["../elsewhere"]),
    indirect=["engine"],
)
def test_a_partition_value_that_leaves_the_root(made: PudiTable, city: str) -> None:
    around = tree(made.path.parent)
    _refuses(made, "upsert", table([trip(1, 20), trip(50, 20, city=city)]), pudi.InvalidArgumentError, "city|partition")
    assert set(tree(made.path.parent)) >= set(around)
    assert {path.name for path in made.path.parent.iterdir()} == {"trips"}


@pytest.mark.parametrize("verb", [*WRITES, "delete"])
@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"hoodie.upsert.shuffle.paralelism": "2"}, pudi.InvalidArgumentError, r"hoodie\.upsert\.shuffle\.parallelism"),
        ({"hoodie.index.type": "HBASE"}, pudi.NotSupportedError, "HBASE"),
        ({"hoodie.index.type": "SIMPEL"}, pudi.InvalidArgumentError, "SIMPEL"),
        ({"hoodie.parquet.max.file.size": "big"}, pudi.InvalidArgumentError, r"hoodie\.parquet\.max\.file\.size"),
        (
            {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
            pudi.InvalidArgumentError,
            r"hoodie\.record\.merge\.mode",
        ),
        ({"hoodie.datasource.write.recordkey.field": "leg"}, pudi.InvalidArgumentError, "recordkey"),
    ],
    ids=["unknown", "unsupported", "value", "number", "contradicts-mode", "contradicts-key"],
)
def test_options(local: PudiTable, verb: str, options: dict[str, str], error: type[Exception], names: str) -> None:
    _refuses(local, verb, table([trip(1, 20)]), error, names, options=options)


def test_delete_with_a_text_points_at_where(local: PudiTable) -> None:
    before = tree(local.path)
    with pytest.raises(pudi.InvalidArgumentError, match="where="):
        local.table.delete("city = 'nyc'")
    assert tree(local.path) == before


@pytest.mark.parametrize("data", [None, 7, {"uuid": "k1"}, [{"uuid": "k1"}]], ids=str)
def test_data_that_is_no_table(local: PudiTable, data: Any) -> None:
    before = tree(local.path)
    with pytest.raises(pudi.InvalidArgumentError, match=type(data).__name__):
        local.table.upsert(data)
    assert tree(local.path) == before


def test_a_schema_that_contradicts_itself(tmp_path: Path) -> None:
    twice = pa.schema([pa.field("uuid", pa.string()), pa.field("uuid", pa.string())])
    for schema in (twice, pa.schema([pa.field("_hoodie_commit_time", pa.string()), pa.field("uuid", pa.string())])):
        with pytest.raises(pudi.InvalidArgumentError, match=r"uuid|_hoodie_commit_time"):
            pudi.create(str(tmp_path / "t"), schema, record_key="uuid", table_type="cow")


def test_corrupt_properties(local: PudiTable) -> None:
    file = local.path / ".hoodie" / "hoodie.properties"
    file.write_text(re.sub(r"(?m)^hoodie\.table\.name=.*$", "hoodie.table.name=other", file.read_text()))
    with pytest.raises(pudi.CorruptError, match=r"hoodie\.properties"):
        local.snapshot()


@pytest.mark.parametrize("damage", [b"", b"Obj\x01garbage", None], ids=["empty", "garbage", "truncated"])
def test_a_corrupt_commit(local: PudiTable, damage: bytes | None) -> None:
    file = next((local.path / ".hoodie" / "timeline").glob("*_*.commit"))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] if damage is None else damage)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    before = tree(local.path)
    with pytest.raises(pudi.CorruptError, match=file.name):
        local.snapshot()
    with pytest.raises(pudi.CorruptError, match=file.name):
        local.table.upsert(local.engine.frame(table([trip(1, 20)])))
    assert tree(local.path) == before


@pytest.mark.parametrize(("engine", "keep"), per_engine([0, 4, 300], [300]), indirect=["engine"])
def test_a_corrupt_base_file(made: PudiTable, keep: int) -> None:
    file = base_files(made.path)[0]
    file.write_bytes(file.read_bytes()[:keep])
    before, expected = tree(made.path), pudi.CorruptError if made.engine.name == "local" else Exception
    with pytest.raises(expected, match=file.name if made.engine.name == "local" else None):
        made.snapshot()
    with pytest.raises(pudi.CorruptError, match=file.name):
        made.table.upsert(made.engine.frame(table([trip(number, 20) for number in range(6)])))
    assert {name: digest for name, digest in tree(made.path).items() if name in before} == before
    assert len(base_files(made.path)) == len([name for name in before if name.endswith(".parquet")])


def test_a_base_file_that_goes_while_it_is_read(made: PudiTable) -> None:
    scan = made.table.scan()
    assert "files" in scan.explain()
    base_files(made.path)[0].unlink()
    with pytest.raises(pudi.NotFoundError if made.engine.name == "local" else Exception):
        made.engine.read(scan)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.version", "10"),
        ("hoodie.table.base.file.format", "LANCE"),
        ("hoodie.bootstrap.base.path", "/elsewhere"),
        ("hoodie.table.storage.layout", "OTHER"),
    ],
)
def test_tables_of_another_kind_are_refused_by_name(local: PudiTable, key: str, value: str) -> None:
    file = local.path / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
    file.write_text("\n".join([*lines, f"{key}={value}", ""]))
    before = tree(local.path)
    with pytest.raises(pudi.NotSupportedError, match=re.escape(key)):
        local.snapshot()
    with pytest.raises(pudi.NotSupportedError, match=re.escape(key)):
        local.table.upsert(local.engine.frame(table([trip(1, 20)])))
    assert tree(local.path) == before


def test_a_table_with_a_merger_of_its_own_is_read_and_not_written(local: PudiTable) -> None:
    file = local.path / ".hoodie" / "hoodie.properties"
    file.write_text(re.sub(r"(?m)^(hoodie\.record\.merge\.mode)=.*$", r"\1=CUSTOM", file.read_text()))
    before = tree(local.path)
    assert len(local.snapshot()) == 6
    with pytest.raises(pudi.NotSupportedError, match="CUSTOM"):
        local.table.upsert(local.engine.frame(table([trip(1, 20)])))
    assert tree(local.path) == before


def test_a_table_with_an_index_of_a_later_hudi_is_read_and_not_written(golden_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), path)
    properties = path / ".hoodie" / "hoodie.properties"
    said = decode_table_properties(properties.read_bytes())
    kept = said["hoodie.table.metadata.partitions"]
    said["hoodie.table.metadata.partitions"] = f"{kept},vector_index_v"
    properties.write_bytes(encode_table_properties(said, 0))
    before, rows = tree(path), pudi.Table(path).scan(meta_fields=False).to_arrow()
    with pytest.raises(pudi.NotSupportedError, match="partition vector_index_v"):
        pudi.Table(path).upsert(rows.slice(0, 1))
    assert tree(path) == before
    pudi.Table(path).upsert(rows.slice(0, 1), options={"hoodie.metadata.index.drop": "vector_index_v"})
    assert ",".join(pudi.Table(path).config.metadata_partitions) == kept
    assert_same(from_arrow(pudi.Table(path).scan(meta_fields=False).to_arrow()), from_arrow(rows))
    pudi.Table(path).upsert(rows.slice(0, 1), options={"hoodie.metadata.enable": "false"})
    assert pudi.Table(path).config.metadata_partitions == ()
    assert not any((path / ".hoodie" / "metadata").rglob("*.hfile"))


def test_tables_of_old_hudis_are_not_written(golden_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "old"
    shutil.copytree(Golden("v5_cow_basic").unpack(golden_folder), path)
    before = tree(path)
    with pytest.raises(pudi.NotSupportedError, match="pudi upgrade"):
        pudi.Table(str(path)).upsert(table([trip(1, 10)]), options={"hoodie.metadata.enable": "false"})
    assert tree(path) == before


@pytest.mark.parametrize("name", ["cow_v9_nometa", "cow_v9_orc"])
def test_tables_of_hudis_without_meta_fields_and_of_orc_are_written(
    golden_folder: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(Golden(name).unpack(golden_folder), tmp_path / name)
    opened = pudi.Table(tmp_path / name)
    rows = opened.scan(meta_fields=False).to_arrow()
    newer = rows.slice(0, 3).set_column(rows.schema.get_field_index("rider"), "rider", [["new"] * 3])
    opened.upsert(newer)
    assert opened.delete(rows.slice(3, 1)) is not None
    expected = pa.concat_tables([newer, rows.slice(4)])
    assert_same(from_arrow(opened.scan(meta_fields=False).to_arrow()), from_arrow(expected))
    assert not opened.check().differences


def test_a_pending_write_is_never_read(made: PudiTable) -> None:
    expected = made.snapshot()
    rows = from_arrow(made.table.scan().to_arrow())
    instant = "29991231235959999"
    timeline = made.path / ".hoodie" / "timeline"
    (timeline / f"{instant}.commit.requested").touch()
    (timeline / f"{instant}.inflight").touch()
    base = base_files(made.path)[0]
    file_id = base.name.split("_", maxsplit=1)[0]
    shutil.copy(base, base.with_name(f"{file_id}_0-0-0_{instant}.parquet"))
    assert_same(made.snapshot(), expected)
    assert_same(from_arrow(made.table.scan().to_arrow()), rows)


def test_names_of_any_length_are_cut_in_messages(tmp_path: Path) -> None:
    name = "x" * 5000
    table = pudi.create(tmp_path / "t", pa.schema([("id", pa.int64()), (name, pa.int64())]), record_key="id")
    with pytest.raises(pudi.PudiError) as first:
        table.scan([name + "y"])
    with pytest.raises(pudi.PudiError) as second:
        table.scan(where=f"`{name} y` = 1")
    for error in (first.value, second.value):
        assert "characters left out" in str(error)
        assert len(str(error)) < 2500
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    path = pudi.CorruptError("damaged", path="p" * 5000)
    assert len(str(path)) < 1200
    assert path.path == "p" * 5000
