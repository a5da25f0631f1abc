"""Functions in `where`: what they give, that pruning by them loses no row, and what is refused."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import (
    BoundsArrays,
    Call,
    ColumnBounds,
    bind,
    depends_on_zone,
    evaluate,
    index_call,
    keeps_order,
    parse,
    prune,
    prune_many,
    walk,
    widened,
)
from pudi.expr.pruning import call_key
from pudi.expr.table import FUNCTIONS
from support.functions import every_call

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
    ("length(s)", [9, 3, 1, None]),
    ("abs(l)", [0, 1, 1_616_896_800, None]),
]


@pytest.mark.parametrize(("call", "expected"), RESULTS, ids=[call for call, _ in RESULTS])
def test_what_they_give(call: str, expected: list[object]) -> None:
    for value in expected[:3]:
        wanted = [None if other is None else other == value for other in expected]
        where = f"CAST('{value}' AS DATE) = {call}" if isinstance(value, dt.date) else f"{call} = {value!r}"
        assert evaluate(bind(parse(where), SCHEMA), ROWS).to_pylist() == wanted
    assert evaluate(bind(parse(f"{call} IS NULL"), SCHEMA), ROWS).to_pylist() == [False, False, False, True]


def test_length_counts_characters_of_texts_and_bytes_of_binaries() -> None:
    texts = ["", "é\U0001f600", "a\0b", None]
    for text, binary in ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())):
        rows = pa.table({"s": pa.array(texts, text), "x": pa.array([b"", b"\xff\xff", b"abc", None], binary)})
        for column, expected in (("s", [0, 2, 3, None]), ("x", [0, 2, 3, None])):
            for length in range(4):
                wanted = [None if other is None else other == length for other in expected]
                where = bind(parse(f"length({column}) = {length}"), rows.schema)
                assert evaluate(where, rows).to_pylist() == wanted


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
    ("length(l) = 1", "BIGINT"),
    ("length(s, 2) = 1", "length"),
    ("abs(s) = 1", "STRING"),
]


@pytest.mark.parametrize(("where", "message"), REFUSED)
def test_what_is_refused_by_name(where: str, message: str) -> None:
    with pytest.raises(NotSupportedError, match=message):
        bind(parse(where), SCHEMA)


def test_points_in_time_beyond_four_digits_of_years_are_an_error() -> None:
    rows = pa.table({"l": [2**40]})
    with pytest.raises(InvalidArgumentError, match="9999"):
        evaluate(bind(parse("from_unixtime(l) = 'x'"), rows.schema), rows)


def test_the_smallest_integer_has_no_absolute_value() -> None:
    rows = pa.table({"l": pa.array([-(2**63)], pa.int64())})
    with pytest.raises(InvalidArgumentError, match="abs"):
        evaluate(bind(parse("abs(l) > 0"), rows.schema), rows)


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


EVERY = every_call(SCHEMA)
MANY = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)] + [
    dt.datetime(2019, 11, 29) + dt.timedelta(hours=each * 7, microseconds=each) for each in range(500)
]
MANY_SECONDS = [(each - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1) for each in MANY]
MANY_ROWS = pa.table(
    {
        "l": MANY_SECONDS,
        "s": [f"{'A b'[each % 3]}{chr(60 + each)}" for each in range(len(MANY))],
        "ts": pa.array(MANY, SCHEMA.field("ts").type),
        "ms": pa.array(MANY, pa.timestamp("us", tz="UTC")).cast(SCHEMA.field("ms").type, safe=False),
        "n": pa.array(MANY, SCHEMA.field("n").type),
        "day": [each.date() for each in MANY],
    },
    schema=SCHEMA,
)


def _moved(hours: int) -> pa.Table:
    later = dt.timedelta(hours=hours)
    rows = MANY_ROWS.slice(2)
    for name in ("ts", "ms"):
        moved = [each + later for each in rows[name].to_pylist()]
        rows = rows.set_column(
            SCHEMA.get_field_index(name), SCHEMA.field(name), pa.array(moved, SCHEMA.field(name).type)
        )
    return rows.set_column(0, SCHEMA.field("l"), pc.add(rows["l"], hours * 3600))


def test_every_function_said_to_keep_order_does() -> None:
    ordered = {sql: call for sql, call in EVERY.items() if keeps_order(call)}
    assert {call.name for call in ordered.values()} >= {"year", "to_date", "from_unixtime", "date_format"}
    for sql, call in ordered.items():
        column = sql.split("`")[1]
        results = evaluate(call, MANY_ROWS.sort_by(column)).to_pylist()
        assert results == sorted(results), sql


def test_every_function_that_depends_on_a_zone_and_keeps_order_widens_its_bounds() -> None:
    for sql, call in EVERY.items():
        if not (keeps_order(call) and depends_on_zone(call)):
            continue
        utc = evaluate(call, MANY_ROWS.slice(2))
        for hours in (-14, 14):
            there = evaluate(call, _moved(hours))
            low, high = widened(call, there, there)
            assert pc.all(pc.and_(pc.less_equal(low, utc), pc.greater_equal(high, utc))).as_py(), sql


def test_every_function_has_the_type_that_it_says() -> None:
    for sql, call in EVERY.items():
        assert evaluate(call, MANY_ROWS).type == call.type, sql
        assert evaluate(call, MANY_ROWS.slice(0, 0)).type == call.type, sql


def test_indexes_by_hudis_functions_give_calls_and_others_have_none() -> None:
    settings = {"pos": "1", "len": "2", "format": "yyyy-MM-dd"}
    names = {name for name, function in FUNCTIONS.items() if function.index is None}
    assert names == {"abs", "length"}
    for call in EVERY.values():
        found = index_call(call.name, {} if call.name == "to_date" else settings, call.arg)
        assert (found is None) == (call.name in names), call


def test_pruning_by_results_leaves_out_what_is_days_away() -> None:
    where = bind(parse("from_unixtime(l, 'yyyy-MM-dd') = '2021-03-28'"), SCHEMA)
    node = next(each for each in walk(where) if isinstance(each, Call))
    low, high = widened(node, pa.array(["2021-03-29", "2021-04-01"]), pa.array(["2021-03-30", "2021-04-02"]))
    bounds = BoundsArrays(low, high, pa.array([0, 0]), pa.array([1, 1]))
    assert prune_many(where, {call_key(node): bounds}, 2).tolist() == [True, False]
