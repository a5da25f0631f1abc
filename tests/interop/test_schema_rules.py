"""Which columns a write makes of the table's and the data's: pudi's rules against real Hudi's, for every pair of types.

Hudi's own rule is asked (`deduceWriterSchema`, milliseconds a pair); the slow part writes and reads each pair for real.
"""

from __future__ import annotations

import datetime as dt
import itertools
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.schema import arrow_to_avro, avro_to_arrow, written_schema
from support.hudi import HudiTable, table_options
from support.rows import assert_same, from_arrow
from support.spark import compiled

pytestmark = [pytest.mark.interop, pytest.mark.spark]

D = Decimal
UTC, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind))


def _map(kind: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), kind)


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [7, -(2**31)]),
    "long": (pa.int64(), [9, 2**53 + 1]),
    "float": (pa.float32(), [0.1, 1.5e7]),
    "double": (pa.float64(), [0.25, 1e300]),
    "decimal(10,2)": (pa.decimal128(10, 2), [D("1.25"), D("-12345678.90")]),
    "decimal(12,2)": (pa.decimal128(12, 2), [D("1.25"), D("-1234567890.12")]),
    "decimal(12,4)": (pa.decimal128(12, 4), [D("1.2525"), D("-12345678.9012")]),
    "decimal(11,4)": (pa.decimal128(11, 4), [D("1.2525"), D("-1234567.9012")]),
    "decimal(20,2)": (pa.decimal128(20, 2), [D("1.25"), D("-123456789012345678.12")]),
    "string": (pa.string(), ["12", "2024-01-02"]),
    "binary": (pa.binary(), [b"12", b"2024-01-02"]),
    "date": (pa.date32(), [dt.date(2024, 1, 2), dt.date(1969, 1, 1)]),
    "timestamp": (UTC, [MOMENT.replace(tzinfo=dt.timezone.utc), dt.datetime(1969, 1, 1, tzinfo=dt.timezone.utc)]),
    "timestamp_ntz": (LOCAL, [MOMENT, dt.datetime(1969, 1, 1)]),
    "array<int>": (_list(pa.int32()), [[1, 2], []]),
    "array<long>": (_list(pa.int64()), [[1, 2], []]),
    "array<struct<a:int>>": (_list(pa.struct([("a", pa.int32())])), [[{"a": 1}], []]),
    "map<int>": (_map(pa.int32()), [[("a", 1)], []]),
    "map<double>": (_map(pa.float64()), [[("a", 1.5)], []]),
    "struct<a:int>": (pa.struct([("a", pa.int32())]), [{"a": 1}, {"a": 2}]),
    "struct<a:long,b:string>": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    ),
}  # fmt: skip

STRICTER = {("long", "timestamp_ntz")}
"""Pairs that Hudi's rule takes and pudi refuses: Hudi's own reader fails on the older files then."""

PAIRS = list(itertools.product(VALUES, VALUES))


def _hudis(spark: Any, table: pa.Schema, data: pa.Schema, **options: str) -> pa.Schema | None:
    """The columns that Hudi's writer would give the table; None where it refuses the data."""
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm

    def schema(columns: pa.Schema) -> Any:
        return jvm.org.apache.hudi.common.schema.HoodieSchema.parse(arrow_to_avro(columns, "t"))

    option, properties = jvm.org.apache.hudi.common.util.Option, jvm.org.apache.hudi.common.config.TypedProperties()
    for key, value in options.items():
        properties.setProperty(key, value)
    try:
        found = jvm.org.apache.hudi.HoodieSchemaUtils.deduceWriterSchema(
            schema(data), option.of(schema(table)), option.empty(), properties
        )
    except Py4JJavaError as error:
        assert "Schema" in error.java_exception.getClass().getName(), error
        return None
    return avro_to_arrow(found.toString())


def _pudis(table: pa.Schema, data: pa.Schema, *, fill: bool = False) -> pa.Schema | None:
    try:
        return written_schema(table, data, fill_missing=fill)
    except pudi.SchemaError:
        return None


def test_every_pair_of_types(spark: Any) -> None:
    wrong = []
    for old, new in PAIRS:
        table, data = (pa.schema([("id", pa.string()), ("v", VALUES[kind][0])]) for kind in (old, new))
        hudis, pudis = _hudis(spark, table, data), _pudis(table, data)
        if (old, new) in STRICTER:
            assert hudis is not None
            assert pudis is None
        elif hudis != pudis:
            wrong.append(f"{old} -> {new}: Hudi {hudis}, pudi {pudis}")
    assert not wrong, "\n".join(wrong)


