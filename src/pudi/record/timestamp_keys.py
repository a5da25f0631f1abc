"""Folders named by time: what Hudi's timestamp key generator makes of numbers, dates and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TimebasedOptions
from pudi.context.runtime import cached_property
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.record import joda
from pudi.schema.arrays import one_array

_FIXED = re.compile(r"(?:GMT|UTC|UT)(?:([+-])([0-9]{1,2})(?::?([0-5][0-9]))?)?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z][A-Za-z0-9_+-]*){1,2}")
_UTC = frozenset({"Z", "Zulu", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Universal", "Greenwich", "GMT0"})


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone.

    Attributes:
        name: its name in the tz database; empty for a fixed offset.
        offset: the fixed offset in milliseconds.
    """

    name: str = ""
    offset: int = 0

    @classmethod
    def of(cls, identifier: str) -> Zone:
        """The zone that Java means by `identifier` (java.util.TimeZone.getTimeZone).

        Raises:
            NotSupportedError: it's unknown (Java takes it for GMT without a word), or one of Java's abbreviations.
        """
        text = identifier.strip()
        if text in _UTC:
            return cls()
        fixed = _FIXED.fullmatch(text)
        if fixed is not None and int(fixed[2] or 0) < 24 and (fixed[1] is None or text.startswith("GMT")):
            minutes = int(fixed[2] or 0) * 60 + int(fixed[3] or 0)
            return cls(offset=(-minutes if fixed[1] == "-" else minutes) * 60_000)
        if _NAME.fullmatch(text) and _known(text):
            return cls(text)
        raise NotSupportedError(
            f"time zone {identifier!r} is not known here: use UTC, GMT+hh:mm, or a name like Europe/Warsaw"
        )

    def local(self, utc: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Wall-clock time of moments in milliseconds since 1970: int64 in, int64 out."""
        if not self.name:
            return pc.add(utc, self.offset)
        stamps = pc.cast(utc, pa.timestamp("ms", self.name))
        return pc.cast(pc.local_timestamp(stamps), pa.int64())

    def utc(self, local: np.ndarray) -> np.ndarray:
        """Moments of wall-clock times, the earlier of two (`DateTimeZone.getOffsetFromLocal`).

        Raises:
            ValueError: a time that the zone's clocks skipped.
        """
        if not self.name:
            return local - self.offset
        stamps = pc.assume_timezone(
            pa.array(local).cast(pa.timestamp("ms")), self.name, ambiguous="earliest", nonexistent="raise"
        )
        moments: np.ndarray = np.asarray(pc.cast(stamps, pa.int64()))
        return moments


def _known(name: str) -> bool:
    try:
        pc.local_timestamp(pa.array([0]).cast(pa.timestamp("ms", name)))
    except (pa.ArrowInvalid, pa.ArrowException):
        return False
    return True


TEXTS = ("DATE_STRING", "MIXED")
"""Timestamp types that are stored as text."""

_UNITS = {
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (joda.SECOND, 1),
    "MINUTES": (joda.MINUTE, 1),
    "HOURS": (joda.HOUR, 1),
    "DAYS": (joda.DAY, 1),
}
"""Factor and divisor that turn a value into milliseconds, by unit (java.util.concurrent.TimeUnit)."""

_UNIT_OF_TYPE = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}

_NULL = 1
"""Value that stands for null, in the column's unit, or as milliseconds for texts (getDefaultPartitionVal)."""


@dataclass(frozen=True)
class Moments:
    """Rule that turns a column into folders named by time (`hoodie.keygen.timebased.*`); picklable.

    Args:
        kind: `timestamp.type`.
        output_format: `output.dateformat`, a pattern of Joda-Time.
        unit: `timestamp.scalar.time.unit`, for SCALAR.
        input_formats: `input.dateformat`, split; for DATE_STRING and MIXED.
        input_zone: id of the zone of texts that say none; None where the table doesn't say.
        output_zone: id of the zone of the folders; None where the table doesn't say.
    """

    kind: str
    output_format: str
    unit: str = "SECONDS"
    input_formats: tuple[str, ...] = ()
    input_zone: str | None = None
    output_zone: str | None = None

    def check(self) -> None:
        """Refuse settings that produce different folders in pudi and in some JVMs.

        Raises:
            InvalidArgumentError: a setting is missing or wrong.
            NotSupportedError: a pattern or zone, or no zone: then each JVM of Hudi's takes its own.
        """
        if self.kind not in (*TEXTS, *_UNIT_OF_TYPE, "SCALAR"):
            raise InvalidArgumentError(f"{TimebasedOptions.kind}={self.kind!r} is no type of timestamps")
        if self.kind == "SCALAR" and self.unit.upper() not in _UNITS:
            raise InvalidArgumentError(f"{TimebasedOptions.unit}={self.unit!r}: it is one of {', '.join(_UNITS)}")
        joda.check_output(self.output_format)
        if self.output_zone is None:
            raise _zone_missing("output")
        zone = Zone.of(self.output_zone)
        if zone.name and joda.states_offset(self.output_format):
            raise NotSupportedError(f"date pattern {self.output_format!r} prints the offset of zone {zone.name}")
        if self.kind in TEXTS:
            self._check_input()

    def _check_input(self) -> None:
        if not self.input_formats or not all(self.input_formats):
            raise InvalidArgumentError(f"timestamps of type {self.kind} need {TimebasedOptions.input_format}")
        for pattern in self.input_formats:
            joda.check_input(pattern)
            if self.input_zone is None and not joda.states_offset(pattern):
                raise _zone_missing("input")
        if self.input_zone is not None:
            Zone.of(self.input_zone)

    def refusal(self, kind: pa.DataType) -> str | None:
        """Why a column of that type can't be turned into folders; None when it can.

        Tried with Hudi 1.2.0: what its row writer and its upsert both take, and take alike.
        """
        types = pa.types
        texts = self.kind in TEXTS
        if kind == pa.string():
            return None if texts else f"timestamps of type {self.kind} are numbers; DATE_STRING takes texts"
        if kind in (pa.int32(), pa.int64(), pa.date32()) or types.is_floating(kind):
            return f"timestamps of type {self.kind} are texts; SCALAR takes numbers" if texts else None
        if types.is_timestamp(kind) and kind.tz is None:
            return None if self.kind == "EPOCHMICROSECONDS" else "its microseconds need the type EPOCHMICROSECONDS"
        return "Hudi's bulk_insert fails on it; use a long, a date or a string"

    def local(self, column: pa.ChunkedArray | pa.Array, name: str) -> pa.Array:
        """The moment of each value in the folders' zone, as exact as the folders tell.

        Args:
            column: values of a type that `refusal` takes; null counts as a moment after 1970 began, as in Hudi.
            name: the column's name, for messages.

        Returns:
            `timestamp("ms")` without a zone and without nulls.

        Raises:
            InvalidArgumentError: a text of another form, a time that clocks skipped, or a moment outside the years 1
                to 9999.
        """
        whole = one_array(column)
        if self.kind in TEXTS:
            known = whole.dictionary_encode(null_encoding="encode")
            utc = pa.array(self._read(known.dictionary, name)).take(known.indices)
        else:
            utc = self._scaled(whole, name)
        local = Zone.of(self.output_zone or "UTC").local(utc)
        _check_span(local, name)
        span = joda.precision(self.output_format)
        if span > 1:
            values = np.asarray(local)
            local = pa.array(values - values % span)
        return pc.cast(local, pa.timestamp("ms"))

    def texts(self, moments: pa.Array) -> pa.Array:
        """Folders of moments that `local` gave."""
        return joda.format_moments(moments, self.output_format, Zone.of(self.output_zone or "UTC").offset)

    @cached_property
    def folders(self) -> int:
        """Number of folders that one value makes, if values aren't encoded."""
        return joda.folders(self.output_format)

    def _scaled(self, values: pa.Array, name: str) -> pa.Array:
        """Milliseconds of numbers in a unit, cut off towards zero (TimeUnit.convert)."""
        times, over = _UNITS[_UNIT_OF_TYPE.get(self.kind, self.unit.upper())]
        if values.type == pa.date32():
            values = pc.cast(values, pa.int32())
        elif pa.types.is_floating(values.type):
            values = pc.trunc(values)
        if pa.types.is_timestamp(values.type):
            values = pc.cast(values, pa.timestamp("us"))
        try:
            numbers = pc.fill_null(pc.cast(values, pa.int64()), _NULL)
        except pa.ArrowInvalid as error:  # a float beyond long, or NaN
            raise _outside(name) from error
        # one more day on both sides, since the zone decides; never more than a long holds
        low = max((joda.FIRST_MOMENT - joda.DAY) * over // times, -(1 << 63))
        high = min((joda.LAST_MOMENT + joda.DAY) * over // times, (1 << 63) - 1)
        if pc.any(pc.or_(pc.less(numbers, low), pc.greater(numbers, high))).as_py():
            raise _outside(name)
        return pc.divide(pc.multiply(numbers, times), over)

    def _read(self, texts: pa.Array, name: str) -> np.ndarray:
        """Moments in UTC of distinct texts, null among them."""
        zone = Zone.of(self.input_zone) if self.input_zone is not None else Zone()
        local, readable, offsets = joda.parse_texts(pc.fill_null(texts, self._null_text()), self.input_formats)
        if not readable.all():
            shown = texts.filter(pa.array(~readable))[0].as_py()
            forms = " or ".join(self.input_formats)
            raise InvalidArgumentError(f"partition column {name!r} has {shown!r}, which is no date of the form {forms}")
        millis = np.asarray(pc.cast(local, pa.int64()))
        stated = ~np.isnan(offsets)
        utc = millis - np.where(stated, offsets, 0).astype(np.int64)
        try:
            utc[~stated] = zone.utc(millis[~stated])
        except (pa.ArrowInvalid, ValueError) as error:
            raise InvalidArgumentError(
                f"partition column {name!r} has a time that clocks of {self.input_zone} skipped: {error}"
            ) from error
        return utc

    def _null_text(self) -> str:
        """Return the text that Hudi reads in place of null: its first moment in the first format."""
        pattern = self.input_formats[0]
        zone = Zone.of(self.input_zone or self.output_zone or "UTC")
        local = zone.local(pa.array([_NULL]))
        offset = local[0].as_py() - _NULL
        text: str = joda.format_moments(pc.cast(local, pa.timestamp("ms")), pattern, offset)[0].as_py()
        return text


def _check_span(local: pa.Array, name: str) -> None:
    if pc.any(pc.or_(pc.less(local, joda.FIRST_MOMENT), pc.greater(local, joda.LAST_MOMENT))).as_py():
        raise _outside(name)


def _outside(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"partition column {name!r} has a moment outside the years 1 to 9999")


def _zone_missing(side: str) -> NotSupportedError:
    option = TimebasedOptions.input_zone if side == "input" else TimebasedOptions.output_zone
    return NotSupportedError(
        f"the table does not say in which time zone its {side} is, so that Hudi takes that of each JVM: "
        f"give option {TimebasedOptions.zone} or {option}"
    )
