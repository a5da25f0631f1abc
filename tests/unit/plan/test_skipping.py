"""Which slices of a read are left out by their files' statistics, and what keeps one in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pudi.config import MergeMode
from pudi.filegroup import BaseFile, FileSlice, LogFile, LogScope
from pudi.format import BaseFileName, LogFileName
from pudi.merge import MergeRule
from pudi.metadata import (
    RECORD_SCHEMA,
    STATS,
    StatsSpec,
    column_stats_records,
    deleted_stats,
    log_file_stats,
    stats_of_files,
)
from pudi.plan import IndexSource, Merging, ReadableTable, ReadPlan, Selection, plan_read, skip_slices

INSTANT = "20260101000000000"


def slice_of(name: str, *, base: bool = True, logs: int = 0, partition: str = "p") -> FileSlice:
    file_id = f"{name}-0"
    return FileSlice(
        partition,
        file_id,
        BaseFile(partition, BaseFileName(file_id, "0-0-0", INSTANT), 1) if base else None,
        tuple(LogFile(partition, LogFileName(file_id, INSTANT, i + 1, "0-0-0"), 1) for i in range(logs)),
    )


def files_of(file_slice: FileSlice) -> list[str]:
    return [file.name.name for file in (*([file_slice.base] if file_slice.base else []), *file_slice.logs)]


class Index:
    """A metadata table that holds statistics of rows given for each file."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.stats = [STATS.empty_table()]
        self.asked: list[Sequence[str]] = []

    def add(self, file_slice: FileSlice, *of_files: Mapping[str, Sequence[Any]] | pa.Table | None) -> FileSlice:
        for name, rows in zip(files_of(file_slice), of_files, strict=True):
            if rows is not None:
                table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
                stats = log_file_stats(table, StatsSpec(tuple(table.column_names), self.version))
                self.stats.append(stats_of_files([(file_slice.partition, name, stats)]))
        return file_slice

    def read(self, partition: str, prefixes: Sequence[str]) -> pa.Table:
        assert partition == "column_stats"
        self.asked.append(prefixes)
        records = column_stats_records(pa.concat_tables(self.stats), self.version)
        wanted = [any(key.startswith(prefix) for prefix in prefixes) for key in records["key"].to_pylist()]
        return records.filter(pa.array(wanted, pa.bool_())).select(["key", "type", "ColumnStatsMetadata"])

    def kept(self, plan: ReadPlan, millis: frozenset[str] = frozenset()) -> list[str]:
        source = IndexSource(self.read, frozenset({"column_stats"}), millis)
        return [each.file_id[:-2] for each in skip_slices(plan, source).slices]


def plan(where: str, slices: Sequence[FileSlice], schema: pa.Schema, **more: Any) -> ReadPlan:
    table = ReadableTable("t", schema, populated=False, **{"history": None, **more})
    made = plan_read(table, Selection(where=where, meta_fields=False))
    return replace(made, slices=tuple(slices))


NUMBERS = pa.schema([("n", pa.int64()), ("m", pa.int64())])


def test_a_slice_is_left_out_by_its_base_file() -> None:
    index = Index()
    slices = [index.add(slice_of("a"), {"n": [1, 5]}), index.add(slice_of("b"), {"n": [7, 9]})]
    assert index.kept(plan("n = 8", slices, NUMBERS)) == ["b"]
    assert index.kept(plan("n < 6", slices, NUMBERS)) == ["a"]
    assert index.kept(plan("n IN (6, 10)", slices, NUMBERS)) == []
    assert index.kept(plan("n + 1 = 8", slices, NUMBERS)) == ["a", "b"]
    assert index.kept(plan("n = 8 OR m = 1", slices, NUMBERS)) == ["a", "b"]
    left = skip_slices(plan("n = 8", slices, NUMBERS), IndexSource(index.read, frozenset({"column_stats"})))
    assert left.skipped == (("column_stats", 1, 2),)


def test_all_files_of_a_slice_decide_together() -> None:
    index = Index()
    partial = index.add(slice_of("a", logs=1), {"n": [1], "m": [10]}, {"n": [2], "m": [20]})
    assert index.kept(plan("n = 1 AND m = 20", [partial], NUMBERS)) == ["a"]  # as a partial update may leave it
    assert index.kept(plan("n = 3", [partial], NUMBERS)) == []
    assert index.kept(plan("n = 2", [partial], NUMBERS)) == ["a"]


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_file_without_statistics_keeps_its_slice(lacking: int) -> None:
    index = Index()
    rows: list[Mapping[str, Sequence[Any]] | None] = [{"n": [1]}, {"n": [1]}, {"n": [1]}]
    rows[lacking] = None
    slices = [index.add(slice_of("a", logs=2), *rows)]
    assert index.kept(plan("n = 5", slices, NUMBERS)) == ["a"]


