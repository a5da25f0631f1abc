"""Convert constants: from text and Python values to typed ones, and between types without loss."""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr.sqltypes import (
    MAX_DECIMAL_DIGITS,
    holds_integer,
    is_binary,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
    is_string,
    is_timestamp,
)
from pudi.expr.tree import Literal

# Smaller integers are exact as DOUBLE, and no other integer rounds to one of them.
_EXACT_DOUBLE = 1 << 53
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)? ?(Z|UTC|[+-]\d{2}:\d{2})?",
    re.ASCII,
)


def number_literal(text: str) -> Literal:
    """Type a number without suffix as Spark does: INT, BIGINT or DECIMAL by size, DOUBLE with an exponent.

    Raises:
        InvalidArgumentError: not a number, or more than 38 digits.
    """
    try:
        if "e" in text.lower():
            return Literal(float(text), pa.float64())
        exact = Decimal(text)
    except (ValueError, ArithmeticError) as error:
        raise InvalidArgumentError(f"{text!r} is not a number") from error
    scale = max(0, -int(exact.as_tuple().exponent))
    if scale == 0 and "." not in text:
        whole = int(exact)
        for type_ in (pa.int32(), pa.int64()):
            if holds_integer(type_, whole):
                return Literal(whole, type_)
    precision = max(len(exact.as_tuple().digits), scale, 1)
    if precision > MAX_DECIMAL_DIGITS:
        raise InvalidArgumentError(f"the number {text} has more than {MAX_DECIMAL_DIGITS} digits")
    return Literal(exact, pa.decimal128(precision, scale))


def parse_date(text: str) -> datetime.date:
    """Parse `yyyy-mm-dd`, years 0001 to 9999.

    Raises:
        InvalidArgumentError: not a date of this form.
    """
    match = _DATE.fullmatch(text.strip())
    if not match:
        raise InvalidArgumentError(f"{text!r} is not a date: write it as '2026-01-31'")
    try:
        return datetime.date(*map(int, match.groups()))
    except ValueError as error:
        raise InvalidArgumentError(f"{text!r} is not a date: {error}") from error


