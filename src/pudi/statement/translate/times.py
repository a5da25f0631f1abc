"""Functions of days and points in time. The session's time zone is UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pudi.expr.sqltypes import is_integer
from pudi.statement.translate.casts import at_utc, beyond, cast, floor_divided, moment
from pudi.statement.translate.signatures import Function, Rule, Signature, argument, constant_text, function, given
from pudi.statement.translate.typed_values import (
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    LOCAL_TIME,
    LONG,
    NULL,
    TEXT,
    TIME,
    Value,
    fails,
    guarded,
    misfit,
    refused,
    text,
)

_DAYS = {"MONTH": "months", "YEAR": "years", "WEEK": "weeks", "DAY": "days", "QUARTER": "quarters"}
_MICROS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
_TRUNCATED = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month",
    "MM": "month", "WEEK": "week",
}  # fmt: skip
_TRUNCATED_TIMES = {
    **_TRUNCATED, "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
    "MILLISECOND": "millisecond", "MICROSECOND": "microsecond",
}  # fmt: skip
_OF_DAYS = {
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "dayofmonth": "day({0})", "quarter": "quarter({0})",
    "dayofweek": "dayofweek({0}) + 1", "weekday": "isodow({0}) - 1", "dayofyear": "dayofyear({0})",
    "weekofyear": "week({0})",
}  # fmt: skip
_FIELDS = {
    "YEAR": "year({0})", "YEARS": "year({0})", "Y": "year({0})", "YR": "year({0})", "MONTH": "month({0})",
    "MONTHS": "month({0})", "MON": "month({0})", "DAY": "day({0})", "DAYS": "day({0})", "D": "day({0})",
    "QUARTER": "quarter({0})", "QTR": "quarter({0})", "DOW": "dayofweek({0}) + 1", "DAYOFWEEK": "dayofweek({0}) + 1",
    "DOW_ISO": "isodow({0})", "DAYOFWEEK_ISO": "isodow({0})", "DOY": "dayofyear({0})", "WEEK": "week({0})",
    "WEEKS": "week({0})", "W": "week({0})", "YEAROFWEEK": "isoyear({0})",
}  # fmt: skip
_CLOCK_FIELDS = {
    "HOUR": "hour", "HOURS": "hour", "H": "hour", "MINUTE": "minute", "MINUTES": "minute", "MIN": "minute",
    "M": "minute",
}  # fmt: skip
_FORMATS = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g", "SSSSSS": "%f", "E": "%a",
    "EEE": "%a", "EEEE": "%A", "MMM": "%b", "MMMM": "%B", "d": "%-d", "M": "%-m", "yy": "%y", "D": "%-j", "DDD": "%j",
    "hh": "%I", "a": "%p", "H": "%-H", "m": "%-M", "s": "%-S",
}  # fmt: skip
_READ = {"yyyy": "[0-9]{4}", "MM": "[0-9]{2}", "dd": "[0-9]{2}", "HH": "[0-9]{2}", "mm": "[0-9]{2}", "ss": "[0-9]{2}"}
_PIECES = re.compile(r"(?P<field>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>.)", re.DOTALL)
_WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


def extract(field: str, value: Value) -> Value:
    """Translate EXTRACT.

    Raises:
        NotSupportedError: the field is none that both engines compute alike.
    """
    name = field.upper()
    if name in _FIELDS:
        return Value(f"CAST({_FIELDS[name].format(argument('extract', value, 'date').sql)} AS INTEGER)", INT)
    if name in _CLOCK_FIELDS:
        return _of_clock(_CLOCK_FIELDS[name])("extract", [value])
    if name in {"SECOND", "SECONDS", "SEC", "S"}:
        micros = f"epoch_us({argument('extract', value, 'time').sql})"
        rest = f"CAST((({micros} % 60000000) + 60000000) % 60000000 AS DECIMAL(8, 0))"
        return Value(f"CAST({rest} * CAST('0.000001' AS DECIMAL(7, 6)) AS DECIMAL(8, 6))", pa.decimal128(8, 6))
    raise refused(f"EXTRACT of {field}")


def _part(name: str, args: Sequence[Value]) -> Value:
    return extract(constant_text(name, args[0]), args[1])


def _of_clock(field: str) -> Signature:
    return given("time", INT, f"CAST({field}({at_utc('{0}')}) AS INTEGER)")


def plus(value: Value, interval: Value, sign: str) -> Value:
    """Translate a day or a point in time plus or minus an interval.

    Raises:
        InvalidArgumentError: the value is neither.
        NotSupportedError: it's a day, and the interval has hours.
    """
    number, unit = interval.literal
    number = -number if sign == "-" else number
    kind = value.kind
    if kind == TEXT:
        value, kind = cast(value, TIME), TIME
    if unit in _DAYS and kind == DATE:
        return Value(f"CAST({value.sql} + to_{_DAYS[unit]}(CAST({number} AS INTEGER)) AS DATE)", DATE)
    if kind not in {TIME, LOCAL_TIME}:
        raise (
            refused(f"an interval of {unit}s and a day", "CAST the day AS TIMESTAMP")
            if kind == DATE
            else misfit(sign, kind)
        )
    at = at_utc(value.sql) if kind == TIME else value.sql
    if unit in _DAYS:
        moved = f"({at} + to_{_DAYS[unit]}(CAST({number} AS INTEGER)))"
    else:
        moved = f"({at} + to_microseconds(CAST({number * _MICROS[unit]} AS BIGINT)))"
    return Value(at_utc(moved) if kind == TIME else moved, kind)


def interval(number: str, unit: str) -> Value:
    """Translate `INTERVAL 1 DAY`.

    Raises:
        NotSupportedError: it isn't a whole number of one unit.
    """
    name = unit.upper().removesuffix("S")
    if name not in {*_DAYS, *_MICROS} or re.fullmatch(r"\s*[+-]?\d+\s*", number) is None:
        raise refused(f"INTERVAL {number} {unit}", "write a whole number of one unit, such as INTERVAL 3 DAYS")
    return Value("", INTERVAL, (int(number), name))


def _days_added(sign: str) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        day, number = argument(name, args[0], "date"), args[1]
        if not (is_integer(number.kind) and number.kind.bit_width <= 32) and number.kind != NULL:
            raise misfit(name, number.kind)
        return Value(f"CAST({day.sql} {sign} {cast(number, INT).sql} AS DATE)", DATE)

    return rule


def days(day: Value, number: Value, sign: str) -> Value:
    """Translate a day plus or minus a number of days."""
    return _days_added(sign)(sign, [day, number])


def added(unit: str, number: Value, value: Value) -> Value:
    """Translate `timestampadd(MONTH, 1, t)` and `dateadd` with a unit."""
    at, count = at_utc(argument("timestampadd", value, "time").sql), argument("timestampadd", number, "int").sql
    name = unit.upper()
    if name in _DAYS:
        return Value(at_utc(f"({at} + to_{_DAYS[name]}({count}))"), TIME)
    if name in _MICROS:
        return Value(at_utc(f"({at} + to_microseconds(CAST({count} AS BIGINT) * {_MICROS[name]}))"), TIME)
    raise refused(f"timestampadd of {unit}")


def between(unit: str, start: Value, end: Value) -> Value:
    """Translate `timestampdiff(HOUR, a, b)` and `datediff` with a unit: whole units, without the rest."""
    name = unit.upper()
    micros = {**_MICROS, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}.get(name)
    if micros is None:
        raise refused(f"a difference in {unit}s", "use months_between")
    a, b = (argument("timestampdiff", each, "time").sql for each in (start, end))
    return Value(f"((epoch_us({b}) - epoch_us({a})) // {micros})", LONG)


def _months_between(name: str, args: Sequence[Value]) -> Value:
    rounds = len(args) < 3 or args[2].literal is True
    if len(args) > 2 and not isinstance(args[2].literal, bool):
        raise refused("months_between with a third argument that is no constant")
    a, b = (at_utc(argument(name, each, "time").sql) for each in args[:2])
    months = f"((year({a}) - year({b})) * 12 + month({a}) - month({b}))"
    seconds = " - ".join(f"(day({x}) * 86400 + hour({x}) * 3600 + minute({x}) * 60 + second({x}))" for x in (a, b))
    last = " AND ".join(f"day({x}) = day(last_day(CAST({x} AS DATE)))" for x in (a, b))
    exact = f"CAST({months} AS DOUBLE) + CAST({seconds} AS DOUBLE) / 2678400"
    made = f"CASE WHEN day({a}) = day({b}) OR ({last}) THEN CAST({months} AS DOUBLE) ELSE {exact} END"
    return Value(f"(floor(({made}) * 1e8 + 0.5e0) / 1e8)" if rounds else made, DOUBLE)


def _next_day(name: str, args: Sequence[Value]) -> Value:
    wanted = constant_text(name, args[1]).upper()
    fits = [n for n, each in enumerate(_WEEKDAYS) if wanted in {each[:2], each[:3], each}]
    day = argument(name, args[0], "date").sql
    if not fits:
        return Value("CAST(NULL AS DATE)", DATE)
    return Value(f"CAST({day} + CAST(1 + ({fits[0]} - isodow({day}) + 7) % 7 AS INTEGER) AS DATE)", DATE)


def _truncated(name: str, args: Sequence[Value]) -> Value:
    unit = _TRUNCATED.get(constant_text(name, args[1]).upper())
    day = argument(name, args[0], "date").sql
    return Value("CAST(NULL AS DATE)" if unit is None else f"CAST(date_trunc('{unit}', {day}) AS DATE)", DATE)


def _truncated_time(name: str, args: Sequence[Value]) -> Value:
    unit = _TRUNCATED_TIMES.get(constant_text(name, args[0]).upper())
    at = at_utc(argument(name, args[1], "time").sql)
    return Value("CAST(NULL AS TIMESTAMPTZ)" if unit is None else at_utc(f"date_trunc('{unit}', {at})"), TIME)


def _pieces(name: str, pattern: str) -> list[tuple[str, bool]]:
    """A pattern of Java's DateTimeFormatter as its pieces, and whether each is a field."""
    found = []
    for each in _PIECES.finditer(pattern):
        letters, quoted, other = each["field"], each["quoted"], each["other"]
        if letters is not None:
            found.append((letters, True))
        elif quoted is not None:
            found.append((quoted.replace("''", "'") or "'", False))
        elif other in "[]{}#'":
            raise refused(f"{name} with {other} in its pattern")
        else:
            found.append((other, False))
    return found