def test_statistics_of_a_deleted_file_tell_nothing() -> None:
    index = Index()
    slices = [slice_of("a")]
    index.stats.append(deleted_stats([("p", files_of(slices[0])[0])], ["n"]))
    assert index.kept(plan("n = 5", slices, NUMBERS)) == ["a"]
    assert index.kept(plan("n IS NULL", slices, NUMBERS)) == ["a"]


def test_a_log_file_of_deletes_has_no_rows() -> None:
    index = Index()
    slices = [index.add(slice_of("a", logs=1), {"n": [1]}, NUMBERS.empty_table())]
    assert index.kept(plan("n = 5", slices, NUMBERS)) == []
    assert index.kept(plan("n = 1", slices, NUMBERS)) == ["a"]


def test_a_base_file_without_bounds_may_hold_anything() -> None:
    """A footer leaves out long texts and NaN, and Hudi counts its rows as nulls then."""
    index = Index()
    nulls = pa.table({"n": pa.array([None, None], pa.int64())})
    slices = [index.add(slice_of("a"), nulls), index.add(slice_of("b", base=False, logs=1), nulls)]
    assert index.kept(plan("n = 5", slices, NUMBERS)) == ["a"]
    assert index.kept(plan("n IS NOT NULL", slices, NUMBERS)) == ["a"]
    assert index.kept(plan("n IS NULL", slices, NUMBERS)) == ["a", "b"]


def test_nulls_are_counted() -> None:
    index = Index()
    slices = [index.add(slice_of("a"), {"n": [1, None]}), index.add(slice_of("b"), {"n": [1, 2]})]
    assert index.kept(plan("n IS NULL", slices, NUMBERS)) == ["a"]


def test_floats_of_base_files_may_be_nan() -> None:
    index = Index()
    schema = pa.schema([("x", pa.float64())])
    slices = [
        index.add(slice_of("a"), {"x": [1.0, 2.0]}),
        index.add(slice_of("b", base=False, logs=1), {"x": [1.0, 2.0]}),
        index.add(slice_of("c", base=False, logs=1), {"x": [1.0, float("nan")]}),
    ]
    assert index.kept(plan("x > 5", slices, schema)) == ["a", "c"]
    assert index.kept(plan("x < 1", slices, schema)) == []
    zeros = [index.add(slice_of("z", base=False, logs=1), {"x": [-0.0]})]
    assert index.kept(plan("x = 0", zeros, schema)) == ["z"]
    assert index.kept(plan("x >= 0", zeros, schema)) == ["z"]


@pytest.mark.parametrize(
    ("low", "high", "known"), [("a", "z", True), ("\U0001f600", "\uffff", False), ("a", "\uffee", False)]
)
def test_bounds_that_java_may_have_ordered_otherwise(low: str, high: str, known: bool) -> None:
    """U+1F600 is after U+FFFF in UTF-8, and before it in the UTF-16 that Java compares by."""
    index = Index()
    schema = pa.schema([("t", pa.string())])
    stats = log_file_stats(pa.table({"t": [low, high]}), StatsSpec(("t",), 2)).to_pylist()
    stats[0] |= {"min": low.encode(), "max": high.encode()}
    file_slice = slice_of("a")
    table = pa.Table.from_pylist(stats, log_file_stats(schema.empty_table(), StatsSpec(("t",), 2)).schema)
    index.stats.append(stats_of_files([("p", files_of(file_slice)[0], table)]))
    assert index.kept(plan("t < 'A'", [file_slice], schema)) == ([] if known else ["a"])


