"""Random histories of writes, services, savepoints, restores and crashes: every retained state stays as it was.

A plain model is the judge. After each step the table reads as the model says, after a crash as before or after the step
that died. Every commit that no clean may have taken reads as it was, and files that it, a savepoint or a pending plan
needs are there. At the end of a history, one maintenance leaves nothing orphaned, and `check` finds nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import pudi
from pudi.client import MetaClient
from pudi.filegroup.pending_plans import compaction_plan
from pudi.format import Action, State
from pudi.format.plans import decode_clustering_plan
from pudi.metadata_write.client import open_metadata
from pudi.storage import delete_folder, open_storage
from pudi.testing import FaultStorage, SimulatedCrash, Simulation
from pudi.writes.create import create_table
from support.layouts import Layout
from support.model import Model
from support.rows import PLACE_FIELDS, Row, assert_same, from_arrow
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

RETAINED, CITIES = 3, ("nyc", "rio")
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.failed.writes.policy": "EAGER",
    "hoodie.clean.commits.retained": str(RETAINED),
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.timeline.timezone": "UTC",
}
INLINE = {
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
    "hoodie.compact.inline": "true",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
}
POLICIES = {
    "commits": {},
    "hours": {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "1"},
    "versions": {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "2"},
}
SERVICE_WRITES = {"COMPACT", "CLUSTER", "LOG_COMPACT"}
DEAD = 1200
"""Seconds after which nobody takes a process that died for a living one."""

CRASHES = st.none() | st.none() | st.tuples(st.integers(0, 99), st.booleans())
"""At which percentage of its storage calls a step dies, and whether after that call; most steps live."""
PLACES, NUMBERS = st.integers(0, 7), st.lists(st.integers(0, 11), min_size=1, max_size=3, unique=True)

_names = itertools.count()
Crash = tuple[int, bool] | None


class History(RuleBasedStateMachine):
    """One table in memory beside its model; time, ids and the order of tasks are drawn from a seed."""

    layout: ClassVar[Layout]
    metadata: ClassVar[bool]
    done: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.root = f"memory://services-machine/{next(_names)}"
        self.simulation = Simulation(seed=1)
        self.options = OPTIONS | ({} if self.metadata else {"hoodie.metadata.enable": "false"})
        arguments = self.layout.create_arguments()
        create_table(
            self.root,
            SCHEMA,
            record_key=arguments["record_key"],
            partition_by=arguments["partition_by"],
            ordering=[arguments["ordering"]],
            table_type=arguments["table_type"],
            name="trips",
            options=self.options | arguments["options"],
            storage_options=None,
            context=self.simulation.context(),
        )
        self.model: Model = Model(["uuid"], ["city"], "ts")
        self.named: dict[str, set[str]] = {}  # files that commits wrote, by instant; those that were rolled back too
        self.known: set[str] = set()
        self.old: set[str] = set()  # commits that a clean may have taken, if they had no savepoint
        self.doubtful: set[str] = set()  # commits that a clean that counts slices says nothing of
        self.going: set[str] = set()  # commits that a rollback takes back, or that died in the middle of it
        self.saved: set[str] = set()
        self.files: dict[str, frozenset[str]] = {}  # that a reader as of a commit opens
        self.calls: dict[str, int] = {}  # of a step, when it ran last
        self.ts, self.fresh, self.turn = 0, 100, 0
        self.sound = True
        self.living, self.storage = self.open()
        self.now = self.living

    def teardown(self) -> None:
        """Judge the whole history, and what a maintenance makes of the table."""
        try:
            if self.sound:
                self.finish()
        finally:
            delete_folder(open_storage(self.root), "")

    def open(self) -> tuple[pudi.Table, FaultStorage]:
        """The table in a new process."""
        context = self.simulation.context()
        storage = FaultStorage(self.simulation.storage(open_storage(self.root, context=context)), mode="crash")
        return pudi.Table.of(MetaClient.open(self.root, None, self.options, context, storage), self.options), storage

    # Steps

    @rule(numbers=NUMBERS, crash=CRASHES)
    def insert(self, numbers: list[int], crash: Crash) -> None:
        self.fresh += 20
        self.change("insert", [self.trip(self.fresh + number) for number in numbers], crash)

    @rule(numbers=NUMBERS, crash=CRASHES)
    def upsert(self, numbers: list[int], crash: Crash) -> None:
        self.change("upsert", [self.trip(number) for number in numbers], crash)

    @rule(numbers=NUMBERS, crash=CRASHES)
    def delete(self, numbers: list[int], crash: Crash) -> None:
        self.change("delete", [self.trip(number) for number in numbers], crash)

    @rule(verb=st.sampled_from(["insert", "upsert", "delete"]), numbers=NUMBERS, crash=CRASHES)
    def write_and_serve(self, verb: str, numbers: list[int], crash: Crash) -> None:
        self.fresh += 20
        first = self.fresh if verb == "insert" else 0
        self.change(verb, [self.trip(first + number) for number in numbers], crash, inline=True)

    @rule(verb=st.sampled_from(["insert_overwrite", "delete_partitions", "forget"]), numbers=NUMBERS, crash=CRASHES)
    def replace(self, verb: str, numbers: list[int], crash: Crash) -> None:
        if verb == "forget":
            self.forget(numbers, crash)
        else:
            of_one_city = sorted({number - number % 2 + numbers[0] % 2 for number in numbers})
            self.change(verb, [self.trip(number) for number in of_one_city], crash)

    @rule(policy=st.sampled_from(sorted(POLICIES)), crash=CRASHES)
    def clean(self, policy: str, crash: Crash) -> None:
        self.step(f"clean by {policy}", lambda mine: mine.clean(options=POLICIES[policy]), crash, cleans=policy)

    @rule(name=st.sampled_from(["archive", "cluster", "maintain", "run_pending"]), crash=CRASHES)
    def serve(self, name: str, crash: Crash) -> None:
        self.step(name, lambda mine: getattr(mine, name)(), crash, cleans="commits" if name != "archive" else None)

    @precondition(lambda self: self.layout.kind == "mor")
    @rule(logs=st.booleans(), crash=CRASHES)
    def compact(self, logs: bool, crash: Crash) -> None:
        logs = logs and self.can_compact_logs
        name = "log compaction" if logs else "compaction"
        self.step(name, lambda mine: mine.compact(log_compaction=logs), crash)

    @rule(service=st.sampled_from(["clean", "clustering", "compaction", "log_compaction"]), crash=CRASHES)
    def schedule(self, service: str, crash: Crash) -> None:
        if service == "log_compaction" and not self.can_compact_logs:
            service = "compaction"
        if self.layout.kind == "mor" or "compaction" not in service:
            cleans = "commits" if service == "clean" else None
            self.step(f"schedule {service}", lambda mine: mine.schedule(service), crash, cleans=cleans)

    @precondition(lambda self: self.model.commits)
    @rule(place=PLACES, crash=CRASHES)
    def savepoint(self, place: int, crash: Crash) -> None:
        instant = self.back(place)
        refused = instant in self.saved | self.old | self.doubtful | self.going or instant not in self.active()
        self.step("savepoint", lambda mine: mine.savepoint(instant), crash, may_refuse=refused, saves={instant})

    @precondition(lambda self: self.saved)
    @rule(place=PLACES, crash=CRASHES)
    def delete_savepoint(self, place: int, crash: Crash) -> None:
        instant = sorted(self.saved)[place % len(self.saved)]
        self.step("delete_savepoint", lambda mine: mine.delete_savepoint(instant), crash, saves={instant})

    @precondition(lambda self: self.active())
    @rule(crash=CRASHES)
    def rollback(self, crash: Crash) -> None:
        timeline = self.now.timeline
        newest = max(timeline.commits, key=timeline.done).requested
        # A savepoint, a newer plan, or cleaned files of what it replaced forbid it.
        self.step("rollback", lambda mine: mine.rollback(newest), crash, may_refuse=True, takes={newest})

    @precondition(lambda self: self.model.commits)
    @rule(place=PLACES, crash=CRASHES)
    def restore(self, place: int, crash: Crash) -> None:
        to, timeline = self.back(place), self.now.timeline
        commit = timeline.commit(to)
        takes = {
            each.requested
            for each in timeline.commits
            if commit is not None and (each.requested > to or timeline.done(each) > timeline.done(commit))
        }
        refused = (
            commit is None
            or to in self.going
            or to in (self.old | self.doubtful) - self.saved
            or bool(takes & self.saved)
        )
        refused = refused or self.in_the_way
        self.step("restore", lambda mine: mine.restore(to), crash, may_refuse=refused, takes=takes)

    def forget(self, numbers: list[int], crash: Crash) -> None:
        """Delete records for good; only savepoints may keep them."""
        keys = {trip(number, 0)["uuid"] for number in numbers}
        rows = [row for row in self.model.snapshot() if row["uuid"] in keys]
        done = self.step(
            "forget",
            lambda mine: mine.forget("uuid in ({})".format(", ".join(f"'{key}'" for key in sorted(keys)))),
            crash,
            changes=lambda instant, completion: self.model.delete(rows, instant, completion),
            cleans="forgotten",
            may_refuse=self.clusters,
        )
        if done is not None:
            assert {each.instant for each in done.left if each.instant} <= self.saved, str(done)
            assert done.ok or any("savepoint" in each.reason for each in done.left), str(done)

    # How they are done

    @property
    def inline(self) -> dict[str, str]:
        return {key: value for key, value in INLINE.items() if self.layout.kind == "mor" or "compact" not in key}

    def change(self, verb: str, rows: list[Row], crash: Crash, *, inline: bool = False) -> None:
        """Run a verb on rows."""
        idle = self.model.is_idle(verb, rows)
        data = sorted({row["city"] for row in rows}) if verb == "delete_partitions" else table(rows)
        before, refusals = {each.instant for each in self.model.commits}, self.done["refusals"]
        self.step(
            f"{verb}{' with services' * inline}",
            lambda mine: getattr(mine, verb)(data, options=self.inline if inline else {}),
            crash,
            changes=lambda instant, completion: getattr(self.model, verb)(rows, instant, completion),
            cleans="commits" if inline else None,
            may_refuse=self.clusters,
        )
        new = {each.instant for each in self.model.commits} - before
        idle = idle or self.done["refusals"] > refusals
        assert crash is not None or idle or len(new) == 1, f"{verb} made no commit"

    def step(
        self,
        name: str,
        do: Callable[[pudi.Table], Any],
        crash: Crash,
        *,
        changes: Callable[[str, str], None] | None = None,
        cleans: str | None = None,
        may_refuse: bool = False,
        takes: set[str] = frozenset(),  # type: ignore[assignment]
        saves: set[str] = frozenset(),  # type: ignore[assignment]
    ) -> Any:
        """Do something to the table, in a process that may die of it, and have the model follow.

        Args:
            name: what.
            do: does it.
            crash: when the process dies.
            changes: changes the model, if the table gets a commit.
            cleans: the policy by which a clean may take commits.
            may_refuse: whether it may be refused.
            takes: commits that it may take back.
            saves: commits whose savepoints it may make or delete.
        """
        self.sound = False
        self.age(cleans)
        self.going |= takes
        self.done[name] += 1
        done, (mine, storage), died = None, (self.living, self.storage), False
        if crash is not None:
            mine, storage = self.open()
            storage.fail_at = storage.calls + 1 + crash[0] * self.calls.get(name, 30) // 100
            storage._crash_after = crash[1]
        start = storage.calls
        try:
            done = do(mine)
        except SimulatedCrash:
            died = True
            self.done["crashes"] += 1
        except (pudi.NotFoundError, pudi.InvalidArgumentError, pudi.BlockedError) as error:
            assert may_refuse, f"{name} was refused: {error}"
            self.done["refusals"] += 1
        if crash is None:
            self.calls[name] = storage.calls - start
        self.simulation.clock._timers.clear()  # those of a process that died
        self.simulation.clock.advance(DEAD if died else 1)
        self.follow(changes)
        self.age(cleans)
        saved = {each.instant for each in self.now.savepoints()}
        assert saved ^ self.saved <= saves, f"{name} changed savepoints"
        self.saved = saved
        self.judge(all_commits=died or bool(takes))
        self.finish_restore()
        return done

    def follow(self, changes: Callable[[str, str], None] | None) -> None:
        """Have the model follow the commits that are there now."""
        self.now = self.read()
        timeline = self.now.timeline
        there = {each.requested for each in timeline.commits}
        gone = {each for each in self.going if each in self.known and each not in there}
        self.known -= gone
        self.model.commits[:] = [each for each in self.model.commits if each.instant not in gone]
        for instant in sorted(there - self.known):
            written = self.now.commit_metadata(instant)
            stats = itertools.chain.from_iterable(written.partition_to_write_stats.values())
            self.named[instant] = {path for stat in stats for path in stat.paths}
            if written.operation_type not in SERVICE_WRITES:
                assert changes is not None, f"commit {instant} came of nothing"
                commit = timeline.commit(instant)
                assert commit is not None
                changes(instant, commit.completion or instant)
                changes = None
            self.known.add(instant)
        if not any(each.action in {Action.ROLLBACK, Action.RESTORE} for each in timeline.pending):
            self.going.clear()

    def age(self, policy: str | None) -> None:
        """Note which commits a clean may take now."""
        timeline = self.now.timeline
        commits = sorted(each.requested for each in timeline.commits)
        if policy == "commits":
            first = commits[-RETAINED] if len(commits) >= RETAINED else ""
            taken = {each for each in self.known if each < first}
        elif policy == "hours":
            now = self.simulation.clock.now_ms() / 1000
            first = f"{datetime.fromtimestamp(now - 3600, timezone.utc):%Y%m%d%H%M%S}"
            taken = {each for each in self.known if each[:14] <= first}
        elif policy == "versions":  # the newest two slices of a file group stay, but none of one that was replaced
            replaced = [each.requested for each in timeline.commits if each.action is Action.REPLACECOMMIT]
            taken = {each for each in self.known if each not in commits[-2:] or each < max(replaced, default="")}
            newest = max(timeline.commits, key=timeline.done, default=None)
            self.doubtful |= self.known - ({newest.requested} if newest else set())
        else:
            taken = set(self.known) if policy == "forgotten" else set()
        self.old |= taken

    @property
    def cleaned(self) -> set[str]:
        return self.old - self.saved

    @property
    def clusters(self) -> bool:
        """Whether a clustering is planned: writes to its file groups are refused."""
        return bool(self.now.timeline.pending_of(Action.CLUSTERING))

    @property
    def in_the_way(self) -> bool:
        """Whether a plan keeps a metadata table from being rebuilt."""
        plans = self.now.timeline.pending_of(Action.COMPACTION)
        return bool(plans) and self.metadata and self.layout.version == 6

    def finish_restore(self) -> None:
        """Complete a restore that died: writers are refused until then."""
        if any(each.action is Action.RESTORE for each in self.now.timeline.pending):
            for refused in (self.living.clean, self.living.archive, self.living.cluster, self.living.savepoint):
                with pytest.raises(pudi.BlockedError, match="restore is pending"):
                    refused()
            with pytest.raises(pudi.BlockedError, match="restore is pending"):
                self.living.upsert(table([self.trip(0)]))
            self.living.restore()
            self.follow(None)
            self.judge(all_commits=True)

    def read(self) -> pudi.Table:
        """The table as a new process finds it."""
        context = self.simulation.context()
        storage = self.simulation.storage(open_storage(self.root, context=context))
        return pudi.Table.of(MetaClient.open(self.root, None, self.options, context, storage), self.options)

    @property
    def can_compact_logs(self) -> bool:
        return self.layout.kind == "mor" and self.layout.version > 6

    def active(self) -> list[str]:
        return [each.requested for each in self.now.timeline.commits]

    def back(self, place: int) -> str:
        return self.model.commits[-1 - place % len(self.model.commits)].instant

    def trip(self, number: int) -> Row:
        self.ts += 1
        return trip(number, self.ts, city=CITIES[number % 2])

    # What must be true

    def judge(self, *, all_commits: bool) -> None:
        """Compare the table with the model: now, and as of the commits whose files changed, or of all of them."""
        mine = self.now
        assert_same(from_arrow(mine.scan().to_arrow()), self.model.snapshot(), PLACE_FIELDS, "now")
        there = {each.path for each in open_storage(self.root).list()}
        assert self.needed(mine) <= there, f"deleted: {sorted(self.needed(mine) - there)}"
        self.turn += 1
        for number, commit in enumerate(self.model.commits):
            files = self.files.get(commit.instant)
            if all_commits or files is None or not files <= there or (self.turn + number) % 8 == 0:
                self.judge_commit(mine, commit.instant)
        self.sound = True

    def judge_commit(self, mine: pudi.Table, instant: str) -> None:
        """Compare the table as of a commit with the model."""
        try:
            scan = mine.scan(as_of=instant)
            found = from_arrow(scan.to_arrow())
        except pudi.NotFoundError as error:
            assert instant in self.cleaned, f"{instant} can't be read any more: {error}"
        else:
            assert_same(found, self.model.as_of(instant), PLACE_FIELDS, f"as of {instant}")
            self.files[instant] = opened_by(scan)

    def finish(self) -> None:
        """Judge everything before and after a maintenance, of which nothing may stay orphaned."""
        self.judge(all_commits=True)
        done = self.step("last maintenance", lambda mine: mine.maintain(), None, cleans="commits")
        assert done.ok, str(done)
        self.judge(all_commits=True)
        checked = self.now.check()
        assert checked.ok, str(checked)
        assert not self.now.timeline.pending, f"pending: {self.now.timeline.pending}"
        there = {each.path for each in open_storage(self.root).list()}
        data = {path for path in there if not path.startswith(".hoodie/") and "/.hoodie" not in path}
        if self.layout.version == 6:  # log files of dead writers stay, with a command to skip what they wrote
            data = {path for path in data if ".log." not in path}
        # a commit may be archived in the step that made it
        data -= opened_by(self.now.scan()).union(*self.named.values())
        assert not data, f"orphaned: {sorted(data)}"
        meta = self.now._meta
        waiting = open_metadata(meta).store.load().pending if meta.config.metadata_partitions else ()
        left = {path for path in there if "/.temp/" in path or "/.heartbeat/" in path}
        # a maintenance leaves compactions of the metadata table that hold the newest commit to the next write
        left = {path for path in left if not any(f"/{each.requested}" in path for each in waiting)}
        assert not left, f"orphaned: {sorted(left)}"

    def needed(self, mine: pudi.Table) -> set[str]:
        """Files that savepoints and pending plans name."""
        needed, store = set(), mine._meta.store
        timeline = store.load()
        for instant in timeline.of(Action.SAVEPOINT):
            for partition, kept in store.decoded(instant)["partitionMetadata"].items():
                needed |= {f"{partition}/{name}" for name in kept["savepointDataFile"]}
        slices: list[Any] = []
        for action in (Action.COMPACTION, Action.LOGCOMPACTION):
            for instant in timeline.pending_of(action):
                slices += compaction_plan(store, instant).operations
        for instant in timeline.pending_of(Action.CLUSTERING):
            path = store.path(instant, State.REQUESTED)
            slices += decode_clustering_plan(store.read(instant, State.REQUESTED), path=path).slices
        for each in slices:
            names = [*([each.base_file] if each.base_file else []), *each.log_files]
            needed |= {name if "/" in name else f"{each.partition_path}/{name}" for name in names}
        return needed


def opened_by(scan: pudi.Scan) -> frozenset[str]:
    """The files that a scan reads."""
    logs = (log.path for each in scan.plan.slices for log in each.logs)
    return frozenset((*(each.base.path for each in scan.plan.slices if each.base is not None), *logs))


def play(layout: Layout, *, metadata: bool, examples: int) -> None:
    """Play histories of up to 25 steps; the profile `fuzz` plays ten times as many, and shortens those that fail."""
    done: Counter[str] = Counter()
    machine = type(
        f"History of {layout}, {metadata}", (History,), {"layout": layout, "metadata": metadata, "done": done}
    )
    more = settings.default.max_examples // 100
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * more,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if more > 1 else [Phase.generate],
        ),
    )
    assert done["crashes"] >= examples, "steps die"
    assert sum(done.values()) - done["crashes"] - done["refusals"] >= 20 * examples, "histories are long"


@pytest.mark.filterwarnings("ignore::pudi.metadata.MetadataWarning")
@pytest.mark.parametrize("metadata", [False, True], ids=["plain", "metadata"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_random_histories(version: int, kind: str, metadata: bool) -> None:
    play(Layout(version=version, kind=kind), metadata=metadata, examples=5)
