"""Statistics of a few files as plain values: the same results and bytes as by Arrow's columns."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pudi.metadata import STATS, RecordType, partition_stats, stats_records
from pudi.metadata.changes import encode_changes
from pudi.metadata.plain_records import Stat, few_partition_stats, plain_stats, stats_record
from pudi.metadata.stat_records import untyped
from pudi.metadata.value_types import value_type

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1]),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(st.sampled_from("aZ\uffee\ue000\U0001f600é"), max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(min_value=dt.datetime(1900, 1, 1)),
}
SCHEMA = pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(_VALUES)])
FILES = {"p": ("a.parquet", ".b.log.1_0"), "": ("c.parquet",)}


@st.composite
def rows(draw: st.DrawFn) -> list[Stat]:
    """Statistics of some of the columns of all files."""
    found = []
    for partition, names in FILES.items():
        for name in (*names, "gone.parquet"):
            for field in draw(st.lists(st.sampled_from(list(SCHEMA)), unique_by=lambda f: f.name, max_size=4)):
                bounds = draw(st.lists(st.none() | _VALUES[field.type], min_size=2, max_size=2))
                said = value_type(field.type)
                assert said is not None
                stored = untyped(pa.array(bounds, field.type)).to_pylist()
                nulls, values = draw(st.tuples(st.integers(-1, 2), st.integers(-1, 2)))
                sizes = draw(st.integers(0, 100)), draw(st.integers(0, 100))
                deleted = draw(st.sampled_from([False, False, False, True]))
                found.append(Stat(partition, name, field.name, *said, *stored, nulls, values, *sizes, deleted, False))
    return found


def table(stats: list[Stat]) -> pa.Table:
    return pa.Table.from_pylist([stat._asdict() for stat in stats], STATS)


@settings(max_examples=25)
@given(rows())
def test_few_are_merged_as_many_are(stats: list[Stat]) -> None:
    found = few_partition_stats(stats, FILES, SCHEMA, SCHEMA.names)
    counted = [stat for stat in stats if stat.file in FILES[stat.partition]]
    files = Counter((stat.partition, stat.column) for stat in counted)
    whole = plain_stats(partition_stats(table(counted), SCHEMA))
    complete = [stat for stat in whole if files[stat.partition, stat.column] == len(FILES[stat.partition])]
    assert found is not None
    known = sorted(repr(stat) for stat in plain_stats(table(found)) if stat.type != 1)
    assert known == sorted(map(repr, complete))
    assert {(stat.partition, stat.column) for stat in found} == {(p, name) for p in FILES for name in SCHEMA.names}


@settings(max_examples=25)
@given(rows())
def test_records_have_the_same_bytes(stats: list[Stat]) -> None:
    for given_as, kind in ((0, RecordType.COLUMN_STATS), (1, RecordType.PARTITION_STATS)):
        both = [table([]), table([])]
        both[given_as] = table(stats)
        assert [stats_record(stat, kind) for stat in stats] == encode_changes(
            stats_records(*both, version=2)
        ).values.to_pylist()


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.time64("us"), pa.binary(3)])
def test_records_of_other_types_have_the_same_bytes(kind: pa.DataType) -> None:
    value = {"decimal128(9, 2)": decimal.Decimal("-1.25"), "time64[us]": dt.time(1), "fixed_size_binary[3]": b"abc"}
    stored = untyped(pa.array([value[str(kind)], None], kind).cast(pa.binary() if kind == pa.binary(3) else kind))
    said = value_type(kind)
    assert said is not None
    stat = Stat("p", "f", "c", *said, *stored.to_pylist(), 1, 2, 3, 4, False, False)
    expected = encode_changes(stats_records(table([stat]), table([]), version=2)).values.to_pylist()
    assert [stats_record(stat, RecordType.COLUMN_STATS)] == expected


@pytest.mark.parametrize("kind", [pa.int16(), pa.decimal128(9, 2), pa.timestamp("us", "Europe/Berlin")])
def test_values_that_need_a_conversion_are_left_to_arrow(kind: pa.DataType) -> None:
    said = value_type(kind)
    assert said is not None
    stat = Stat("", "c.parquet", "c0", *said, b"\0" * 8, b"\0" * 8, 0, 1, 1, 1, False, False)
    assert few_partition_stats([stat], {"": ["c.parquet"]}, pa.schema([("c0", kind)]), ["c0"]) is None


def test_values_of_an_older_type_are_left_to_arrow() -> None:
    stat = Stat("", "c.parquet", "c1", 3, None, b"\0" * 8, b"\0" * 8, 0, 1, 1, 1, False, False)
    assert few_partition_stats([stat], {"": ["c.parquet"]}, SCHEMA, ["c1"]) is None
