"""Functions in `where`: what they give, that pruning by them loses no row, and what is refused."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import (
    BoundsArrays,
    Call,
    ColumnBounds,
    bind,
    evaluate,
    parse,
    prune,
    prune_many,
    walk,
    widened,
)
from pudi.expr.bounds import call_key

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    [
        ("l", pa.int64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ms", pa.timestamp("ms", tz="UTC")),
        ("n", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
MOMENT = dt.datetime(2021, 3, 28, 1, 59, 59, 999_999)
MOMENTS = [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59), MOMENT, None]
ZONED = pa.array(MOMENTS, SCHEMA.field("ts").type)
ROWS = pa.table(
    {
        "l": [0, -1, 1_616_896_800, None],
        "s": ["  Straße ", "ann", "İ", None],
        "ts": ZONED,
        "ms": ZONED.cast(SCHEMA.field("ms").type, safe=False),
        "n": pa.array([MOMENTS[0], dt.datetime(1, 1, 1), *MOMENTS[2:]], SCHEMA.field("n").type),
        "day": pa.array([dt.date(1970, 1, 1), dt.date(9999, 12, 31), MOMENT.date(), None], pa.date32()),
    },
    schema=SCHEMA,
)

RESULTS: list[tuple[str, list[object]]] = [
    ("from_unixtime(l)", ["1970-01-01 00:00:00", "1969-12-31 23:59:59", "2021-03-28 02:00:00", None]),
    ("from_unixtime(l, 'yyyy/MM')", ["1970/01", "1969/12", "2021/03", None]),
    ("date_format(ts, 'yyyyMMdd''T''HHmmss')", ["19700101T000000", "19691231T235959", "20210328T015959", None]),
    ("date_format(n, 'HH:mm')", ["00:00", "00:00", "01:59", None]),
    ("date_format(day, 'dd.MM.yyyy')", ["01.01.1970", "31.12.9999", "28.03.2021", None]),
    ("to_date(ts)", [dt.date(1970, 1, 1), dt.date(1969, 12, 31), MOMENT.date(), None]),
    ("to_date(day)", [dt.date(1970, 1, 1), dt.date(9999, 12, 31), MOMENT.date(), None]),
    ("year(ms)", [1970, 1969, 2021, None]),
    ("month(day)", [1, 12, 3, None]),
    ("day(n)", [1, 1, 28, None]),
    ("hour(ts)", [0, 23, 1, None]),
    ("lower(s)", ["  straße ", "ann", "i̇", None]),
    ("UPPER(s)", ["  STRASSE ", "ANN", "İ", None]),
    ("trim(s)", ["Straße", "ann", "İ", None]),
    ("ltrim(s)", ["Straße ", "ann", "İ", None]),
    ("rtrim(s)", ["  Straße", "ann", "İ", None]),
    ("substring(s, 2, 4)", [" Str", "nn", "", None]),
    ("substr(lower(trim(s)), 0, 1)", ["s", "a", "i", None]),
]


@pytest.mark.parametrize(("call", "expected"), RESULTS, ids=[call for call, _ in RESULTS])
def test_what_they_give(call: str, expected: list[object]) -> None:
    for value in expected[:3]:
        wanted = [None if other is None else other == value for other in expected]
        where = f"CAST('{value}' AS DATE) = {call}" if isinstance(value, dt.date) else f"{call} = {value!r}"
        assert evaluate(bind(parse(where), SCHEMA), ROWS).to_pylist() == wanted
    assert evaluate(bind(parse(f"{call} IS NULL"), SCHEMA), ROWS).to_pylist() == [False, False, False, True]


REFUSED = [
    ("year(s) = 1", "STRING"),
    ("from_unixtime(l, 'EEE') = 'x'", "EEE"),
    ("from_unixtime(l, 'yyyyy') = 'x'", "yyyyy"),
    ("date_format(day, 'HH') = '00'", "HH"),
    ("hour(day) = 1", "DATE"),
    ("substring(s, -1, 2) = 'x'", "constants|substring"),
    ("lower('A') = s", "constant"),
    ("lower(s, s) = s", "constants"),
    ("soundex(s) = 'x'", "SOUNDEX"),
    ("year() = 1", "YEAR"),
]


@pytest.mark.parametrize(("where", "message"), REFUSED)
def test_what_is_refused_by_name(where: str, message: str) -> None:
    with pytest.raises(NotSupportedError, match=message):
        bind(parse(where), SCHEMA)


def test_points_in_time_beyond_four_digits_of_years_are_an_error() -> None:
    rows = pa.table({"l": [2**40]})
    with pytest.raises(InvalidArgumentError, match="9999"):
        evaluate(bind(parse("from_unixtime(l) = 'x'"), rows.schema), rows)


SECONDS = st.integers(-3_000_000_000, 4_000_000_000)
CALLS = ("from_unixtime(l, 'yyyy-MM-dd')", "from_unixtime(l, 'yyyyMM')", "from_unixtime(l)", "from_unixtime(l, 'yyyy')")
OPS = ("=", "<", ">", "<=", ">=", "<>")


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(SECONDS, min_size=1, max_size=4),
    asked=SECONDS,
    call=st.sampled_from(CALLS),
    op=st.sampled_from(OPS),
)
def test_pruning_by_the_columns_bounds_loses_no_row(values: list[int], asked: int, call: str, op: str) -> None:
    rows = pa.table({"l": pa.array(values, pa.int64())})
    bound = bind(parse(f"{call} = ''"), rows.schema)
    node = next(each for each in walk(bound) if isinstance(each, Call))
    text = evaluate(node, pa.table({"l": pa.array([asked], pa.int64())}))[0].as_py()
    where = bind(parse(f"{call} {op} '{text}'"), rows.schema)
    if any(evaluate(where, rows).to_pylist()):
        assert prune(where, {"l": ColumnBounds(min(values), max(values), 0, len(values))})


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(SECONDS, min_size=1, max_size=4),
    asked=SECONDS,
    call=st.sampled_from(CALLS),
    op=st.sampled_from(OPS),
    hours=st.integers(-12, 14),
)
def test_pruning_by_results_of_another_time_zone_loses_no_row(
    values: list[int], asked: int, call: str, op: str, hours: int
) -> None:
    rows = pa.table({"l": pa.array(values, pa.int64())})
    there = pa.table({"l": pa.array([value + hours * 3600 for value in values], pa.int64())})
    bound = bind(parse(f"{call} = ''"), rows.schema)
    node = next(each for each in walk(bound) if isinstance(each, Call))
    text = evaluate(node, pa.table({"l": pa.array([asked], pa.int64())}))[0].as_py()
    where = bind(parse(f"{call} {op} '{text}'"), rows.schema)
    results = sorted(evaluate(node, there).to_pylist())
    low, high = widened(node, pa.array(results[:1]), pa.array(results[-1:]))
    bounds = BoundsArrays(low, high, pa.array([0]), pa.array([len(values)]))
    if any(evaluate(where, rows).to_pylist()):
        assert prune_many(where, {call_key(node): bounds}, 1)[0]


def test_pruning_by_results_leaves_out_what_is_days_away() -> None:
    where = bind(parse("from_unixtime(l, 'yyyy-MM-dd') = '2021-03-28'"), SCHEMA)
    node = next(each for each in walk(where) if isinstance(each, Call))
    low, high = widened(node, pa.array(["2021-03-29", "2021-04-01"]), pa.array(["2021-03-30", "2021-04-02"]))
    bounds = BoundsArrays(low, high, pa.array([0, 0]), pa.array([1, 1]))
    assert prune_many(where, {call_key(node): bounds}, 2).tolist() == [True, False]