def parse_timestamp(text: str) -> datetime.datetime:
    """Parse `yyyy-mm-dd[ hh:mm[:ss[.ffffff]]][zone]`; aware if there is a zone (Z, UTC, +hh:mm), else naive.

    Raises:
        InvalidArgumentError: not a timestamp of this form.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if not match:
        raise InvalidArgumentError(
            f"{text!r} is not a timestamp: write it as '2026-01-31 12:30:00', with Z or +01:00 behind it if not in UTC"
        )
    *numbers, fraction, zone = match.groups()
    try:
        year, month, day, hour, minute, second = (int(part or 0) for part in numbers)
        naive = datetime.datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")))
        if zone is None:
            return naive
        offset = datetime.timedelta(0)
        if zone not in ("Z", "UTC"):
            offset = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])) * (-1 if zone[0] == "-" else 1)
        return naive.replace(tzinfo=datetime.timezone(offset)).astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{text!r} is not a timestamp: {error}") from error


def coerce(literal: Literal, target: pa.DataType) -> Literal | None:
    """Return the constant as a `target` if every comparison with it keeps its result; otherwise None."""
    value = literal.value
    if value is None or literal.type == target:
        return Literal(value, target)
    if is_numeric(literal.type) and is_numeric(target):
        return _coerce_number(literal, target)
    if isinstance(value, str):
        return _coerce_text(value, target)
    if isinstance(value, bytes) and is_binary(target):
        return Literal(value, target)
    if is_timestamp(target) and isinstance(value, datetime.date):
        return _coerce_timestamp(value, target)
    if pt.is_date32(target) and isinstance(value, datetime.datetime) and value.tzinfo is None:
        return Literal(value.date(), target) if value.time() == datetime.time() else None
    return None


def _coerce_number(literal: Literal, target: pa.DataType) -> Literal | None:
    value = literal.value
    assert isinstance(value, int | float | Decimal)
    if is_float(target):
        double = float(value)
        # Spark compares FLOAT with other types as DOUBLE, so a constant that FLOAT can't represent must stay a DOUBLE.
        return Literal(double, target) if pt.is_float64(target) or double == float32(double) else None
    if isinstance(value, float):
        # also if this is NaN or an infinity
        if not (is_integer(target) and abs(value) < _EXACT_DOUBLE and value.is_integer()):
            return None
        value = int(value)
    exact = Decimal(value)
    if is_integer(target):
        whole = int(exact)
        return Literal(whole, target) if exact == whole and holds_integer(target, whole) else None
    return _coerce_decimal(exact, target)


def _coerce_decimal(value: Decimal, target: pa.DataType) -> Literal | None:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0 and exponent < -target.scale:
        digits, exponent = digits[:-1], exponent + 1
    fits = not any(digits) or (exponent >= -target.scale and len(digits) + exponent <= target.precision - target.scale)
    if not fits:
        return None
    shifted = int("".join(map(str, digits))) * 10 ** (exponent + target.scale) if any(digits) else 0
    return Literal(Decimal((sign, tuple(map(int, str(shifted))), -target.scale)), target)


def _coerce_text(value: str, target: pa.DataType) -> Literal | None:
    if is_string(target):
        return Literal(value, target)
    if pt.is_date32(target):
        return Literal(parse_date(value), target)
    if is_timestamp(target):
        return _coerce_timestamp(parse_timestamp(value), target)
    return None


def _coerce_timestamp(value: datetime.date, target: pa.DataType) -> Literal | None:
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if target.unit == "ms" and value.microsecond % 1000:
        return None
    if target.tz:
        return Literal(value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc), target)
    return None if value.tzinfo else Literal(value, target)


def float32(value: float) -> float:
    """Return the nearest FLOAT, as a double."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def cast_text(value: str, target: pa.DataType) -> Literal:
    """Compute `CAST('…' AS target)` for the few targets whose text has only one reading.

    Raises:
        InvalidArgumentError: the text isn't a value of the target.
        NotSupportedError: the target is not DATE, TIMESTAMP, DECIMAL, STRING, or FLOAT or DOUBLE for 'NaN'.
    """
    if is_timestamp(target):
        # Without a zone it fits both kinds of timestamp column, as UTC if one is needed.
        moment = parse_timestamp(value)
        return Literal(moment, pa.timestamp("us", tz="UTC" if moment.tzinfo else None))
    if fitted := _coerce_text(value, target):
        return fitted
    if is_float(target) and value in ("NaN", "Infinity", "-Infinity"):
        return Literal(float(value), target)
    if is_decimal(target):
        plain = number_literal(value)
        literal = coerce(plain, target) if not is_float(plain.type) else None
        if literal is None:
            raise InvalidArgumentError(f"{value!r} does not fit {target} exactly")
        return literal
    raise NotSupportedError(f"CAST of the text {value!r} to {target} in `where`: write the constant itself")


_PYTHON_TYPES = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
}


def constant(value: object) -> Literal:
    """Return a Python value as a constant; a text is a STRING here, not an expression.

    Raises:
        InvalidArgumentError: the value has no SQL type.
    """
    if value is None:
        return Literal(None, pa.null())
    if isinstance(value, datetime.datetime):
        try:
            moment = value.astimezone(datetime.timezone.utc) if value.tzinfo else value
        except OverflowError as error:
            raise InvalidArgumentError(f"{value!r} lies beyond the years 1 to 9999 in UTC") from error
        return Literal(moment, pa.timestamp("us", tz="UTC" if value.tzinfo else None))
    for kind, type_ in _PYTHON_TYPES.items():
        if isinstance(value, kind):
            return Literal(value, type_)
    if isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite()):
        return number_literal(f"{value:f}" if isinstance(value, Decimal) else str(value))
    raise InvalidArgumentError(
        f"{value!r} is no constant: give SQL text, a number, bool, date, datetime, bytes or None"
    )
