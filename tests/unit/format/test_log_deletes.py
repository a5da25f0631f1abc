"""Delete blocks, against fastavro with Hudi's own schema: every kind of ordering value there and back."""

from __future__ import annotations

import datetime
import decimal
import io
import struct
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.delete_encode import encode_deletes
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.log_deletes import decode_deletes


def _wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


WRAPPERS = [
    _wrapper("BooleanWrapper", "boolean"),
    _wrapper("IntWrapper", "int"),
    _wrapper("LongWrapper", "long"),
    _wrapper("FloatWrapper", "float"),
    _wrapper("DoubleWrapper", "double"),
    _wrapper("BytesWrapper", "bytes"),
    _wrapper("StringWrapper", "string"),
    _wrapper("DateWrapper", "int"),
    _wrapper("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    _wrapper("TimeMicrosWrapper", "long"),
    _wrapper("TimestampMicrosWrapper", "long"),
]
IN_ARRAYS = [*[w["name"] for w in WRAPPERS], "ArrayWrapper", _wrapper("LocalDateWrapper", "int")]
ARRAY = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [{"name": "wrappedValues", "type": ["null", {"type": "array", "items": ["null", *IN_ARRAYS]}]}],
}
DELETE = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *WRAPPERS, ARRAY]},
    ],
}
LIST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": DELETE}}],
    }
)


def block(content: bytes) -> LogBlock:
    return LogBlock(BlockKind.DELETE, {Header.INSTANT_TIME: "20"}, memoryview(content), 3, "p/.f.log.1")


def content(rows: list[tuple[Any, Any, Any]]) -> bytes:
    out = io.BytesIO()
    records = [dict(zip(("recordKey", "partitionPath", "orderingVal"), row, strict=True)) for row in rows]
    fastavro.schemaless_writer(out, LIST, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(out.getvalue())) + out.getvalue()


KEYS = st.text(max_size=8)
# a key of the byte 2 over and over looks like the beginning of deletes
TRICKY = st.text(alphabet="\x02\x04a", max_size=8)
PATHS = st.none() | st.sampled_from(["", "nyc", "\x02\x02"])


