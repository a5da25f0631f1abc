"""Change data: every change of every commit, logged or computed, beside a model in plain dicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.engine.local.engine import LocalEngine
from pudi.format.cdc import LoggingMode
from support.changes import LOGGED, MODE, State, changes_between, state_of, typed
from support.engines import SparkEngine
from support.rows import Row, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps, table, trip

MODES = [mode.value.lower() for mode in LoggingMode]
VERBS = ("insert", "upsert", "upsert", "delete", *REPLACING)
KINDS = [(kind, mode, version) for kind, mode, version in product(("cow", "mor"), (*MODES, None), (6, 8, 9))]


def made(
    path: Path,
    kind: str = "cow",
    mode: str | None = "data_before_after",
    version: int = 9,
    options: Mapping[str, str] | None = None,
) -> pudi.Table:
    """A table that logs its changes, or with None doesn't."""
    logging = {} if mode is None else {**LOGGED, MODE: mode}
    options = {"hoodie.write.table.version": str(version), **logging, **(options or {})}
    return pudi.create(
        path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=options
    )


def feed(on: pudi.Table, **options: Any) -> list[Row]:
    return from_arrow(on.changes(format="cdc", images="struct", **options).to_arrow())


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("kind", "mode", "version"), KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_writes(tmp_path: Path, kind: str, mode: str | None, version: int, seed: int) -> None:
    on, state, expected = made(tmp_path / "trips", kind, mode, version), State(), []
    since: list[tuple[str, int]] = []
    for number, step in enumerate(steps(seed, 9, VERBS)):
        if step.verb == "delete_partitions":
            done = on.delete_partitions(sorted(set(step.data["city"].to_pylist())))
        else:
            done = getattr(on, step.verb)(step.data)
        if done is not None:
            after = state_of(on)
            expected += changes_between(state, after, done.instant, step.verb)
            state = after
            since.append((done.completion_time or done.instant, len(expected)))
        if number == 3 and kind == "mor":
            on.compact()
        if number == 5:
            on.cluster()
    assert_same(feed(on), expected, about="all commits")
    assert_same(typed(on.changes(format="cdc")), feed(on), about="texts")
    begin, count = since[len(since) // 2]
    assert_same(feed(on, since=begin), expected[count:], about=f"since {begin}")
    assert_same(feed(on, until=begin), expected[:count], about=f"until {begin}")
    assert on.check().ok, on.check()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("mode", [*MODES, None])
def test_updates_and_deletes_by_predicate(tmp_path: Path, kind: str, mode: str | None) -> None:
    on = made(tmp_path / "trips", kind, mode)
    on.insert(table(trip(number, 1) for number in range(6)))
    before = state_of(on)
    updated = on.update({"fare": "fare + 1", "ts": "ts + 1"}, "uuid < 'k0003'")
    middle = state_of(on)
    deleted = on.delete(where="uuid = 'k0004' or uuid = 'k0001'")
    assert updated is not None
    assert deleted is not None
    expected = changes_between(before, middle, updated.instant, "update")
    expected += changes_between(middle, state_of(on), deleted.instant, "delete")
    assert [row["op"] for row in expected] == ["u", "u", "u", "d", "d"]
    assert_same([row for row in feed(on) if row["op"] != "i"], expected, about=kind)


def test_what_an_overwrite_deletes_comes_before_what_it_inserts(tmp_path: Path) -> None:
    on, applied = made(tmp_path / "trips"), dict[str, Row]()
    for ts in range(1, 7):
        on.insert_overwrite(table(trip(number, ts) for number in range(3)))
    for row in feed(on):  # as a reader applies changes one after the other
        if row["op"] == "d":
            del applied[row["before"]["uuid"]]
        else:
            applied[row["after"]["uuid"]] = row["after"]
    assert_same(list(applied.values()), from_arrow(on.scan(meta_fields=False).to_arrow()), about="applied")


def test_merge(tmp_path: Path) -> None:
    on = made(tmp_path / "trips")
    on.insert(table([trip(0, 1), trip(3, 1), trip(6, 1)]))
    before = state_of(on)
    source = table([trip(0, 2, "gone"), trip(3, 2, "new"), trip(9, 2)])
    done = on.merge(source).when_matched_delete("source.rider = 'gone'").when_matched_update()
    written = done.when_not_matched_insert().execute()
    assert written is not None
    expected = changes_between(before, state_of(on), written.instant, "merge")
    assert sorted(row["op"] for row in expected) == ["d", "i", "u"]
    assert_same(feed(on, since=on.timeline.commits[0].completion), expected, about="merge")


@pytest.mark.parametrize("mode", MODES)
def test_where_column_chunks_are_copied_the_record_before_is_right(tmp_path: Path, mode: str) -> None:
    on = pudi.create(tmp_path / "big", SCHEMA, record_key="uuid", ordering="ts", options={**LOGGED, MODE: mode})
    count = 25_000
    numbers = pa.array(range(count), pa.int64())
    rows = table([trip(0, 1)]).take(pa.array([0] * count))
    rows = rows.set_column(0, "uuid", pa.array([f"k{n:06}" for n in range(count)]))
    rows = rows.set_column(4, "fare", numbers.cast(pa.float64()))
    on.insert(rows)
    changed = rows.take(pa.array([5, 24_000])).set_column(2, "ts", pa.array([2, 2], pa.int64()))
    changed = changed.set_column(4, "fare", pa.array([-1.0, -2.0]))
    on.upsert(changed)
    on.delete(rows.slice(7, 1))
    later = feed(on, since=on.timeline.commits[0].completion)
    found = {(row["op"], (row["before"] or {}).get("fare"), (row["after"] or {}).get("fare")) for row in later}
    assert found == {("u", 5.0, -1.0), ("u", 24_000.0, -2.0), ("d", 7.0, None)}


INDEXES = {
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"},
    "record index": {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"},
    "avro": {"hoodie.logfile.data.block.format": "avro"},
    "mixed": {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    "last wins": {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
}


WAYS = list(product(INDEXES, ("cow", "mor"), ("data_before_after", None)))


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("name", "kind", "mode"), WAYS)
def test_every_way_of_finding_and_merging_records(tmp_path: Path, name: str, kind: str, mode: str | None) -> None:
    own = {key: value for key, value in INDEXES[name].items() if key.startswith(("hoodie.table", "hoodie.record"))}
    made(tmp_path / "trips", kind, mode, options=own)
    on = pudi.Table(tmp_path / "trips", options=INDEXES[name])
    on.insert(table(trip(number, 10) for number in range(6)))
    on.upsert(table([trip(1, 20, None), trip(2, 20), trip(7, 20)]))
    on.upsert(table([trip(3, 5, "late")]))
    if name == "global":
        on.upsert(table([trip(1, 50, "moved", "nyc"), trip(3, 50, "moved", "chennai")]))
    on.delete(table([trip(2, 0), trip(4, 0)]))
    on.update({"rider": "'z'"}, "fare > 1")
    if kind == "mor":
        on.compact()
    on.upsert(table([trip(2, 90), trip(5, 90)]))
    on.delete(where="uuid = 'k0005'")
    there: dict[tuple[str, str], Row] = {}
    for change in sorted(feed(on), key=lambda row: (row["ts_ms"], row["op"])):  # deletes first: records that move
        image = change["after"] or change["before"]
        old = there.pop((image["city"], image["uuid"]), None)
        assert old == change["before"]
        if change["after"] is not None:
            there[image["city"], image["uuid"]] = change["after"]
    assert_same(there.values(), from_arrow(on.scan(meta_fields=False).to_arrow()), about=name)


def test_a_late_record_changes_nothing(tmp_path: Path) -> None:
    for kind in ("cow", "mor"):
        on = made(tmp_path / kind, kind)
        on.insert(table([trip(0, 10)]))
        on.upsert(table([trip(0, 5, "late")]))
        assert [row["op"] for row in feed(on)] == ["i"]


@pytest.mark.parametrize("mode", ["data_before_after", None])
def test_copies_of_a_key(tmp_path: Path, mode: str | None) -> None:
    on = made(tmp_path / "trips", "cow", mode)
    on.insert(table([trip(0, 1, "a")]))
    on.insert(table([trip(0, 1, "b")]))
    on.delete(table([trip(0, 1)]))
    ops = sorted((row["op"], (row["before"] or row["after"])["rider"]) for row in feed(on))
    assert ops == [("d", "a"), ("d", "b"), ("i", "a"), ("i", "b")]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("mode", [*MODES, None])
def test_writers_that_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str | None) -> None:
    """Another writer begins after this one and completes before it: its changes come first, each once."""
    on, write = made(tmp_path / "trips", kind, mode), LocalEngine.write
    created = on.insert(table(trip(number, 1, city=("nyc", "oslo")[number % 2]) for number in range(6)))
    before, done = state_of(on), []

    def late(self: LocalEngine, *arguments: Any) -> Any:
        monkeypatch.setattr(LocalEngine, "write", write)
        other = pudi.Table(on.path)
        rows = [trip(1, 2, "inner", city="oslo"), trip(21, 2, "inner", city="oslo")]
        done.append(other.upsert(table(rows)))
        done.append(other.delete(table([trip(3, 2, city="oslo")])))
        return write(self, *arguments)

    monkeypatch.setattr(LocalEngine, "write", late)
    outer = on.upsert(table([trip(0, 3, "outer", city="nyc"), trip(20, 3, "outer", city="nyc")]))
    upserted, deleted = done
    assert outer.instant < upserted.instant < deleted.instant
    after = state_of(on)
    inner = {place: row for place, row in after.items() if place[0] == "oslo"}
    kept = {place: row for place, row in before.items() if place[0] == "nyc"}
    middle = inner | {place: row for place, row in before.items() if place == ("oslo", "k0003")}
    expected = changes_between(before, kept | middle, upserted.instant, "upsert")
    expected += changes_between(kept | middle, kept | inner, deleted.instant, "delete")
    first = deleted.completion_time
    assert_same(feed(on, since=created.completion_time, until=first), expected, about="what was complete first")
    last = changes_between(kept | inner, after, outer.instant, "upsert")
    assert_same(feed(on, since=first), last, about="what completed last")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_that_came_later_are_null_before(tmp_path: Path, kind: str) -> None:
    on = made(tmp_path / "trips", kind)
    on.insert(table([trip(0, 1)]))
    on.upsert(table([trip(0, 2)]).append_column("tip", pa.array([3.5])))
    on.upsert(table([trip(0, 3)]).append_column("tip", pa.array([4.5])))
    images = [(row["before"] and row["before"]["tip"], row["after"]["tip"]) for row in feed(on)]
    assert images == [(None, None), (None, 3.5), (3.5, 4.5)]


def test_columns_and_predicates(tmp_path: Path) -> None:
    on = made(tmp_path / "trips")
    on.insert(table([trip(0, 1)]))
    on.upsert(table([trip(0, 2), trip(3, 2)]))
    found = on.changes(format="cdc", columns=["op"], where="op <> 'i'").to_arrow()
    assert found.to_pylist() == [{"op": "u"}]
    assert on.changes(format="cdc").schema.names == ["op", "ts_ms", "before", "after"]
    with pytest.raises(pudi.InvalidArgumentError, match="uuid"):
        on.changes(format="cdc", columns=["uuid"])
    with pytest.raises(pudi.InvalidArgumentError, match="images"):
        on.changes(format="cdc", images="avro")
    with pytest.raises(pudi.InvalidArgumentError, match="later than"):
        on.changes("2030-01-02", "2030-01-01", format="cdc")


@pytest.mark.parametrize("images", ["json", "struct"])
def test_readers_divide_large_files_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: str) -> None:
    on = made(tmp_path / "trips")
    for number in range(3):
        on.upsert(table([trip(n, ts=number) for n in range(number, 40 - number)]))
    on.delete(table([trip(7, 9)]))
    whole = on.changes(format="cdc", images=images).to_arrow()
    monkeypatch.setattr("pudi.plan.cdc._SHARE_BYTES", 300)
    divided = on.changes(format="cdc", images=images)
    plan = divided.plan
    whole_size = sum(split.size for split in plan.splits)
    for readers in (2, 20):
        pieces = [
            [(each.case, each.size * (each.share[1] - each.share[0])) for each in p] for p in plan.divided(readers)
        ]
        assert 1 < len(pieces) <= readers
        assert sum(size for part in pieces for _, size in part) == pytest.approx(whole_size)
        assert all(size < whole_size / readers + 600 for part in pieces for case, size in part if case == "AS_IS")
    assert sum(len(part) for part in plan.divided(20)) > len(plan.splits)
    monkeypatch.setattr(os, "cpu_count", lambda: 20)
    assert divided.to_arrow() == whole


def test_explain_says_how_changes_are_found(tmp_path: Path) -> None:
    logging, plain = made(tmp_path / "a"), made(tmp_path / "b", mode=None)
    for on in (logging, plain):
        on.insert(table([trip(0, 1)]))
        on.upsert(table([trip(0, 2)]))
    assert "1 of case AS_IS" in logging.changes(format="cdc").explain()
    assert "computed" not in logging.changes(format="cdc").explain()
    assert "1 of case COMPARED" in plain.changes(format="cdc").explain()
    assert "computed" in plain.changes(format="cdc").explain()


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("mode", ["data_before_after", "op_key_only", None])
def test_what_a_clean_has_removed_is_an_error(tmp_path: Path, kind: str, mode: str | None) -> None:
    on, times = made(tmp_path / "trips", kind, mode), []
    on.bulk_insert(table(trip(number, 0) for number in range(3)))
    for ts in range(1, 6):
        done = on.upsert(table([trip(0, ts)]))
        assert done is not None
        times.append(done.completion_time)
        if kind == "mor":
            on.compact()
    done = on.clean(options={"hoodie.clean.commits.retained": "1", "hoodie.clean.policy": "KEEP_LATEST_COMMITS"})
    assert done is not None
    assert [row["op"] for row in feed(on, since=times[-2])] == ["u"]
    with pytest.raises(pudi.NotFoundError, match="cleaner removed it") as caught:
        on.changes(format="cdc")
    assert caught.value.table == on.path


def test_what_is_archived_is_an_error(tmp_path: Path) -> None:
    on, times = made(tmp_path / "trips"), []
    for ts in range(8):
        done = on.upsert(table([trip(0, ts)]))
        assert done is not None
        times.append(done.completion_time)
    few = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    on.clean(options={"hoodie.clean.commits.retained": "2"})
    assert on.archive(options=few) > 0
    assert [row["op"] for row in feed(on, since=times[-2])] == ["u"]
    with pytest.raises(pudi.NotFoundError, match="archived"):
        on.changes(times[0], format="cdc")


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_files_of_change_data(tmp_path: Path, damage: str) -> None:
    on = made(tmp_path / "trips")
    on.insert(table([trip(0, 1)]))
    on.upsert(table([trip(0, 2)]))
    whole = feed(on)
    (file,) = (tmp_path / "trips").rglob(".*.cdc")
    content = file.read_bytes()
    for place in range(0, len(content), 7) if damage == "flip" else (len(content) // 2,):
        if damage == "gone":
            file.unlink()
        else:
            cut = content[:place]
            file.write_bytes(cut if damage == "cut" else cut + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            found = feed(on)
        except (pudi.CorruptError, pudi.NotFoundError, pudi.NotSupportedError) as error:
            assert ".cdc" in str(error)
        else:  # a flipped bit inside a value is a value: blocks have no checksum
            assert damage == "flip"
            assert len(found) == len(whole)
        assert len(on.scan().to_arrow()) == 1


def test_statistics_of_log_files_name_the_slice(tmp_path: Path) -> None:
    on = made(tmp_path / "trips", "mor")
    base = on.bulk_insert(table([trip(0, 1)]))
    on.upsert(table([trip(0, 2)]), options={"hoodie.parquet.small.file.limit": "0"})
    last = on.upsert(table([trip(0, 3)]), options={"hoodie.parquet.small.file.limit": "0"})
    assert base is not None
    assert last is not None
    instant = on.timeline.commit(last.instant)
    assert instant is not None
    ((stat,),) = on._meta.store.read_commit_metadata(instant).partition_to_write_stats.values()
    (file_slice,) = on.file_slices()
    assert file_slice.base is not None
    assert (stat.prev_commit, stat.base_file) == (base.instant, file_slice.base.name.name)
    assert stat.log_files == tuple(log.name.name for log in file_slice.logs)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "mode"), [("cow", "data_before_after"), ("mor", "op_key_only")])
def test_on_spark(spark: Any, tmp_path: Path, kind: str, mode: str) -> None:
    engine, on, state, expected = SparkEngine(spark), made(tmp_path / "trips", kind, mode), State(), []
    for verb, rows in (
        ("bulk_insert", [trip(number, 1) for number in range(6)]),
        ("upsert", [trip(0, 2), trip(1, 0), trip(9, 2)]),
        ("delete", [trip(3, 0)]),
    ):
        done = getattr(on, verb)(engine.frame(table(rows)))
        after = state_of(on)
        expected += changes_between(state, after, done.instant, verb)
        state = after
    assert_same(feed(on), expected, about="local")
    assert_same(engine.read(on.changes(format="cdc", images="struct")), expected, about="spark")
