"""Partitions whose days are over are deleted, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.commit.transaction import Work, WriteTransaction
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.format import Action
from pudi.storage import open_storage
from pudi.timeline import Instant
from pudi.upgrade.maintenance import MaintenanceStep, Outcome
from support.engines import Engine
from support.layouts import Layout
from support.rows import from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
DAY = 24 * 3600
BY_HAND = {"hoodie.parquet.small.file.limit": "0"}
DAYS, INLINE = "hoodie.partition.ttl.strategy.days.retain", "hoodie.partition.ttl.inline"
TYPE = "hoodie.partition.ttl.management.strategy.type"
SELECTED, MOST = (
    "hoodie.partition.ttl.strategy.partition.selected",
    "hoodie.partition.ttl.strategy.max.delete.partitions",
)


class Aged:
    """A table with a clock: sao_paulo written on day 0, nyc on day 10, chennai on days 0 and 20; today is day 40."""

    def __init__(self, path: Path, layout: Layout, options: dict[str, str] | None = None) -> None:
        self.path, self.clock = path, ManualClock()
        self.options = BY_HAND | (options or {})
        pudi.create(path, SCHEMA, **layout.create_arguments())
        self.write(trip(1, 0, city="sao_paulo"), trip(2, 0, city="chennai"))
        self.clock.advance(10 * DAY)
        self.write(trip(3, 1, city="nyc"))
        self.clock.advance(10 * DAY)
        self.write(trip(2, 2, city="chennai"))
        self.clock.advance(20 * DAY)

    @property
    def table(self) -> pudi.Table:
        storage = open_storage(str(self.path))
        client = MetaClient.open(str(self.path), None, self.options, Context(clock=self.clock), storage)
        return pudi.Table.of(client, self.options)

    def write(self, *trips: dict[str, object], **options: str) -> pudi.CommitResult:
        done = self.table.upsert(table(trips), options=options)
        assert done is not None
        assert not done.failed_services
        return done

    def cities(self) -> set[object]:
        found = self.table
        read = {row["city"] for row in from_arrow(found.scan().to_arrow())}
        assert set(found.partitions()) == read
        return read


@pytest.fixture(params=LAYOUTS, ids=str)
def aged(request: pytest.FixtureRequest, tmp_path: Path) -> Aged:
    return Aged(tmp_path / "trips", request.param)


def test_the_last_write_counts(aged: Aged) -> None:
    assert aged.table.run_ttl(options={DAYS: "41"}) is None
    done = aged.table.run_ttl(options={DAYS: "29"})
    assert done is not None
    assert (done.operation, done.files_replaced) == ("DELETE_PARTITION", 2)
    assert aged.cities() == {"chennai"}, "its file slice of day 0 was written to on day 20, if only by a log file"
    assert aged.table.run_ttl(options={DAYS: "29"}) is None
    assert aged.table.run_ttl(options={DAYS: "19"}) is not None
    assert aged.cities() == set()
    assert aged.table.check().ok
    aged.write(trip(9, 9, city="nyc"))
    assert aged.cities() == {"nyc"}


def test_the_time_of_creation_counts(aged: Aged) -> None:
    done = aged.table.run_ttl(options={DAYS: "31", TYPE: "KEEP_BY_CREATION_TIME"})
    assert done is not None
    assert aged.cities() == {"nyc"}
    assert aged.table.check().ok


def test_it_runs_after_a_commit_and_its_records_can_be_read_by_time_travel(aged: Aged) -> None:
    before = aged.table.timeline.commits[-1].requested
    aged.write(trip(4, 4, city="nyc"), **{DAYS: "29", INLINE: "false"})
    assert aged.cities() == {"chennai", "nyc", "sao_paulo"}
    aged.write(trip(4, 5, city="nyc"), **{DAYS: "29", INLINE: "true"})
    assert aged.cities() == {"chennai", "nyc"}
    assert {row["city"] for row in from_arrow(aged.table.scan(as_of=before).to_arrow())} == {
        "chennai",
        "nyc",
        "sao_paulo",
    }
    replacing = aged.table.timeline.of(Action.REPLACECOMMIT)
    assert len(replacing) == 1
    assert not aged.table.timeline.pending


def test_only_selected_partitions_and_so_many_at_once(aged: Aged) -> None:
    assert aged.table.run_ttl(options={DAYS: "5", SELECTED: "nyc,elsewhere"}) is not None
    assert aged.cities() == {"chennai", "sao_paulo"}
    assert aged.table.run_ttl(options={DAYS: "5", MOST: "1"}) is not None
    if aged.table.config.version > 6 or aged.table.config.table_type == "COPY_ON_WRITE":
        assert aged.cities() == {"chennai"}, "the oldest goes first"
    assert len(aged.cities()) == 1


def test_a_partition_with_a_pending_plan_waits(tmp_path: Path) -> None:
    aged = Aged(tmp_path / "trips", Layout(kind="mor"))
    options = {DAYS: "5", "hoodie.compact.inline.max.delta.commits": "1"}
    assert aged.table.schedule("compaction", options=options) is not None
    waiting = "chennai"  # alone it has log files
    planned = aged.table.maintain(dry_run=True, options=options)
    (step,) = [each for each in planned.steps if each.name == "partition_ttl"]
    assert step.outcome is Outcome.DUE
    assert f"waiting for pending plans: {waiting!r}" in step.reason
    assert aged.table.run_ttl(options=options) is not None
    assert aged.cities() == {waiting}
    assert len(aged.table.run_pending()) == 1
    assert aged.table.run_ttl(options=options) is None, "the compaction wrote to it"
    aged.clock.advance(6 * DAY)
    assert aged.table.run_ttl(options=options) is not None
    assert aged.cities() == set()


def test_archived_log_files_count(tmp_path: Path) -> None:
    """Below version 8 names of log files don't say when they were written: commits do, archived ones too."""
    aged = Aged(tmp_path / "trips", Layout(version=6, kind="mor"))
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for ts in range(8):
        aged.write(trip(3, 10 + ts, city="nyc"), **few)
    aged.table.archive(options=few)
    assert len(aged.table.timeline.commits) < 8
    assert aged.table.run_ttl(options={DAYS: "25"}) is not None
    assert aged.cities() == {"chennai", "nyc"}