@given(st.lists(st.tuples(KEYS | TRICKY, PATHS, st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=12))
def test_deletes_come_back_with_their_ordering_values(rows: list[tuple[str, str | None, int | None]]) -> None:
    by_hudi = content([(k, p, None if o is None else ("LongWrapper", {"value": o})) for k, p, o in rows])
    found = decode_deletes(block(by_hudi), [pa.int64()])
    assert found.keys.to_pylist() == [row[0] for row in rows]
    assert found.partitions.to_pylist() == [row[1] for row in rows]
    assert found.ordering[0].to_pylist() == [row[2] for row in rows]
    assert found.unconditional.tolist() == [row[2] is None for row in rows]
    with_default = content([(k, p, (("IntWrapper", {"value": 0}) if o is None else ("LongWrapper", {"value": o}))) for k, p, o in rows])  # fmt: skip # noqa: E501
    assert encode_deletes(found.keys, found.partitions, found.ordering, found.unconditional) == with_default


KINDS = {
    "BooleanWrapper": (pa.bool_(), True, True),
    "IntWrapper": (pa.int32(), 5, 5),
    "FloatWrapper": (pa.float32(), 1.5, 1.5),
    "DoubleWrapper": (pa.float64(), 2.5, 2.5),
    "BytesWrapper": (pa.binary(), b"ab", b"ab"),
    "StringWrapper": (pa.string(), "ab", "ab"),
    "DateWrapper": (pa.date32(), 1, datetime.date(1970, 1, 2)),
    "DecimalWrapper": (pa.decimal128(10, 2), decimal.Decimal("-1.25"), decimal.Decimal("-1.25")),
    "TimestampMicrosWrapper": (pa.timestamp("us"), 5, datetime.datetime(1970, 1, 1, 0, 0, 0, 5)),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_ordering_value(name: str) -> None:
    kind, stored, value = KINDS[name]
    wrapped = (name, {"value": stored})
    default = ("IntWrapper", {"value": 0})
    array = ("ArrayWrapper", {"wrappedValues": [wrapped, None, ("LongWrapper", {"value": 7})]})
    rows = [("a", "p", wrapped), ("b", "p", default), ("c", None, array), ("d", "p", None)]
    found = decode_deletes(block(content(rows)), [kind, pa.string(), pa.int64()])
    assert found.keys.to_pylist() == ["a", "b", "c", "d"]
    assert found.ordering[0].to_pylist() == [value, None, value, None]
    assert found.ordering[1].to_pylist() == [None] * 4
    assert found.ordering[2].to_pylist() == [None, None, 7, None]
    assert found.unconditional.tolist() == [False, True, False, True]
    again = block(encode_deletes(found.keys, found.partitions, (found.ordering[0],), found.unconditional))
    assert decode_deletes(again, [kind]).ordering[0].to_pylist() == [value, None, value, None]
    both = (found.ordering[0], found.ordering[2])
    again = block(encode_deletes(found.keys, found.partitions, both, found.unconditional))
    assert [o.to_pylist()[2] for o in decode_deletes(again, [kind, pa.int64()]).ordering] == [value, 7]


@pytest.mark.parametrize("name", KINDS)
def test_null_among_several_ordering_values(name: str) -> None:
    """Hudi and pudi write it as the int 0, which is a value of ints and days only."""
    kind, stored, value = KINDS[name]
    nulls = encode_deletes(pa.array(["a"]), pa.array(["p"]), (pa.array([7], pa.int64()), pa.array([None], kind)))
    default, wrapped = ("IntWrapper", {"value": 0}), (name, {"value": stored})
    arrays = [[("LongWrapper", {"value": 7}), default], [default, wrapped]]
    first, second = (("ArrayWrapper", {"wrappedValues": each}) for each in arrays)
    assert nulls == content([("a", "p", first)])
    found = decode_deletes(block(content([("a", "p", first), ("b", "p", second)])), [pa.int64(), kind])
    missing = {pa.int32(): 0, pa.date32(): datetime.date(1970, 1, 1)}.get(kind)
    assert [each.to_pylist() for each in found.ordering] == [[7, None], [missing, value]]


def test_a_block_without_deletes() -> None:
    none = pa.array([], pa.string())
    assert encode_deletes(none, none) == content([])
    assert len(decode_deletes(block(content([]))).keys) == 0


WHOLE = content([(f"key-{n}", "nyc", ("LongWrapper", {"value": n})) for n in range(8)])


@given(st.integers(0, len(WHOLE) - 1))
def test_a_content_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError):
        decode_deletes(block(WHOLE[:size]), [pa.int64()])
    if size > 8:
        with pytest.raises(CorruptError):
            decode_deletes(block(struct.pack(">ii", 3, size - 8) + WHOLE[8:size]), [pa.int64()])


@given(st.integers(4, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_another_value_or_corrupt(at: int, mask: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= mask
    try:
        found = decode_deletes(block(bytes(damaged)), [pa.int64()])
    except CorruptError:
        return
    assert len(found.keys) == len(found.unconditional) == len(found.ordering[0])


@given(st.binary(max_size=80))
def test_any_bytes_are_no_crash(junk: bytes) -> None:
    try:
        decode_deletes(block(struct.pack(">ii", 3, len(junk)) + junk), [pa.int64(), pa.string()])
    except CorruptError:
        return


def test_many_deletes_are_read_at_once() -> None:
    count = 30_000
    keys = pa.array([f"{n:032}" for n in range(count)])
    paths = pa.array(["p"] * count)
    order = pa.array(np.arange(count) - count // 2)
    found = decode_deletes(block(encode_deletes(keys, paths, (order,))), [pa.int64()])
    assert found.keys.equals(keys)
    assert found.ordering[0].equals(order)
    with pytest.raises(NotSupportedError, match="time"):
        encode_deletes(keys[:1], paths[:1], (pa.array([None], pa.time64("us")),))