@pytest.mark.parametrize(
    ("stored", "now", "where", "kept"),
    [
        (pa.int32(), pa.int64(), "c = 5", []),
        (pa.int32(), pa.int64(), "c = 2", ["a"]),
        (pa.int32(), pa.float64(), "c < 1", []),
        (pa.int64(), pa.string(), "c = '5'", ["a"]),  # 10 is before 9 as a text
        (pa.float32(), pa.float64(), "c < 0.5", []),
        (pa.date32(), pa.string(), "c = 'x'", ["a"]),
        (pa.string(), pa.int64(), "c = 7", ["a"]),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "c = TIMESTAMP_NTZ '2026-01-01 00:00:00'", ["a"]),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_types_that_changed_since(stored: Any, now: Any, where: str, kept: list[str], version: int) -> None:
    index = Index(version)
    values = pa.array(["1", "2"]) if stored == pa.string() else pa.array([1, 2], pa.int32()).cast(pa.int64()).cast(
        stored if stored != pa.date32() else pa.int32()
    ).cast(stored)  # fmt: skip
    slices = [index.add(slice_of("a"), pa.table({"c": values}))]
    if version == 1 and pa.types.is_timestamp(now):
        kept = []  # version 1 has longs for both, which are microseconds
    assert index.kept(plan(where, slices, pa.schema([("c", now)]))) == kept


@pytest.mark.parametrize("version", [1, 2])
def test_decimals_dates_and_times(version: int) -> None:
    index = Index(version)
    schema = pa.schema([("d", pa.decimal128(10, 2)), ("day", pa.date32()), ("ts", pa.timestamp("us", "UTC"))])
    rows = pa.table(
        {
            "d": pa.array([Decimal("1.25"), Decimal("9.99")], schema.field("d").type),
            "day": [dt.date(2026, 1, 1), dt.date(2026, 2, 1)],
            "ts": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)] * 2, schema.field("ts").type),
        }
    )
    slices = [index.add(slice_of("a"), rows)]
    for where in ("d = 10", "day < DATE '2026-01-01'", "ts > TIMESTAMP '2026-01-01 00:00:00+00:00'"):
        assert index.kept(plan(where, slices, schema)) == [], where
    for where in ("d >= 9.99", "day = DATE '2026-02-01'", "ts = TIMESTAMP '2026-01-01 00:00:00+00:00'"):
        assert index.kept(plan(where, slices, schema)) == ["a"], where
    assert index.kept(plan("ts > TIMESTAMP '2026-01-01 00:00:00+00:00'", slices, schema), frozenset({"ts"})) == ["a"]


def test_files_of_one_name_in_two_partitions() -> None:
    index = Index()
    slices = [
        index.add(slice_of("a", partition="p"), {"n": [1]}),
        index.add(slice_of("a", partition="q"), {"n": [2]}),
        index.add(slice_of("a", partition=""), {"n": [3]}),
    ]
    kept = skip_slices(plan("n = 2", slices, NUMBERS), IndexSource(index.read, frozenset({"column_stats"}))).slices
    assert [each.partition for each in kept] == ["q"]


def test_a_users_merger_may_make_any_value() -> None:
    index = Index()
    slices = [index.add(slice_of("a", logs=1), {"n": [1]}, {"n": [1]}), index.add(slice_of("b"), {"n": [1]})]
    rule = MergeRule(MergeMode.CUSTOM, merger=object())  # type: ignore[arg-type]
    merging = Merging(rule, LogScope(frozenset(), frozenset(), None))
    assert index.kept(plan("n = 5", slices, NUMBERS, merging=merging)) == ["a"]


def test_only_the_partitions_at_hand_are_asked_for() -> None:
    index = Index()
    slices = [index.add(slice_of(f"s{i}", partition=f"p{i}"), {"n": [i]}) for i in range(300)]
    assert index.kept(plan("n = 5", slices[:10], NUMBERS)) == ["s5"]
    assert index.kept(plan("n = 5", slices, NUMBERS)) == ["s5"]
    assert [len(asked) for asked in index.asked] == [10, 1]


def test_without_a_predicate_or_an_index_nothing_is_asked() -> None:
    index = Index()
    slices = [index.add(slice_of("a"), {"n": [1]})]
    whole = replace(plan("n = 5", slices, NUMBERS), where=None)
    assert skip_slices(whole, IndexSource(index.read, frozenset({"column_stats"}))) is whole
    other = plan("n = 5", slices, NUMBERS)
    assert skip_slices(other, IndexSource(index.read, frozenset({"files"}))) is other
    assert index.asked == []


def test_a_record_without_statistics_tells_nothing() -> None:
    index = Index()
    file_slice = index.add(slice_of("a"), {"n": [1]})
    records = column_stats_records(pa.concat_tables(index.stats), 2)
    place = RECORD_SCHEMA.get_field_index("ColumnStatsMetadata")
    broken = records.set_column(place, RECORD_SCHEMA.field(place), pa.nulls(1, RECORD_SCHEMA.field(place).type))
    source = IndexSource(lambda *_: broken, frozenset({"column_stats"}))
    assert skip_slices(plan("n = 5", [file_slice], NUMBERS), source).slices == (file_slice,)
    assert pc.all(broken["key"].is_valid()).as_py()
