"""Times of instants: waiting out the skew of clocks, and sources of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.config import resolve
from pudi.context import Context, ManualClock
from pudi.format import Action, instant_to_millis
from pudi.timeline import InstantTimes, TimelineStore

TYPE, SKEW = "hoodie.time.generator.type", "hoodie.time.generator.max_expected_clock_skew_ms"
PROVIDER = "hoodie.write.lock.provider"
WAIT = {TYPE: "WAIT_TO_ADJUST_SKEW"}
SCHEMA = pa.schema([("id", pa.string())])
START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("pudi.timeline.instant._REGISTERED", {})
    yield


def made_table(path: Path) -> str:
    pudi.create(path / "t", SCHEMA, record_key="id", options={"hoodie.table.timeline.timezone": "UTC"})
    return str(path / "t")


def opened(path: str, options: dict[str, str], clock: ManualClock) -> TimelineStore:
    unchecked = {"pudi.write.clock.tolerance.ms": "0"}
    return MetaClient.open(path, None, options | unchecked, Context(clock)).store


@pytest.mark.parametrize(
    ("options", "waits_ms"),
    [
        ({}, 0),
        (WAIT, 200),
        (WAIT | {PROVIDER: "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}, 1),
        (WAIT | {SKEW: "70"}, 70),
        ({SKEW: "70"}, 70),
        (WAIT | {SKEW: "0"}, 0),
    ],
)
def test_how_long_a_writer_waits(options: dict[str, str], waits_ms: int) -> None:
    assert InstantTimes.of(resolve(options), "t").wait_ms == waits_ms


def test_each_time_is_waited_out_under_the_lock(tmp_path: Path) -> None:
    clock, held = ManualClock(START_MS), []
    store = opened(made_table(tmp_path), WAIT | {SKEW: "300"}, clock)
    advance = clock.advance

    def sleep(seconds: float) -> None:
        store.lock.verify()  # raises where it isn't held
        held.append(seconds)
        advance(seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    instant = store.start(store.request(Action.COMMIT))
    assert instant_to_millis(instant.requested, "UTC") == START_MS
    done = store.complete(instant, b"")
    assert done.completion is not None
    assert instant_to_millis(done.completion, "UTC") == START_MS + 300
    assert held == [0.3, 0.3]
    assert clock.now_ms() == START_MS + 600


def test_a_writer_whose_clock_is_behind_and_who_knows_no_timeline_comes_later(tmp_path: Path) -> None:
    """As Hudi's writers, which go by their clocks alone."""
    ahead = ManualClock(START_MS + 190)
    store = opened(made_table(tmp_path), WAIT, ahead)
    first = store.request(Action.COMMIT)
    behind_ms = ahead.now_ms() - 190
    assert instant_to_millis(first.requested, "UTC") < behind_ms


def test_a_source_of_the_users_own_gives_the_times(tmp_path: Path) -> None:
    given = [START_MS + 5_000, START_MS + 1_000]
    pudi.register_time_generator("ours", lambda: given.pop(0))
    store = opened(made_table(tmp_path), {TYPE: "ours"}, ManualClock(START_MS))
    instant = store.start(store.request(Action.COMMIT))
    assert instant_to_millis(instant.requested, "UTC") == START_MS + 5_000
    done = store.complete(instant, b"")
    assert done.completion is not None
    assert instant_to_millis(done.completion, "UTC") == START_MS + 5_001, "later than all that the timeline has"


def test_a_write_takes_its_times_from_it(tmp_path: Path) -> None:
    now = [START_MS]

    def tick() -> int:
        now[0] += 1_000
        return now[0]

    pudi.register_time_generator("ours", tick)
    table = pudi.Table(made_table(tmp_path), options={TYPE: "ours", "pudi.write.clock.tolerance.ms": "0"})
    table.insert(pa.table({"id": ["a"]}, schema=SCHEMA))
    [commit] = table.timeline.commits
    assert commit.requested.startswith("20231114221")
    assert commit.completion is not None
    assert commit.completion.startswith("20231114221")
    assert table.check().ok


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> int:
        raise OSError("no route to the clock")

    pudi.register_time_generator("ours", fail)
    table = pudi.Table(made_table(tmp_path), options={TYPE: "ours"})
    with pytest.raises(pudi.UnavailableError, match="no route to the clock"):
        table.insert(pa.table({"id": ["a"]}, schema=SCHEMA))
    assert table.timeline.instants == ()


def test_a_name_that_nobody_registered_is_refused(tmp_path: Path) -> None:
    path = made_table(tmp_path)
    with pytest.raises(pudi.NotSupportedError, match="register_time_generator"):
        pudi.Table(path, options={TYPE: "ours"})


@pytest.mark.parametrize("name", ["", "a,b", "WAIT_TO_ADJUST_SKEW", "org.apache.hudi.Times"])
def test_hudis_names_and_none_cant_be_registered(name: str) -> None:
    with pytest.raises(pudi.InvalidArgumentError):
        pudi.register_time_generator(name, lambda: 0)
