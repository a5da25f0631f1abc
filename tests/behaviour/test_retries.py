"""Writes that lose to another writer: which are planned and written again, how often, and what is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.format import Action, RequestedReplaceMetadata, encode_requested_replace_metadata
from pudi.spark.job import WriteJob
from pudi.timeline import TimelineStore
from support.beside import watched
from support.disk import base_files
from support.engines import Engine, LocalEngine, SparkEngine
from support.trips import SCHEMA, table, trip

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
Verb = Callable[[pudi.Table, Engine], Any]


def on(engine: Engine) -> dict[str, Any]:
    return {"spark": engine.spark} if engine.name == "spark" else {}  # type: ignore[attr-defined]


REPEATED: dict[str, Verb] = {
    "update": lambda made, engine: made.update({"ts": "ts + 5"}, "uuid = 'k0000'", **on(engine)),
    "delete": lambda made, engine: made.delete(where="uuid = 'k0000'", **on(engine)),
    "merge": lambda made, engine: (
        made.merge(engine.frame(table([trip(0, 90), trip(9, 90)])))
        .when_matched_update({"ts": "target.ts + 5"})
        .when_not_matched_insert()
        .execute()
    ),
    "insert": lambda made, engine: made.insert(engine.frame(table([trip(9, 90)]))),
}
"""Verbs that write into the file group of `k0000`, and that are repeated unless options say otherwise."""
AFTER = {
    "update": {"k0000": 25},
    "delete": {},
    "merge": {"k0000": 25, "k0009": 90},
    "insert": {"k0000": 20, "k0009": 90},
}
ONCE: dict[str, Verb] = {
    "upsert": lambda made, engine: made.upsert(engine.frame(table([trip(0, 90)]))),
    "delete of records": lambda made, engine: made.delete(engine.frame(table([trip(0, 90)]))),
    "insert_overwrite": lambda made, engine: made.insert_overwrite(engine.frame(table([trip(0, 90)]))),
    "insert_overwrite_table": lambda made, engine: made.insert_overwrite_table(engine.frame(table([trip(0, 90)]))),
    "delete_partitions": lambda made, _: made.delete_partitions(["nyc"]),
}
"""Verbs that are not: what they are given may have been computed from what the other writer changed."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.insert(table([trip(n, 10) for n in range(6)]))
    return tmp_path / "trips"


def state(path: Path) -> dict[str, int]:
    found = pudi.Table(path).scan(columns=["uuid", "ts"]).to_arrow()
    assert len(set(found["uuid"].to_pylist())) == found.num_rows, "a key is there twice"
    return dict(zip(found["uuid"].to_pylist(), found["ts"].to_pylist(), strict=True))


def other(path: Path, *, ts: int = 20) -> Callable[[], object]:
    """Another writer changes the file group of `k0000`."""
    return lambda: pudi.Table(path).upsert(table([trip(0, ts)]))


