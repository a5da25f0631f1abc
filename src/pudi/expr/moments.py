"""Points in time of functions, in UTC whatever the session time zone: in Arrow and as Spark SQL.

Formats may contain only numeric fields, and years go from 1 to 9999.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError

DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
"""The default format of from_unixtime (TimestampFormatter.defaultPattern)."""

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_DAY_SECONDS, _DAY_MICROS = 86_400, 86_400_000_000
_FIELDS: Final = {
    "yyyy": (pc.year, "%Y", "year", None),
    "MM": (pc.month, "%m", "month", None),
    "dd": (pc.day, "%d", "day", None),
    "HH": (pc.hour, "%H", "hour", (3600, 24)),
    "mm": (pc.minute, "%M", "minute", (60, 60)),
    "ss": (pc.second, "%S", "second", (1, 60)),
}
"""Fields of formats, coarsest first: Arrow's, strptime's and Spark's function, the seconds in one, and their number."""
_PIECE = re.compile(r"([A-Za-z])\1*|'([^']+)'|([^A-Za-z'\[\]{}#%])", re.ASCII)


def format_pieces(text: object) -> tuple[str, ...] | None:
    """Split a Java format into fields, by letter, and quoted text; None if it has unsupported fields."""
    if not isinstance(text, str) or not text:
        return None
    pieces = list(_PIECE.finditer(text))
    if "".join(piece[0] for piece in pieces) != text or any(piece[1] and piece[0] not in _FIELDS for piece in pieces):
        return None
    return tuple(piece[0] if piece[1] else f"'{piece[2] or piece[3]}'" for piece in pieces)


def fields_of(text: object) -> list[str]:
    """Return the fields of a Java format, without the text between them."""
    return [piece for piece in format_pieces(text) or () if piece in _FIELDS]


def keeps_order(text: object) -> bool:
    """Return whether texts of a format sort as their points in time do: fields from the year down, none left out."""
    fields = fields_of(text)
    return bool(fields) and fields == list(_FIELDS)[: len(fields)]


def seconds_of(values: pa.Array) -> pa.Array:
    """Return points in time in seconds in UTC, without time zone.

    Args:
        values: timestamps, dates, or integers that count seconds since 1970.

    Raises:
        InvalidArgumentError: a point in time is outside the years 1 to 9999.
    """
    kind = values.type
    if pt.is_integer(kind):
        seconds = values.cast(pa.int64())
    elif pt.is_date32(kind):
        seconds = pc.multiply(values.view(pa.int32()).cast(pa.int64()), _DAY_SECONDS)
    else:
        micros = values.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).view(pa.timestamp("us"))
        seconds = pc.floor_temporal(micros, unit="second").cast(pa.timestamp("s")).view(pa.int64())
    ends = pc.min_max(seconds).as_py()
    if ends["min"] is not None and (ends["min"] < _FIRST_SECOND or ends["max"] > _LAST_SECOND):
        raise InvalidArgumentError("where has a function of a point in time that is in no year from 1 to 9999")
    return seconds.view(pa.timestamp("s"))


def formatted(moments: pa.Array, text: object) -> pa.Array:
    """Return points in time as texts of a Java format."""
    parts = []
    for piece in format_pieces(text) or ():
        if piece not in _FIELDS:
            parts.append(pa.scalar(piece[1:-1]))
            continue
        parts.append(pc.utf8_lpad(_FIELDS[piece][0](moments).cast(pa.string()), len(piece), "0"))
    if not any(isinstance(part, pa.Array) for part in parts):
        parts.append(pc.if_else(moments.is_valid(), "", pa.scalar(None, pa.string())))
    return pc.binary_join_element_wise(*parts, "")


def one_around(least: pa.Array, greatest: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Widen years by a year, or dates by a day, for bounds computed in an unknown time zone."""
    one = pa.scalar(1, pa.int32())
    below, above = pc.subtract(least.view(pa.int32()), one), pc.add(greatest.view(pa.int32()), one)
    return below.view(least.type), above.view(greatest.type)


def texts_around(least: pa.Array, greatest: pa.Array, text: object) -> tuple[pa.Array, pa.Array]:
    """Widen texts of a format by a day or the format's finest field; null if unknown."""
    pieces = format_pieces(text) or ()
    further = {"yyyy": 368, "MM": 33}.get(fields_of(text)[-1], 2)
    known = "".join(_FIELDS[piece][1] if piece in _FIELDS else piece.strip("'") for piece in pieces)
    sides = []
    for side, moved in ((least, -1), (greatest, further)):
        moments = pc.strptime(side, format=known, unit="s", error_is_null=True)
        seconds = pc.add(moments.view(pa.int64()), moved * _DAY_SECONDS)
        inside = pc.and_(pc.greater_equal(seconds, _FIRST_SECOND), pc.less_equal(seconds, _LAST_SECOND))
        seconds = pc.if_else(inside, seconds, pa.scalar(None, pa.int64()))
        sides.append(formatted(seconds.view(pa.timestamp("s")), text))
    return sides[0], sides[1]


class Moment:
    """A point in time as SQL: a timestamp, a date, or seconds since 1970.

    Args:
        arg: the value.
        kind: its type.
    """

    def __init__(self, arg: str, kind: pa.DataType) -> None:
        self._arg, self._kind = arg, kind
        self._zoned = pt.is_timestamp(kind) and kind.tz is not None
        self._number = f"unix_micros({arg})" if self._zoned else f"CAST({arg} AS BIGINT)"
        self._day = f"{_DAY_MICROS if self._zoned else _DAY_SECONDS}L"
        self._counted = self._zoned or pt.is_integer(kind)

    @property
    def date(self) -> str:
        """The date."""
        if not self._counted:
            return self._arg if pt.is_date32(self._kind) else f"CAST({self._arg} AS DATE)"
        days = f"(({self._number} - pmod({self._number}, {self._day})) div {self._day})"
        return f"date_add(DATE '1970-01-01', CAST({days} AS INT))"

    @property
    def in_range(self) -> str:
        """Whether the year is from 1 to 9999."""
        if not self._counted:
            return f"year({self.date}) BETWEEN 1 AND 9999"
        unit = 1_000_000 if self._zoned else 1
        return f"{self._number} BETWEEN {_FIRST_SECOND * unit}L AND {_LAST_SECOND * unit + unit - 1}L"

    def field(self, name: str) -> str:
        """Return a field of a format, as an integer."""
        _, _, function, within_day = _FIELDS[name]
        if within_day is None or not self._counted:
            return f"{function}({self._arg if within_day else self.date})"
        seconds = f"pmod({self._number}, {self._day})"
        if self._zoned:
            seconds = f"({seconds} div 1000000L)"
        return f"CAST(pmod({seconds} div {within_day[0]}L, {within_day[1]}L) AS INT)"

    def formatted(self, form: object, text: Callable[[str], str]) -> str:
        """Return the text of a Java format; `text` formats a literal."""
        parts = [
            text(piece[1:-1]) if piece[0] == "'" else f"lpad(CAST({self.field(piece)} AS STRING), {len(piece)}, '0')"
            for piece in format_pieces(form) or ()
        ]
        return f"concat({', '.join(parts)})"
