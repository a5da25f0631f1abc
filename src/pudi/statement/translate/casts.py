"""CAST, and the conversions that Spark makes by itself.

A text that is no number, day or point in time becomes null, as in Spark 3.5. A number beyond the range of its new type
is an error: Spark has wrapped, null or saturated values there, depending on ANSI mode.
"""

from __future__ import annotations

import datetime
import re

import pyarrow as pa
import pyarrow.types as pt

from pudi.expr.sqltypes import is_decimal, is_float, is_integer, is_numeric
from pudi.statement.translate.typed_values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LOCAL_TIME,
    LONG,
    TEXT,
    TIME,
    Value,
    duckdb_name,
    fails,
    guarded,
    refused,
    spark_name,
)

JAVA_TEXT = "pudi_java_text"
"""The function that prints floating point numbers as Java does."""
_SPACE = r"[\x00-\x20\x7f]"
_DIGITS = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_NUMBER = rf"[+-]?{_DIGITS}([eE][+-]?[0-9]+)?"
_CLOCK = r"([0-9]{1,2}):([0-9]{1,2})(:([0-9]{1,2})(\.[0-9]{0,9})?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
_MOMENT = rf"^([0-9]{{4}})(-([0-9]{{1,2}})(-([0-9]{{1,2}})([ T]{_CLOCK})?)?)?$"
_MOMENT_PARTS = "['y', 'm_', 'm', 'd_', 'd', 'clock', 'h', 'n', 's_', 's', 'f', 'z']"
_DAY = r"^([0-9]{4})(-([0-9]{1,2})(-([0-9]{1,2})([ T].*)?)?)?$"
_DAY_PARTS = "['y', 'm_', 'm', 'd_', 'd', 'rest']"
_PLAIN_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PLAIN_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?", re.ASCII)
_LAST_DAY = "DATE '9999-12-31'"


def cast(value: Value, target: pa.DataType) -> Value:
    """Convert a value as CAST does.

    Raises:
        NotSupportedError: DuckDB has no conversion that gives what Spark's gives.
    """
    source = value.kind
    if source == target:
        return value
    if pt.is_null(source):
        return Value(f"CAST(NULL AS {duckdb_name(target)})", target)
    sql = _constant(value, target) or _scalar(value.sql, source, target)
    if sql is None and pt.is_nested(source) and pt.is_nested(target):
        sql = _nested(value.sql, source, target)
    if sql is None:
        raise refused(f"a CAST of {spark_name(source)} as {spark_name(target)}")
    return Value(sql, target, value.literal if {source, target} <= {INT, LONG} else None)


def _constant(value: Value, target: pa.DataType) -> str | None:
    """A constant day or point in time in its usual form; None for anything else."""
    literal = value.literal
    if value.kind != TEXT or not isinstance(literal, str):
        return None
    if target == DATE and is_plain_day(literal):
        return f"DATE '{literal}'"
    if target == TIME and is_plain_moment(literal):
        return f"TIMESTAMPTZ '{literal}{' 00:00:00' if len(literal) == len('yyyy-MM-dd') else ''}+00'"
    return None


def is_plain_day(text: str) -> bool:
    """Return whether a text is a day in its usual form, `2026-01-31`, which all engines read alike."""
    return _PLAIN_DAY.fullmatch(text) is not None and _exists(text)


def is_plain_moment(text: str) -> bool:
    """Return whether a text is a point in time in its usual form, `2026-01-31 12:00:00.5`, or a day."""
    return _PLAIN_MOMENT.fullmatch(text) is not None and _exists(text[:19])


