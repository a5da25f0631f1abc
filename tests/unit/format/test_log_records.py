"""Records of data blocks, against fastavro: every type there and back; damage is an error, not a crash."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError, SchemaError
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.log_data import decode_data, decode_in_parts, encode_avro, encode_parquet
from pudi.schema import arrow_to_avro

UTC = datetime.timezone.utc
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "b": (pa.bool_(), st.booleans()),
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "d": (pa.float64(), st.floats(allow_nan=False)),
    "s": (pa.string(), st.text(max_size=12)),
    "y": (pa.binary(), st.binary(max_size=12)),
    "day": (pa.date32(), st.dates(datetime.date(1900, 1, 1))),
    "at": (
        pa.timestamp("us", tz="UTC"),
        st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(UTC)),
    ),
    "c": (pa.decimal128(12, 3), st.decimals(-999_999, 999_999, places=3)),
    "big": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal)),
    "a": (
        pa.list_(pa.field("element", pa.string())),
        st.lists(st.none() | st.text(max_size=3), max_size=4),
    ),
    "aa": (
        pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int32())))),
        st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3), max_size=3),
    ),
    "m": (
        pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())),
        st.dictionaries(st.text(max_size=3), st.none() | st.integers(-9, 9), max_size=3).map(lambda d: list(d.items())),
    ),
    "r": (
        pa.struct(
            [pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.list_(pa.field("element", pa.string())))]
        ),
        st.fixed_dictionaries(
            {"x": st.integers(-9, 9), "y": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2)}
        ),
    ),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in TYPES.items()] + [pa.field("n", pa.int32(), False)])
AVRO = arrow_to_avro(SCHEMA, "t")
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | values for name, (_, values) in TYPES.items()} | {"n": st.integers(-100, 100)}
    ),
    max_size=6,
)


def block(content: bytes, schema: str = AVRO, kind: BlockKind = BlockKind.AVRO) -> LogBlock:
    return LogBlock(kind, {Header.SCHEMA: schema, Header.INSTANT_TIME: "20"}, memoryview(content), 7, "p/.f.log.1")


def by_fastavro(rows: list[dict[str, Any]], schema: str = AVRO) -> bytes:
    parsed = fastavro.parse_schema(json.loads(schema))
    parts = [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(
            out, parsed, {k: dict(v) if k == "m" and v is not None else v for k, v in row.items()}
        )
        parts.append(struct.pack(">i", len(out.getvalue())) + out.getvalue())
    return b"".join(parts)


@given(ROWS)
def test_records_are_read_as_fastavro_writes_them(rows: list[dict[str, Any]]) -> None:
    found = decode_data(block(by_fastavro(rows)))
    assert found.schema.equals(SCHEMA)
    assert found.equals(pa.Table.from_pylist(rows, SCHEMA))


@given(ROWS)
def test_records_are_written_as_fastavro_writes_them(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    written = encode_avro(table, AVRO)
    assert written == by_fastavro(rows)
    sliced = pa.concat_tables([table, table]).slice(len(rows) // 2, len(rows))
    assert decode_data(block(encode_avro(sliced, AVRO))).equals(sliced.combine_chunks())


@given(ROWS, st.sets(st.sampled_from(SCHEMA.names), min_size=1))
def test_columns_that_are_not_wanted_are_passed_over(rows: list[dict[str, Any]], names: set[str]) -> None:
    found = decode_data(block(by_fastavro(rows)), names)
    assert found.equals(pa.Table.from_pylist(rows, SCHEMA).select([n for n in SCHEMA.names if n in names]))


@given(ROWS)
def test_parquet_blocks_come_back(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    found = decode_data(block(encode_parquet(table), kind=BlockKind.PARQUET))
    assert found.to_pylist() == table.to_pylist()
    assert decode_data(block(encode_parquet(table), kind=BlockKind.PARQUET), {"n"}).column_names == ["n"]


OTHER: dict[str, tuple[Any, list[Any]]] = {
    "null last": ({"type": ["string", "null"]}, ["a", None, ""]),
    "millis": ({"type": {"type": "long", "logicalType": "timestamp-millis"}}, [5, -5, 0]),
    "enum": ({"type": {"type": "enum", "name": "e", "symbols": ["x", "y"]}}, ["y", "x", "y"]),
    "fixed": ({"type": {"type": "fixed", "name": "f4", "size": 4}}, [b"abcd", b"\0\1\2\3", b"zzzz"]),
    "bytes decimal": (
        {"type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}]},
        [decimal.Decimal("-1.27"), None, decimal.Decimal("123456789012345678.91")],
    ),
    "uuid": ({"type": {"type": "string", "logicalType": "uuid"}}, ["a", "b", "c"]),
    "one branch": ({"type": ["int"]}, [1, -2, 3]),
}


@pytest.mark.parametrize("name", OTHER)
def test_types_that_pudi_does_not_make_itself(name: str) -> None:
    field, values = OTHER[name]
    schema = json.dumps(
        {"type": "record", "name": "t", "fields": [{"name": "c", **field}, {"name": "z", "type": "int"}]}
    )
    if name == "millis":
        parts = [struct.pack(">ii", 3, 3)]
        parts += [struct.pack(">i", 2) + bytes([(v << 1) ^ (v >> 63), 2]) for v in values]
        content = b"".join(parts)
        expected = [datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(milliseconds=v) for v in values]
    else:
        content, expected = by_fastavro([{"c": v, "z": 1} for v in values], schema), values
    found = decode_data(block(content, schema))
    assert found["c"].to_pylist() == expected
    assert found["z"].to_pylist() == [1, 1, 1]
    assert encode_avro(found, schema) == content


@pytest.mark.parametrize("kind", ["timestamp-millis", "local-timestamp-millis"])
@pytest.mark.parametrize("millis", [-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 // 1000 + 1, -(2**63) // 1000 - 1])
def test_milliseconds_beyond_all_times_are_corrupt(kind: str, millis: int) -> None:
    """In microseconds the least long would be 1970."""
    fields = [{"name": "c", "type": {"type": "long", "logicalType": kind}}]
    plain = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": "long"}]})
    content = by_fastavro([{"c": millis}], plain)
    with pytest.raises(CorruptError, match="a timestamp is out of range"):
        decode_data(block(content, json.dumps({"type": "record", "name": "t", "fields": fields})))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_of_every_length(numbers: list[int]) -> None:
    edges = [sign * 2**bits + step for bits in range(0, 63, 7) for sign in (1, -1) for step in (-1, 0, 1)]
    schema = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": "long"}]})
    rows = [{"c": n} for n in [*numbers, *edges]]
    content = by_fastavro(rows, schema)
    assert decode_data(block(content, schema))["c"].to_pylist() == [row["c"] for row in rows]
    assert encode_avro(pa.Table.from_pylist(rows), schema) == content


def test_lists_in_several_blocks_with_their_sizes() -> None:
    schema = json.dumps(
        {"type": "record", "name": "t", "fields": [{"name": "c", "type": {"type": "array", "items": "int"}}]}
    )
    record = bytes([3, 4, 2, 4, 2, 6, 0])  # -2 items in 2 bytes: 1, 2; 1 item: 3; end
    content = struct.pack(">iii", 3, 1, len(record)) + record
    assert decode_data(block(content, schema))["c"].to_pylist() == [[1, 2, 3]]


def test_nan_comes_back() -> None:
    table = pa.table({"c": pa.array([math.nan, -0.0])})
    schema = arrow_to_avro(table.schema, "t")
    found = decode_data(block(encode_avro(table, schema), schema))["c"].to_pylist()
    assert math.isnan(found[0])
    assert math.copysign(1, found[1]) == -1


WHOLE = by_fastavro(
    [
        {"b": True, "i": 5, "l": 2**40, "f": 1.5, "d": 2.5, "s": "text", "y": b"bytes",
         "day": datetime.date(2026, 1, 1),
         "at": datetime.datetime(2026, 1, 1, tzinfo=UTC), "c": decimal.Decimal("1.234"), "big": decimal.Decimal(7),
         "a": ["x", None], "aa": [[1], None], "m": [("k", 1)], "r": {"x": 1, "y": ["z"]}, "n": 4},
    ]
    * 3
)  # fmt: skip


@given(st.integers(0, len(WHOLE) - 1))
def test_a_content_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError) as raised:
        decode_data(block(WHOLE[:size]))
    assert raised.value.path == "p/.f.log.1"
    assert raised.value.instant == "20"


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_another_value_or_corrupt(at: int, mask: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= mask
    try:
        decode_data(block(bytes(damaged))).validate(full=True)
    except CorruptError:
        return


@given(st.binary(max_size=120), st.integers(0, 4))
def test_any_bytes_are_no_crash(junk: bytes, count: int) -> None:
    content = struct.pack(">iii", 3, count, len(junk)) + junk
    try:
        decode_data(block(content))
    except CorruptError:
        return


@pytest.mark.parametrize("read", [decode_data, lambda found: list(decode_in_parts(found, None, 4))])
@pytest.mark.parametrize("count", [-1, 0, 1, 2, 2**31 - 1, 4])
def test_a_count_of_records_is_not_believed(count: int, read: Callable[[LogBlock], object]) -> None:
    """One that is too small would lose records without a word."""
    with pytest.raises(CorruptError, match=r"records|within a record"):
        read(block(struct.pack(">ii", 3, count) + WHOLE[8:]))
    read(block(struct.pack(">ii", 3, 3) + WHOLE[8:]))


@pytest.mark.parametrize("length", [2**60, -1, -(2**62)])
def test_lengths_inside_a_record_are_not_believed(length: int) -> None:
    encoded = np.array([length], dtype=np.int64)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", int(encoded[0]))
    for inner in ("string", {"type": "array", "items": "int"}, {"type": "map", "values": "string"}, "bytes"):
        schema = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": inner}]})
        record = out.getvalue() + b"\2\2"
        with pytest.raises(CorruptError, match="can't be decoded"):
            decode_data(block(struct.pack(">iii", 3, 1, len(record)) + record, schema))


@pytest.mark.parametrize(
    "schema", ["", "{", "[]", '{"type":"record","name":"t","fields":[{"name":"a","type":"what"}]}']
)
def test_a_schema_that_is_none_is_corrupt(schema: str) -> None:
    with pytest.raises(CorruptError):
        decode_data(block(WHOLE, schema))


def test_a_schema_that_lies_is_corrupt() -> None:
    schema = json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": "double"}]})
    with pytest.raises(CorruptError, match="longer than its fields"):
        decode_data(block(WHOLE, schema))


def test_what_is_not_there_is_refused_before_anything_is_written() -> None:
    with pytest.raises(SchemaError, match="'b' isn't there"):
        encode_avro(pa.table({"n": pa.array([1], pa.int32())}), AVRO)
    schema = arrow_to_avro(pa.schema([pa.field("n", pa.int32(), False)]), "t")
    with pytest.raises(SchemaError, match="'n' must not be null"):
        encode_avro(pa.table({"n": pa.array([1, None], pa.int32())}), schema)
    with pytest.raises(SchemaError, match="is int64 where"):
        encode_avro(pa.table({"n": [1]}), schema)


def test_blocks_of_no_records_are_refused_by_name() -> None:
    with pytest.raises(NotSupportedError, match="COMMAND"):
        decode_data(block(b"", kind=BlockKind.COMMAND))


def test_parquet_that_is_none_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="parquet block"):
        decode_data(block(b"PAR1PAR1", kind=BlockKind.PARQUET))
