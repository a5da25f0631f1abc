"""Timeline: instants, active timeline, archive, and the transitions that make work visible."""

from pudi.timeline.archive import open_archive
from pudi.timeline.archiving import archive
from pudi.timeline.instant import (
    NO_COMMIT,
    Instant,
    InstantTimes,
    day_before,
    new_instant,
    parse_time,
    register_time_generator,
)
from pudi.timeline.store import TimelinePlace, TimelineStore
from pudi.timeline.timeline import Timeline

__all__ = [
    "NO_COMMIT",
    "Instant",
    "InstantTimes",
    "Timeline",
    "TimelinePlace",
    "TimelineStore",
    "archive",
    "day_before",
    "new_instant",
    "open_archive",
    "parse_time",
    "register_time_generator",
]
