"""Log blocks that pudi writes: as fastavro reads them, and back through pudi's own decoders."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import NotSupportedError
from pudi.format.avro_encode import encode_records
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.log_data import decode_data
from pudi.format.log_deletes import decode_deletes
from pudi.format.log_encode import encode_avro_content, encode_deletes
from pudi.schema import arrow_to_avro, normalise

SCHEMA = normalise(
    pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("number", pa.int64()),
            pa.field("small", pa.int32(), nullable=False),
            pa.field("price", pa.decimal128(20, 3)),
            pa.field("many", pa.list_(pa.int64())),
            pa.field("named", pa.map_(pa.string(), pa.string())),
            pa.field("inner", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("day", pa.date32()),
            pa.field("flag", pa.bool_()),
            pa.field("thin", pa.float32()),
            pa.field("wide", pa.float64()),
            pa.field("raw", pa.binary()),
            pa.field("deep", pa.list_(pa.struct([pa.field("q", pa.list_(pa.string()))]))),
        ]
    )
)
AVRO = arrow_to_avro(SCHEMA, "t")


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.text(max_size=20),
            "number": _maybe(st.integers(-(2**63), 2**63 - 1)),
            "small": st.integers(-(2**31), 2**31 - 1),
            "price": _maybe(st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3))),
            "many": _maybe(st.lists(_maybe(st.integers(-1000, 1000)), max_size=4)),
            "named": _maybe(st.dictionaries(st.text(max_size=3), _maybe(st.text(max_size=3)), max_size=3)),
            "inner": _maybe(
                st.fixed_dictionaries({"x": _maybe(st.integers(0, 9)), "y": _maybe(st.text(max_size=200))})
            ),
            "at": _maybe(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.timezone.utc))),
            "day": _maybe(st.dates()),
            "flag": _maybe(st.booleans()),
            "thin": _maybe(st.floats(width=32, allow_nan=False)),
            "wide": _maybe(st.floats(allow_nan=False)),
            "raw": _maybe(st.binary(max_size=9)),
            "deep": _maybe(
                st.lists(_maybe(st.fixed_dictionaries({"q": _maybe(st.lists(_maybe(st.text(max_size=2)), max_size=2))})), max_size=2)
            ),
        }
    ),
    max_size=8,
)  # fmt: skip


def _rows(rows: list[dict[str, Any]]) -> pa.Table:
    plain = [row | {"named": None if row["named"] is None else list(row["named"].items())} for row in rows]
    return pa.Table.from_pylist(plain, schema=SCHEMA)


@given(ROWS, st.integers(0, 3))
def test_records_are_what_fastavro_reads(rows: list[dict[str, Any]], skipped: int) -> None:
    data = _rows(rows).slice(skipped)  # arrays that don't begin at their buffers' begin
    content = encode_records(AVRO, data)
    schema, at, found = fastavro.parse_schema(json.loads(AVRO)), 0, []
    while at < len(content):
        (size,) = struct.unpack_from(">i", content, at)
        record = io.BytesIO(content[at + 4 : at + 4 + size])
        found.append(fastavro.schemaless_reader(record, schema))
        assert record.tell() == size
        at += 4 + size
    assert found == data.to_pylist(maps_as_pydicts="strict")


@given(ROWS)
def test_records_come_back(rows: list[dict[str, Any]]) -> None:
    data = _rows(rows)
    content = encode_avro_content(AVRO, data)
    block = LogBlock(BlockKind.AVRO, {Header.SCHEMA: AVRO, Header.INSTANT_TIME: "1"}, memoryview(content))
    assert decode_data(block).to_pylist() == data.to_pylist()


DAY, MOMENT = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 300]),
        pa.array([1, None, -3], pa.int32()),
        pa.array(["a", None, "ü" * 100]),
        pa.array([Decimal("1.5"), None, Decimal("-3.25")], pa.decimal128(10, 2)),
        pa.array([DAY, None, DAY]),
        pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        pa.array([1.5, None, -2.0]),
        pa.array([1.5, 2.0, -2.0], pa.float32()),
        pa.array([True, False, None]),
    ],
    ids=lambda values: str(values.type),
)
def test_deletes_come_back(values: pa.Array) -> None:
    keys = pa.array(["k1", "", "k" * 99])
    block = LogBlock(BlockKind.DELETE, {}, memoryview(encode_deletes(keys, "a/b", [values])))
    found = decode_deletes(block, [values.type])
    assert found.keys.equals(keys)
    assert found.partitions.to_pylist() == ["a/b"] * 3
    assert found.ordering[0].equals(values)
    assert found.unconditional.tolist() == values.is_null().to_pylist()


def test_deletes_by_several_ordering_fields_or_none() -> None:
    keys, first, second = pa.array(["a", "b"]), pa.array([1, 2]), pa.array(["x", "y"])
    found = decode_deletes(
        LogBlock(BlockKind.DELETE, {}, memoryview(encode_deletes(keys, "", [first, second]))), [first.type, second.type]
    )
    assert [values.to_pylist() for values in found.ordering] == [[1, 2], ["x", "y"]]
    assert not found.unconditional.any()
    found = decode_deletes(LogBlock(BlockKind.DELETE, {}, memoryview(encode_deletes(keys, ""))))
    assert found.unconditional.all()
    none = decode_deletes(LogBlock(BlockKind.DELETE, {}, memoryview(encode_deletes(keys.slice(0, 0), ""))))
    assert not len(none.keys)


def test_ordering_values_that_hudi_cannot_hold_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="binary"):
        encode_deletes(pa.array(["a"]), "", [pa.array([b"x"])])
