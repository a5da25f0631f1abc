"""The text given to Spark: nothing in it that a session's settings could read in another way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import NotSupportedError
from pudi.expr import bind, parse, to_spark_sql

SCHEMA = pa.schema([("s", pa.string()), ("d", pa.float64()), ("i", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])


def spark_sql(sql: str) -> str:
    return to_spark_sql(bind(parse(sql), SCHEMA))


@given(st.text())
def test_texts_hold_no_quote_backslash_or_variable(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    prefix = "(`s` = "
    sql = spark_sql(f"s = '{quoted}'")
    assert sql.startswith(prefix)
    value = sql.removeprefix(prefix).removesuffix(")")
    if value.startswith("'"):
        assert value == f"'{text}'"
        assert not set(text) & set("'\"\\$\n") and text.isascii()
    else:
        assert bytes.fromhex(value.removeprefix("CAST(X'").removesuffix("' AS STRING)")).decode() == text


def test_identifiers_are_quoted() -> None:
    schema = pa.schema([("a`b c", pa.struct([("x.y", pa.int32())]))])
    assert to_spark_sql(bind(parse("`a``b c`.`x.y` = 1"), schema)) == "(`a``b c`.`x.y` = 1)"
    odd = bind(parse("`${x}` = 1"), pa.schema([("${x}", pa.int32())]))
    with pytest.raises(NotSupportedError, match="substitutes"):
        to_spark_sql(odd)


def test_timestamps_do_not_depend_on_the_session_time_zone() -> None:
    assert spark_sql("ts >= TIMESTAMP '1970-01-01 00:00:01'") == "(`ts` >= timestamp_micros(1000000L))"


def test_plain_comparisons_stay_plain_so_that_spark_can_push_them_down() -> None:
    assert spark_sql("i > 5 AND s = 'x' AND d < 1.5") == "((`i` > 5) AND (`s` = 'x') AND (`d` < (1.5D)))"


def test_what_nan_satisfies_is_not_pushed_down_to_statistics_that_leave_nan_out() -> None:
    for sql in ("d > 1", "d >= 1", "d <> 1", "NOT d <= 1", "1 < d", "NOT d <=> 1"):
        assert spark_sql(sql).endswith(" OR isnan(`d`))"), sql
