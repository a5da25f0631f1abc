"""An instant that stands for what a reader sees, and what it hasn't seen by it: against the reader's own memory."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from pudi.format import Action, Layout, State
from pudi.timeline import Instant, Timeline

WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.RESTORE)


def timelines(order: list[int], actions: list[Action], layout: Layout) -> Iterator[Timeline]:
    """The timeline after each step: the first time that a number comes it's requested, then it completes."""
    found: dict[int, Instant] = {}
    for step, number in enumerate(order):
        time = f"202601010000{step:05}"
        if number not in found:
            found[number] = Instant(time, actions[number], State.INFLIGHT, None, layout)
        else:
            begun = found[number]
            found[number] = Instant(begun.requested, begun.action, State.COMPLETED, time, layout)
        yield Timeline(tuple(sorted(found.values())), layout)


orders = st.integers(1, 7).flatmap(lambda count: st.permutations([*range(count), *range(count)]))
several = st.lists(st.sampled_from(WRITES), min_size=7, max_size=7)


def completed(timeline: Timeline) -> set[str]:
    return {i.requested for i in timeline.instants if i.is_completed}


def unseen(timeline: Timeline, since: str) -> set[str]:
    return {i.requested for i in timeline.unseen(since)}


@given(orders, several)
def test_a_snapshot_is_at_an_instant_that_tells_exactly_what_came_later(
    order: list[int], actions: list[Action]
) -> None:
    steps = list(timelines(order, actions, 2))
    for seen in steps:
        since = seen.shown(seen.pending)
        assert unseen(steps[-1], since) == completed(steps[-1]) - completed(seen)


@given(orders, several, st.integers(0, 14))
def test_a_read_of_the_past_misses_nothing_that_it_did_not_show(
    order: list[int], actions: list[Action], at: int
) -> None:
    until = f"202601010000{at:05}"
    steps = list(timelines(order, actions, 2))
    for seen in steps:
        shown = seen.until(until)
        since = shown.shown(seen.pending, until)
        assert unseen(steps[-1], since) >= completed(steps[-1]) - completed(shown)


@given(orders, several, st.integers(0, 14))
def test_a_read_up_to_a_completion_time_misses_nothing_either(order: list[int], actions: list[Action], at: int) -> None:
    steps = list(timelines(order, actions, 2))
    for seen in steps:
        shown = seen.completed_until(f"202601010000{at:05}")
        since = shown.shown(seen.pending)
        assert unseen(steps[-1], since) == completed(steps[-1]) - completed(shown)


@given(orders, several)
def test_without_completion_times_nothing_is_missed_and_all_is_told_once_nothing_is_pending(
    order: list[int], actions: list[Action]
) -> None:
    steps = list(timelines(order, actions, 1))
    for seen in steps:
        since = seen.shown(seen.pending)
        assert unseen(steps[-1], since) >= completed(steps[-1]) - completed(seen)
    last = steps[-1]
    assert unseen(last, last.shown(last.pending)) == set()
