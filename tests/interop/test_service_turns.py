"""Hudi and pudi take turns on one table with all services on both sides; the dict model judges after each round."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.commit.dead_writers import repair_dead_writes
from pudi.config import resolve
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.format import Action
from pudi.metadata_write.client import open_metadata
from pudi.storage import open_storage
from pudi.timeline import Timeline
from support.engines import Engine, LocalEngine, SparkEngine
from support.hudi import HudiTable
from support.hudi_services import HudiServices
from support.layouts import Layout
from support.metadata import assert_listing
from support.model import Commit, Model
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow, from_spark
from support.trips import CITIES, SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference, assert_hudi_reads_the_record_index

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LISTED = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
"""No column statistics: Hudi's statistics of partitions fail by a NullPointerException as soon as anybody has compacted
the metadata table. Tasks get its file slices without BaseFile.pathInfo, which is transient
(HoodieMetadataWriteUtils.convertMetadataToPartitionStatRecords)."""
INDEXED = {
    **LISTED,
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.index.type": "RECORD_INDEX",
}
ALONE = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.log.compaction.enable": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.partition.ttl.strategy.days.retain": "15",
}
"""Services run when the test calls them, and then have much to do."""
INLINE = {
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
    "hoodie.compact.inline": "true",
    "hoodie.clustering.inline": "true",
}
DAY_MS = 24 * 3600 * 1000
OLD = ("old1", "old2")
"""Partitions whose days are over."""


class Side(Protocol):
    """What a side does for the table between two writes."""

    def clean(self) -> object: ...
    def archive(self) -> object: ...
    def schedule(self, service: str) -> object: ...
    def run(self, service: str) -> object: ...
    def run_pending(self) -> object: ...
    def savepoint(self, instant: str) -> object: ...
    def delete_savepoint(self, instant: str) -> object: ...
    def rollback(self, instant: str) -> object: ...
    def restore(self, instant: str) -> object: ...


class PudiServices:
    """The same calls as `HudiServices`, by pudi."""

    def __init__(self, made: PudiTable) -> None:
        self.made = made
        self.on = {"spark": made.engine.spark} if isinstance(made.engine, SparkEngine) else {}

    def clean(self) -> object:
        return self.made.table.clean(**self.on)

    def archive(self) -> object:
        return self.made.table.archive()

    def schedule(self, service: str) -> object:
        return self.made.table.schedule(service)

    def run(self, service: str) -> object:
        if service == "clustering":
            return self.made.table.cluster(order_by=["fare"], **self.on)
        return self.made.table.compact(log_compaction=service == "logcompaction", **self.on)

    def run_pending(self) -> object:
        return self.made.table.run_pending(**self.on)

    def savepoint(self, instant: str) -> object:
        return self.made.table.savepoint(instant, user="pudi")

    def delete_savepoint(self, instant: str) -> None:
        self.made.table.delete_savepoint(instant)

    def rollback(self, instant: str) -> object:
        return self.made.table.rollback(instant, **self.on)

    def restore(self, instant: str) -> object:
        return self.made.table.restore(instant, **self.on)


class Turns:
    """One table, its model, and both sides of it."""

    def __init__(self, spark: Any, path: Path, layout: Layout, seed: int, engine: Engine | None = None) -> None:
        self.indexed = layout.version > 6
        options = (INDEXED if self.indexed else LISTED) | ALONE | {"hoodie.parquet.small.file.limit": "0"}
        self.layout, self.chance, self.clock, self.known = layout, random.Random(seed), 1000, 0
        self.spark, self.path, self.told = spark, path, [f"seed {seed}"]
        self.late: set[tuple[str, str]] = set()
        self.model: Model = layout.model() if layout.kind == "cow" else Model(["uuid"], ["city"], "ts")
        self.hudi = HudiTable(spark, path, layout.hudi_options("trips") | options)
        self.mine = PudiTable.create(engine or LocalEngine(), path, SCHEMA, layout, options)
        self.sides: dict[str, Side] = {"pudi": PudiServices(self.mine), "Hudi": HudiServices(self.hudi)}
        self._write_the_past()

    def _write_the_past(self) -> None:
        for days, city in ((40, OLD[0]), (30, OLD[1])):
            clock = ManualClock(time.time_ns() // 1_000_000 - days * DAY_MS)
            client = MetaClient.open(str(self.path), None, {}, Context(clock=clock), open_storage(str(self.path)))
            data = table(trip(5000 + days + number, 10, city=city) for number in range(3))
            done = pudi.Table.of(client, dict(self.mine.options)).upsert(data)
            assert done is not None
            self.model.upsert(from_arrow(data), done.instant, done.completion_time)

    def write(self, by: str, verb: str, inline: Mapping[str, str] | None = None) -> str:
        """Write by one side, and in the model; the commit's instant."""
        data = self._data(verb)
        if by == "Hudi":
            done = self.hudi.write(verb, data, inline=inline)
        else:
            done = PudiTable(self.mine.engine, self.path, {**self.mine.options, **(inline or {})}).write(verb, data)
        getattr(self.model, verb)(from_arrow(data), *done)
        if verb == "upsert":
            self.late |= {(done[0], row["uuid"]) for row in from_arrow(data)} - self._won()
        self.told.append(f"{by} {verb} {done[0]}")
        return done[0]

    def _won(self) -> set[tuple[str, str]]:
        return {(row["_hoodie_commit_time"], row["uuid"]) for row in self.model.snapshot()}

    def _data(self, verb: str) -> pa.Table:
        self.clock += 100
        live = sorted(int(row["uuid"][1:]) for row in self.model.snapshot() if row["city"] not in OLD)
        if verb in {"bulk_insert", "insert"} or not live:
            self.known += 9
            return table(trip(self.known - number, self.clock, "new") for number in range(9))
        if verb == "delete":
            return table(trip(number, 0) for number in self.chance.sample(live, min(4, len(live))))
        if verb in {"insert_overwrite", "delete_partitions"}:
            numbers = self.chance.sample(range(self.known), 12)
            city = self.chance.choice(CITIES)
            over = [trip(number, self.clock, "over") for number in numbers]
            return table([row for row in over if row["city"] == city] or over[:1])
        numbers = self.chance.sample(live, min(8, len(live)))
        late = self.chance.choice([-300, -100, 0, 0])
        rows = [trip(number, self.clock + late, f"rider-{self.clock}") for number in numbers]
        self.known += 2
        return table([*rows, trip(self.known - 1, self.clock), trip(self.known, self.clock)])

    def do(self, by: str, unit: str) -> None:
        """Have a side do a unit of work, then compare the newest states."""
        kind, _, service = unit.partition(" ")
        if kind == "run":
            by = self.able(by, {Action.LOGCOMPACTION} if service == "logcompaction" else set())
        side, other = self.sides[by], "Hudi" if by == "pudi" else "pudi"
        self.told.append(f"{by}: {unit}")
        newest = self.model.commits[-1].instant
        saved = [each.instant for each in self.mine.table.savepoints()]
        if kind == "inline":
            inline = dict(INLINE)
            if self.layout.kind == "cow":  # Hudi fails then: "Compaction is not supported on a CopyOnWrite table"
                del inline["hoodie.compact.inline"]
            self.write(by, "upsert", inline)
        elif kind == "plan":
            side.schedule(service)
        elif kind == "run":
            side.run(service)
        elif kind == "savepoint":
            if newest not in saved:
                side.savepoint(newest)
        elif kind == "delete_savepoint":
            if not saved:
                self.sides[other].savepoint(newest)
            side.delete_savepoint(min([*saved, newest]) if saved else newest)
        elif kind == "rollback":
            self._take_back(by, self.write(other, self.chance.choice(["upsert", "delete", "insert"])))
        elif kind == "restore":
            self._restore(by, other)
        elif kind == "ttl":
            self._delete_old(by, other)
        else:
            getattr(side, kind)()
        self.compare(f"{by}: {unit}")

    @staticmethod
    def able(by: str, actions: set[Action]) -> str:
        """Return the side that runs plans: pudi, if log compactions are among them.

        Those of Hudi give records its own instant as commit time, or fail by a NullPointerException where nothing is
        written: FileGroupReaderBasedAppendHandle calls the constructor of HoodieAppendHandle that isn't for them.
        """
        return "pudi" if Action.LOGCOMPACTION in actions else by

    def _take_back(self, by: str, instant: str) -> None:
        """Roll a commit back; Hudi refuses to, for good, once the metadata table has compacted it."""
        if any(each.requested > instant for each in self._of_metadata.of(Action.COMMIT)):
            by = "pudi"
            self.told.append("by pudi")
        self.sides[by].rollback(instant)
        self.model.commits.pop()

    @property
    def _of_metadata(self) -> Timeline:
        """The timeline of the metadata table."""
        return open_metadata(MetaClient.open(str(self.path), None, {})).store.load()

    def _restore(self, by: str, other: str) -> None:
        """Both write, one compacts or clusters, and then all that is taken back to a savepoint of the other side.

        Hudi leaves a clustering that it takes back pending, with a plan that names files that are gone: it looks for an
        inflight replacecommit, which versions 8 and later name clustering (TimelineUtils.getInflightInstant). There is
        none, therefore, after what Hudi restores.
        """
        services = ["compaction"] * (self.layout.kind == "mor")
        if by == "Hudi" and self.layout.version > 6:
            self.write(by, "upsert")
        else:
            services.append("clustering")
        before = list(self.model.commits)
        instant = before[-1].instant
        if instant not in {each.instant for each in self.mine.table.savepoints()}:
            self.sides[other].savepoint(instant)
        self.write(other, "upsert")
        if services:
            self.sides[self.chance.choice([by, other])].run(self.chance.choice(services))
        self.write(by, self.chance.choice(["upsert", "insert_overwrite", "delete_partitions"]))
        self.write(other, self.chance.choice(["delete", "insert"]))
        if self._metadata_is_newer(instant):
            by = "pudi"
            self.told.append("by pudi")
        self.sides[by].restore(instant)
        self.model.commits[:] = before

    def _metadata_is_newer(self, instant: str) -> bool:
        """Whether the metadata table can't be taken back to an instant.

        Hudi means to do without it then, and fails: BaseHoodieWriteClient.initTable ignores its last argument, so that
        the restore builds the metadata table anew from the commits that it then takes back.
        """
        timeline = self._of_metadata
        compactions = timeline.of(Action.COMMIT)
        return timeline.commits[0].requested > instant or (bool(compactions) and compactions[0].requested >= instant)

    def _delete_old(self, by: str, other: str) -> None:
        city = OLD[by == "Hudi"]
        known = {each.requested for each in self.mine.table.timeline.commits}
        selected = {"hoodie.partition.ttl.strategy.partition.selected": city}
        if by == "Hudi":
            known.add(
                self.write(
                    by, "upsert", {"hoodie.partition.ttl.inline": "true", "hoodie.clean.automatic": "true", **selected}
                )
            )
            self._forget_empty_deletions()
        else:
            self.mine.table.run_ttl(options=selected)
        timeline = self.mine.table.timeline
        new = [each for each in timeline.commits if each.requested not in known]
        for each in new:
            kept = [row for row in self.model.snapshot() if row["city"] != city]
            self.model.commits.append(Commit(each.requested, timeline.done(each), tuple(kept)))

    def _forget_empty_deletions(self) -> None:
        """Roll back what Hudi leaves requested where no partition is due, as after a clustering of an old one.

        BaseHoodieTableServiceClient.runTableServicesInline begins a deletion before it knows whether any is due.
        """
        eager = resolve({"hoodie.clean.failed.writes.policy": "EAGER"})
        repair_dead_writes(MetaClient.open(str(self.path), None, {}), eager)

    def round(self, by: str, units: list[str], verb: str) -> None:
        """Write, run what the other side planned, do the units, and compare all there is."""
        pending = {each.action for each in self.mine.table.timeline.pending}
        replacing = verb in {"insert_overwrite", "delete_partitions"}
        clusters = pending & {Action.CLUSTERING, Action.REPLACECOMMIT}
        if clusters or replacing:
            self.run_pending(by)
        self.write(by, verb)
        self.compare(f"{by} {verb}")
        self.run_pending(by)
        for unit in units:
            self.run_pending(by)
            self.do(by, unit)
        self.judge()

    def run_pending(self, by: str) -> None:
        """Have a side run what is planned."""
        pending = self.mine.table.timeline.pending
        if pending:
            by = self.able(by, {each.action for each in pending})
            self.told.append(f"{by} runs {', '.join(str(each.action.value) for each in pending)}")
            self.sides[by].run_pending()
            self.compare(self.told[-1])
            assert not self.mine.table.timeline.pending, self.story

    @property
    def story(self) -> str:
        return "; ".join(self.told)

    def compare(self, about: str) -> None:
        """Both read the newest state as the model has it."""
        rows = self.mine.snapshot()
        assert_same(rows, self.model.snapshot(), PLACE_FIELDS, f"{about}, by pudi; {self.story}")
        assert_same(self.through_metadata(), rows, about=f"{about}, by Hudi; {self.story}")

    def through_metadata(self) -> list[Row]:
        """The table as Hudi reads it by the metadata table."""
        return from_spark(self.hudi.frame(**LISTED))

    def judge(self) -> None:
        """Everything else: the metadata table, retained states, changes."""
        found = self.mine.table.check()
        assert found.ok, f"{found}; {self.story}"
        assert_listing(self.path)
        assert_hudi_finds_no_difference(self.spark, self.path)
        if self.indexed:
            assert_record_index(self.path)
            assert_hudi_reads_the_record_index(self.spark, self.path)
        retained = self.retained()
        for commit in retained:
            about = f"as of {commit.instant}, {{}}; {self.story}"
            assert_same(self.mine.as_of(commit.instant), commit.rows, PLACE_FIELDS, about.format("by pudi"))
        for commit in retained[-3:-1]:
            about = f"since {commit.completion}; {self.story}"
            changed = self.mine.changes(commit.completion)
            # late records in log files come as well, until a compaction drops them: the last versions in the range
            won = [row for row in changed if (row["_hoodie_commit_time"], row["uuid"]) not in self.late]
            assert len(won) == len(changed) or self.layout.kind == "mor", about
            assert_same(won, self.model.changes(commit.completion), PLACE_FIELDS, about)
            assert_same(self.hudi.changes(commit.completion), changed, about=f"by Hudi {about}")
            # Hudi doesn't travel to a savepoint that is older than what the last clean retained
            # (TimelineUtils.validateTimestampAsOf)
            if commit.instant >= self.earliest_retained and not self.begins_with_an_index_build:
                rows = self.mine.as_of(commit.instant)
                about = f"as of {commit.instant}, by Hudi; {self.story}"
                assert_same(self.hudi.as_of(commit.instant), rows, about=about)

    @property
    def earliest_retained(self) -> str:
        """What the last clean retained; empty without one."""
        mine = self.mine.table
        cleans = mine.timeline.of(Action.CLEAN)
        return str(mine._meta.store.decoded(cleans[-1])["earliestCommitToRetain"]) if cleans else ""

    @property
    def begins_with_an_index_build(self) -> bool:
        """Whether an index build is the first instant of the active timeline.

        Hudi never archives index builds (TimelineArchiverV2.getCleanAndRollbackInstantsToArchive). It takes for pending
        what isn't on the active timeline and is newer than its first instant of any action
        (CompletionTimeQueryViewV2.getCompletionTime): its time travel misses log files of archived deltacommits then.
        """
        return self.mine.table.timeline.instants[0].action is Action.INDEXING

    def retained(self) -> list[Commit]:
        """The model's commits whose states both sides retain."""
        mine, start = self.mine.table, self.earliest_retained
        saved = {each.instant for each in mine.savepoints()}
        active = {each.requested for each in mine.timeline.commits}
        return [
            each
            for each in self.model.commits
            if each.instant in active and (each.instant >= start or each.instant in saved)
        ]