def formatted(name: str, at: str, pattern: str) -> str:
    """Return a local time by a constant pattern of Java's DateTimeFormatter.

    Raises:
        NotSupportedError: the pattern has a field that engines print differently.
    """
    made = ""
    for piece, is_field in _pieces(name, pattern):
        if is_field and piece not in _FORMATS:
            raise refused(f"{name} with {piece} in its pattern", f"use {', '.join(_FORMATS)}")
        made += _FORMATS[piece] if is_field else piece.replace("%", "%%")
    shown = f"strftime({at}, {text(made)})" if made else f"CASE WHEN {at} IS NOT NULL THEN '' END"
    return guarded(shown, beyond(f"CAST({at} AS DATE)"), f"{name} of years before 1 or after 9999")


def _date_format(name: str, args: Sequence[Value]) -> Value:
    at = at_utc(argument(name, args[0], "time").sql)
    return Value(formatted(name, at, constant_text(name, args[1])), TEXT)


def _parsed(target: pa.DataType) -> Rule:
    def rule(name: str, args: Sequence[Value]) -> Value:
        if args[0].kind != TEXT or len(args) == 1:
            return argument(name, args[0], "date" if target == DATE else "time")
        sql, pattern = args[0].sql, constant_text(name, args[1])
        regex, groups = "", []
        for piece, is_field in _pieces(name, pattern):
            if is_field and (piece not in _READ or piece in groups):
                raise refused(f"{name} with {piece} in its pattern", f"use {', '.join(_READ)}, or a CAST")
            groups += [piece] if is_field else []
            regex += f"({_READ[piece]})" if is_field else re.escape(piece)
        if not {"yyyy", "MM", "dd"} <= set(groups):
            raise refused(f"{name} with the pattern {pattern!r}", "give it a year, month and day: yyyy, MM, dd")
        full = text(f"^{regex}$")

        def group(field: str, missing: str = "'00'") -> str:
            return f"regexp_extract({sql}, {full}, {groups.index(field) + 1})" if field in groups else missing

        day = f"{group('yyyy')} || '-' || {group('MM')} || '-' || {group('dd')}"
        clock = f"{group('HH')} || ':' || {group('mm')} || ':' || {group('ss')}"
        made = (
            f"TRY_CAST({day} AS DATE)"
            if target == DATE
            else f"TRY_CAST({day} || ' ' || {clock} || '+00' AS TIMESTAMPTZ)"
        )
        wrong = fails(f"{name} of a text that isn't of its pattern")
        return Value(f"CASE WHEN {sql} IS NULL THEN NULL WHEN {made} IS NULL THEN {wrong} ELSE {made} END", target)

    return rule