@pytest.mark.parametrize("verb", REPEATED)
def test_what_says_what_to_do_is_done_on_what_is_there(
    path: Path, engine: Engine, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, beside, clock = watched(path)
    beside.then = [other(path, ts=15), other(path)]
    with caplog.at_level(logging.INFO, logger="pudi.commit.retry"):
        done = REPEATED[verb](made, engine)
    assert done.attempts == 3
    found = state(path)
    assert {key: ts for key, ts in found.items() if key in {"k0000", "k0009"}} == AFTER[verb]
    assert len(found) == 6 - (verb == "delete") + ("k0009" in AFTER[verb])
    assert len(clock.slept) == 2
    told = [record.getMessage() for record in caplog.records if record.name == "pudi.commit.retry"]
    assert len(told) == 2
    assert all("file group" in text or "compared" in text for text in told)
    assert pudi.Table(path).check().ok


@pytest.mark.parametrize("verb", ONCE)
def test_what_may_depend_on_what_changed_is_not_repeated(path: Path, verb: str, engine: Engine) -> None:
    made, beside, _ = watched(path)
    beside.then = [other(path)]
    with pytest.raises(pudi.ConflictError, match=r"file group|wrote into partition") as caught:
        ONCE[verb](made, engine)
    assert caught.value.retryable
    assert "attempt" not in str(caught.value)
    assert state(path) == {"k0000": 20, **{f"k{n:04}": 10 for n in range(1, 6)}}


@pytest.mark.parametrize("verb", ONCE)
def test_unless_the_option_of_hudi_says_so(path: Path, verb: str) -> None:
    made, beside, _ = watched(path, {RETRIES: "1"})
    beside.then = [other(path)]
    assert ONCE[verb](made, LocalEngine()).attempts == 2
    found = state(path)
    assert found.get("k0000") == (90 if "delete" not in verb else None)
    assert ("k0003" in found) == (verb in {"upsert", "delete of records"})
    assert ("k0001" in found) == (verb != "insert_overwrite_table")


@pytest.mark.spark
def test_a_job_of_options_on_spark(path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, beside, _ = watched(path, {RETRIES: "2"})
    beside.then = [other(path)]
    monkeypatch.setattr(WriteJob, "table", lambda _: made)
    frame = SparkEngine(spark).frame(table([trip(0, 90)]))
    done = pudi.spark.write(frame).option(RETRIES, 2).mode("append").save(path)
    assert done is not None
    assert done.attempts == 2
    assert state(path)["k0000"] == 90


def test_none_are_made_where_the_option_says_none(path: Path) -> None:
    made, beside, clock = watched(path)
    beside.then = [other(path)]
    with pytest.raises(pudi.ConflictError, match="file group"):
        made.update({"ts": 30}, "uuid = 'k0000'", options={RETRIES: "0"})
    assert clock.slept == []
    assert state(path)["k0000"] == 20


def test_the_last_error_says_how_many_attempts_there_were(path: Path) -> None:
    made, beside, clock = watched(path)
    beside.then = [other(path, ts=20 + n) for n in range(20)]
    before, began = len(base_files(path)), time.monotonic()
    with pytest.raises(pudi.ConflictError, match=r"file group.*attempt 4.*num\.retries") as caught:
        made.update({"ts": "ts + 100"}, options={RETRIES: "3"})
    assert caught.value.table == made.path
    assert caught.value.instant is not None
    assert len(beside.then) == 16
    assert len(clock.slept) == 3
    assert sum(clock.slept) <= time.monotonic() - began, "no pause is longer than the attempt that was lost"
    assert state(path)["k0000"] == 23
    assert len(base_files(path)) == before + 4, "of the attempts nothing is left"


def test_a_stream_that_can_be_read_once_is_kept_for_the_next_attempt(path: Path) -> None:
    made, beside, _ = watched(path)
    beside.then = [other(path)]
    rows = table([trip(n, 30) for n in range(100, 130)])
    done = made.insert(pa.RecordBatchReader.from_batches(SCHEMA, rows.to_batches(max_chunksize=7)))
    assert done is not None
    assert (done.attempts, done.records_inserted) == (2, 30)
    assert len(state(path)) == 36


def test_a_stream_to_merge_is_kept_too(path: Path) -> None:
    made, beside, _ = watched(path)
    beside.then = [other(path)]
    rows = table([trip(n, 30) for n in range(3)])
    merge = made.merge(pa.RecordBatchReader.from_batches(SCHEMA, rows.to_batches())).when_matched_update()
    done = merge.execute()
    assert done is not None
    assert (done.attempts, done.records_updated) == (2, 3)
    assert [ts for _, ts in sorted(state(path).items())] == [30, 30, 30, 10, 10, 10]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_inserts_that_fill_the_same_small_file(tmp_path: Path, kind: str) -> None:
    pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type=kind).insert(table([trip(0, 10)]))
    made, beside, _ = watched(tmp_path / "t")
    beside.then = [lambda: pudi.Table(tmp_path / "t").insert(table([trip(1, 10)]))]
    done = made.insert(table([trip(2, 10)]))
    assert done is not None
    assert done.attempts == 2
    assert state(tmp_path / "t") == {"k0000": 10, "k0001": 10, "k0002": 10}


@pytest.mark.parametrize("verb", ["insert", "bulk_insert"])
def test_inserts_into_the_same_bucket(tmp_path: Path, verb: str) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options=options)
    made, beside, _ = watched(tmp_path / "t", options)
    beside.then = [lambda: pudi.Table(tmp_path / "t", options).insert(table([trip(1, 10)]))]
    done = getattr(made, verb)(table([trip(2, 10)]))
    assert done.attempts == 2
    assert state(tmp_path / "t") == {"k0001": 10, "k0002": 10}


def test_a_bulk_insert_stands_beside_any_other(path: Path) -> None:
    made, beside, _ = watched(path)
    beside.then = [other(path)]
    done = made.bulk_insert(table([trip(9, 10)]))
    assert done is not None
    assert done.attempts == 1


def test_a_column_that_was_added_meanwhile(path: Path) -> None:
    made, beside, _ = watched(path)
    beside.then = [lambda: pudi.Table(path).add_column("tip", pa.int64())]
    done = made.update({"ts": 30}, "uuid = 'k0000'")
    assert done is not None
    assert done.attempts == 2
    assert "tip" in pudi.Table(path).schema.names
    assert state(path)["k0000"] == 30


def test_what_stands_in_the_way_for_longer_is_told_at_once(path: Path) -> None:
    """Somebody's clustering owns the file group until it's done; trying again in a second is no use."""
    made, beside, clock = watched(path)
    store: TimelineStore = pudi.Table(path)._meta.store
    found = next(s for s in made.file_slices() if s.partition == "nyc")
    plan = {"inputGroups": [{"slices": [{"partitionPath": "nyc", "fileId": found.file_id}]}]}
    content = encode_requested_replace_metadata(RequestedReplaceMetadata("CLUSTER", plan, None, 1))
    beside.then = [lambda: store.request(Action.CLUSTERING, content)]
    with pytest.raises(pudi.ConflictError, match="clustering"):
        made.update({"ts": 30}, "uuid = 'k0000'")
    assert clock.slept == []


@pytest.mark.parametrize("version", ["6", "8"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_kind_of_table(tmp_path: Path, kind: str, version: str) -> None:
    options = {"hoodie.write.table.version": version}
    path = tmp_path / "t"
    made = pudi.create(path, SCHEMA, record_key="uuid", table_type=kind, ordering="ts", options=options)
    made.insert(table([trip(n, 10) for n in range(3)]))
    made, beside, _ = watched(path)
    beside.then = [other(path), other(path, ts=30)]
    done = made.update({"ts": "ts + 1"})
    assert done is not None
    assert done.attempts == 3
    assert state(path) == {"k0000": 31, "k0001": 11, "k0002": 11}
