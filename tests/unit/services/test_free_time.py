"""Times of the services of a metadata table below version 8."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pudi.client import TableSnapshot
from pudi.context import Context, ManualClock
from pudi.services.target import free_time
from pudi.timeline import Timeline

NEWEST = "20260101000000005"
META = cast(
    Any, SimpleNamespace(context=Context(ManualClock(1_800_000_000_000)), config=SimpleNamespace(timezone="UTC"))
)


def test_it_is_that_of_the_newest_deltacommit() -> None:
    timeline = Timeline.from_names([f"{NEWEST}.deltacommit"], 1)
    assert free_time(TableSnapshot(META, timeline), NEWEST, "001") == f"{NEWEST}001"


def test_it_is_taken_once_only() -> None:
    """The deltacommit of an older plan follows the compaction of the newest one."""
    timeline = Timeline.from_names([f"{NEWEST}.deltacommit", f"{NEWEST}001.commit", "20260101000000003.deltacommit"], 1)
    time = free_time(TableSnapshot(META, timeline), NEWEST, "001")
    assert time == "20270115080000000001"
    assert time > f"{NEWEST}001"
