"""Texts of floats and doubles beside those that Java 17 gave."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.schema.java_numbers import numbers_of_texts, texts_of_numbers

DOUBLES = {
    1.0: "1.0",
    -2.25: "-2.25",
    0.001: "0.001",
    0.00099: "9.9E-4",
    0.002: "0.002",
    1.5e-5: "1.5E-5",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    1e10: "1.0E10",
    123456789.0: "1.23456789E8",
    1 / 3: "0.3333333333333333",
    2.0**62: "4.6116860184273879E18",
    2.0**63: "9.223372036854776E18",
    9007199254740992.0: "9.007199254740992E15",
    2.330279845970871e16: "2.3302798459708712E16",
    8.41e21: "8.409999999999999E21",
    1e22: "1.0E22",
    1e23: "9.999999999999999E22",
    2e23: "1.9999999999999998E23",
    3.6900000000000003e25: "3.6900000000000002E25",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    5e-324: "4.9E-324",
    1e-323: "1.0E-323",
    1.7976931348623157e308: "1.7976931348623157E308",
    0.0: "0.0",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}
FLOATS = {
    0.1: "0.1",
    1 / 3: "0.33333334",
    123456789.0: "1.23456792E8",
    1517882.25: "1517882.2",
    9007199254740992.0: "9.0071993E15",
    2e23: "2.0E23",
    2e-44: "2.0E-44",
    1.4e-45: "1.4E-45",
    3.4028234663852886e38: "3.4028235E38",
}


@pytest.mark.parametrize(("kind", "known"), [(pa.float64(), DOUBLES), (pa.float32(), FLOATS)], ids=str)
def test_numbers_are_written_as_by_java(kind: pa.DataType, known: dict[float, str]) -> None:
    numbers = pa.array(known, pa.float64()).cast(kind)
    texts = texts_of_numbers(numbers)
    assert texts.to_pylist() == list(known.values())
    assert numbers_of_texts(texts, kind).equals(numbers)


def test_nothing_and_no_number() -> None:
    assert texts_of_numbers(pa.array([None, math.nan, -0.0])).to_pylist() == [None, "NaN", "-0.0"]
    wrong = [
        "",
        "1",
        "1.",
        ".5",
        "1e5",
        "1.0E",
        "1.0E+5",
        "0x1.0",
        "inf",
        " 1.0",
        "1.0\n",
        "__HIVE_DEFAULT_PARTITION__",
    ]
    assert numbers_of_texts(pa.array([*wrong, None]), pa.float64()).null_count == len(wrong) + 1


@pytest.mark.parametrize(("kind", "width"), [(pa.float64(), 64), (pa.float32(), 32)])
def test_each_text_reads_back_as_its_number(kind: pa.DataType, width: int) -> None:
    @given(st.lists(st.floats(allow_nan=False, width=width), max_size=20))  # type: ignore[arg-type]
    def check(values: list[float]) -> None:
        numbers = pa.array(values, kind)
        assert numbers_of_texts(texts_of_numbers(numbers), kind).equals(numbers)

    check()