A, B, C = (pa.field(name, pa.int32()) for name in "abc")
S = pa.struct([("x", pa.int32()), ("y", pa.string())])
CASES: dict[str, tuple[list[pa.Field], list[pa.Field]]] = {
    "reordered": ([A, B, C], [C, A, B]),
    "added at the end": ([A, B], [A, B, C]),
    "added in front": ([A, B], [C, A, B]),
    "added and reordered": ([A, B], [B, C, A]),
    "missing": ([A, B, C], [A, C]),
    "missing and added": ([A, B], [A, C]),
    "made nullable": ([A, B.with_nullable(False)], [A, B]),
    "not null in the data": ([A, B], [A, B.with_nullable(False)]),
    "nested added": ([A, pa.field("s", S)], [A, pa.field("s", pa.struct([*S, ("z", pa.float64())]))]),
    "nested reordered": ([A, pa.field("s", S)], [A, pa.field("s", pa.struct([S[1], S[0]]))]),
    "nested missing": ([A, pa.field("s", S)], [A, pa.field("s", pa.struct([S[1]]))]),
    "nested widened": ([A, pa.field("s", S)], [A, pa.field("s", pa.struct([("x", pa.float64()), S[1]]))]),
    "list of structs grown": (
        [A, pa.field("l", _list(S))], [A, pa.field("l", _list(pa.struct([*S, ("z", pa.int32())])))]
    ),
    "map of structs grown": ([pa.field("m", _map(S))], [pa.field("m", _map(pa.struct([*S, ("z", pa.int32())])))]),
    "several at once": ([A, B, C], [pa.field("d", pa.string()), C.with_type(pa.int64()), A.with_type(pa.string()), B]),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fill", [False, True], ids=["", "filled"])
@pytest.mark.parametrize("case", CASES)
def test_columns(spark: Any, case: str, fill: bool) -> None:
    table, data = map(pa.schema, CASES[case])
    hudis = _hudis(spark, table, data, **{"hoodie.write.set.null.for.missing.columns": str(fill).lower()})
    if case == "made nullable" and fill:  # then Hudi keeps NOT NULL, and fails where a null comes
        assert hudis == table
    else:
        assert _pudis(table, data, fill=fill) == hudis


def _rows(kind: str, keys: str, part: str) -> pa.Table:
    type_, values = VALUES[kind]
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", type_)])
    values = [values[0], values[1], None][: len(keys)]
    return pa.Table.from_pylist(
        [{"id": f"{part}{k}", "part": part, "v": v} for k, v in zip(keys, values, strict=True)], schema
    )


def _check_written(spark: Any, folder: Path, old: str, new: str) -> None:
    """pudi's write and Hudi's write of the same data onto the same table: the same columns, values, and refusals."""
    base, ours, theirs = folder / "base", folder / "ours", folder / "theirs"
    first = _rows(old, "123", "p")
    made = pudi.create(str(base), first.schema, record_key="id", partition_by="part", name="t")
    made.bulk_insert(pa.concat_tables([first, _rows(old, "45", "q")]))
    for copy in (ours, theirs):
        shutil.copytree(base, copy)
    change = _rows(new, "9", "p")
    hudi = HudiTable(spark, theirs, table_options("t", "id", "part"))
    expected = _hudis(spark, first.schema, change.schema)
    if expected is None or (old, new) in STRICTER:
        with pytest.raises(pudi.SchemaError, match="'v"):
            pudi.Table(str(ours)).upsert(change)
        assert pudi.Table(str(ours)).schema == first.schema
        return
    if (old, new) == ("date", "string"):  # "12" is no date: Hudi's task fails, pudi refuses
        with pytest.raises(pudi.SchemaError, match="'v'"):
            pudi.Table(str(ours)).upsert(change)
        return
    hudi.write("upsert", change)
    pudi.Table(str(ours)).upsert(change)
    table = pudi.Table(str(ours))
    assert table.schema.field("v") == expected.field("v")
    answer = from_arrow(table.scan(meta_fields=False).to_arrow())
    assert_same(from_arrow(pudi.Table(str(theirs)).scan(meta_fields=False).to_arrow()), answer, about="Hudi's write")
    vectorised = "spark.sql.parquet.enableVectorizedReader"
    nested = pa.types.is_nested(first.schema.field("v").type)
    spark.conf.set(vectorised, str(not nested).lower())  # Hudi's reader widens nested columns only so, others only not
    try:
        with compiled(spark):  # as in a user's session: interpreted casts overflow in another way
            rows = HudiTable(spark, ours).snapshot()
    finally:
        spark.conf.unset(vectorised)
    shown = [{k: v for k, v in row.items() if not k.startswith("_")} for row in rows]
    assert_same(shown, answer, about="Hudi reads pudi's write")


OFTEN = [("int", "long"), ("float", "double"), ("long", "string"), ("decimal(10,2)", "int"), ("string", "int"),
         ("struct<a:int>", "struct<a:long,b:string>"), ("long", "timestamp"), ("double", "boolean")]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("old", "new"), OFTEN, ids=str)
def test_written(spark: Any, tmp_path: Path, old: str, new: str) -> None:
    _check_written(spark, tmp_path, old, new)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [pair for pair in PAIRS if pair not in OFTEN], ids=str)
def test_written_for_every_pair(spark: Any, tmp_path: Path, old: str, new: str) -> None:
    _check_written(spark, tmp_path, old, new)