def test_maintenance_names_what_is_due(aged: Aged) -> None:
    def step(days: str, *, dry_run: bool) -> MaintenanceStep:
        done = aged.table.maintain(dry_run=dry_run, options={DAYS: days})
        (found,) = [each for each in done.steps if each.name == "partition_ttl"]
        return found

    assert "partition_ttl" not in {each.name for each in aged.table.maintain(dry_run=True).steps}
    left = step("50", dry_run=True)
    assert (left.outcome, "none is older" in left.reason) == (Outcome.LEFT, True)
    due = step("29", dry_run=True)
    assert due.outcome is Outcome.DUE
    assert "'nyc'" in due.reason
    assert "'sao_paulo'" in due.reason
    assert aged.cities() == {"chennai", "nyc", "sao_paulo"}
    done = step("29", dry_run=False)
    assert (done.outcome, aged.cities()) == (Outcome.DONE, {"chennai"})
    assert done.instant == aged.table.timeline.of(Action.REPLACECOMMIT)[0].requested


def test_the_command(aged: Aged) -> None:
    """The command goes by the machine's clock, by which all is old."""
    run = CliRunner().invoke
    without = run(app, ["run-ttl", str(aged.path)])
    assert (without.exit_code, DAYS in without.stderr) == (1, True), "days are needed"
    found = run(app, ["run-ttl", str(aged.path), "-o", f"{DAYS}=1"])
    assert (found.exit_code, "3 file groups replaced" in found.stdout) == (0, True), found.output
    assert "no partition is due" in run(app, ["run-ttl", str(aged.path), "-o", f"{DAYS}=1"]).stdout


