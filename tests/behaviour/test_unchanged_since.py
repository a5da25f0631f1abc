"""`if_unchanged_since`: what was computed from a scan is written only where nothing it depends on has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.tagging import Buckets
from support.archiving import archive
from support.beside import watched
from support.disk import base_files, tree
from support.engines import Engine, SparkEngine
from support.golden import FOLDER
from support.trips import SCHEMA, table, trip

Verb = Callable[[pudi.Table, Engine, str], Any]
NO_SMALL = {"hoodie.parquet.small.file.limit": "0"}


def on(engine: Engine) -> dict[str, Any]:
    return {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]


VERBS: dict[str, Verb] = {
    "insert": lambda made, e, at: made.insert(e.frame(table([trip(9, 90)])), if_unchanged_since=at),
    "bulk_insert": lambda made, e, at: made.bulk_insert(e.frame(table([trip(9, 90)])), if_unchanged_since=at),
    "upsert": lambda made, e, at: made.upsert(e.frame(table([trip(0, 90)])), if_unchanged_since=at),
    "delete": lambda made, e, at: made.delete(e.frame(table([trip(0, 90)])), if_unchanged_since=at),
    "delete where": lambda made, e, at: made.delete(where="city = 'nyc'", if_unchanged_since=at, **on(e)),
    "update": lambda made, e, at: made.update({"ts": 90}, "city = 'nyc'", if_unchanged_since=at, **on(e)),
    "merge": lambda made, e, at: (
        made.merge(e.frame(table([trip(0, 90)])), if_unchanged_since=at).when_matched_update().execute()
    ),
    "insert_overwrite": lambda made, e, at: made.insert_overwrite(e.frame(table([trip(0, 90)])), if_unchanged_since=at),
    "insert_overwrite_table": lambda made, e, at: made.insert_overwrite_table(
        e.frame(table([trip(0, 90)])), if_unchanged_since=at
    ),
    "delete_partitions": lambda made, _, at: made.delete_partitions(["nyc"], if_unchanged_since=at),
    "delete_partitions where": lambda made, _, at: made.delete_partitions(where="city = 'nyc'", if_unchanged_since=at),
}
"""Each writes to partition `nyc`; `k0000`, `k0003` and `k0009` belong there."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.insert(table([trip(n, 10) for n in range(6)]))
    return tmp_path / "trips"


def state(path: Path) -> dict[str, int]:
    found = pudi.Table(path).scan(columns=["uuid", "ts"]).to_arrow()
    assert len(set(found["uuid"].to_pylist())) == found.num_rows, "a key is there twice"
    return dict(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))


def other(path: Path, *rows: dict[str, Any], verb: str = "upsert") -> str:
    """What another writer commits, the trip `k0003` of nyc by default; its instant."""
    done = getattr(pudi.Table(path), verb)(table(rows or [trip(3, 20)]))
    assert done is not None
    return str(done.instant)


@pytest.mark.parametrize("verb", VERBS)
def test_what_has_changed_is_not_written_over(path: Path, verb: str, engine: Engine) -> None:
    made, _, clock = watched(path)
    at = made.scan().instant
    theirs = other(path, trip(3, 20), trip(12, 20))
    before = tree(path)
    with pytest.raises(pudi.ChangedSinceError, match=rf"since {at}.*{theirs}.*'nyc'.*read the table again") as caught:
        VERBS[verb](made, engine, at)
    assert isinstance(caught.value, pudi.ConflictError)
    assert not caught.value.retryable
    assert (caught.value.table, caught.value.instant) == (made.path, theirs)
    assert clock.slept == []
    if engine.name == "local" and verb != "bulk_insert":  # on Spark, and for bulk inserts, files tell what they touch
        assert tree(path) == before, "told before files are written"
    assert state(path) == {**{f"k{n:04}": 10 for n in range(6)}, "k0003": 20, "k0012": 20}
    assert VERBS[verb](made, engine, made.scan().instant) is not None


@pytest.mark.parametrize("verb", VERBS)
def test_what_others_did_elsewhere_does_not_count(path: Path, verb: str, engine: Engine) -> None:
    made = pudi.Table(path)
    at = made.scan().instant
    other(path, trip(1, 20), trip(31, 20))
    if verb == "insert_overwrite_table":
        with pytest.raises(pudi.ChangedSinceError, match="sao_paulo"):
            VERBS[verb](made, engine, at)
    else:
        assert VERBS[verb](made, engine, at).attempts == 1
        assert (state(path)["k0001"], state(path)["k0031"]) == (20, 20)


