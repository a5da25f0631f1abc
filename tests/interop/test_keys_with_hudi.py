"""One key and one folder for a row, whoever writes it: every key generator beside Apache Hudi's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient, TableProperties
from pudi.client.properties import read_properties
from pudi.client.single_key import names_single_key
from pudi.client.snapshot import TableSnapshot
from pudi.config import Options, TableConfig
from pudi.context import Context
from pudi.storage import open_storage
from support.engines import Engine, LocalEngine, SparkEngine
from support.hudi import HudiTable
from support.layouts import pairwise
from support.rows import PLACE_FIELDS, assert_same, only

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("leg", pa.int32()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("day", pa.string()),
        ("a", pa.struct([("b", pa.string()), ("n", pa.int32())])),
        ("value", pa.string()),
    ]
)
CITIES = ("nyc", "zażółć ü 漢", None, "", "a b", "x-y", "..a")
CITIES_TO_ENCODE = ("a/b:c%d=e?", "[x]^{y}", "q'\"#*")
SHOWN = ("id", "value", "_hoodie_record_key", "_hoodie_partition_path")
"""What is compared: Hudi shows columns of folders named by time as texts."""

_TIME = "hoodie.keygen.timebased."
_ZONES = {f"{_TIME}input.timezone": "UTC", f"{_TIME}output.timezone": "UTC"}


@dataclass(frozen=True)
class Keys:
    """A key generator with its columns and settings."""

    class_name: str
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


GENERATORS = {
    "simple": Keys("Simple", ("id",), ("city",)),
    "complex": Keys("Complex", ("id", "city"), ("city", "leg")),
    "complex-of-one": Keys("Complex", ("id",), ("city",)),
    "nonpartitioned": Keys("Nonpartitioned", ("id", "leg"), ()),
    "nested": Keys("Complex", ("id", "a.b"), ("a.n", "city")),
    "time-of-numbers": Keys(
        "TimestampBased",
        ("id",),
        ("ts",),
        {f"{_TIME}timestamp.type": "EPOCHMILLISECONDS", f"{_TIME}output.dateformat": "yyyy/MM-dd'T'HH", **_ZONES},
    ),
    "time-of-texts": Keys(
        "TimestampBased",
        ("id",),
        ("day",),
        {
            f"{_TIME}timestamp.type": "DATE_STRING",
            f"{_TIME}input.dateformat": "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd",
            f"{_TIME}output.dateformat": "yyyyMMdd HH.mm",
            f"{_TIME}input.timezone": "America/New_York",
            f"{_TIME}output.timezone": "GMT+5:30",
        },
    ),
    "custom": Keys(
        "Custom",
        ("id",),
        ("city:SIMPLE", "ts:TIMESTAMP"),
        {
            f"{_TIME}timestamp.type": "SCALAR",
            f"{_TIME}timestamp.scalar.time.unit": "MILLISECONDS",
            f"{_TIME}output.dateformat": "yyyyMM",  # what is no number in a number column's folder, Hudi can't read
            **_ZONES,
        },
    ),
    "custom-keys": Keys(
        "Custom",
        ("id", "leg"),
        ("ts:timestamp", "a.n:simple"),
        {f"{_TIME}timestamp.type": "EPOCHMILLISECONDS", f"{_TIME}output.dateformat": "yyyy", **_ZONES},
    ),
}
FACTORS = (tuple(GENERATORS), (False, True), (False, True), ("local", "spark"), ("upsert", "bulk_insert"))
PAIRS = pairwise(*FACTORS)


def _rows(encode: bool, value: str) -> pa.Table:
    cities = (*CITIES, *CITIES_TO_ENCODE) if encode else CITIES
    days = ("2023-01-02", "2023-01-02T03:04:05+0100", "2023-1-2T3:4:5Z", None)
    records = [
        {
            "id": f"ü{n}",
            "leg": n,
            "city": city,
            "ts": (0, -1, 1_700_000_000_123, None)[n % 4],
            "day": days[n % 4],
            "a": {"b": f"b{n}", "n": None if n == 3 else n % 2},
            "value": value,
        }
        for n, city in enumerate(cities)
    ]
    return pa.Table.from_pylist(records, SCHEMA)


def _shared(keys: Keys, hive: bool, encode: bool) -> dict[str, str]:
    return {
        **keys.options,
        "hoodie.datasource.write.hive_style_partitioning": str(hive).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(encode).lower(),
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{keys.class_name}KeyGenerator",
    }


def _hudi(spark: Any, path: Path, keys: Keys, hive: bool, encode: bool) -> HudiTable:
    options = {
        **_shared(keys, hive, encode),
        "hoodie.table.name": "keys",
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.recordkey.field": ",".join(keys.record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(keys.partition_by),
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    return HudiTable(spark, path, options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "hive", "encode", "on", "verb"), PAIRS)
def test_the_same_keys(spark: Any, tmp_path: Path, name: str, hive: bool, encode: bool, on: str, verb: str) -> None:
    keys = GENERATORS[name]
    engine: Engine = SparkEngine(spark) if on == "spark" else LocalEngine()
    path = tmp_path / "keys"
    table = pudi.create(
        str(path),
        SCHEMA,
        record_key=keys.record_key,
        partition_by=keys.partition_by or None,
        options=_shared(keys, hive, encode),
    )
    getattr(table, verb)(engine.frame(_rows(encode, "pudi")))
    model = _hudi(spark, tmp_path / "hudi", keys, hive, encode)
    model.write("upsert", _rows(encode, "pudi"), mode="overwrite")
    hudi = _hudi(spark, path, keys, hive, encode)
    expected = only(model.snapshot(), SHOWN)
    assert_same(only(engine.read(table.scan()), SHOWN), expected, about="what pudi wrote, read by pudi")
    assert_same(only(hudi.snapshot(), SHOWN), expected, about="what pudi wrote, read by Hudi")

    hudi.write("upsert", _rows(encode, "Hudi"))
    expected = [{**row, "value": "Hudi"} for row in expected]
    assert_same(only(hudi.snapshot(), SHOWN), expected, about="after Hudi's upsert, read by Hudi")
    assert_same(only(engine.read(pudi.Table(str(path)).scan()), SHOWN), expected, about="after Hudi's upsert")
    pudi.Table(str(path)).upsert(engine.frame(_rows(encode, "again")))
    expected = [{**row, "value": "again"} for row in expected]
    assert_same(only(hudi.snapshot(), SHOWN), expected, about="after pudi's upsert, read by Hudi")
    # the other way round: Hudi's table, which doesn't say how a custom generator names folders by time
    hudis = pudi.Table(str(model.path), options=dict(keys.options))
    hudis.upsert(engine.frame(_rows(encode, "again")))
    assert_same(only(model.snapshot(), SHOWN), expected, about="Hudi's table after pudi's upsert")
    hudi.write("delete", _rows(encode, "again"))
    assert engine.read(pudi.Table(str(path)).scan()) == []


@pytest.mark.slow
@pytest.mark.sampled(1)
def test_generated_keys(spark: Any, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    table = pudi.create(str(path), SCHEMA, partition_by="city")
    table.insert(engine.frame(_rows(False, "pudi")))
    hudi = HudiTable(
        spark,
        path,
        {
            "hoodie.table.name": "keys",
            "hoodie.write.table.version": "9",
            "hoodie.datasource.write.partitionpath.field": "city",
        },
    )
    hudi.write("insert", _rows(False, "Hudi"))
    table.bulk_insert(engine.frame(_rows(False, "pudi")))
    rows = hudi.snapshot()
    found = {row["_hoodie_record_key"] for row in rows}
    assert len(found) == len(rows) == 3 * len(CITIES)
    assert all(re.fullmatch(r"\d{17}_\d+_\d+", key) for key in found)
    assert_same(only(engine.read(pudi.Table(str(path)).scan()), SHOWN), only(rows, SHOWN))


@pytest.mark.sampled(1)
def test_orders_and_delete_markers(spark: Any, engine: Engine, tmp_path: Path) -> None:
    """The same batches to a table of each, then each to the other's."""
    schema = pa.schema([("id", pa.string()), ("x", pa.int32()), ("y", pa.float64()), ("op", pa.string())])

    def batch(*records: tuple[Any, ...]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, record, strict=True)) for record in records], schema)

    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    options = {
        **marker,
        "hoodie.table.name": "t",
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.ordering.fields": "x,y",
    }
    hudis, pudis = HudiTable(spark, tmp_path / "hudi", options), HudiTable(spark, tmp_path / "pudi", options)
    pudi.create(str(pudis.path), schema, record_key="id", ordering=["x", "y"], name="t", options=marker)
    numbers = range(10)
    batches = [
        batch(*((f"k{n}", None if n == 9 else 5, 0.0, "I") for n in numbers)),
        batch(
            ("k0", 5, 0.0, "tie"), ("k1", 5, -0.0, "less"), ("k2", 5, 1.5, "more"), ("k3", 4, 9.0, "less"),
            ("k4", 6, float("nan"), "more"), ("k5", 5, 0.0, "D"), ("k6", 5, -1.0, "D"), ("k7", 6, 0.0, "D"),
            ("k7", 7, 0.0, "after"), ("k8", 7, 0.0, "wins"), ("k8", 6, 0.0, "D"), ("k9", -5, 0.0, "below 0"),
            ("new", 1, 1.0, "D"),
        ),
    ]  # fmt: skip
    for verb, data in zip(("bulk_insert", "upsert"), batches, strict=True):  # an upsert of Hudi's fails on null
        hudis.write(verb, data)
        getattr(pudi.Table(str(pudis.path)), verb)(engine.frame(data))
        ignored = (*PLACE_FIELDS, "_hoodie_commit_time")
        assert_same(pudis.snapshot(), hudis.snapshot(), ignored)
    last = batch(("k2", 9, 0.0, "D"), ("k4", 6, 0.0, "D"), ("k5", 1, 0.0, "back"))
    pudi.Table(str(hudis.path)).upsert(engine.frame(last))
    pudis.write("upsert", last)
    assert_same(pudis.snapshot(), hudis.snapshot(), ignored)
    assert {row["id"] for row in hudis.snapshot()} >= {"k4", "k5"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("new_encoding", [False, True])
def test_how_older_tables_name_a_single_key(spark: Any, tmp_path: Path, new_encoding: bool) -> None:
    keys = GENERATORS["complex-of-one"]
    table = _hudi(spark, tmp_path / "keys", keys, False, False)
    older = {
        **table.options,
        "hoodie.write.table.version": "8",
        "hoodie.write.complex.keygen.new.encoding": str(new_encoding).lower(),
        "hoodie.write.complex.keygen.validation.enable": "false",
    }
    HudiTable(spark, table.path, older).write("upsert", _rows(False, "Hudi"))
    context = Context()
    storage = open_storage(str(table.path), None, context=context)
    config = TableConfig.parse(read_properties(storage, context), table=storage.root)
    meta = MetaClient.of(storage, TableProperties(config), {}, context)
    assert config.version == 8
    assert names_single_key(TableSnapshot.load(meta, Options())) is not new_encoding
    option = "hoodie.write.complex.keygen.new.encoding"
    assert names_single_key(TableSnapshot.load(meta, Options({option: new_encoding}))) is not new_encoding
    with pytest.raises(pudi.InvalidArgumentError, match="contradicts"):
        names_single_key(TableSnapshot.load(meta, Options({option: not new_encoding})))
