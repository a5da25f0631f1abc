"""The timeline: what a listing shows, transitions, and points in time as users write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pudi.context import Context, ManualClock
from pudi.errors import ConflictError, InvalidArgumentError, TableExistsError
from pudi.format import Action, State
from pudi.locks import open_lock
from pudi.storage import open_storage
from pudi.timeline import Timeline, TimelineStore, parse_time


def make_store(name: str, clock: ManualClock | None = None) -> TimelineStore:
    storage = open_storage(f"memory://{name}")
    context = Context(clock or ManualClock())
    return TimelineStore(
        storage, ".hoodie/timeline", ".hoodie/timeline/history", "UTC", context, open_lock(storage, None, {}, context)
    )


def test_a_listing_shows_each_instant_once_in_its_highest_state() -> None:
    timeline = Timeline.from_names(
        [
            "20240101000000000.commit.requested",
            "20240101000000000.inflight",
            "20240101000000000_20240101000001000.commit",
            "20240101000002000.clustering.requested",
            "20240101000002000.clustering.inflight",
            "20240101000002000_20240101000009000.replacecommit",
            "20240101000003000.rollback.requested",
            "20240101000000000.commit.requested.crc",
            "history",
        ]
    )
    assert [(i.requested[-5:], i.action, i.state) for i in timeline.instants] == [
        ("00000", Action.COMMIT, State.COMPLETED),
        ("02000", Action.REPLACECOMMIT, State.COMPLETED),
        ("03000", Action.ROLLBACK, State.REQUESTED),
    ]
    assert [i.completion for i in timeline.commits] == ["20240101000001000", "20240101000009000"]
    assert timeline.newest_time == "20240101000009000"
    assert [i.action for i in timeline.pending] == [Action.ROLLBACK]


def test_times_increase_even_when_the_clock_stands_still() -> None:
    store = make_store("still")
    done = []
    for _ in range(3):
        instant = store.start(store.request(Action.COMMIT))
        done.append(store.complete(instant, b""))
    times = [time for i in done for time in (i.requested, i.completion)]
    assert times == sorted(set(times))


def test_times_increase_when_the_clock_goes_back() -> None:
    clock = ManualClock()
    store = make_store("back", clock)
    first = store.complete(store.start(store.request(Action.COMMIT)), b"")
    clock.advance(-3600)
    assert store.request(Action.COMMIT).requested > (first.completion or "")


def test_an_instant_that_was_rolled_back_cannot_complete() -> None:
    store = make_store("rolledback")
    instant = store.start(store.request(Action.COMMIT))
    store.discard(instant)
    assert store.load().instants == ()
    with pytest.raises(ConflictError, match="rolled it back"):
        store.complete(instant, b"")
    assert store.load().instants == ()


def test_a_refused_completion_leaves_the_instant_inflight() -> None:
    store = make_store("refused")
    instant = store.start(store.request(Action.COMMIT))

    def refuse(_: Timeline) -> None:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        store.complete(instant, b"", refuse)
    assert [i.state for i in store.load().instants] == [State.INFLIGHT]


def test_a_transition_is_made_once() -> None:
    store = make_store("once")
    instant = store.request(Action.COMMIT)
    store.start(instant)
    with pytest.raises(TableExistsError):
        store.start(instant, b"x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20240229123456789", "20240229123456789"),
        ("20240229123456", "20240229123456"),
        ("000", "000"),
        ("2024-02-29", "20240229000000000"),
        ("2024-02-29 12:34:56", "20240229123456999"),
        ("2024-02-29 12:34:56.789", "20240229123456789"),
        ("2024-02-29T12:34:56.789+02:00", "20240229103456789"),
        (datetime(2024, 2, 29, 12, 34, 56, 789_999), "20240229123456789"),
        (datetime(500, 1, 2), "05000102000000000"),
        (datetime(2024, 2, 29, 12, 34, 56, 789_999, tzinfo=timezone(timedelta(hours=-1))), "20240229133456789"),
    ],
)
def test_points_in_time(value: str | datetime, expected: str) -> None:
    assert parse_time(value, "UTC", what="as_of") == expected


@pytest.mark.parametrize("value", ["yesterday", "2024", "2024-13-01", "", "20240229T12"])
def test_no_point_in_time(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="as_of"):
        parse_time(value, "UTC", what="as_of")