@pytest.mark.parametrize("verb", VERBS)
def test_what_changes_while_it_is_written(path: Path, verb: str, engine: Engine) -> None:
    """Between plan and commit: it's the same error, and no further attempt is made."""
    made, beside, clock = watched(path)
    beside.then = [lambda: other(path, trip(3, 20), trip(12, 20))]
    files = len(base_files(path))
    with pytest.raises(pudi.ChangedSinceError, match="'nyc'"):
        VERBS[verb](made, engine, made.scan().instant)
    assert clock.slept == []
    assert state(path)["k0003"] == 20
    assert len(base_files(path)) == files + 1
    assert not made.timeline.pending


def test_read_modify_write(path: Path) -> None:
    """The classic: two read a balance, both raise it, and no raise is lost."""
    raised = []
    for _ in range(2):
        scan = pudi.Table(path).scan(meta_fields=False, where="uuid = 'k0000'")
        row = scan.to_arrow().to_pylist()[0]
        raised.append((scan.instant, table([{**row, "ts": row["ts"] + 5}])))
    assert pudi.Table(path).upsert(raised[0][1], if_unchanged_since=raised[0][0]) is not None
    with pytest.raises(pudi.ChangedSinceError):
        pudi.Table(path).upsert(raised[1][1], if_unchanged_since=raised[1][0])
    assert state(path)["k0000"] == 15


@pytest.mark.parametrize(("verb", "number"), [("upsert", 9), ("insert", 12), ("delete", 3)])
def test_new_keys_beside_keys_that_came_or_went(tmp_path: Path, verb: str, number: int) -> None:
    """In file groups of their own: the same key may have come into, or gone from, another one."""
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city", options=NO_SMALL)
    for numbers in ((0,), (3,)):
        made.insert(table([trip(n, 10) for n in numbers]), options=NO_SMALL)
    at = made.scan().instant
    getattr(pudi.Table(made.path), verb)(table([trip(number, 20)]), options=NO_SMALL)
    with pytest.raises(pudi.ChangedSinceError, match=r"inserted or deleted|file group"):
        made.upsert(table([trip(9, 90)]), if_unchanged_since=at, options=NO_SMALL)


def test_new_keys_beside_records_that_were_updated(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city", options=NO_SMALL)
    made.insert(table([trip(0, 10)]), options=NO_SMALL)
    at = made.scan().instant
    made.upsert(table([trip(0, 20)]), options=NO_SMALL)
    assert made.upsert(table([trip(9, 90)]), if_unchanged_since=at, options=NO_SMALL) is not None


def test_a_global_index_looks_at_keys_of_all_partitions(path: Path) -> None:
    at = pudi.Table(path).scan().instant
    other(path, trip(40, 20, city="chennai"))
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    with pytest.raises(pudi.ChangedSinceError, match="chennai"):
        pudi.Table(path).upsert(table([trip(9, 90)]), if_unchanged_since=at, options=options)
    assert pudi.Table(path).upsert(table([trip(9, 90)]), if_unchanged_since=at) is not None


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_buckets_are_told_apart(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type=kind, options=options)
    buckets = Buckets(4, ("uuid",)).of(pa.array([f"k{n:04}" for n in range(50)])).tolist()
    first, second = ([n for n in range(50) if buckets[n] == bucket] for bucket in (0, 1))
    made.insert(table([trip(first[0], 10)]))
    at = made.scan().instant
    pudi.Table(made.path, options).upsert(table([trip(first[1], 20)]))
    assert made.upsert(table([trip(second[0], 90)]), if_unchanged_since=at) is not None
    with pytest.raises(pudi.ChangedSinceError, match="file group"):
        made.insert(table([trip(first[2], 90)]), if_unchanged_since=at)


@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_kind_of_table(tmp_path: Path, kind: str, version: str) -> None:
    options = {"hoodie.write.table.version": version}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type=kind, ordering="ts", options=options)
    empty = made.scan().instant
    assert set(empty) == {"0"}
    assert made.insert(table([trip(n, 10) for n in range(3)]), if_unchanged_since=empty) is not None
    with pytest.raises(pudi.ChangedSinceError):
        made.insert(table([trip(5, 10)]), if_unchanged_since=empty)
    for number in range(4):
        at = made.scan().instant
        assert at == made.timeline.commits[-1].requested
        assert made.upsert(table([trip(0, 20 + number)]), if_unchanged_since=at) is not None
        with pytest.raises(pudi.ChangedSinceError):
            made.upsert(table([trip(1, 30)]), if_unchanged_since=at)
    assert state(tmp_path / "t") == {"k0000": 23, "k0001": 10, "k0002": 10}