def _seconds(name: str, args: Sequence[Value]) -> Value:
    if not args:
        return Value("(epoch_us(now()) // 1000000)", LONG)
    if args[0].kind == TEXT:
        raise refused(f"{name} of a text", f"{name}(to_timestamp(text, pattern))")
    return Value(f"(epoch_us({argument(name, args[0], 'time').sql}) // 1000000)", LONG)


def _from_seconds(name: str, args: Sequence[Value]) -> Value:
    at = f"make_timestamp({argument(name, args[0], 'long').sql} * 1000000)"
    pattern = constant_text(name, args[1]) if len(args) > 1 else "yyyy-MM-dd HH:mm:ss"
    return Value(formatted(name, at, pattern), TEXT)


def _of_epoch(unit: int) -> Function:
    def rule(name: str, args: Sequence[Value]) -> Value:
        if not is_integer(args[0].kind) and args[0].kind != NULL:
            raise refused(f"{name} of a number with a fraction")
        return Value(moment(f"({argument(name, args[0], 'long').sql} * {unit})"), TIME)

    return function(of_1=rule)


def _epoch(unit: int) -> Function:
    return function(given("time", LONG, floor_divided("epoch_us({0})", unit)))


_DATE_OF_PARTS = guarded(
    "CASE WHEN {1} BETWEEN 1 AND 12 AND {2} BETWEEN 1 AND 31 "
    "THEN TRY_CAST(lpad(CAST({0} AS VARCHAR), 4, '0') || '-' || {1} || '-' || {2} AS DATE) END",
    "{0} NOT BETWEEN 1 AND 9999",
    "make_date of years before 1 or after 9999",
)
_TODAY = function(given("", DATE, f"CAST({at_utc('now()')} AS DATE)"))
_NOW = function(given("", TIME, "now()"))
_TO_UNIX = function(of_0=_seconds, of_1=_seconds)
_DIFFERENCE = function(given("date date", INT, "CAST({0} - {1} AS INTEGER)"))
_ADDED, _TAKEN = function(of_2=_days_added("+")), function(of_2=_days_added("-"))