def test_more_days_than_hudi_can_count(aged: Aged) -> None:
    for days in (25, 50, 100_000, 2_000_000_000):
        left = aged.table.run_ttl(options={DAYS: str(days), SELECTED: "chennai"})
        assert left is None, days
    assert aged.cities() == {"chennai", "nyc", "sao_paulo"}


def test_a_write_in_between_wins(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, other = WriteTransaction.commit, iter([trip(7, 7, city="nyc")])

    def beside(transaction: WriteTransaction, work: Work) -> Instant:
        for row in other:
            aged.write(row)
        return commit(transaction, work)

    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, "commit", beside)
        with pytest.raises(pudi.ConflictError, match="nyc"):
            aged.table.run_ttl(options={DAYS: "29"})
    assert aged.cities() == {"chennai", "nyc", "sao_paulo"}
    assert not aged.table.timeline.pending_of(Action.REPLACECOMMIT)
    assert aged.table.run_ttl(options={DAYS: "29"}) is not None
    assert aged.cities() == {"chennai", "nyc"}


@pytest.mark.parametrize("index", ["BUCKET", "CONSISTENT_HASHING"])
def test_bucket_tables(tmp_path: Path, index: str) -> None:
    engine = "SIMPLE" if index == "BUCKET" else index
    options = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": engine,
        "hoodie.bucket.index.num.buckets": "2",
    }
    aged = Aged(tmp_path / "trips", Layout(kind="mor"), options)
    assert aged.table.run_ttl(options={DAYS: "29"}) is not None
    assert aged.cities() == {"chennai"}
    aged.write(trip(1, 9, city="sao_paulo"), trip(3, 9, city="nyc"))
    assert aged.cities() == {"chennai", "nyc", "sao_paulo"}
    assert len(from_arrow(aged.table.scan().to_arrow())) == 3


def test_all_indexes_are_right(engine: Engine, tmp_path: Path) -> None:
    options = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    aged = Aged(tmp_path / "trips", Layout(kind="mor"), options)
    assert aged.table.run_ttl(options={DAYS: "29"}, spark=getattr(engine, "spark", None)) is not None
    assert aged.table.check().ok
    aged.write(trip(1, 9, city="nyc"))
    assert aged.cities() == {"chennai", "nyc"}
    assert aged.table.check().ok


def test_what_is_refused(aged: Aged) -> None:
    with pytest.raises(pudi.NotSupportedError, match="never loaded by name"):
        aged.table.run_ttl(options={"hoodie.partition.ttl.strategy.class": "com.example.Mine"})
    with pytest.raises(pudi.NotSupportedError, match="no option of that name"):
        aged.table.run_ttl(options={"hoodie.partition.ttl.days": "5"})
    with pytest.raises(pudi.InvalidArgumentError, match="KEEP_BY_TIME"):
        aged.table.run_ttl(options={TYPE: "KEEP_BY_MOOD"})
    for days in ({}, {DAYS: "0"}, {DAYS: "-3"}):
        with pytest.raises(pudi.InvalidArgumentError, match=r"days\.retain is (-1|0|-3): no partition"):
            aged.table.run_ttl(options=days)
    with pytest.raises(pudi.NotSupportedError, match="partition_ttl"):
        aged.table.schedule("partition_ttl")
    named = "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy"
    assert aged.table.run_ttl(options={DAYS: "31", "hoodie.partition.ttl.strategy.class": named}) is not None
    assert aged.cities() == {"nyc"}


def test_tables_without_partitions_have_none_that_are_due(tmp_path: Path) -> None:
    pudi.create(tmp_path / "trips", SCHEMA, **Layout(folders="flat").create_arguments())
    clock = ManualClock()
    storage = open_storage(str(tmp_path / "trips"))
    mine = pudi.Table.of(MetaClient.open(str(tmp_path / "trips"), None, {}, Context(clock=clock), storage), {})
    mine.upsert(table([trip(1, 1)]))
    clock.advance(100 * DAY)
    assert mine.run_ttl(options={DAYS: "1"}) is None
    assert "partition_ttl" not in {each.name for each in mine.maintain(options={DAYS: "1"}).steps}
    assert mine.scan().to_arrow().num_rows == 1
