"""Write timestamps into partition paths as Hudi's writers do, in UTC, and bound those that a path states.

Source: SqlKeyGenerator, and java.sql.Timestamp.toString in HoodieAvroUtils; tried with Hudi 1.2.0 in a JVM in UTC.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig
from pudi.errors import InvalidArgumentError

_SECOND, _DAY = 1_000_000, 86_400_000_000
_FIRST, _GREGORIAN = dt.datetime(1, 1, 1), dt.datetime(1582, 10, 15)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
_FORM = (
    r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<h>[0-9]{2})(?::|%3A)(?P<m>[0-9]{2})(?::|%3A)(?P<s>[0-9]{2})"
    r"(?:\.[0-9]{1,6})?\z"
)


class TimestampText(Enum):
    """The text of timestamps in partition paths."""

    SECONDS = "2026-01-02 03%3A04%3A05"
    """Texts as Hudi's SQL writes them, always URL-encoded."""
    FRACTIONS = "2026-01-02 03:04:05.0"
    """Texts as Hudi's other writers write consistent logical timestamps, encoded if the table's paths are."""

    @property
    def is_encoded(self) -> bool:
        """Return whether the text is encoded in any table."""
        return self is TimestampText.SECONDS


def texts_of_timestamps(values: pa.Array, form: TimestampText, name: str) -> pa.Array:
    """Write timestamps; null stays null.

    Args:
        values: `timestamp("us", "UTC")`.
        form: the text.
        name: the column's name, for messages.

    Raises:
        InvalidArgumentError: a timestamp is outside the years that Java and Arrow write alike.
    """
    micros = values.cast(pa.int64())
    _check_range(micros, form, name)
    millis = pc.divide(micros, 1000).cast(pa.timestamp("ms"))  # Hudi cuts off towards 1970
    whole = pc.floor_temporal(millis, unit="second")
    seconds = pc.strftime(whole.cast(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S")
    if form is TimestampText.SECONDS:
        return pc.replace_substring(seconds, ":", "%3A")
    fraction = pc.subtract(millis.cast(pa.int64()), whole.cast(pa.int64()))
    digits = pc.utf8_rtrim(pc.utf8_lpad(pc.cast(fraction, pa.string()), 3, "0"), "0")
    return pc.binary_join_element_wise(seconds, pc.if_else(pc.equal(digits, ""), "0", digits), ".")


def bounds_of_texts(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the least and the greatest timestamp that a folder may hold; null where its text is no timestamp.

    A day is left on both sides, since writers name folders in the time zone of their JVM, which no table states.
    """
    parts = pc.extract_regex(texts, _FORM)
    joined = pc.binary_join_element_wise(
        pc.struct_field(parts, "date"),
        pc.binary_join_element_wise(*(pc.struct_field(parts, each) for each in "hms"), ":"),
        " ",
    )
    moments = pc.strptime(joined, format="%Y-%m-%d %H:%M:%S", unit="us", error_is_null=True).cast(pa.int64())
    kind = pa.timestamp("us", "UTC")
    low, high = pc.subtract(moments, _DAY), pc.add(moments, _DAY + _SECOND)
    return low.cast(kind), high.cast(kind)


def folders_of_another_form(texts: pa.Array, form: TimestampText) -> tuple[pa.Array, str]:
    """Return the folders that show timestamps in another way, and who does so.

    Args:
        texts: the text of a timestamp column in partition paths.
        form: the text that is expected.
    """
    option = TableConfig.logical_timestamps
    micros = texts.filter(pc.match_substring_regex(texts, r"^-?[0-9]+\z"))
    if len(micros):
        return micros, f"Hudi wrote microseconds, which it can't read back, without {option}=true"
    fractions = pc.match_substring_regex(texts, r"\.[0-9]+\z")
    if form is TimestampText.SECONDS:
        return texts.filter(fractions), f"Hudi wrote it with {option}=true: give this option"
    seconds = pc.and_(pc.invert(fractions), pc.match_substring_regex(texts, _FORM))
    return texts.filter(seconds), f"Hudi's SQL wrote it, or another writer without {option}=true: leave the option out"


def _check_range(micros: pa.Array, form: TimestampText, name: str) -> None:
    first = _FIRST if form is TimestampText.SECONDS else _GREGORIAN
    low, high = (pa.scalar(moment, pa.timestamp("us")).cast(pa.int64()) for moment in (first, _LAST))
    if pc.any(pc.or_(pc.less(micros, low), pc.greater(micros, high))).as_py():
        raise InvalidArgumentError(f"partition column {name!r} has a timestamp before {first} or after the year 9999")
