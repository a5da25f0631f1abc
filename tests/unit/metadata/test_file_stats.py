"""Column statistics of files: what a footer says, what it leaves out, what log records say; as records and back."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.filegroup import ParquetOptions, encode_parquet
from pudi.metadata import (
    FILE_STATS,
    StatsSpec,
    ValueType,
    base_file_stats,
    column_stats_records,
    deleted_stats,
    leaf_values,
    log_file_stats,
    partition_stats,
    stats_of_files,
    stats_of_records,
    stats_spec,
)
from pudi.metadata.stat_records import typed, untyped
from pudi.metadata.value_types import value_type

NAN = math.nan


def footer(rows: pa.Table, **options: Any) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(encode_parquet(rows, ParquetOptions(**options))))


def bounds(stats: pa.Table, column: str) -> tuple[Any, Any]:
    (row,) = [row for row in stats.to_pylist() if row["column"] == column]
    sides = (typed(pa.array([row[side]], pa.binary()), ValueType(row["type"]), row["info"]) for side in ("min", "max"))
    low, high = (None if side is None else side[0].as_py() for side in sides)
    return low, high


def both(rows: pa.Table, columns: tuple[str, ...]) -> tuple[pa.Table, pa.Table]:
    """By a base file and by a log file of the same rows."""
    spec = StatsSpec(columns, 2)
    return base_file_stats(footer(rows), spec, lambda name: leaf_values(rows, name)), log_file_stats(rows, spec)


ROWS = pa.table(
    {
        "flag": [True, False, None],
        "int": pa.array([3, -7, None], pa.int32()),
        "long": [2**62, -(2**62), None],
        "single": pa.array([1.5, -2.5, None], pa.float32()),
        "double": [1e300, -1e300, None],
        "text": ["b", "äöü", None],
        "raw": [b"\x00", b"\xff", None],
        "day": [dt.date(1969, 1, 1), dt.date(2026, 1, 1), None],
        "utc": pa.array([-1, 1, None], pa.timestamp("us", "UTC")),
        "local": pa.array([-1, 1, None], pa.timestamp("us")),
        "small": pa.array([Decimal("-1.25"), Decimal("12.50"), None], pa.decimal128(9, 2)),
        "big": pa.array([Decimal(10) ** 37, -(Decimal(10) ** 37), None], pa.decimal128(38, 0)),
    }
)


@pytest.mark.parametrize("name", ROWS.column_names)
def test_bounds_and_counts_of_every_type(name: str) -> None:
    values = [value for value in ROWS[name].to_pylist() if value is not None]
    base, log = both(ROWS, (name,))
    order = (lambda text: text.encode()) if name == "text" else None
    for stats in (base, log):
        assert bounds(stats, name) == (min(values, key=order), max(values, key=order))
        assert stats["null_count"].to_pylist() == [1]
        assert stats["value_count"].to_pylist() == [3]
        assert stats.schema.equals(FILE_STATS)
    assert log["total_size"].to_pylist() == log["total_uncompressed_size"].to_pylist() == [0]
    assert base["total_size"].to_pylist()[0] > 0


def test_bounds_span_row_groups() -> None:
    rows = pa.table({"n": list(range(5000)), "t": [f"{i:05}" for i in range(5000)]})
    found = footer(rows, row_group_bytes=1)
    assert found.num_row_groups > 1
    stats = base_file_stats(found, StatsSpec(("n", "t"), 2))
    assert bounds(stats, "n") == (0, 4999)
    assert bounds(stats, "t") == ("00000", "04999")


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, NAN, -1.0], -1.0, NAN),
        ([NAN, NAN], NAN, NAN),
        ([NAN, None, math.inf], math.inf, NAN),
        ([math.inf, -math.inf], -math.inf, math.inf),
        ([None, None], None, None),
    ],
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_the_greatest(values: list[float | None], low: float | None, high: float | None, kind: Any) -> None:
    for stats in both(pa.table({"x": pa.array(values, kind)}), ("x",)):
        assert str(bounds(stats, "x")) == str((low, high))


def test_a_footers_zero_has_the_sign_that_bounds_both() -> None:
    base, _ = both(pa.table({"x": [0.0]}), ("x",))
    held = base.to_pylist()[0]
    assert (held["min"], held["max"]) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


def test_texts_too_long_for_a_footer() -> None:
    rows = pa.table({"t": ["a" * 10_000, "b"]})
    base, log = both(rows, ("t",))
    assert bounds(base, "t") == bounds(log, "t") == ("a" * 10_000, "b")
    assert base_file_stats(footer(rows), StatsSpec(("t",), 2)).num_rows == 0  # rather than that all were null


def test_columns_that_are_not_there_get_no_row() -> None:
    for stats in both(pa.table({"a": [1], "l": [[1]]}), ("a", "b", "l", "a.b")):
        assert stats["column"].to_pylist() == ["a"]


def test_fields_of_structs() -> None:
    rows = pa.table({"s": [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]})
    for stats in both(rows, ("s.x", "s.y")):
        assert bounds(stats, "s.x") == (1, 1)
        assert bounds(stats, "s.y") == ("a", "b")
        assert stats["null_count"].to_pylist() == [2, 1]


def test_dictionaries_count_as_what_they_hold() -> None:
    plain = pa.table({"t": ["b", "a", None]})
    parts = [
        plain.set_column(0, "t", plain["t"].dictionary_encode()),
        pa.table({"t": pa.array(["c"]).dictionary_encode()}),
    ]
    log = log_file_stats(pa.concat_tables(parts), StatsSpec(("t",), 2))
    assert bounds(log, "t") == ("a", "c")
    assert log["null_count"].to_pylist() == [1]


def test_a_log_file_of_deletes_alone() -> None:
    stats = log_file_stats(ROWS.slice(0, 0), StatsSpec(("int", "text"), 2))
    assert stats["type"].to_pylist() == [ValueType.NULL] * 2
    assert stats["value_count"].to_pylist() == stats["null_count"].to_pylist() == [0, 0]


def test_which_columns_are_indexed() -> None:
    schema = pa.schema(
        [*ROWS.schema, pa.field("l", pa.list_(pa.int32())), pa.field("s", pa.struct([("x", pa.int32())]))]
    )
    metas = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
    assert stats_spec(schema, 2, populated=True).columns == (*metas, *ROWS.column_names)
    assert stats_spec(schema, 2, populated=False, most=2).columns == ("flag", "int")
    assert not {"raw", "small", "big"} & set(stats_spec(schema, 1, populated=True).columns)
    named = stats_spec(schema, 1, populated=True, named=["s.x", "small", "big", "l", "gone", metas[0]])
    assert named.columns == (*metas, "s.x", "small")  # a decimal of 38 digits doesn't fit into version 1


@pytest.mark.parametrize("version", [1, 2])
def test_records_and_back(version: int) -> None:
    names = tuple(n for n in ROWS.column_names if version == 2 or n != "big")
    stats = stats_of_files([("p", "f", log_file_stats(ROWS, StatsSpec(names, version)))])
    gone = deleted_stats([("p", "g")], ["int"])
    records = column_stats_records(pa.concat_tables([stats, gone]), version)
    back = stats_of_records(records, pa.repeat("p", records.num_rows))
    assert back["deleted"].to_pylist() == [False] * len(names) + [True]
    if version == 2:
        assert back.equals(pa.concat_tables([stats, gone]).combine_chunks())
        return
    assert records["ColumnStatsMetadata"].combine_chunks().field("valueType").null_count == records.num_rows
    for name in set(names) - {"utc", "local"}:  # which version 1 holds as longs
        assert bounds(back.slice(0, len(names)), name) == bounds(stats, name)


def test_a_value_of_another_type_than_it_says_is_unknown() -> None:
    stats = stats_of_files([("p", "f", log_file_stats(ROWS, StatsSpec(("int",), 2)))])
    records = column_stats_records(stats, 2).to_pylist()
    records[0]["ColumnStatsMetadata"]["valueType"]["typeOrdinal"] = int(ValueType.STRING)
    back = stats_of_records(pa.Table.from_pylist(records, column_stats_records(stats, 2).schema))
    assert back["min"].to_pylist() == back["max"].to_pylist() == [None]


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): _TEXTS,
    pa.binary(): st.binary(max_size=8),
    pa.bool_(): st.booleans(),
    pa.decimal128(38, 5): st.decimals(-(10**30), 10**30, places=5, allow_nan=False),
    pa.timestamp("us", "UTC"): st.integers(-(2**60), 2**60),
    pa.date32(): st.integers(-(2**20), 2**20),
}


@given(st.data())
def test_held_values_come_back(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(_VALUES)))
    values = pa.array(data.draw(st.lists(st.none() | _VALUES[kind], max_size=12)), kind)
    said = value_type(kind)
    assert said is not None
    back = typed(untyped(values), *said)
    assert str(back.to_pylist()) == str(values.to_pylist()) if kind == pa.float64() else back.equals(values)


def test_a_partition_holds_what_its_files_hold_together() -> None:
    spec = StatsSpec(("n", "t", "x"), 2)
    parts = [
        pa.table({"n": [5, 1], "t": ["b", "a"], "x": [1.0, 2.0]}),
        pa.table({"n": [None, 9], "t": ["z", None], "x": [NAN, 0.5]}),
    ]
    stats = stats_of_files([("p", f".f_1.log.{i}_0", log_file_stats(part, spec)) for i, part in enumerate(parts)])
    whole = partition_stats(stats, parts[0].schema)
    assert bounds(whole, "n") == (1, 9)
    assert bounds(whole, "t") == ("a", "z")
    assert str(bounds(whole, "x")) == str((0.5, NAN))
    assert whole["null_count"].to_pylist() == [1, 1, 0]
    assert whole["file"].to_pylist() == ["p"] * 3
    assert whole["tight"].to_pylist() == [True] * 3


def test_a_partition_with_a_file_of_unknown_bounds_is_not_told_of() -> None:
    known = stats_of_files([("p", "f", log_file_stats(pa.table({"n": [1]}), StatsSpec(("n",), 2)))])
    unknown = stats_of_files([("p", "g", log_file_stats(pa.table({"n": [None, 1]}).slice(0, 1), StatsSpec(("n",), 2)))])
    whole = partition_stats(pa.concat_tables([known, unknown]), pa.schema([("n", pa.int64())]))
    assert whole["deleted"].to_pylist() == [True]
