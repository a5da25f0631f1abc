"""The span of time of an incremental read, and the columns that a table had at its end."""

from __future__ import annotations

import logging
from datetime import date

import pyarrow as pa

from pudi.client import MetaClient
from pudi.errors import InvalidArgumentError, naming
from pudi.format import Action
from pudi.timeline import Timeline, day_before, parse_time

_log = logging.getLogger(__name__)


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


def warn_before_first(meta: MetaClient, timeline: Timeline, seen: Timeline, what: str, moment: object) -> None:
    """Log a warning if a moment lies before the first commit: it's read as an empty table, as by Hudi.

    Args:
        meta: the table.
        timeline: its timeline, with archived instants where the moment may be older than the active ones.
        seen: the part of it up to the moment.
        what: the argument that gave the moment.
        moment: its value.
    """
    if timeline.commits and not seen.commits:
        _log.warning(
            "table %s: %s=%r lies before the table's first commit, %s: there are no rows. pudi.Table.history() lists "
            "the commits",
            meta.storage.root,
            what,
            str(moment),
            timeline.commits[0].requested,
        )


def completion_of(timeline: Timeline, time: str | None) -> str | None:
    """Return when a commit completed, given its requested time; any other time as it is.

    Hudi compares requested times in change data queries: there a commit's own requested time leaves it behind.
    """
    commits = [] if time is None or not timeline.rules.has_completion_times else timeline.commits
    if time is None or any(commit.completion == time for commit in commits):
        return time
    return next((commit.completion for commit in commits if commit.requested == time and commit.completion), time)


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
