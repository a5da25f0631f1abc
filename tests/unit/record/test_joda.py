"""Date patterns against what Joda-Time printed and read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.record import joda

MOMENTS = pa.array([1700000000123, -62135596800000, -1]).cast(pa.timestamp("ms"))
PRINTED = {
    "yyyy-MM-dd": ["2023-11-14", "0001-01-01", "1969-12-31"],
    "y": ["2023", "1", "1969"],
    "yy": ["23", "01", "69"],
    "yyyyy": ["02023", "00001", "01969"],
    "x-w-e": ["2023-46-2", "1-1-1", "1970-1-3"],
    "xx": ["23", "01", "70"],
    "xxxx-ww": ["2023-46", "0001-01", "1970-01"],
    "D DDD": ["318 318", "1 001", "365 365"],
    "C CC": ["20 20", "0 00", "19 19"],
    "H:k:h:K": ["22:22:10:10", "0:24:12:0", "23:23:11:11"],
    "S SS SSSS SSSSSS": ["1 12 1230 123000", "0 00 0000 000000", "9 99 9990 999000"],
    "Z ZZ": ["+0000 +00:00"] * 3,
    "'a'yyyy''dd": ["a2023'14", "a0001'01", "a1969'31"],
    "é yyyy#$%": ["é 2023#$%", "é 0001#$%", "é 1969#$%"],
}
READ = [
    ("2023-1-5", "yyyy-MM-dd", 1672876800000),
    ("2023115", "yyyyMMdd", 1699142400000),
    ("202311", "yyyyMMdd", None),
    ("20231501", "yyyyddMM", 1673740800000),
    ("2023-1", "yyyy-MMdd", None),
    ("2023-01-01 12:00:00.", "yyyy-MM-dd HH:mm:ss.SSS", None),
    ("2023-01-01 12:00:00.12", "yyyy-MM-dd HH:mm:ss.SSS", 1672574400120),
    ("2023-01-01 12:00:00.1234", "yyyy-MM-dd HH:mm:ss.SSS", None),
    ("2023-01-01 12:00:00.999999", "yyyy-MM-dd HH:mm:ss.SSSSSS", 1672574400999),
    ("+2023-01-01", "yyyy-MM-dd", 1672531200000),
    ("23-01-01", "yyyy-MM-dd", -61441372800000),
    ("2023-02-29", "yyyy-MM-dd", None),
    ("2023-01-01 24", "yyyy-MM-dd HH", None),
    ("2023-01-01 24", "yyyy-MM-dd kk", 1672531200000),
    ("2023", "yyyy", 1672531200000),
    ("2023-060", "yyyy-DDD", 1677628800000),
    ("2023-01-01t10", "yyyy-MM-dd'T'HH", 1672567200000),
    ("2023-01-01 é", "yyyy-MM-dd É", 1672531200000),
    (" 2023-01-01", "yyyy-MM-dd", None),
    ("2023-01-01\n", "yyyy-MM-dd", None),
    ("２０２３-01-01", "yyyy-MM-dd", None),
    ("2023-01-01 1:2:3", "yyyy-MM-dd HH:mm:ss", 1672534923000),
]
OFFSETS = {"Z": 0, "z": 0, "+0100": 3600000, "+01:00": 3600000, "+01": 3600000, "-0130": -5400000}


@pytest.mark.parametrize("pattern", PRINTED)
def test_printing(pattern: str) -> None:
    joda.check_output(pattern)
    assert joda.format_moments(MOMENTS, pattern).to_pylist() == PRINTED[pattern]


def test_printing_the_offset() -> None:
    assert joda.format_moments(MOMENTS[:1], "ZZ Z", -5400000).to_pylist() == ["-01:30 -0130"]


@pytest.mark.parametrize(("text", "pattern", "expected"), READ)
def test_reading(text: str, pattern: str, expected: int | None) -> None:
    joda.check_input(pattern)
    found, readable, _ = joda.parse_texts(pa.array([text]), [pattern])
    assert readable.tolist() == [expected is not None]
    if expected is not None:
        assert found.cast(pa.int64()).to_pylist() == [expected]


def test_reading_offsets() -> None:
    texts = pa.array([f"2023{offset}" for offset in OFFSETS])
    _, readable, offsets = joda.parse_texts(texts, ["yyyyZ"])
    assert readable.all()
    assert offsets.tolist() == list(OFFSETS.values())


def test_the_first_pattern_of_its_form_reads_a_text() -> None:
    texts = pa.array(["2023-01-02", "2023/02/01", "2023-13-01", "x"])
    found, readable, _ = joda.parse_texts(texts, ["yyyy-MM-dd", "yyyy/dd/MM", "yyyy-dd-MM"])
    assert readable.tolist() == [True, True, False, False]
    assert found.cast(pa.int64()).to_pylist()[:2] == [1672617600000, 1672617600000]


@pytest.mark.parametrize("pattern", ["", "b", "yyyy L"])
def test_no_patterns(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError):
        joda.check_output(pattern)


@pytest.mark.parametrize("pattern", ["MMM", "EEE", "a", "G", "z", "ZZZ"])
def test_patterns_of_language_are_not_printed(pattern: str) -> None:
    with pytest.raises(NotSupportedError):
        joda.check_output(pattern)


@pytest.mark.parametrize(
    "pattern", ["yy", "MM-dd", "yyyy yyyy", "yyyy H k", "yyyy D d", "yyyy'1'", "yyyy ww", "yyyy MMM"]
)
def test_patterns_that_leave_something_open_are_not_read(pattern: str) -> None:
    with pytest.raises(NotSupportedError):
        joda.check_input(pattern)
