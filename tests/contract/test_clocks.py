"""Writers whose clock is wrong: refused where the storage shows it, and what a table with such instants still does."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from pudi.context import SystemClock
from support.s3 import S3Server
from support.trips import SCHEMA, table, trip

TOLERANCE = "pudi.write.clock.tolerance.ms"
DAY_MS = 86_400_000
NOW_MS = SystemClock.now_ms
LIMIT_MS = 5 * 60_000


def set_clock(monkeypatch: pytest.MonkeyPatch, ahead_ms: int) -> None:
    """Set this machine's clock, as far as pudi sees it."""
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: NOW_MS(clock) + ahead_ms)


def make(path: str | Path, **arguments: object) -> pudi.Table:
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", **arguments)  # type: ignore[arg-type]
    made.insert(table([trip(1, 10)]))
    return made


def keys(of: pudi.Table) -> list[str]:
    return sorted(of.scan(columns=["uuid"]).to_arrow()["uuid"].to_pylist())


def objects(server: S3Server, of: pudi.Table) -> set[str]:
    """Names of all that the table holds but its lock."""
    bucket, _, prefix = of.path.removeprefix("s3://").partition("/")
    listed = server.client().list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    return {each["Key"] for each in listed if "/.locks/" not in each["Key"]}


@pytest.mark.parametrize(("ahead_ms", "told"), [(365 * DAY_MS, "365 days ahead"), (-10 * 60_000, "10 minutes behind")])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_wrong_clock_is_refused_and_leaves_nothing(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, kind: str, ahead_ms: int, told: str
) -> None:
    made = make(s3_server.new_root(), table_type=kind, storage_options=s3_server.options())
    before = objects(s3_server, made)
    with monkeypatch.context() as patch:
        set_clock(patch, ahead_ms)
        for verb in (made.insert, made.upsert, made.delete, made.insert_overwrite, made.bulk_insert):
            with pytest.raises(pudi.RefusedError, match=told) as caught:
                verb(table([trip(1, 20)]))
            assert TOLERANCE in caught.value.message
            assert not caught.value.retryable
        with pytest.raises(pudi.RefusedError, match=told):
            made.update({"ts": "ts + 1"})
    assert objects(s3_server, made) == before
    assert made.upsert(table([trip(2, 20)])) is not None
    assert keys(made) == ["k0001", "k0002"]


@pytest.mark.parametrize(("ahead_ms", "option"), [(LIMIT_MS - 60_000, None), (DAY_MS, str(2 * DAY_MS)), (DAY_MS, "0")])
def test_how_far_clocks_may_be_apart_is_an_option(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, option: str | None
) -> None:
    made = make(s3_server.new_root(), storage_options=s3_server.options())
    set_clock(monkeypatch, ahead_ms)
    assert made.upsert(table([trip(2, 20)]), options={TOLERANCE: option} if option else None) is not None
    assert keys(made) == ["k0001", "k0002"]


def test_a_table_with_instants_of_the_future_stays_writable_and_doctor_names_them(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(s3_server.new_root(), storage_options=s3_server.options())
    assert made.doctor().future is None
    with monkeypatch.context() as patch:
        set_clock(patch, 300 * DAY_MS)
        ahead = made.upsert(table([trip(2, 20)]), options={TOLERANCE: "0"})
    assert ahead is not None
    behind_it = made.upsert(table([trip(4, 20)]))  # with the right clock
    assert behind_it is not None
    assert behind_it.instant > ahead.completion_time > ahead.instant
    assert keys(made) == ["k0001", "k0002", "k0004"]
    assert keys(pudi.Table(made.path, storage_options=s3_server.options())) == ["k0001", "k0002", "k0004"]
    found = made.doctor()
    assert found.future is not None
    assert (found.future.first, found.future.newest) == (ahead.instant, behind_it.completion_time)
    assert found.future.count == 2
    advice = next(each.text for each in found.advice if "in the future" in each.text)
    assert ahead.instant in advice
    assert "300.0 days" in advice


def test_on_a_local_disk_there_is_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path / "t")
    set_clock(monkeypatch, 365 * DAY_MS)
    ahead = made.upsert(table([trip(2, 20)]))
    monkeypatch.undo()
    assert ahead is not None
    assert made.upsert(table([trip(4, 20)])) is not None
    assert keys(made) == ["k0001", "k0002", "k0004"]
    found = made.doctor()
    assert not found.ok
    assert found.future is not None
    assert found.future.first == ahead.instant
