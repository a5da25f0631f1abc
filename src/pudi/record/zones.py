"""Time zones by the ids that Hudi's properties hold: an offset for all time, or a name of the tz database."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import NotSupportedError

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