@pytest.mark.parametrize("log_compaction", [False, True])
def test_a_compaction_changes_nothing(tmp_path: Path, log_compaction: bool) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type="mor", ordering="ts")
    made.insert(table([trip(n, 10) for n in range(3)]))
    for ts in (20, 30, 40):
        made.upsert(table([trip(0, ts)]))
    at = made.scan().instant
    options = {"hoodie.log.compaction.blocks.threshold": "2"} if log_compaction else {}
    assert made.compact(log_compaction=log_compaction, options=options) is not None
    assert made.upsert(table([trip(0, 50)]), if_unchanged_since=at) is not None
    assert state(tmp_path / "t")["k0000"] == 50


def test_a_clustering_changes_nothing_but_what_was_written_before_it_counts(tmp_path: Path) -> None:
    """Hudi clustered this table; file groups can't be compared across that, so partitions are."""
    shutil.unpack_archive(FOLDER / "cow_v9_clustered.zip", tmp_path)
    made = pudi.Table(tmp_path / "cow_v9_clustered")
    commits = made.timeline.commits
    numbers = [n for n, i in enumerate(commits) if i.action.value == "replacecommit"]
    assert numbers, "the table has a clustering"
    before = commits[numbers[0] - 1].requested
    later = [i for i in commits[numbers[0] + 1 :] if i.action.value != "replacecommit"]
    row = made.scan(meta_fields=False).to_arrow().slice(0, 1)
    if later:
        with pytest.raises(pudi.ChangedSinceError, match=r"other file groups|file group"):
            made.upsert(row, if_unchanged_since=before)
        before = made.scan().instant
    with pytest.raises(pudi.ChangedSinceError, match="other file groups"):
        made.upsert(row, if_unchanged_since=commits[numbers[0] - 2].requested)
    assert made.upsert(row, if_unchanged_since=before) is not None


def test_an_overwrite_of_the_partition(path: Path) -> None:
    at = pudi.Table(path).scan().instant
    pudi.Table(path).delete_partitions(["nyc"])
    with pytest.raises(pudi.ChangedSinceError, match=r"changed partition 'nyc'"):
        pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since=at)
    assert pudi.Table(path).upsert(table([trip(1, 90)]), if_unchanged_since=at) is not None


def test_a_restore(tmp_path: Path) -> None:
    shutil.unpack_archive(FOLDER / "mor_v9_savepoint_restore_rollback.zip", tmp_path)
    made = pudi.Table(tmp_path / "mor_v9_savepoint_restore_rollback")
    restore = next(i for i in made.timeline.instants if i.action.value == "restore")
    before = [i for i in made.timeline.commits if i.requested < restore.requested][-1]
    row = made.scan(meta_fields=False).to_arrow().slice(0, 1)
    with pytest.raises(pudi.ChangedSinceError, match="earlier state"):
        made.upsert(row, if_unchanged_since=before.requested)
    assert made.upsert(row, if_unchanged_since=made.scan().instant) is not None


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_what_was_archived_counts(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    options = {"hoodie.write.table.version": version}
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", options=options)
    instants = [other(path, trip(n % 6, 10 + n)) for n in range(8)]
    archive(path, 6)
    for number, instant in enumerate(instants):
        touched = {n % 3 for n in range(number + 1, 8)}
        for partition in range(3):
            row = table([trip(partition, 90)])
            if partition in touched:
                with pytest.raises(pudi.ChangedSinceError):
                    made.upsert(row, if_unchanged_since=instant)
    assert made.upsert(table([trip(0, 90)]), if_unchanged_since=instants[-1]) is not None


@pytest.mark.parametrize("version", ["6", "9"])
def test_history_that_is_gone(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    options = {"hoodie.write.table.version": version}
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", options=options)
    empty = made.scan().instant
    instants = [other(path, trip(n % 6, 10 + n)) for n in range(8)]
    archive(path, 6)
    history = made._meta.store.history
    shutil.rmtree(path / history)
    with pytest.raises(pudi.NotFoundError, match=rf"since {instants[2]} can't be known.*begins at {instants[6]}"):
        made.upsert(table([trip(0, 90)]), if_unchanged_since=instants[2])
    with pytest.raises(pudi.ChangedSinceError):
        made.upsert(table([trip(0, 90)]), if_unchanged_since=empty)
    assert made.upsert(table([trip(0, 90)]), if_unchanged_since=instants[6]) is not None


def test_history_whose_beginning_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"hoodie.write.table.version": "6"}
    made = pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", options=options)
    empty = made.scan().instant
    instants = [other(path, trip(0, 10)), *(other(path, trip(1, 10 + n)) for n in range(7))]
    archive(path, 6)
    first = sorted((path / made._meta.store.history).glob(".commits_.archive.*"))[0]
    first.unlink()
    for at in (empty, instants[0], instants[1]):
        with pytest.raises(pudi.NotFoundError, match=rf"since {at} can't be known"):
            made.upsert(table([trip(0, 90)]), if_unchanged_since=at)
    assert made.upsert(table([trip(0, 90)]), if_unchanged_since=instants[2]) is not None


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_write_that_was_slower_than_the_scan(tmp_path: Path, version: str) -> None:
    """Requested before what the scan saw last, and completed after it: the scan hasn't seen it."""
    path = tmp_path / "t"
    options = {"hoodie.write.table.version": version}
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", options=options).insert(
        table([trip(n, 10) for n in range(6)])
    )
    slow, beside, _ = watched(path)
    scans = []
    beside.then = [lambda: (other(path, trip(1, 20)), scans.append(pudi.Table(path).scan()))]
    done = slow.upsert(table([trip(0, 15)]))
    assert done is not None
    at = scans[0].instant
    assert scans[0].to_arrow().num_rows == 6
    with pytest.raises(pudi.ChangedSinceError, match=done.instant):
        pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since=at)
    # the scan after it has seen both, and is at an instant that says so
    assert pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since=pudi.Table(path).scan().instant) is not None