UNITS = [
    "clean",
    "plan clean",
    "archive",
    "inline",
    "run clustering",
    "plan clustering",
    "savepoint",
    "delete_savepoint",
    "rollback",
    "restore",
    "ttl",
    "clean",
]
COMPACTIONS = ["run compaction", "plan compaction"]
LOG_COMPACTIONS = ["run logcompaction", "plan logcompaction"]
"""From version 8 on: below, pudi refuses them by name."""
VERBS = ["upsert", "delete", "insert", "upsert", "insert_overwrite", "delete_partitions"]
LAYOUTS = [Layout(version=version, kind=kind) for version in (9, 8, 6) for kind in ("mor", "cow")]


def rounds(layout: Layout, chance: random.Random, count: int = 12) -> Iterator[tuple[str, list[str], str]]:
    """Deal out each side's services and verbs over its rounds; Hudi begins."""
    units = list(UNITS)
    if layout.kind == "mor":
        units += COMPACTIONS + (LOG_COMPACTIONS if layout.version > 6 else [])
    dealt = {by: chance.sample(units, len(units)) for by in ("Hudi", "pudi")}
    verbs = {by: chance.sample(VERBS, len(VERBS)) for by in ("Hudi", "pudi")}
    each = -(-len(units) * 2 // count)
    for number in range(count):
        by, turn = ("Hudi", "pudi")[number % 2], number // 2
        yield by, dealt[by][turn * each : (turn + 1) * each], "upsert" if number < 2 else verbs[by][turn % len(VERBS)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_twelve_rounds(spark: Any, tmp_path: Path, layout: Layout, seed: int) -> None:
    turns = Turns(spark, tmp_path / "trips", layout, seed)
    turns.write("pudi", "bulk_insert")
    for by, units, verb in rounds(layout, random.Random(f"{layout} {seed}")):
        turns.round(by, units, verb)


def test_three_rounds(spark: Any, tmp_path: Path) -> None:
    """Each side runs what the other planned, and cleans."""
    turns = Turns(spark, tmp_path / "trips", Layout(version=9, kind="mor"), 3)
    turns.write("pudi", "bulk_insert")
    turns.round("Hudi", ["plan compaction"], "upsert")
    turns.round("pudi", ["savepoint", "plan clustering"], "delete")
    turns.round("Hudi", ["clean", "delete_savepoint"], "insert")
