"""Keys that writes put into a second file group, of which a record index knows one: reads find all of them."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pudi
from pudi.client import MetaClient
from pudi.commit import commit_hook
from pudi.context import Context
from pudi.indexes.record_index.build import RecordIndexBuilder
from pudi.indexing.index_run import IndexRun
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.engines import SparkEngine
from support.trips import SCHEMA, table, trip

METADATA = {"hoodie.metadata.enable": "true"}
GLOBAL = {**METADATA, "hoodie.metadata.global.record.level.index.enable": "true"}
BY_PARTITION = {**METADATA, "hoodie.metadata.record.level.index.enable": "true"}
APART = {"hoodie.parquet.small.file.limit": "0"}
MARK = "pudi.record.index.repeated.keys"
NOT_USED = "record_index not used: keys are stored more than once"


def made(path: Path, options: dict[str, str] | None = None, kind: str = "cow", version: int = 9) -> pudi.Table:
    """A table with a record index; its trips are in nyc and rome."""
    versions = {"hoodie.write.table.version": str(version)}
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=versions)
    trips = pudi.Table(path, options={**(GLOBAL if options is None else options), **APART})
    trips.upsert(trips_in("nyc", 0, 1, 2))
    trips.upsert(trips_in("rome", 5, 6))
    return trips


def trips_in(city: str, *numbers: int, ts: int = 10) -> pa.Table:
    return table(trip(n, ts, f"rider{n}", city) for n in numbers)


def is_marked(path: Path) -> bool:
    return pudi.Table(path).config.raw.get(MARK) == "true"


def assert_finds_all(trips: pudi.Table, *columns: str) -> None:
    """Each key, looked up in both ways, has all of its rows."""
    whole = trips.scan().to_arrow()
    for column in columns or ("uuid",):
        for value in whole[column].unique():
            expected = whole.filter(pc.equal(whole[column], value)).sort_by("_hoodie_file_name")
            found = trips.scan(where=f"{column} = '{value}'").to_arrow()
            assert found.sort_by("_hoodie_file_name") == expected
    wanted = pa.table({"uuid": whole["uuid"].unique()})
    assert trips.scan(keys=wanted).to_arrow().num_rows == whole.num_rows


WRITES: dict[str, Callable[[pudi.Table], Any]] = {
    "insert": lambda trips: trips.insert(trips_in("rome", 1, 7, ts=20)),
    "insert of a key in its partition": lambda trips: trips.insert(trips_in("nyc", 1, 7, ts=20)),
    "bulk_insert": lambda trips: trips.bulk_insert(trips_in("rome", 1, 7, ts=20)),
    "insert_overwrite": lambda trips: trips.insert_overwrite(trips_in("rome", 1, 7, ts=20)),
    "upsert": lambda trips: trips.upsert(trips_in("rome", 1, 7, ts=20)),
    "upsert by bloom filters": lambda trips: trips.upsert(
        trips_in("rome", 1, 7, ts=20), options={"hoodie.index.type": "BLOOM"}
    ),
    "one write": lambda trips: trips.bulk_insert(pa.concat_tables([trips_in("oslo", 8), trips_in("rome", 8)])),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "version"), [("mor", 9), ("cow", 9), ("cow", 6)])
@pytest.mark.parametrize("write", WRITES)
def test_reads_find_each_copy_of_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, write: str, kind: str, version: int
) -> None:
    trips = made(tmp_path / "trips", kind=kind, version=version)
    reader = pudi.Table(tmp_path / "trips")  # which stays open
    assert "index       record_index kept" in reader.scan(where="uuid = 'k0001'").explain()
    with caplog.at_level(logging.WARNING):
        WRITES[write](trips)
    key = "k0008" if write == "one write" else "k0001"
    assert f"table {trips.path}: record key {key!r} is in two file groups now" in caplog.text
    assert is_marked(tmp_path / "trips")
    assert reader.scan(where=f"uuid = '{key}'").to_arrow().num_rows == 2
    assert NOT_USED in reader.scan(where=f"uuid = '{key}'").explain()
    for each in (reader, trips):
        assert_finds_all(each)
    caplog.clear()
    trips.insert(trips_in("rome", 2))  # it's known, and said once
    trips.cluster()
    assert "two file groups" not in caplog.text
    assert_finds_all(reader)


def test_a_new_index_of_a_table_with_repeated_keys_is_not_used_either(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips")
    trips.insert(trips_in("rome", 1, ts=20))
    trips.drop_index("record_index")
    assert not is_marked(tmp_path / "trips")
    assert_finds_all(trips)
    trips.create_index("record_index")
    assert is_marked(tmp_path / "trips")
    assert_finds_all(trips)
    trips.delete(where="uuid = 'k0001' AND city = 'nyc'")
    assert is_marked(tmp_path / "trips")
    trips.drop_index("record_index")
    trips.create_index("record_index")
    assert not is_marked(tmp_path / "trips")
    assert_finds_all(trips)
    assert "record_index kept 1" in trips.scan(where="uuid = 'k0001'").explain()


def test_values_of_a_secondary_index(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips")
    trips.create_index("secondary_index", "rider")
    trips.insert(trips_in("rome", 1, ts=20))
    assert trips.scan(where="rider = 'rider1'").to_arrow().num_rows == 2
    assert NOT_USED in trips.scan(where="rider = 'rider1'").explain()
    assert_finds_all(trips, "uuid", "rider")


MOVES = {"hoodie.index.type": "RECORD_INDEX", "hoodie.record.index.update.partition.path": "true"}


def _deleted_and_inserted(trips: pudi.Table) -> None:
    trips.delete(trips_in("nyc", 1))
    trips.insert(trips_in("rome", 1, ts=20))


def _replaced_and_inserted(trips: pudi.Table) -> None:
    trips.delete_partitions(["nyc"])
    trips.insert(trips_in("rome", 1, ts=20))


ONCE: dict[str, Callable[[pudi.Table], Any]] = {
    "a move by the index": lambda trips: trips.upsert(trips_in("rome", 1, ts=20), options=MOVES),
    "a delete before": _deleted_and_inserted,
    "a delete of the partition before": _replaced_and_inserted,
    "an overwrite of all": lambda trips: trips.insert_overwrite_table(trips_in("rome", 1, 7, ts=20)),
    "new keys": lambda trips: trips.insert(trips_in("rome", 7, 8, ts=20)),
    "known keys dropped": lambda trips: trips.insert(
        trips_in("nyc", 1, 7, ts=20), options={"hoodie.datasource.write.insert.drop.duplicates": "true"}
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("write", ONCE)
def test_keys_that_stay_in_one_file_group(tmp_path: Path, write: str, kind: str) -> None:
    trips = made(tmp_path / "trips", kind=kind)
    ONCE[write](trips)
    trips.cluster()
    assert not is_marked(tmp_path / "trips")
    assert "index       record_index kept" in trips.scan(where="uuid = 'k0001'").explain()
    assert_finds_all(trips)


def test_an_index_per_partition_has_a_key_once_in_each(tmp_path: Path) -> None:
    trips = made(tmp_path / "trips", BY_PARTITION)
    trips.insert(trips_in("rome", 1, ts=20))
    trips.upsert(trips_in("oslo", 1, ts=20))
    assert not is_marked(tmp_path / "trips")
    assert_finds_all(trips)
    trips.insert(trips_in("rome", 1, ts=30))
    assert is_marked(tmp_path / "trips")
    assert_finds_all(trips)


def meanwhile(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], Any]) -> None:
    """Have something happen, once, after a function was called."""
    function = getattr(owner, name)

    def then(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, name, function)
        done = function(*arguments)
        happens()
        return done

    monkeypatch.setattr(owner, name, then)


@pytest.mark.parametrize(("options", "marked"), [(GLOBAL, True), (BY_PARTITION, False)])
@pytest.mark.parametrize("compacted", [False, True])
def test_two_writers_bring_a_key_and_look_before_either_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], marked: bool, compacted: bool
) -> None:
    trips = made(tmp_path / "trips", options)
    more = {"hoodie.metadata.compact.max.delta.commits": "1"} if compacted else {}
    beside = pudi.Table(tmp_path / "trips", options={**options, **more})
    meanwhile(monkeypatch, commit_hook, "write_index_logs", lambda: beside.insert(trips_in("oslo", 9)))
    trips.insert(trips_in("rome", 9))
    assert trips.scan().to_arrow().num_rows == 7
    assert is_marked(tmp_path / "trips") == marked
    assert_finds_all(trips)


def test_a_clustering_while_another_writer_inserts_what_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = made(tmp_path / "trips")
    trips.insert(trips_in("nyc", 3))
    beside = pudi.Table(tmp_path / "trips")
    meanwhile(monkeypatch, commit_hook, "write_index_logs", lambda: beside.cluster(partitions=["nyc"]))
    trips.insert(trips_in("rome", 1))
    assert is_marked(tmp_path / "trips")
    assert_finds_all(trips)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [1, 9])
@pytest.mark.parametrize(
    "step",
    [(IndexRun, "_begin"), (RecordIndexBuilder, "groups"), (RecordIndexBuilder, "fill")],
    ids=lambda step: step[1],
)
def test_a_key_comes_while_the_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str], number: int
) -> None:
    trips = made(tmp_path / "trips", METADATA)
    beside = pudi.Table(tmp_path / "trips")
    meanwhile(monkeypatch, *step, lambda: beside.insert(trips_in("oslo", number)))
    trips.create_index("record_index")
    assert is_marked(tmp_path / "trips") == (number == 1)
    assert_finds_all(trips)


def test_the_index_is_built_while_a_write_brings_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write looks into an index without base files, and commits when it has them."""
    trips = made(tmp_path / "trips", METADATA)
    beside = pudi.Table(tmp_path / "trips")
    written, built = threading.Event(), threading.Event()

    def write() -> None:
        meanwhile(monkeypatch, commit_hook, "write_index_logs", lambda: (written.set(), built.wait(60)))
        beside.insert(trips_in("oslo", 1))

    with ThreadPoolExecutor(1) as pool:
        began: list[Future[None]] = []
        meanwhile(monkeypatch, IndexRun, "_begin", lambda: (began.append(pool.submit(write)), written.wait(60)))
        trips.create_index("record_index")
        built.set()
        began[0].result()
    assert is_marked(tmp_path / "trips")
    assert_finds_all(trips)


