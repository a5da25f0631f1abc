"""The span of time of an incremental read, and the columns that a table had at its end."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from pudi.action import MetaClient
from pudi.errors import InvalidArgumentError, naming
from pudi.format import Action
from pudi.timeline import Timeline, day_before, parse_time


def bounds_of(meta: MetaClient, since: str | date | None, until: str | date | None) -> tuple[str | None, str | None]:
    """Return the times after which, and up to which, commits count; None for all.

    Raises:
        InvalidArgumentError: `since` is later than `until`, or no point in time.
    """
    zone = meta.config.timezone
    with naming(None, meta.storage.root):
        low = None if since is None or since == "earliest" else parse_time(since, zone, what="since")
        high = None if until is None else parse_time(until, zone, what="until")
    if low is not None and high is not None and low > high:
        raise InvalidArgumentError(f"since={since!r} is later than until={until!r}", table=meta.storage.root)
    return (None if low is not None and set(low) == {"0"} else low), high


def day_of(timeline: Timeline, low: str | None) -> str | None:
    """Return the earliest requested time of instants that may have completed after `low`; None for any.

    Like Hudi's, that takes it that no commit lasts longer than a day (CompletionTimeQueryViewV2).
    """
    return day_before(low) if low is not None and timeline.rules.has_completion_times else low


def cleaned_after(timeline: Timeline, time: str) -> bool:
    """Return whether a clean completed after a time: file slices of that time may be gone."""
    return any(timeline.order(clean) > time for clean in timeline.of(Action.CLEAN))


def schema_at(meta: MetaClient, timeline: Timeline, newest: Timeline) -> pa.Schema:
    """Return the table's columns then; before its first commit, those it was made with or has now."""
    if timeline.commits or meta.config.create_schema:
        return meta.schema(timeline)
    return meta.schema(newest)
