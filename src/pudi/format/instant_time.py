"""Instant times: text like `20261121075311237` in, milliseconds since the epoch out, and back."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import Literal

from pudi.errors import InvalidArgumentError

TimelineZone = Literal["UTC", "LOCAL"]
"""The values of `hoodie.table.timeline.timezone`: UTC, or the zone of the machine that asks."""

INIT_INSTANT = "00000000000000"
"""Reserved: older than any instant."""

_INSTANT_TIME = re.compile(r"[0-9]{14}(?:[0-9]{3}(?:[0-9]{3}){0,2})?")
_FIELDS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:([0-9]{3})[0-9]*)?")


@lru_cache(maxsize=4096)  # many files, few instants
def is_instant_time(text: str) -> bool:
    """Return whether `text` looks like an instant time: 17 digits, or 14 or 20 in tables of old releases.

    A service of a metadata table of version 6 adds three digits to the newest delta commit's time, and so has 23 where
    that made a partition.

    The reserved instants and those of a new metadata table are no dates but have the shape.
    """
    return _INSTANT_TIME.fullmatch(text) is not None


def instant_to_millis(instant: str, tz: TimelineZone) -> int:
    """The moment that an instant time names (HoodieInstantTimeGenerator).

    Args:
        instant: `yyyyMMddHHmmssSSS`; with 14 digits the last millisecond of that second is meant; of more than 17
            digits, as in metadata tables of version 6, the first 17 count.
        tz: zone that the text is written in. Local times that come twice a year mean the earlier moment.

    Returns:
        Milliseconds since the epoch.

    Raises:
        InvalidArgumentError: the text is no calendar date.
    """
    match = _FIELDS.fullmatch(instant)
    if match is None:
        raise InvalidArgumentError(
            f"{instant!r} is not an instant time: expected 17 digits, yyyyMMddHHmmssSSS, or the 14 up to the second"
        )
    *fields, millis = match.groups(default="999")
    year, month, day, hour, minute, second = (int(field) for field in fields)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc if tz == "UTC" else None)
        return int(moment.timestamp()) * 1000 + int(millis)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidArgumentError(f"instant time {instant!r} is not a date: {error}") from error


def millis_to_instant(millis: int, tz: TimelineZone) -> str:
    """The 17-digit instant time of a moment.

    Args:
        millis: milliseconds since the epoch.
        tz: zone to write it in.

    Raises:
        InvalidArgumentError: the moment lies outside the years 1 to 9999.
    """
    seconds, rest = divmod(millis, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc if tz == "UTC" else None)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidArgumentError(f"{millis} ms since the epoch has no instant time: {error}") from error
    return (
        f"{moment.year:04}{moment.month:02}{moment.day:02}{moment.hour:02}{moment.minute:02}{moment.second:02}{rest:03}"
    )