TIMES: Mapping[str, Function] = {
    **{name: function(given("date", INT, f"CAST({sql} AS INTEGER)")) for name, sql in _OF_DAYS.items()},
    **{name: function(_of_clock(name)) for name in ("hour", "minute", "second")},
    "date_part": function(of_2=_part),
    "datepart": function(of_2=_part),
    "date_add": _ADDED,
    "dateadd": _ADDED,
    "date_sub": _TAKEN,
    "datediff": _DIFFERENCE,
    "date_diff": _DIFFERENCE,
    "add_months": function(given("date int", DATE, "CAST({0} + to_months({1}) AS DATE)")),
    "months_between": function(of_2=_months_between, of_3=_months_between),
    "last_day": function(given("date", DATE, "last_day({0})")),
    "next_day": function(of_2=_next_day),
    "trunc": function(of_2=_truncated),
    "date_trunc": function(of_2=_truncated_time),
    "to_date": function(of_1=_parsed(DATE), of_2=_parsed(DATE)),
    "to_timestamp": function(of_1=_parsed(TIME), of_2=_parsed(TIME)),
    "date_format": function(of_2=_date_format),
    "unix_timestamp": _TO_UNIX,
    "to_unix_timestamp": function(of_1=_seconds),
    "from_unixtime": function(of_1=_from_seconds, of_2=_from_seconds),
    "unix_date": function(given("date", INT, "CAST({0} - DATE '1970-01-01' AS INTEGER)")),
    "unix_seconds": _epoch(1_000_000),
    "unix_millis": _epoch(1000),
    "unix_micros": function(given("time", LONG, "epoch_us({0})")),
    "timestamp_seconds": _of_epoch(1_000_000),
    "timestamp_millis": _of_epoch(1000),
    "timestamp_micros": _of_epoch(1),
    "date_from_unix_date": function(given("int", DATE, "CAST(DATE '1970-01-01' + {0} AS DATE)")),
    "make_date": function(given("int int int", DATE, _DATE_OF_PARTS)),
    "current_date": _TODAY,
    "curdate": _TODAY,
    "current_timestamp": _NOW,
    "now": _NOW,
}
"""Functions of days and points in time by name."""
