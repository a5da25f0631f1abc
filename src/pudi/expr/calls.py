"""The functions of the `where` language and of expression indexes: their results in Arrow, and their order.

Points in time are in UTC, regardless of the session time zone. Formats may contain only numeric fields, and years go
from 1 to 9999. Functions have Spark's semantics (`ExpressionIndexSparkFunctions` lists those of Hudi's expression
indexes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import sqltypes
from pudi.expr.tree import Call, Column, Expr, type_of

DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
"""The default format of from_unixtime (TimestampFormatter.defaultPattern)."""

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and last second of the years 1 to 9999."""

_TEXT: Final = frozenset({"lower", "upper", "trim", "ltrim", "rtrim"})
_PARTS: Final = {"year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour}
_FORMATTED: Final = frozenset({"date_format", "from_unixtime"})
NAMES: Final = frozenset({*_TEXT, *_PARTS, *_FORMATTED, "substring", "to_date"})
"""The supported functions."""

_FIELDS: Final = {
    "yyyy": (pc.year, 4),
    "MM": (pc.month, 2),
    "dd": (pc.day, 2),
    "HH": (pc.hour, 2),
    "mm": (pc.minute, 2),
    "ss": (pc.second, 2),
}
"""Fields of formats, coarsest first: the function that computes each, and its number of digits."""
_STRPTIME = dict(zip(_FIELDS, ("%Y", "%m", "%d", "%H", "%M", "%S"), strict=True))
_PIECE = re.compile(r"([A-Za-z])\1*|'[^']+'|[^A-Za-z'\[\]{}#%]", re.ASCII)
_DAY = 86_400


def bound_call(name: str, arg: Expr, options: tuple[object, ...]) -> Call:
    """Return a typed function call on a bound value.

    Args:
        name: the function's name in lower case.
        arg: the value.
        options: the constants after the value.

    Raises:
        NotSupportedError: an unknown function, or unsupported argument types or constants.
    """
    kind = type_of(arg)
    shown = Call(name, arg, options)
    result: pa.DataType | None = None
    zoneless = pt.is_date32(kind) or sqltypes.is_timestamp(kind)
    if name in _TEXT and sqltypes.is_string(kind) and not options:
        result = pa.string()
    elif name == "substring" and sqltypes.is_string(kind) and len(options) == 2:
        result = pa.string() if all(isinstance(n, int) and n >= 0 for n in options) else None
    elif name in _PARTS and zoneless and not options:
        result = pa.int32() if name != "hour" or sqltypes.is_timestamp(kind) else None
    elif name == "to_date" and zoneless and not options:
        result = pa.date32()
    elif name == "from_unixtime" and sqltypes.is_integer(kind) and len(options) <= 1:
        options = options or (DEFAULT_FORMAT,)
        result = pa.string() if format_pieces(options[0]) else None
    elif name == "date_format" and zoneless and len(options) == 1:
        pieces = format_pieces(options[0])
        timed = any(piece in {"HH", "mm", "ss"} for piece in pieces or ())
        result = pa.string() if pieces and not (timed and pt.is_date32(kind)) else None
    if result is None:
        raise NotSupportedError(f"{shown} of a value of type {sqltypes.sql_name(kind)} in where")
    return Call(name, arg, options, result)


def index_call(function: str, options: Mapping[str, str], column: Column) -> Call | Column | None:
    """Return the expression of an expression index; None if pudi doesn't support it.

    Args:
        function: the index's function.
        options: its settings by Hudi's keys (HoodieExpressionIndex).
        column: the bound column.
    """
    if function == "identity":
        return column
    constants: tuple[object, ...] = ()
    try:
        if function == "substring":
            constants = (int(options["pos"]), int(options["len"]))
        elif function in _FORMATTED or (function == "to_date" and "format" in options):
            constants = (options.get("format", DEFAULT_FORMAT),)
        if function not in NAMES or "trimString" in options or column.type is None:
            return None
        if sqltypes.plain(column.type) != column.type:
            return None
        return bound_call(function, column, constants)
    except (KeyError, ValueError, NotSupportedError):
        return None


def format_pieces(text: object) -> tuple[str, ...] | None:
    """Split a Java format into fields, by letter, and quoted text; None if it has unsupported fields."""
    if not isinstance(text, str) or not text:
        return None
    pieces: list[str] = []
    place = 0
    while place < len(text):
        match = _PIECE.match(text, place)
        if match is None or (match[1] and match[0] not in _FIELDS):
            return None
        literal = not match[1]
        pieces.append(f"'{match[0].strip(chr(39)) if len(match[0]) > 1 else match[0]}'" if literal else match[0])
        place = match.end()
    return tuple(pieces)


def keeps_order(call: Call) -> bool:
    """Return whether a greater argument never gives a smaller result."""
    if call.name in _FORMATTED:
        fields = [piece for piece in format_pieces(call.options[0]) or () if piece in _FIELDS]
        return bool(fields) and fields == list(_FIELDS)[: len(fields)]
    return call.name in {"year", "to_date"}


def depends_on_zone(call: Call) -> bool:
    """Return whether the result in Spark depends on the session time zone."""
    kind = type_of(call.arg)
    zoned = sqltypes.is_timestamp(kind) and (kind.tz is not None or call.name == "date_format")
    return call.name == "from_unixtime" or zoned


def apply_call(call: Call, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Compute a function's results.

    Args:
        call: the bound function.
        values: the values of its argument, in its type.

    Raises:
        InvalidArgumentError: a point in time is outside the years 1 to 9999.
    """
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if call.name in {"lower", "upper"}:
        return _cased(values, call.name)
    if call.name in _TEXT:
        strip = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[call.name]
        return strip(values, " ").cast(pa.string())
    if call.name == "substring":
        position, length = (int(str(each)) for each in call.options)
        start = max(position - 1, 0)
        return pc.utf8_slice_codeunits(values, start, start + length).cast(pa.string())
    moments = _moments(values)
    if call.name in _PARTS:
        return _PARTS[call.name](moments).cast(pa.int32())
    if call.name == "to_date":
        return pc.floor_temporal(moments, unit="day").cast(pa.date32())
    return _formatted(moments, format_pieces(call.options[0]) or ())


def widened(call: Call, least: pa.Array, greatest: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Widen bounds computed in an unknown time zone so that they hold in UTC; null if unknown.

    Args:
        call: a function that keeps the order of values.
        least: the minimum results.
        greatest: the maximum results.
    """
    if call.name == "year":
        return pc.subtract(least, 1).cast(pa.int32()), pc.add(greatest, 1).cast(pa.int32())
    if call.name == "to_date":
        days = [side.view(pa.int32()) for side in (least, greatest)]
        return pc.subtract(days[0], 1).cast(pa.date32()), pc.add(days[1], 1).cast(pa.date32())
    pieces = format_pieces(call.options[0]) or ()
    finest = [piece for piece in pieces if piece in _FIELDS][-1]
    further = {"yyyy": 368, "MM": 33}.get(finest, 2)
    known = "".join(_STRPTIME.get(piece, piece.strip("'")) for piece in pieces)
    sides = []
    for side, moved in ((least, -1), (greatest, further)):
        moments = pc.strptime(side, format=known, unit="s", error_is_null=True)
        seconds = pc.add(moments.view(pa.int64()), moved * _DAY)
        inside = pc.and_(pc.greater_equal(seconds, FIRST_SECOND), pc.less_equal(seconds, LAST_SECOND))
        seconds = pc.if_else(inside, seconds, pa.scalar(None, pa.int64()))
        sides.append(_formatted(seconds.view(pa.timestamp("s")), pieces))
    return sides[0], sides[1]


def _cased(values: pa.Array, name: str) -> pa.Array:
    """Change case as Java does: one letter may become several."""
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return (pc.ascii_lower if name == "lower" else pc.ascii_upper)(values).cast(pa.string())
    coded = pc.dictionary_encode(values)
    change = str.lower if name == "lower" else str.upper
    return pa.array(list(map(change, coded.dictionary.to_pylist())), pa.string()).take(coded.indices)


def _moments(values: pa.Array) -> pa.Array:
    """Return seconds in UTC, without time zone."""
    kind = values.type
    if pt.is_integer(kind):
        seconds = values.cast(pa.int64())
    elif pt.is_date32(kind):
        seconds = pc.multiply(values.view(pa.int32()).cast(pa.int64()), _DAY)
    else:
        micros = values.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).view(pa.timestamp("us"))
        seconds = pc.floor_temporal(micros, unit="second").cast(pa.timestamp("s")).view(pa.int64())
    ends = pc.min_max(seconds).as_py()
    if ends["min"] is not None and (ends["min"] < FIRST_SECOND or ends["max"] > LAST_SECOND):
        raise InvalidArgumentError("where has a function of a point in time that is in no year from 1 to 9999")
    return seconds.view(pa.timestamp("s"))


def _formatted(moments: pa.Array, pieces: tuple[str, ...]) -> pa.Array:
    parts = []
    for piece in pieces:
        if piece not in _FIELDS:
            parts.append(pa.scalar(piece[1:-1]))
            continue
        number, digits = _FIELDS[piece]
        parts.append(pc.utf8_lpad(number(moments).cast(pa.string()), digits, "0"))
    if not any(isinstance(part, pa.Array) for part in parts):
        parts.append(pc.if_else(moments.is_valid(), "", pa.scalar(None, pa.string())))
    return pc.binary_join_element_wise(*parts, "")
