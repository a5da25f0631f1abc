"""What the runner does for any table service: shown by a toy one, on a table and on its metadata table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.format import Action, State
from pudi.metadata_write.client import open_metadata
from pudi.services import registry
from pudi.testing import SimulatedCrash
from pudi.timeline import Instant
from support.toy_service import COUNTED, EVERY, CountService
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountService]:
    toy = CountService()
    monkeypatch.setattr(registry, "SERVICES", [toy])
    return toy


def _create(path: Path, partition_by: str | None = None) -> pudi.Table:
    pudi.create(path, SCHEMA, record_key="uuid", ordering="ts", partition_by=partition_by, table_type="mor")
    return pudi.Table(path)


def _tables(path: Path) -> list[MetaClient]:
    meta = MetaClient.open(str(path), None, {})
    return [meta, open_metadata(meta)]


def _counts(meta: MetaClient) -> list[Instant]:
    timeline = meta.store.load()
    return [i for i in timeline.of(Action.DELTACOMMIT) if COUNTED in meta.store.read_commit_metadata(i).extra_metadata]


def test_it_runs_after_commits_of_a_table_and_of_its_metadata_table(tmp_path: Path, service: CountService) -> None:
    trips = _create(tmp_path / "trips")
    for number in range(2 * EVERY):
        assert trips.upsert(table([trip(number, 1)])).failed_services == {}  # type: ignore[union-attr]
    for meta in _tables(tmp_path / "trips"):
        assert _counts(meta)
        assert meta.store.load().pending == ()
    assert trips.scan().to_arrow().num_rows == 2 * EVERY


@pytest.mark.parametrize("dies_on_metadata", [False, True])
def test_the_next_writer_takes_over_a_dead_run(tmp_path: Path, service: CountService, dies_on_metadata: bool) -> None:
    trips = _create(tmp_path / "trips")
    runs = 0

    def die() -> None:
        nonlocal runs
        runs += 1
        if runs == 1 + dies_on_metadata:
            raise SimulatedCrash("in the middle")

    service.during = die
    with pytest.raises(SimulatedCrash):
        for number in range(2 * EVERY):
            trips.upsert(table([trip(number, 1)]))
    [dead] = [i for meta in _tables(tmp_path / "trips") for i in meta.store.load().pending_of(Action.LOGCOMPACTION)]
    assert dead.state is State.INFLIGHT
    again = pudi.Table(tmp_path / "trips")
    result = again.upsert(table([trip(50, 1)]))
    assert result is not None and result.failed_services == {}
    for meta in _tables(tmp_path / "trips"):
        assert not meta.store.load().pending_of(Action.LOGCOMPACTION)
    assert dead.requested in {i.requested for meta in _tables(tmp_path / "trips") for i in _counts(meta)}


def test_a_user_schedules_it_by_name_and_runs_it(tmp_path: Path, service: CountService) -> None:
    trips = _create(tmp_path / "trips")
    trips.insert(table([trip(0, 1)]))
    instant = trips.schedule("count")
    assert [(each.instant, each.blocks) for each in trips.doctor().pending] == [(instant, "later counts")]
    shown = CliRunner().invoke(app, ["doctor", str(tmp_path / "trips")])
    assert instant is not None and instant in shown.output
    [done] = trips.run_pending()
    assert done.instant == instant
    assert trips.doctor().pending == ()
    with pytest.raises(pudi.NotSupportedError, match="count"):
        trips.schedule("compaction")


def test_the_shell_schedules_and_runs_it(tmp_path: Path, service: CountService) -> None:
    trips = _create(tmp_path / "trips")
    trips.insert(table([trip(0, 1)]))
    shell = CliRunner()
    planned = shell.invoke(app, ["schedule", str(tmp_path / "trips"), "count"])
    assert planned.exit_code == 0, planned.output
    assert trips.timeline.pending[0].requested in planned.output
    done = shell.invoke(app, ["run-pending", str(tmp_path / "trips")])
    assert done.exit_code == 0, done.output
    assert trips.timeline.pending == ()


def test_every_verb_works_on_a_table_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SERVICES", [*registry.SERVICES, CountService()])
    trips = _create(tmp_path / "trips", partition_by="city")
    trips.bulk_insert(table([trip(number, 1) for number in range(6)]))
    trips.savepoint()
    verbs: list[Callable[[], object]] = [
        lambda: trips.insert(table([trip(7, 1)])),
        lambda: trips.upsert(table([trip(number, 2) for number in range(4)])),
        lambda: trips.delete(table([trip(0, 3)])),
        lambda: trips.update({"rider": "'nobody'"}, "ts = 2"),
        lambda: _merge(trips, table([trip(1, 3), trip(10, 3)])),
        lambda: trips.delete(where="uuid = 'k0010'"),
        lambda: trips.schedule("count"),
        trips.run_pending,
        trips.compact,
        trips.cluster,
        trips.clean,
        lambda: trips.insert_overwrite(table([trip(8, 4), trip(9, 4)])),
        lambda: trips.delete_partitions(["nyc"]),
        lambda: trips.insert_overwrite_table(table([trip(8, 5)])),
        lambda: trips.rollback(_last(trips)),
        lambda: trips.restore(trips.savepoints()[0].instant),
        lambda: trips.repair(confirm=lambda plan: True),
        lambda: trips.upsert(table([trip(1, 5)])),
    ]
    counted = set()
    for number, verb in enumerate(verbs):
        verb()
        counted |= {each.requested for each in _counts(_tables(tmp_path / "trips")[0])}
        assert number % 3 or trips.check().ok, number
    assert counted
    assert trips.check().ok
    assert trips.scan().to_arrow().num_rows == 6
    for command in (["check"], ["doctor"], ["show"], ["history"], ["files"]):
        shown = CliRunner().invoke(app, [*command, str(tmp_path / "trips")])
        assert shown.exit_code == 0, shown.output


def _merge(trips: pudi.Table, rows: pa.Table) -> None:
    trips.merge(rows, on="uuid").when_matched_update().when_not_matched_insert().execute()


def _last(trips: pudi.Table) -> str:
    return trips.timeline.commits[-1].requested
