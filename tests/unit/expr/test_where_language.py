"""What the language takes, and the names by which it refuses the rest."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import bind, columns, evaluate, parse

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Fare", pa.float64()),
        ("city", pa.string()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 30)),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("lat", pa.float64())])),
        ("nanos", pa.timestamp("ns")),
        ("unsigned", pa.uint32()),
        ("date", pa.int32()),
    ]
)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("reverse(city) = 'x'", "the function REVERSE"),
        ("my_udf(city)", "the function MY_UDF"),
        ("id IN (SELECT 1)", "QUERY"),
        ("id = (SELECT 1)", "SUBQUERY"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("city || 'x' = 'y'", "DPIPE"),
        ("city RLIKE 'x'", "REGEXPLIKE"),
        ("city ILIKE 'x'", "ILIKE"),
        ("city LIKE ANY ('x', 'y')", "LIKE with anything but a text"),
        ("city LIKE city", "LIKE with anything but a text"),
        ("city LIKE 'x' = ok", "comparison of a comparison"),
        ("id < 1 < 2", "comparison of a comparison"),
        ("id BETWEEN SYMMETRIC 2 AND 1", "SYMMETRIC"),
        ("ok IS TRUE", "IS TRUE"),
        ("id IN (1, id)", "anything but constants"),
        ("TRY_CAST(id AS INT) = 1", "TRY_CAST"),
        ("CAST(city AS INT) = 1", "from STRING to INT"),
        ("CAST(city AS TIMESTAMP) = ts", "from STRING to TIMESTAMP"),
        ("CAST(ts AS DATE) = day", "from TIMESTAMP to DATE"),
        ("CAST(day AS TIMESTAMP) = ts", "from DATE to TIMESTAMP"),
        ("CAST(Fare AS DECIMAL(10, 1)) = 1", "from DOUBLE to DECIMAL"),
        ("CAST(id AS VARCHAR(3)) = 'x'", "VARCHAR"),
        ("CAST(id AS ARRAY<INT>) IS NULL", "CAST to ARRAY"),
        ("id & 1 = 1", "BITWISEAND"),
        ("id DIV 2 = 1", "INTDIV"),
        ("Fare % 2 = 1", "% on DOUBLE"),
        ("price / 2 = 1", "DECIMAL"),
        ("price * wide > 1", "DECIMAL"),
        ("wide > 123456789", "more than 38 digits"),
        ("id % 5 % 2 = 1", "% inside %"),
        ("tags = 'x'", "column tags"),
        ("place = 1", "column place"),
        ("nanos > '2020-01-01'", "column nanos"),
        ("unsigned = 1", "column unsigned"),
        ("tags[0] = 'x'", "BRACKET"),
        ("id = ?", "PLACEHOLDER"),
        ("id = :x", "PLACEHOLDER"),
        ("INTERVAL 1 DAY IS NULL", "INTERVAL"),
        ("! ok", "operator !"),
        ("id = 0x1F", "0x1F"),
        ("city = 'a' 'b'", "adjacent texts"),
        (r"city = 'a\d'", r"escape \d"),
        (r"city = '\u0041'", r"escape \u"),
        ("city COLLATE x = 'a'", "COLLATE"),
        ("(id, id) IN ((1, 2))", "TUPLE"),
        ("current_date = day", "CURRENTDATE"),
        ("*", "STAR"),
    ],
)
def test_other_sql_is_refused_by_name(sql: str, named: str) -> None:
    with pytest.raises(NotSupportedError) as refusal:
        bind(parse(sql), SCHEMA)
    assert named in refusal.value.message


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("", "where"),
        ("   ", "where"),
        ("id =", "id ="),
        ("id = 1 2", "near '2'"),
        ("id = 1; DROP TABLE x", "where"),
        ("id = 1) OR (ok", "where"),
        ("id = 'unclosed", "where"),
        ("id IN ()", "IN needs at least one value"),
        ("Fair > 1", "nearest is 'Fare'"),
        ("place.lon = 1", "nearest is 'lat'"),
        ("id.x = 1", "has no 'x'"),
        ("id", "BIGINT"),
        ("NOT city", "STRING"),
        ("id AND ok", "BIGINT"),
        ("id = 'x'", "id (BIGINT) and 'x' (STRING)"),
        ("city = 1", "city (STRING) and 1 (INT)"),
        ("ok = 1", "BOOLEAN"),
        ("id + city = 1", "apply + to"),
        ("-city = 'x'", "apply - to"),
        ("id LIKE '1%'", "LIKE needs text"),
        ("id IN (1, 'x')", "id (BIGINT) and 'x' (STRING)"),
        ("ts = day", "TIMESTAMP"),
        ("ts = local", "TIMESTAMP_NTZ"),
        ("local = TIMESTAMP '2020-01-01 00:00:00Z'", "TIMESTAMP_NTZ"),
        ("day = '2020-02-30'", "2020-02-30"),
        ("day = DATE 'today'", "today"),
        ("ts > '2020-01-01 00:00:00 Europe/Berlin'", "Europe/Berlin"),
        ("city LIKE 'x!' ESCAPE '!'", "escape character '!'"),
        (r"city LIKE 'a\\b'", "escape character"),
        ("city LIKE 'x' ESCAPE 'ab'", "ESCAPE takes one character"),
        ("1 / 0 = 1", "divide by zero"),
        ("2147483647 + 1 = id", "overflow"),
        ("CAST(300 AS TINYINT) = id", "300"),
        ("id = 123456789012345678901234567890123456789", "38 digits"),
        ("CAST(id AS DECIMAL(39, 0)) = 1", "38 digits"),
        ("(" * 100 + "ok" + ")" * 100, "levels deep"),
        ("NOT " * 100_000 + "ok", "levels deep"),
        ("CASE WHEN ok THEN " * 3000 + "1" + " END" * 3000, "too deeply"),
        ("a." * 5000 + "b = 1", "too deeply"),
        ("x" * 1_000_001, "characters"),
    ],
)
def test_a_mistake_is_told_with_its_place(sql: str, named: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        bind(parse(sql), SCHEMA)
    assert named in refusal.value.message
    assert len(refusal.value.message) < 1000


def test_where_must_be_text() -> None:
    with pytest.raises(InvalidArgumentError, match="not int"):
        parse(5)  # type: ignore[arg-type]


def test_names_are_found_without_regard_to_case_and_must_be_unique() -> None:
    assert columns(bind(parse("FARE > 1 AND PLACE.LAT < 2 AND `City` = 'x' AND date = 1"), SCHEMA)) == {
        "Fare",
        "place",
        "city",
        "date",
    }
    with pytest.raises(InvalidArgumentError, match="ambiguous"):
        bind(parse("a = 1"), pa.schema([("a", pa.int32()), ("A", pa.int32())]))


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        ('"say ""hi"""', 'say "hi"'),
        ("''", ""),
        ("''''", "'"),
        ("'a''''b'", "a''b"),
        (r"'a\\b'", "a\\b"),
        (r"'a\nb\tc\rd'", "a\nb\tc\rd"),
        (r"'100\%'", r"100\%"),
        (r"r'a\d'", r"a\d"),
        ("'-- no comment'", "-- no comment"),
        ("'é\U0001f600'", "é\U0001f600"),
    ],
)
def test_texts_are_read_as_in_spark(sql: str, text: str) -> None:
    table = pa.table({"city": [text, text + "x"]})
    assert evaluate(bind(parse(f"city = {sql}"), table.schema), table).to_pylist() == [True, False]


