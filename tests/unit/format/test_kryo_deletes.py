"""Delete blocks of versions 1 and 2: bytes of hudi-common 0.10.1, 0.12.3 and 0.13.1 (tests/golden/KryoDeletes.java)."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format.log_block import BlockKind, Header, LogBlock
from pudi.format.log_deletes import Deletes, decode_deletes

SAMPLES: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("kryo_deletes.json").read_text())
MADE = [(release, name) for release, made in SAMPLES.items() for name in made]
NEWER = sorted(set(SAMPLES) - {"0.10.1"})


def block(content: bytes) -> LogBlock:
    return LogBlock(BlockKind.DELETE, {Header.INSTANT_TIME: "20260101000000000"}, memoryview(content), 0, "f.log")


def content(release: str, name: str) -> bytes:
    payload = base64.b64decode(SAMPLES[release][name])
    return struct.pack(">ii", 1 if "keys" in name else 2, len(payload)) + payload


def decoded(release: str, name: str, *ordering: pa.DataType) -> Deletes:
    return decode_deletes(block(content(release, name)), ordering)


@pytest.mark.parametrize("release", SAMPLES)
def test_keys(release: str) -> None:
    found = decoded(release, "keys", pa.int64())
    long = "x" * 200 + "é"
    assert found.keys.to_pylist() == ["k1", "k2", "k3", "ključ", "", long, "twice", "twice"]
    assert found.partitions.to_pylist() == ["nyc", "nyc", "nyc", None, "😀", "a", "p", "p"]
    assert found.unconditional.all()
    assert found.ordering[0].null_count == 8
    assert len(decoded(release, "no keys").keys) == 0


LONGS = [300, -7000000000, 0, 2**63 - 1, -(2**63)]
ORDERS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("none", pa.int32(), [None, 7, None]),
    ("int", pa.int32(), [1, -5, None, -(2**31)]),
    ("int", pa.int64(), [1, -5, None, -(2**31)]),
    ("long", pa.int64(), LONGS),
    ("text", pa.string(), ["abc", "abc", "zürich"]),
    ("float", pa.float32(), [2.5, -0.5]),
    ("double", pa.float64(), [1.5, -1e300]),
    ("boolean", pa.bool_(), [True, False]),
    ("short", pa.int32(), [3, -3]),
    ("decimal", pa.decimal128(30, 3), [decimal.Decimal("12.340"), decimal.Decimal("-99999999999999999999.999")]),
    ("utf8", pa.string(), ["abc", "zürich"]),
    ("day", pa.date32(), [datetime.date(2020, 1, 2), datetime.date(1969, 12, 31)]),
]


@pytest.mark.parametrize("release", NEWER)
@pytest.mark.parametrize(("name", "kind", "expected"), ORDERS)
def test_ordering_values(release: str, name: str, kind: pa.DataType, expected: list[Any]) -> None:
    found = decoded(release, name, kind)
    assert found.keys.to_pylist() == [f"k{n}" for n in range(len(expected))]
    assert set(found.partitions.to_pylist()) == {"nyc"}
    assert found.ordering[0].type == kind
    assert found.ordering[0].to_pylist() == expected
    assert found.unconditional.tolist() == [value is None for value in expected]


def big_decimal(unscaled: int, scale: int) -> bytes:
    raw = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    length = len(raw) + 1
    return (bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])) + raw + bytes([2 * scale])


def with_decimal(release: str, unscaled: int, scale: int) -> LogBlock:
    """The block of two decimals, the first one replaced."""
    payload = base64.b64decode(SAMPLES[release]["decimal"]).replace(big_decimal(12340, 3), big_decimal(unscaled, scale))
    return block(struct.pack(">ii", 2, len(payload)) + payload)


@pytest.mark.parametrize("release", NEWER)
@pytest.mark.parametrize("unscaled", [10**38 - 1, 1 - 10**38, 12345678901234567890123456789012345678, 10**28 + 1, 0])
def test_decimals_keep_all_digits(release: str, unscaled: int) -> None:
    """Python's own context keeps 28, so that of two versions of a record the older one could win."""
    kind = pa.decimal128(38, 3)
    found = decode_deletes(with_decimal(release, unscaled, 3), [kind])
    assert found.ordering[0].to_pylist()[0] == decimal.Decimal(f"{unscaled}E-3")


@pytest.mark.parametrize("release", NEWER)
@pytest.mark.parametrize("digits", [39, 76, 90, 200])
def test_decimals_of_more_digits_than_the_column_are_refused(release: str, digits: int) -> None:
    with pytest.raises(CorruptError, match=r"an ordering value is no decimal128|a number has \d+ bytes"):
        decode_deletes(with_decimal(release, 10**digits - 1, 3), [pa.decimal128(38, 3)])


@pytest.mark.parametrize("release", NEWER)
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_timestamps(release: str, unit: str) -> None:
    found = decoded(release, "timestamp", pa.timestamp(unit, "UTC"))
    factor = 1 if unit == "ms" else 1000
    assert found.ordering[0].cast(pa.int64()).to_pylist() == [1700000000123 * factor, factor]
    raw = decoded(release, "long", pa.timestamp(unit, "UTC"))  # Avro's number, in the column's unit
    assert raw.ordering[0].cast(pa.int64()).to_pylist() == LONGS


@pytest.mark.parametrize("release", NEWER)
def test_what_is_refused(release: str) -> None:
    with pytest.raises(NotSupportedError, match=r"orders records by java\.util\.Date.*f\.log"):
        decoded(release, "other", pa.int64())
    with pytest.raises(CorruptError, match="an ordering value is no int32"):
        decoded(release, "text", pa.int32())
    with pytest.raises(NotSupportedError, match="2 ordering fields"):
        decoded(release, "long", pa.int64(), pa.int64())


@pytest.mark.parametrize(("release", "name"), MADE)
def test_cut_off_anywhere(release: str, name: str) -> None:
    whole = content(release, name)[8:]
    version = 1 if "keys" in name else 2
    for length in range(len(whole)):
        with pytest.raises((CorruptError, NotSupportedError)):
            decode_deletes(block(struct.pack(">ii", version, length) + whole[:length]), [pa.string()])
    with pytest.raises((CorruptError, NotSupportedError)):
        decode_deletes(block(struct.pack(">ii", version, len(whole) + 1) + whole + b"\1"), [pa.string()])


@given(st.sampled_from(MADE), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_no_crash(made: tuple[str, str], changes: list[tuple[int, int]]) -> None:
    whole = bytearray(content(*made))
    for place, value in changes:
        whole[8 + place % (len(whole) - 8)] = value
    with contextlib.suppress(CorruptError, NotSupportedError):
        decode_deletes(block(bytes(whole)), [pa.int64()])


def test_an_array_of_another_class_is_refused() -> None:
    payload = base64.b64decode(SAMPLES["0.13.1"]["none"])
    with pytest.raises(CorruptError, match="isn't an array"):
        decode_deletes(block(struct.pack(">ii", 1, len(payload)) + payload), [pa.int64()])


def test_a_great_count_allocates_nothing() -> None:
    payload = base64.b64decode(SAMPLES["0.13.1"]["no keys"])[:-1] + b"\xff\xff\xff\xff\x7f"
    with pytest.raises(CorruptError, match="implausible"):
        decode_deletes(block(struct.pack(">ii", 1, len(payload)) + payload))
