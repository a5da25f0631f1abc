from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError
from pudi.format import instant_to_millis, is_instant_time, millis_to_instant

YEAR_1, YEAR_9999 = -62_135_596_800_000, 253_402_300_799_999


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@given(st.integers(YEAR_1, YEAR_9999))
def test_moments_come_back_in_utc(millis: int) -> None:
    instant = millis_to_instant(millis, "UTC")
    assert len(instant) == 17
    assert is_instant_time(instant)
    assert instant_to_millis(instant, "UTC") == millis


def test_utc() -> None:
    assert millis_to_instant(0, "UTC") == "19700101000000000"
    assert millis_to_instant(1_795_247_591_237, "UTC") == "20261121075311237"
    assert instant_to_millis("20261121075311237", "UTC") == 1_795_247_591_237


def test_local_is_the_zone_of_the_machine(berlin: None) -> None:
    assert millis_to_instant(1_795_247_591_237, "LOCAL") == "20261121085311237"
    assert instant_to_millis("20261121085311237", "LOCAL") == 1_795_247_591_237


def test_the_hour_that_comes_twice_means_the_first(berlin: None) -> None:
    # 25 October 2026, 03:00 summer time became 02:00: 02:30 is first 00:30 UTC, then 01:30 UTC.
    first, second = 1_792_888_200_000, 1_792_891_800_000
    assert millis_to_instant(first, "LOCAL") == millis_to_instant(second, "LOCAL") == "20261025023000000"
    assert instant_to_millis("20261025023000000", "LOCAL") == first


def test_14_digits_mean_the_end_of_the_second() -> None:
    assert instant_to_millis("19700101000001", "UTC") == 1999


def test_what_follows_17_digits_does_not_count() -> None:
    assert instant_to_millis("19700101000001234001", "UTC") == 1234


@pytest.mark.parametrize(
    "text", ["", "2026", "2026112107531123", "20261121T07531123", "20261121075311237x", "\u0661" * 17]
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    assert not is_instant_time(text)
    with pytest.raises(InvalidArgumentError, match="17 digits"):
        instant_to_millis(text, "UTC")


@pytest.mark.parametrize("text", ["20261321075311237", "00000000000000000", "20260230000000000"])
def test_an_instant_that_is_no_date_is_refused(text: str) -> None:
    assert is_instant_time(text)
    with pytest.raises(InvalidArgumentError, match="not a date"):
        instant_to_millis(text, "UTC")


def test_a_moment_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        millis_to_instant(YEAR_9999 + 1, "UTC")
