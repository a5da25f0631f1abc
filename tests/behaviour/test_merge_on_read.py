"""Merge-on-read tables read, on both engines: what log files hold, laid over base files as Hudi does."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.storage import LocalStorage
from pudi.task import SliceReader
from support.engines import Engine, LocalEngine
from support.layouts import Layout
from support.logs import LogTable
from support.pudi_table import PudiTable
from support.rows import PLACE_FIELDS, Row, assert_same, only, without
from support.trips import CITIES, SCHEMA, table, trip

NONE = table([])


def made(path: Path, merging: str = "event", version: int = 9, *, parquet: bool = False) -> LogTable:
    """Thirty trips in base files."""
    layout = Layout(merging=merging, version=version)
    written = PudiTable.create(LocalEngine(), path / "trips", SCHEMA, layout)
    instant, _ = written.write("bulk_insert", table(trip(number, 1000) for number in range(30)))
    logs = LogTable(path / "trips", ordering=layout.ordering, parquet=parquet)
    logs.base = logs.stamped([trip(number, 1000) for number in range(30)], instant)
    return logs


def rows_of(engine: Engine, scan: pudi.Scan) -> list[Row]:
    return without(engine.read(scan), PLACE_FIELDS)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("merging", "version", "parquet"),
    [("event", 9, False), ("commit", 9, True), ("event", 8, True), ("commit", 8, False), ("event", 6, False),
     ("commit", 6, True)],
)  # fmt: skip
def test_random_deltas(engine: Engine, tmp_path: Path, merging: str, version: int, parquet: bool) -> None:
    logs = made(tmp_path, merging, version, parquet=parquet)
    chance = random.Random(f"{merging}{version}{parquet}")
    done = []
    for turn in range(5):
        numbers = [chance.randrange(40) for _ in range(12)]
        clock = 1000 + 100 * turn
        ups = [trip(n, clock + chance.choice([-300, 0, 0, 50]), f"r{turn}-{i}") for i, n in enumerate(numbers)]
        gone = [trip(n, 0) for n in chance.sample(range(40), 4)]
        done.append(logs.delta(table(ups), table(gone) if turn % 2 else None))
        logs.delta(table([trip(1, 9999, "never completed")]), complete=False)
    opened = pudi.Table(str(logs.path))
    assert_same(rows_of(engine, opened.scan()), logs.expected(), about="snapshot")
    assert_same(rows_of(engine, opened.scan(read_optimized=True)), logs.base, about="read optimized")
    for number, instant in list(enumerate(done))[:: 1 if engine.name == "local" else 3]:
        expected = logs.expected(until=instant.requested)
        assert_same(rows_of(engine, opened.scan(as_of=instant.requested)), expected, about=f"as of {number}")
        since = instant.requested if version == 6 else instant.completion
        expected = logs.expected(among={i.requested for i in done[number + 1 :]})
        assert_same(rows_of(engine, opened.changes(since)), expected, about=f"changes since {number}")


def test_filters_look_at_merged_records_and_columns_are_what_is_named(engine: Engine, tmp_path: Path) -> None:
    logs = made(tmp_path)
    logs.delta(table([trip(n, 2000, "bob") for n in (0, 3, 31)]), table([trip(6, 0)]))
    opened = pudi.Table(str(logs.path))
    assert len(engine.read(opened.scan(columns=["rider"], where="rider = 'ann'"))) == 27
    assert engine.read(opened.scan(columns=["uuid"], where="ts = 1000 AND uuid < 'k0007' AND city = 'nyc'")) == []
    expected = only([row for row in logs.expected() if row["rider"] == "bob"], ["fare", "leg"])
    assert_same(engine.read(opened.scan(columns=["fare", "leg"], where="rider = 'bob'")), expected)
    counted = opened.scan(columns=[])
    assert (counted.to_arrow().num_rows if engine.name == "local" else len(engine.read(counted))) == 30


def test_late_rows_lose_in_the_snapshot_and_are_among_the_changes(engine: Engine, tmp_path: Path) -> None:
    logs = made(tmp_path)
    late = logs.delta(table([trip(0, 1, "late")]))
    opened = pudi.Table(str(logs.path))
    assert {row["rider"] for row in engine.read(opened.scan())} == {"ann"}
    since = logs.base[0]["_hoodie_commit_time"]
    assert [row["rider"] for row in engine.read(opened.changes(since=opened.timeline.commits[0].completion))] == [
        "late"
    ]
    assert since < late.requested


def test_a_log_that_ends_within_a_block_is_refused_and_passed_over_where_no_commit_wrote_that(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (9, 6):
        logs = made(tmp_path / str(version), version=version)
        logs.delta(table([trip(0, 2000, "bob")]))
        (log,) = logs.logs(CITIES[0])
        whole = log.read_bytes()
        log.write_bytes(whole + whole[:50])
        if version == 9:
            with pytest.raises(Exception, match=rf"damaged.*{log.name}.*offset {len(whole)}"):
                engine.read(pudi.Table(str(logs.path)).scan())
            continue
        with caplog.at_level(logging.WARNING, "pudi"):
            assert_same(rows_of(engine, pudi.Table(str(logs.path)).scan()), logs.expected())
        if engine.name == "local":
            assert f"bytes {len(whole)} to {len(whole) + 50} are not a complete block; skipped" in caplog.text


def test_a_rollback_takes_out_the_blocks_before_it(engine: Engine, tmp_path: Path) -> None:
    logs = made(tmp_path, version=6)
    target = logs.delta(table([trip(0, 3000, "gone")])).requested
    logs.deltas.pop()
    (log,) = logs.logs(CITIES[0])
    headers = {Header.INSTANT_TIME: "2", Header.TARGET_INSTANT_TIME: target, Header.COMMAND_BLOCK_TYPE: "0"}
    log.write_bytes(log.read_bytes() + encode_block(BlockKind.COMMAND, headers, b""))
    logs.delta(table([trip(0, 2000, "bob")]))
    assert_same(rows_of(engine, pudi.Table(str(logs.path)).scan()), logs.expected())


def test_a_log_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    logs = made(tmp_path)
    logs.delta(table([trip(0, 2000, "bob")]))
    (log,) = logs.logs(CITIES[0])
    log.unlink()
    with pytest.raises(pudi.NotFoundError, match=r"file.* that commit .* wrote .*is gone"):
        pudi.Table(str(logs.path)).scan().to_arrow()


def test_an_unknown_merger_is_refused_by_name_and_base_files_are_read(tmp_path: Path) -> None:
    logs = made(tmp_path)
    logs.delta(table([trip(0, 2000, "bob")]))
    file = logs.path / ".hoodie" / "hoodie.properties"
    mode = "hoodie.record.merge.mode"
    kept = [line for line in file.read_text().splitlines() if not line.startswith(mode)]
    file.write_text("\n".join([*kept, f"{mode}=CUSTOM", "hoodie.record.merge.strategy.id=12345678-a", ""]))
    opened = pudi.Table(str(logs.path))
    with pytest.raises(pudi.MergerError, match="12345678-a"):
        opened.scan()
    with pytest.raises(pudi.MergerError, match="12345678-a"):
        opened.changes()
    assert opened.scan(read_optimized=True).to_arrow().num_rows == 30


def test_what_will_be_read_is_told(tmp_path: Path) -> None:
    logs = made(tmp_path)
    logs.delta(table([trip(0, 2000, "bob"), trip(3, 2000, "bob")]))
    told = pudi.Table(str(logs.path)).scan(where="rider = 'zoe'").explain()
    assert "log files   1" in told
    assert "row groups  1 of 3" in told


@pytest.mark.parametrize("merging", ["event", "commit"])
def test_winners_and_the_base_rows_that_stay_are_the_merged_slice(tmp_path: Path, merging: str) -> None:
    """What Spark puts together of its own reading and of what Python workers give it."""
    logs = made(tmp_path, merging)
    chance = random.Random(merging)
    for turn in range(3):
        ups = [trip(chance.randrange(40), 1000 + chance.choice([-300, 0, 50]), f"r{turn}-{i}") for i in range(15)]
        logs.delta(table(ups), table([trip(n, 0) for n in chance.sample(range(40), 4)]))
    plan = pudi.Table(str(logs.path)).scan(columns=["_hoodie_record_key", "rider"], where="rider <> 'r1-1'").plan
    assert len(plan.slices) == 3
    storage = LocalStorage(str(logs.path))
    reader = SliceReader(storage, plan)
    for file_slice in plan.slices:
        base = replace(plan, merging=None, slices=(replace(file_slice, logs=()),))
        stays = np.ones(pq.read_metadata(logs.path / file_slice.base.path).num_rows, dtype=bool)
        stays[reader.replaced(file_slice)] = False
        native = pa.Table.from_batches(SliceReader(storage, replace(base, where=None)).read(base.slices[0]))
        rows = native.filter(pa.array(stays)).to_pylist()
        rows += pa.Table.from_batches(reader.winners(file_slice), plan.output_schema).to_pylist()
        kept = [row for row in rows if row["rider"] != "r1-1"]
        merged = pa.Table.from_batches(reader.read(file_slice), plan.output_schema).to_pylist()
        assert sorted(map(str, kept)) == sorted(map(str, merged))


def test_a_log_file_of_changes_that_is_gone_is_missed(tmp_path: Path) -> None:
    logs = made(tmp_path)
    logs.delta(table([trip(0, 2000, "bob")]))
    (log,) = logs.logs(CITIES[0])
    logs.delta(table([trip(3, 2000, "bob")]))
    opened = pudi.Table(str(logs.path))
    assert opened.changes().to_arrow().num_rows == 30
    log.unlink()
    with pytest.raises(pudi.NotFoundError, match="file that commit"):
        opened.changes().to_arrow()