def _exists(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def try_cast(value: Value, target: pa.DataType) -> Value:
    """Convert a value as TRY_CAST does: null for what a CAST in ANSI mode refuses.

    Raises:
        NotSupportedError: see `cast`.
    """
    source = value.kind
    if source == TEXT and is_integer(target):
        found = (
            f"TRY_CAST(regexp_extract({value.sql}, '^{_SPACE}*([+-]?[0-9]+){_SPACE}*$', 1) AS {duckdb_name(target)})"
        )
        return Value(found, target)
    if is_integer(source) and is_integer(target):
        return Value(f"TRY_CAST({value.sql} AS {duckdb_name(target)})", target)
    if (
        source == TEXT
        or (is_numeric(source) and is_float(target))
        or target == TEXT
        or {source, target} <= {DATE, TIME}
    ):
        return cast(value, target)
    raise refused(f"a TRY_CAST of {spark_name(source)} as {spark_name(target)}", "write a CAST, which raises an error")


def _scalar(sql: str, source: pa.DataType, target: pa.DataType) -> str | None:
    """The conversion of a value that has no parts; None if there's none."""
    if source == TEXT:
        return _of_text(sql, target)
    if target == TEXT:
        return _as_text(sql, source)
    if is_numeric(source):
        return _of_number(sql, source, target)
    if source == BOOLEAN and is_numeric(target):
        return f"CAST(CAST({sql} AS INTEGER) AS {duckdb_name(target)})"
    return _of_time(sql, source, target)


def _of_number(sql: str, source: pa.DataType, target: pa.DataType) -> str | None:
    name = duckdb_name(target) if is_numeric(target) else ""
    if target == BOOLEAN:
        return f"({sql} <> 0)"
    if is_integer(target):
        return f"CAST({sql if is_integer(source) else f'trunc({sql})'} AS {name})"
    if is_float(target) and is_decimal(source):
        return f"CAST(CAST({sql} AS VARCHAR) AS {name})"  # rounded once
    if is_float(target):
        return f"CAST({sql} AS {name})"
    if is_decimal(target):
        if is_float(source):  # by the digits that are printed; NaN has none
            return f"TRY_CAST(CAST(CAST({sql} AS DOUBLE) AS VARCHAR) AS {name})"
        return f"CAST({sql} AS {name})"
    if target == TIME and is_integer(source):
        return moment(f"CAST({sql} AS BIGINT) * 1000000")
    return None


def at_utc(sql: str) -> str:
    """Return a point in time as a clock in UTC shows it, or the point in time at which a clock in UTC shows that."""
    return f"({sql} AT TIME ZONE 'UTC')"


def moment(micros: str) -> str:
    """Return the point in time that a number of microseconds is."""
    return at_utc(f"make_timestamp({micros})")


def _of_time(sql: str, source: pa.DataType, target: pa.DataType) -> str | None:
    if source == DATE and target == TIME:
        return at_utc(f"CAST({sql} AS TIMESTAMP)")
    if source == TIME and target == DATE:
        return f"CAST({at_utc(sql)} AS DATE)"
    if {source, target} == {TIME, LOCAL_TIME}:
        return at_utc(sql)
    if {source, target} == {DATE, LOCAL_TIME}:
        return f"CAST({sql} AS {duckdb_name(target)})"
    if source == TIME and target == LONG:
        return floor_divided(f"epoch_us({sql})", 1_000_000)
    if source == TIME and target == DOUBLE:
        return f"(epoch_us({sql}) / 1000000)"
    return None


def floor_divided(whole: str, by: int) -> str:
    """Return a whole number divided and rounded down."""
    return f"(({whole} - (({whole} % {by}) + {by}) % {by}) // {by})"


def _as_text(sql: str, source: pa.DataType) -> str | None:
    if is_integer(source) or source == BOOLEAN:
        return f"CAST({sql} AS VARCHAR)"
    if is_decimal(source):
        printed = f"CAST({sql} AS VARCHAR)"
        if source.scale <= 6:
            return printed
        small = f"abs({sql}) < 0.000001"
        return guarded(printed, small, f"a decimal below 0.000001 as text, which Spark prints as 1E-{source.scale}")
    if is_float(source):
        printed = f"{JAVA_TEXT}({sql})" if source == DOUBLE else f"{JAVA_TEXT}_float({sql})"
        least = "2.2250738585072014e-308" if source == DOUBLE else "1.17549435e-38"
        tiny = f"{sql} <> 0 AND abs({sql}) < CAST('{least}' AS {duckdb_name(source)})"
        return guarded(printed, tiny, "the least of all floating point numbers as text")
    if source == DATE:
        return guarded(f"CAST({sql} AS VARCHAR)", beyond(sql), "days before year 1 or after 9999 as text")
    if source in {TIME, LOCAL_TIME}:
        local = at_utc(sql) if source == TIME else sql
        day = f"CAST({local} AS DATE)"
        return guarded(f"CAST({local} AS VARCHAR)", beyond(day), "times before year 1 or after 9999 as text")
    if source == BINARY:
        return f"decode({sql})"
    return None


def beyond(day: str) -> str:
    """Return the condition that a day isn't of the years 1 to 9999, which all print alike."""
    return f"{day} NOT BETWEEN DATE '0001-01-01' AND {_LAST_DAY}"


def trimmed(sql: str) -> str:
    """Return a text without the blanks and control characters around it."""
    return f"regexp_replace({sql}, '^{_SPACE}+|{_SPACE}+$', '', 'g')"


def _of_text(sql: str, target: pa.DataType) -> str | None:
    name = duckdb_name(target)
    if is_integer(target):
        whole = f"regexp_extract({sql}, '^{_SPACE}*([+-]?[0-9]+)(\\.[0-9]*)?{_SPACE}*$', 1)"
        fraction = f"regexp_full_match({sql}, '{_SPACE}*[+-]?\\.[0-9]*{_SPACE}*')"
        return f"CASE WHEN {fraction} THEN 0 ELSE TRY_CAST({whole} AS {name}) END"
    if is_decimal(target):
        number = f"regexp_extract({sql}, '^{_SPACE}*({_NUMBER}){_SPACE}*$', 1)"
        return f"TRY_CAST({number} AS {name})"
    if is_float(target):
        return _text_as_float(sql, name)
    if target == BOOLEAN:
        word = f"lower({trimmed(sql)})"
        yes, no = ("'t', 'true', 'y', 'yes', '1'", "'f', 'false', 'n', 'no', '0'")
        return f"CASE WHEN {word} IN ({yes}) THEN TRUE WHEN {word} IN ({no}) THEN FALSE END"
    if target == BINARY:
        return f"encode({sql})"
    if target == DATE:
        parts = f"regexp_extract({trimmed(sql)}, '{_DAY}', {_DAY_PARTS})"
        return guarded(_day(parts), _is_odd_year(sql), "days of years that haven't four digits")
    if target in {TIME, LOCAL_TIME}:
        return _text_as_time(sql, target)
    return None


def _text_as_float(sql: str, name: str) -> str:
    number = f"regexp_extract({sql}, '^{_SPACE}*({_NUMBER})[fFdD]?{_SPACE}*$', 1)"
    word = f"lower({trimmed(sql)})"
    hexadecimal = rf"{word} LIKE '%0x%'"
    other = (
        f"CASE WHEN {word} IN ('nan', 'infinity', '+infinity', '-infinity', 'inf', '+inf', '-inf') "
        f"THEN CAST({word} AS {name}) END"
    )
    return (
        f"CASE WHEN {number} <> '' THEN CAST({number} AS {name}) "
        f"WHEN {hexadecimal} THEN {fails('hexadecimal numbers in a text')} ELSE {other} END"
    )


def _is_odd_year(sql: str) -> str:
    """Whether a text begins as a day of a year that has a sign, or more or fewer digits than four."""
    return rf"regexp_matches({sql}, '^{_SPACE}*([+-][0-9]+|[0-9]{{5,7}})(-[0-9]{{1,2}})')"


def _day(parts: str) -> str:
    """The day that the parts of a text say; null if there is none."""

    def padded(part: str) -> str:
        return f"CASE ({parts}).{part} WHEN '' THEN '01' ELSE lpad(({parts}).{part}, 2, '0') END"

    return f"TRY_CAST(({parts}).y || '-' || {padded('m')} || '-' || {padded('d')} AS DATE)"


def _text_as_time(sql: str, target: pa.DataType) -> str:
    word = trimmed(sql)
    parts = f"regexp_extract({word}, '{_MOMENT}', {_MOMENT_PARTS})"
    clock = (
        f"lpad(({parts}).h, 2, '0') || ':' || lpad(({parts}).n, 2, '0') || ':' || "
        f"CASE ({parts}).s WHEN '' THEN '00' ELSE lpad(({parts}).s, 2, '0') END || "
        f"CASE ({parts}).f WHEN '' THEN '' ELSE left(({parts}).f, 7) END"
    )
    made = f"CAST({_day(parts)} AS VARCHAR) || ' ' || CASE ({parts}).clock WHEN '' THEN '00:00:00' ELSE {clock} END"
    zone = f"CASE WHEN ({parts}).z IN ('', 'Z') THEN '+00' ELSE ({parts}).z END"
    made = f"TRY_CAST({made} || {zone} AS TIMESTAMPTZ)" if target == TIME else f"TRY_CAST({made} AS TIMESTAMP)"
    almost = rf"regexp_matches({word}, '^([0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}.|T?[0-9]{{1,2}}:[0-9])')"
    other = fails("a text as a point in time in this form; write yyyy-MM-dd HH:mm:ss")
    return f"CASE WHEN ({parts}).y <> '' THEN {made} WHEN {almost} OR {_is_odd_year(sql)} THEN {other} END"


def _nested(sql: str, source: pa.DataType, target: pa.DataType) -> str | None:
    """The conversion of nested values whose parts need none but a wider type."""
    return f"CAST({sql} AS {duckdb_name(target)})" if _widens(source, target) else None


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    if source == target or pt.is_null(source):
        return True
    if pt.is_list(source) and pt.is_list(target):
        return _widens(source.value_type, target.value_type)
    if pt.is_map(source) and pt.is_map(target):
        return _widens(source.key_type, target.key_type) and _widens(source.item_type, target.item_type)
    if pt.is_struct(source) and pt.is_struct(target) and source.num_fields == target.num_fields:
        return all(a.name == b.name and _widens(a.type, b.type) for a, b in zip(source, target, strict=True))
    if is_integer(source):
        return bool(
            target == DOUBLE or is_decimal(target) or (is_integer(target) and target.bit_width >= source.bit_width)
        )
    return bool(source == FLOAT and target == DOUBLE)