def test_a_process_dies_between_mark_and_commit(tmp_path: Path, some_of: Callable[[list[int]], list[int]]) -> None:
    """Nobody sees the second copy without the mark."""

    def insert(path: Path, **fault: object) -> int:
        storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
        opened = pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {})
        opened.insert(trips_in("rome", 1, ts=20))
        return storage.calls

    made(tmp_path / "template")
    shutil.copytree(tmp_path / "template", tmp_path / "whole")
    calls = insert(tmp_path / "whole")
    for number in some_of(list(range(calls // 2, calls))):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "template", path)
        with pytest.raises(SimulatedCrash):
            insert(path, fail_at=number, mode="crash")
        reader = pudi.Table(path)
        assert_finds_all(reader)
        assert is_marked(path) or reader.scan().to_arrow().num_rows == 5
        pudi.Table(path, options=GLOBAL).upsert(trips_in("rome", 5, ts=30))
        assert_finds_all(pudi.Table(path))


@pytest.mark.spark
def test_writes_on_spark(spark: Any, tmp_path: Path) -> None:
    trips, engine = made(tmp_path / "trips"), SparkEngine(spark)
    trips.bulk_insert(engine.frame(trips_in("rome", 7)))
    assert not is_marked(tmp_path / "trips")
    trips.bulk_insert(engine.frame(trips_in("rome", 1, 8, ts=20)))
    assert is_marked(tmp_path / "trips")
    assert len(engine.read(trips.scan(where="uuid = 'k0001'"))) == 2