@given(st.text())
def test_any_text_can_be_quoted(text: str) -> None:
    table = pa.table({"city": [text, text + "x"]})
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    assert evaluate(bind(parse(f"city = '{quoted}'"), table.schema), table).to_pylist() == [True, False]


@given(st.text())
def test_any_input_ends_in_a_tree_or_a_typed_error(text: str) -> None:
    try:
        bind(parse(text), SCHEMA)
    except (InvalidArgumentError, NotSupportedError) as error:
        assert error.message


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a.c", "a.c", "abc"),
        ("_", "\U0001f600", "ab"),
        ("a%", "a\nb", "ba"),
        (r"50\\%", "50%", "500"),
        (r"a\\_b", "a_b", "axb"),
        ("[a-z]*(x)^$|?+{2}", "[a-z]*(x)^$|?+{2}", "a"),
        ("", "", "a"),
        ("%", "", None),
    ],
)
def test_like(pattern: str, matching: str, other: str | None) -> None:
    table = pa.table({"city": [matching, other]})
    expected = [True, None if other is None else False]
    assert evaluate(bind(parse(f"city LIKE '{pattern}'"), table.schema), table).to_pylist() == expected


def test_like_with_an_escape_character_of_choice() -> None:
    table = pa.table({"city": ["a%", "ab", "a!"]})
    assert evaluate(bind(parse("city LIKE 'a!%' ESCAPE '!'"), table.schema), table).to_pylist() == [True, False, False]
    assert evaluate(bind(parse("city NOT LIKE 'a!!' ESCAPE '!'"), table.schema), table).to_pylist() == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("NOT (id = 1 OR city IS NULL)", "(id <> 1) AND (city IS NOT NULL)"),
        ("Fare BETWEEN 1 AND 2", "(Fare >= 1.0) AND (Fare <= 2.0)"),
        ("`weird name` = 1", "`weird name` = 1"),
        ("CAST(id AS INT) = 1", "CAST(id AS INT) = 1"),
        ("day = '2020-01-01' AND city = 'it''s'", "(day = DATE '2020-01-01') AND (city = 'it''s')"),
    ],
)
def test_a_condition_can_be_shown(sql: str, shown: str) -> None:
    schema = SCHEMA.append(pa.field("weird name", pa.int32()))
    assert str(bind(parse(sql), schema)) == shown