@pytest.mark.parametrize("at", ["yesterday", "2026-01-01", "", "1", 20260101000000000, None])
def test_what_is_no_instant(path: Path, at: Any) -> None:
    if at is None:
        assert pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since=at) is not None
        return
    with pytest.raises(pudi.InvalidArgumentError, match=r"if_unchanged_since.*Scan\.instant"):
        pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since=at)


def test_an_instant_in_the_future(path: Path) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="future"):
        pudi.Table(path).upsert(table([trip(0, 90)]), if_unchanged_since="29990101000000000")


def test_times_of_an_own_commit(path: Path) -> None:
    """A writer that goes on from its own commit may name it by either time."""
    made = pudi.Table(path)
    first = made.upsert(table([trip(0, 20)]))
    assert first is not None
    assert made.upsert(table([trip(1, 20)]), if_unchanged_since=first.completion_time) is not None
    second = made.upsert(table([trip(0, 30)]), if_unchanged_since=first.instant)
    assert second is not None
    for at in (first.instant, first.completion_time):
        with pytest.raises(pudi.ChangedSinceError):
            made.upsert(table([trip(0, 40)]), if_unchanged_since=at)


def test_scans_of_the_past_and_of_changes_are_at_what_they_show(path: Path) -> None:
    made = pudi.Table(path)
    first = made.timeline.commits[-1]
    second = other(path)
    assert made.scan(as_of=first.requested).instant == first.requested
    assert made.scan(as_of="2999-01-01").instant == made.scan().instant == second
    assert made.changes(until=first.completion).instant == first.requested
    assert made.changes(since=first.completion).instant == second
    with pytest.raises(pudi.ChangedSinceError):
        made.upsert(table([trip(0, 90)]), if_unchanged_since=made.scan(as_of=first.requested).instant)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_read_optimized_scan_has_not_seen_what_log_files_hold(tmp_path: Path, kind: str) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type=kind)
    made.insert(table([trip(0, 10)]))
    made.upsert(table([trip(0, 20)]))
    scan = made.scan(columns=["ts"], read_optimized=True)
    if kind == "cow":
        assert scan.instant == made.scan().instant
        return
    assert scan.to_arrow()["ts"].to_pylist() == [10]
    with pytest.raises(pudi.NotSupportedError, match="read-optimized"):
        _ = scan.instant


@pytest.mark.spark
def test_a_job_of_options_on_spark(path: Path, spark: Any) -> None:
    frame = SparkEngine(spark).frame(table([trip(0, 90)]))
    at = pudi.Table(path).scan().instant
    theirs = other(path)
    with pytest.raises(pudi.ChangedSinceError, match=theirs):
        pudi.spark.write(frame).mode("append").save(path, if_unchanged_since=at)
    assert pudi.spark.write(frame).mode("append").save(path, if_unchanged_since=theirs) is not None
    with pytest.raises(pudi.InvalidArgumentError, match="append"):
        pudi.spark.write(frame).mode("overwrite").save(path, if_unchanged_since=theirs)
    with pytest.raises(pudi.TableNotFoundError, match=at):
        pudi.spark.write(frame).mode("append").save(path / "none", if_unchanged_since=at)
