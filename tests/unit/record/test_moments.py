"""Folders named by time, as Hudi 1.2.0 made them of the same values (bulk_insert and upsert alike)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.record import KeyGenerator, Moments, check_key_types, joda, partition_values

EXACT = "yyyy/MM/dd HH:mm:ss.SSS"
OFFSET_OR_DAY = ("yyyy-MM-dd'T'HH:mm:ssZ", "yyyy-MM-dd")


def generator(
    kind: str, pattern: str = EXACT, *, hive: bool = False, encode: bool = False, **more: Any
) -> KeyGenerator:
    zones = {"input_zone": "UTC", "output_zone": "UTC"}
    return KeyGenerator(
        "TIMESTAMP", ("id",), ("ts",), hive, encode, moments=Moments(kind, pattern, **{**zones, **more})
    )


def paths(keys: KeyGenerator, column: pa.Array) -> list[str]:
    table = pa.table({"id": [str(n) for n in range(len(column))], "ts": column})
    check_key_types(keys, table.schema)
    found: list[str] = keys.partition_paths(table).to_pylist()
    return found


@pytest.mark.parametrize(
    ("keys", "column", "expected"),
    [
        (
            generator("UNIX_TIMESTAMP"),
            pa.array([0, -1, 1700000000, None, 253402300799]),
            ["1970/01/01 00:00:00.000", "1969/12/31 23:59:59.000", "2023/11/14 22:13:20.000",
             "1970/01/01 00:00:01.000", "9999/12/31 23:59:59.000"],
        ),
        (
            generator("EPOCHMILLISECONDS"),
            pa.array([0, -1, 1700000000123, None]),
            ["1970/01/01 00:00:00.000", "1969/12/31 23:59:59.999", "2023/11/14 22:13:20.123",
             "1970/01/01 00:00:00.001"],
        ),
        (
            generator("EPOCHMICROSECONDS"),
            pa.array([-1, -1500, 1700000000123456, None]),
            ["1970/01/01 00:00:00.000", "1969/12/31 23:59:59.999", "2023/11/14 22:13:20.123",
             "1970/01/01 00:00:00.000"],
        ),
        (
            generator("SCALAR", unit="DAYS"),
            pa.array([-1, 19000, None], pa.int32()),
            ["1969/12/31 00:00:00.000", "2022/01/08 00:00:00.000", "1970/01/02 00:00:00.000"],
        ),
        (
            generator("SCALAR", unit="nanoseconds"),
            pa.array([-1500000, 1700000000123456789, None]),
            ["1969/12/31 23:59:59.999", "2023/11/14 22:13:20.123", "1970/01/01 00:00:00.000"],
        ),
        (
            generator("UNIX_TIMESTAMP"),
            pa.array([-1.9, 1700000000.9, None]),
            ["1969/12/31 23:59:59.000", "2023/11/14 22:13:20.000", "1970/01/01 00:00:01.000"],
        ),
        (
            generator("SCALAR", unit="DAYS"),
            pa.array([dt.date(2023, 1, 2), dt.date(1969, 12, 31), None]),
            ["2023/01/02 00:00:00.000", "1969/12/31 00:00:00.000", "1970/01/02 00:00:00.000"],
        ),
        (
            generator("EPOCHMICROSECONDS"),
            pa.array([dt.datetime(2023, 1, 2, 3, 4, 5, 678901), None], pa.timestamp("us")),
            ["2023/01/02 03:04:05.678", "1970/01/01 00:00:00.000"],
        ),
        (
            generator("DATE_STRING", input_formats=OFFSET_OR_DAY),
            pa.array(["2023-01-02", "2023-01-02T03:04:05+0100", "2023-1-2T3:4:5Z", None]),
            ["2023/01/02 00:00:00.000", "2023/01/02 02:04:05.000", "2023/01/02 03:04:05.000",
             "1970/01/01 00:00:00.000"],
        ),
        (
            generator("MIXED", input_formats=OFFSET_OR_DAY, input_zone="America/New_York", output_zone="Asia/Tokyo"),
            pa.array(["2023-01-02", "2023-01-02T03:04:05+0100", "2023-1-2T3:4:5Z", None]),
            ["2023/01/02 14:00:00.000", "2023/01/02 11:04:05.000", "2023/01/02 12:04:05.000",
             "1970/01/01 09:00:00.000"],
        ),
        (
            generator("EPOCHMILLISECONDS", "yyyy-MM-dd HH:mm/ss", hive=True, encode=True),
            pa.array([1700000000123, None]),
            ["ts=2023-11-14 22%3A13%2F20", "ts=1970-01-01 00%3A00%2F00"],
        ),
    ],
    ids=lambda value: value.moments.kind if isinstance(value, KeyGenerator) else "",
)  # fmt: skip
def test_as_hudi(keys: KeyGenerator, column: pa.Array, expected: list[str]) -> None:
    assert paths(keys, column) == expected


@pytest.mark.parametrize(
    ("keys", "column"),
    [
        (generator("DATE_STRING", input_formats=("yyyy-MM-dd",)), pa.array([""])),
        (generator("DATE_STRING", input_formats=("yyyy-MM-dd",)), pa.array(["2023-02-29"])),
        (generator("DATE_STRING", input_formats=("yyyyMMdd",)), pa.array(["202311"])),
        (generator("DATE_STRING", input_formats=("yyyy-MM-dd HH:mm",), input_zone="America/New_York"),
         pa.array(["2023-03-12 02:30"])),
        (generator("UNIX_TIMESTAMP"), pa.array([253402300800])),
        (generator("UNIX_TIMESTAMP"), pa.array([2**62])),
        (generator("UNIX_TIMESTAMP"), pa.array([float("nan")])),
    ],
)  # fmt: skip
def test_values_that_are_no_moment_are_refused(keys: KeyGenerator, column: pa.Array) -> None:
    with pytest.raises(InvalidArgumentError, match="'ts'"):
        paths(keys, column)


@pytest.mark.parametrize(
    ("keys", "column"),
    [
        (generator("UNIX_TIMESTAMP"), pa.array(["1"])),
        (generator("MIXED", input_formats=("yyyy",)), pa.array([1])),
        (generator("UNIX_TIMESTAMP"), pa.array([True])),
        (generator("EPOCHMILLISECONDS"), pa.array([dt.datetime(2023, 1, 2)], pa.timestamp("us", "UTC"))),
        (generator("EPOCHMILLISECONDS"), pa.array([1], pa.decimal128(9, 2))),
        (generator("UNIX_TIMESTAMP", "yyyy-MMM"), pa.array([1])),
        (generator("UNIX_TIMESTAMP", "hh a"), pa.array([1])),
        (generator("UNIX_TIMESTAMP", output_zone="PST"), pa.array([1])),
        (generator("UNIX_TIMESTAMP", output_zone=None), pa.array([1])),
        (generator("DATE_STRING", input_formats=("yyyy-MM-dd",), input_zone=None), pa.array(["2023-01-01"])),
        (generator("DATE_STRING", input_formats=("yy-MM-dd",)), pa.array(["23-01-01"])),
        (generator("DATE_STRING", input_formats=("MM-dd",)), pa.array(["01-01"])),
    ],
)
def test_what_writers_may_not_agree_on_is_refused(keys: KeyGenerator, column: pa.Array) -> None:
    with pytest.raises(NotSupportedError):
        paths(keys, column)


@pytest.mark.parametrize(
    "keys",
    [
        generator("UNIX_TIMESTAMP", "bbb"),
        generator("UNIX_TIMESTAMP", ""),
        generator("SCALAR", unit="WEEKS"),
        generator("MONTHS"),
        generator("DATE_STRING"),
        KeyGenerator("TIMESTAMP", ("id",), ("ts",)),
        KeyGenerator("CUSTOM", ("id",), ("ts",)),
        KeyGenerator("CUSTOM", ("id",), ("ts",), partition_types=("DAILY",)),
    ],
)
def test_settings_that_make_no_folders_are_refused(keys: KeyGenerator) -> None:
    with pytest.raises(InvalidArgumentError):
        keys.check()


@given(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    st.sampled_from(["yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMddHHmmssSSS", "yyyy/DDD kk.mm.ss,SSS", "'T'M/d/yyyy H:m:s.SSS"]),
)
def test_what_is_printed_reads_back(moment: dt.datetime, pattern: str) -> None:
    millis = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)
    text = joda.format_moments(pa.array([millis]).cast(pa.timestamp("ms")), pattern)
    joda.check_input(pattern)
    found, readable, _ = joda.parse_texts(text, [pattern])
    assert readable.all()
    assert found.cast(pa.int64()).to_pylist() == [millis]


def test_pruning_knows_plain_columns_beside_moments() -> None:
    schema = pa.schema([("city", pa.string()), ("ts", pa.int64())])
    moments = Moments("EPOCHMILLISECONDS", "yyyy/MM", output_zone="UTC")
    keys = KeyGenerator("CUSTOM", ("id",), ("city", "ts"), partition_types=("SIMPLE", "TIMESTAMP"), moments=moments)
    assert partition_values("nyc/2023/11", keys, schema) == {"city": "nyc"}
    assert partition_values("new/york/2023/11", keys, schema) is None
    assert partition_values("nyc/2023", keys, schema) is None
    encoded = KeyGenerator(
        "CUSTOM", ("id",), ("city", "ts"), True, True, partition_types=("SIMPLE", "TIMESTAMP"), moments=moments
    )
    assert partition_values("city=new%2Fyork/ts=2023%2F11", encoded, schema) == {"city": "new/york"}
    untyped = KeyGenerator("CUSTOM", ("id",), ("city", "ts"), moments=moments)
    assert partition_values("nyc/2023/11", untyped, schema) is None
    by_time = KeyGenerator("TIMESTAMP", ("id",), ("ts",), moments=moments)
    assert partition_values("2023/11", by_time, schema) == {}
