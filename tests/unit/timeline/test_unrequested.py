"""Instants whose requested file is gone: they were rolled back before their writers created the inflight file."""

from __future__ import annotations

import pytest

from pudi.timeline import Timeline

REQUESTED, INFLIGHT = "20260101000000000.commit.requested", "20260101000000000.inflight"
SAVEPOINT = "20260101000000000.savepoint.inflight"


@pytest.mark.parametrize(
    ("names", "gone"),
    [((REQUESTED,), False), ((REQUESTED, INFLIGHT), False), ((INFLIGHT,), True), ((SAVEPOINT,), False)],
)
def test_an_inflight_instant_without_a_requested_file_is_known(names: tuple[str, ...], gone: bool) -> None:
    found = Timeline.from_names(names)
    assert found.unrequested == ({"20260101000000000"} if gone else set())


def test_an_inflight_file_that_came_since_belongs_to_what_was_requested() -> None:
    assert not Timeline.from_names([REQUESTED]).with_files([INFLIGHT]).unrequested
    assert Timeline.from_names([]).with_files([INFLIGHT]).unrequested
