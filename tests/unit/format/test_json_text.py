"""Records as JSON texts: the forms that Hudi 1.2's CDC query printed of the same values."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.format.json_text import avro_text, avro_texts, plain_text


def record(**columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (9999999.999, "9999999.999"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1.234567890123e-5, "1.234567890123E-5"),
        (-2.5e-10, "-2.5E-10"),
        (1e21, "1.0E21"),
        (-0.0, "-0.0"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
    ],
)
def test_numbers_are_as_java_writes_them(number: float, text: str) -> None:
    assert plain_text(record(d=pa.array([number]))).to_pylist() == [f'{{"d":{text}}}']
    assert avro_text(record(d=pa.array([None, number]))).to_pylist()[1] == f'{{"d": {text}}}'


def test_both_forms_of_what_hudi_printed() -> None:
    rows = record(
        s=pa.array(["ü€😀/\\\t", "\x01\x7f\x85"]),
        f=pa.array([1.5, 1e-5], pa.float32()),
        dec=pa.array([Decimal("12.34"), Decimal("-0.01")], pa.decimal128(12, 2)),
        dt=pa.array([19756, -3653], pa.date32()),
        t=pa.array([1706933106789012, None], pa.timestamp("us", "UTC")),
        bin=pa.array([b"\x00\xffA", b""]),
        a=pa.array([[1, None, 3], []], pa.list_(pa.int32())),
        m=pa.array([[("m", 1)], []], pa.map_(pa.string(), pa.int32())),
    )
    assert avro_text(rows).to_pylist() == [
        '{"s": "ü\\u20AC😀/\\\\\\t", "f": 1.5, "dec": [0, 0, 0, 0, 4, -46], "dt": 19756, "t": 1706933106789012, '
        '"bin": "\\u0000ÿA", "a": [1, null, 3], "m": {"m": 1}}',
        '{"s": "\\u0001\\u007F\\u0085", "f": 1.0E-5, "dec": [-1, -1, -1, -1, -1, -1], "dt": -3653, "t": null, '
        '"bin": "", "a": [], "m": {}}',
    ]
    assert plain_text(rows).to_pylist() == [
        '{"s":"ü€😀/\\\\\\t","f":1.5,"dec":12.34,"dt":19756,"t":1706933106789012,"bin":"AP9B","a":[1,null,3],"m":{"m":1}}',
        '{"s":"\\u0001\x7f\x85","f":1.0E-5,"dec":-0.01,"dt":-3653,"bin":"","a":[],"m":{}}',
    ]


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                "b": st.none() | st.integers(-(2**63), 2**63 - 1),
                "c": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "d": st.none() | st.lists(st.none() | st.booleans()),
                "e": st.none() | st.binary(max_size=9),
            }
        ),
        max_size=6,
    ),
    st.integers(0, 3),
)
def test_texts_are_json(rows: list[dict[str, object] | None], start: int) -> None:
    kind = pa.struct(
        [("a", pa.string()), ("b", pa.int64()), ("c", pa.float64()), ("d", pa.list_(pa.bool_())), ("e", pa.binary())]
    )
    values, rows = pa.array(rows, kind).slice(start), rows[start:]
    plain = [text and json.loads(text) for text in plain_text(values).to_pylist()]
    assert plain == [row and {name: _base64(each) for name, each in row.items() if each is not None} for row in rows]
    printed = [json.loads(text) for text in avro_text(values).to_pylist()]
    assert printed == [row and {name: _latin(each) for name, each in row.items()} for row in rows]


def _base64(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _latin(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def test_texts_of_two_versions_are_those_of_each() -> None:
    kind = pa.struct([("x", pa.float64()), ("y", pa.float64()), ("z", pa.string())])
    one = [{"x": n / 7, "y": 0.0, "z": "a"} for n in range(9)] + [None, {"x": None, "y": math.nan, "z": None}]
    other = [{"x": n / 7, "y": -0.0, "z": "b"} for n in range(9)] + [{"x": 1e20, "y": 1.0, "z": "c"}, None]
    for first, second in [(one, other), (other, one), (one, one), (one, [None] * len(one)), ([], [])]:
        rows = pa.array(first, kind), pa.array(second, kind)
        assert avro_texts(*rows) == tuple(map(avro_text, rows))
