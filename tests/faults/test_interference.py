"""What other writers do while a write is under way, step by step: it commits only if it's still right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
import pudi.table.base as verbs_module
from pudi import timeline
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import ArchiveOptions
from pudi.context import Context, ManualClock
from pudi.engine.local import LocalEngine
from pudi.format import (
    Action,
    CommitMetadata,
    RequestedReplaceMetadata,
    WriteStat,
    encode_commit_metadata,
    encode_requested_replace_metadata,
)
from pudi.tagging import Buckets
from support.archiving import archive
from support.trips import SCHEMA, table, trip


class Interrupted(LocalEngine):
    """An engine that lets something happen before it writes the files."""

    before: Callable[[], None] = staticmethod(lambda: None)

    def write(self, *args: Any) -> Any:
        type(self).before()
        return super().write(*args)

    def change(self, *args: Any) -> Any:
        type(self).before()
        return super().change(*args)


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen, once, during the next write, before its files are written."""

    def plan(action: Callable[[], None]) -> None:
        def once() -> None:
            Interrupted.before = staticmethod(lambda: None)
            action()

        monkeypatch.setattr(Interrupted, "before", staticmethod(once))
        monkeypatch.setattr(verbs_module, "LocalEngine", Interrupted)

    return plan


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.bulk_insert(table([trip(n, 10) for n in range(6)]))
    return made


def state(made: pudi.Table) -> dict[str, int]:
    found = pudi.Table(made.path).scan(columns=["uuid", "ts"]).to_arrow()
    keys = found["uuid"].to_pylist()
    assert len(keys) == len(set(keys)), "a key is there twice"
    return dict(zip(keys, found["ts"].to_pylist(), strict=True))


def other(made: pudi.Table) -> pudi.Table:
    return pudi.Table(made.path)


def test_another_update_of_the_file_group(trips: pudi.Table, during: Any) -> None:
    during(lambda: other(trips).upsert(table([trip(3, 30)])))
    with pytest.raises(pudi.ConflictError, match="file group"):
        trips.upsert(table([trip(0, 20)]))
    assert (state(trips)["k0000"], state(trips)["k0003"]) == (10, 30)


@pytest.mark.parametrize("version", ["6", "9"])
def test_another_log_file_of_the_file_group(tmp_path: Path, during: Any, version: str) -> None:
    """Both appended to one slice: what the loser takes back is its own."""
    options = {"hoodie.write.table.version": version}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", ordering="ts", table_type="mor", options=options)
    made.bulk_insert(table([trip(n, 10) for n in range(6)]))
    made.upsert(table([trip(5, 15)]))
    during(lambda: other(made).upsert(table([trip(3, 30)])))
    with pytest.raises(pudi.ConflictError, match="file group"):
        made.upsert(table([trip(0, 20), trip(3, 40)]))
    assert (state(made)["k0000"], state(made)["k0003"], state(made)["k0005"]) == (10, 30, 15)
    made.upsert(table([trip(0, 21)]))
    assert (state(made)["k0000"], state(made)["k0003"]) == (21, 30)


def test_the_same_new_key(tmp_path: Path, during: Any) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options={"hoodie.parquet.small.file.limit": "0"})
    made.insert(table([trip(1, 10)]))
    during(lambda: other(made).upsert(table([trip(9, 30)])))
    with pytest.raises(pudi.ConflictError, match="inserted"):
        made.upsert(table([trip(9, 20)]))
    assert state(made) == {"k0001": 10, "k0009": 30}


def test_the_same_new_bucket(tmp_path: Path, during: Any) -> None:
    """Two file groups of one bucket would hide each other's keys; other buckets may be begun side by side."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options=options)
    buckets = Buckets(4, ("uuid",)).of(pa.array([f"k{n:04}" for n in range(50)])).tolist()
    numbers = [[n for n in range(50) if buckets[n] == bucket] for bucket in range(4)]
    made.insert(table([trip(numbers[0][0], 10)]))
    during(lambda: other(made).insert(table([trip(numbers[1][0], 20)]), options=options))
    with pytest.raises(pudi.ConflictError, match="file group 00000001"):
        made.insert(table([trip(numbers[1][1], 30)]), options=ONCE)
    during(lambda: other(made).upsert(table([trip(numbers[2][0], 40)]), options=options))
    made.upsert(table([trip(numbers[3][0], 50)]))
    assert sorted(state(made).values()) == [10, 20, 40, 50]


def test_an_overwrite_that_moves_the_ring_of_consistent_hashing(tmp_path: Path, during: Any) -> None:
    """A bucket that neither had a file group of, begun by the old ring, would be none of the new one's."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    options |= {"hoodie.bucket.index.num.buckets": "64"}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", table_type="mor", options=options)
    made.upsert(table([trip(0, 10)]))
    during(lambda: other(made).insert_overwrite(table([trip(0, 20)])))
    with pytest.raises(pudi.ConflictError, match="new buckets"):
        made.upsert(table([trip(1, 30)]))
    assert state(made) == {"k0000": 20}
    made.upsert(table([trip(1, 30)]))
    assert state(made) == {"k0000": 20, "k0001": 30}


def test_a_key_inserted_elsewhere_under_a_global_index(trips: pudi.Table, during: Any) -> None:
    during(lambda: other(trips).insert(table([trip(9, 30, city="sao_paulo")])))
    with pytest.raises(pudi.ConflictError, match="inserted"):
        trips.upsert(table([trip(9, 20, city="nyc")]), options={"hoodie.index.type": "GLOBAL_SIMPLE"})
    assert state(trips)["k0009"] == 30


ONCE = {"hoodie.write.num.retries.on.conflict.failures": "0"}
OVERWRITES: dict[str, Callable[[pudi.Table], object]] = {
    "insert_overwrite": lambda on: on.insert_overwrite(table([trip(0, 20)])),
    "static overwrite": lambda on: on.insert_overwrite(table([trip(1, 20)]), partitions=["nyc", "sao_paulo"]),
    "insert_overwrite_table": lambda on: on.insert_overwrite_table(table([trip(0, 20)])),
    "update": lambda on: on.update({"ts": 20}, "city = 'nyc'", options=ONCE),
    "delete where": lambda on: on.delete(where="city = 'nyc'", options=ONCE),
}


@pytest.mark.parametrize("verb", list(OVERWRITES))
def test_a_write_into_what_is_replaced(trips: pudi.Table, during: Any, verb: str) -> None:
    during(lambda: other(trips).upsert(table([trip(3, 30)])))
    with pytest.raises(pudi.ConflictError):
        OVERWRITES[verb](trips)
    assert (state(trips)["k0000"], state(trips)["k0003"]) == (10, 30)


@pytest.mark.parametrize("verb", ["insert_overwrite", "static overwrite", "insert_overwrite_table"])
def test_new_file_groups_in_what_is_replaced(trips: pudi.Table, during: Any, verb: str) -> None:
    during(lambda: other(trips).bulk_insert(table([trip(30, 30)])))
    with pytest.raises(pudi.ConflictError, match="replaces"):
        OVERWRITES[verb](trips)
    assert len(state(trips)) == 7


def test_an_overwrite_of_what_is_updated(trips: pudi.Table, during: Any) -> None:
    for replace in (
        lambda: other(trips).insert_overwrite(table([trip(3, 40)])),
        lambda: other(trips).delete_partitions(["nyc"]),
    ):
        during(replace)
        with pytest.raises(pudi.ConflictError, match="file group"):
            trips.upsert(table([trip(0, 20), trip(3, 20)]))
        other(trips).upsert(table([trip(0, 50), trip(3, 50)]))


def test_an_overwrite_beside_another_partition(trips: pudi.Table, during: Any) -> None:
    during(lambda: other(trips).delete_partitions(["chennai"]))
    trips.insert_overwrite(table([trip(0, 20)]))
    assert set(state(trips)) == {"k0000", "k0001", "k0004"}


def test_other_partitions_do_not_conflict(trips: pudi.Table, during: Any) -> None:
    during(lambda: other(trips).upsert(table([trip(1, 30), trip(31, 30)])))
    assert trips.upsert(table([trip(0, 20), trip(30, 20)])) is not None
    found = state(trips)
    assert (found["k0000"], found["k0001"], found["k0030"], found["k0031"]) == (20, 30, 20, 30)


def test_a_metadata_table_that_appears(trips: pudi.Table, during: Any) -> None:
    """Hudi builds one on its first write; a commit that leaves it behind would be lost to its readers."""
    properties = Path(trips.path) / ".hoodie/hoodie.properties"

    def hudi_writes() -> None:
        other(trips).upsert(table([trip(1, 30)]))
        properties.write_text(properties.read_text() + "hoodie.table.metadata.partitions=files\n")

    during(hudi_writes)
    with pytest.raises(pudi.CorruptError, match="metadata table"):
        trips.upsert(table([trip(0, 20)]))
    assert state(trips)["k0000"] == 10
    with pytest.raises(pudi.CorruptError, match="metadata table"):
        trips.upsert(table([trip(0, 20)]))


def test_a_schema_that_changes(trips: pudi.Table, during: Any) -> None:
    meta = MetaClient.open(trips.path, None, {})
    wider = TableSnapshot.load(meta).schema.avro.replace('"name":"rider"', '"name":"driver"')

    def evolve() -> None:
        instant = meta.store.start(meta.store.request(Action.COMMIT))
        content = CommitMetadata(extra_metadata={"schema": wider}, operation_type="UPSERT")
        meta.store.complete(instant, encode_commit_metadata(content))

    during(evolve)
    with pytest.raises(pudi.ConflictError, match="schema"):
        trips.upsert(table([trip(0, 20)]))
    assert "driver" in pudi.Table(trips.path).schema.names


def test_a_clustering_that_is_scheduled(trips: pudi.Table, during: Any) -> None:
    meta = MetaClient.open(trips.path, None, {})
    target = next(s for s in trips.file_slices() if s.partition == "nyc")
    slices = [{"partitionPath": "nyc", "fileId": target.file_id}]
    plan = {"inputGroups": [{"slices": slices}]}

    def schedule() -> None:
        content = encode_requested_replace_metadata(RequestedReplaceMetadata("CLUSTER", plan, None, 1))
        meta.store.request(Action.CLUSTERING, content)

    during(schedule)
    with pytest.raises(pudi.ConflictError, match="clustering"):
        trips.upsert(table([trip(0, 20)]))


def test_a_base_commit_that_is_rolled_back(trips: pudi.Table, during: Any) -> None:
    meta = MetaClient.open(trips.path, None, {})
    second = trips.upsert(table([trip(0, 15)]))
    assert second is not None

    def roll_back() -> None:
        for file in (Path(trips.path) / ".hoodie/timeline").glob(f"{second.instant}*"):
            file.unlink()

    during(roll_back)
    with pytest.raises(pudi.ConflictError, match="rolled back"):
        trips.upsert(table([trip(0, 20)]))
    assert meta.store.load().commit(second.instant) is None


def test_a_writer_taken_for_dead_leaves_nothing(trips: pudi.Table, during: Any) -> None:
    options = {"hoodie.clean.failed.writes.policy": "EAGER"}
    during(lambda: other(trips).upsert(table([trip(1, 30)]), options=options))
    with pytest.raises(pudi.ConflictError, match="dead"):
        trips.upsert(table([trip(0, 20)]))
    files = {str(path.relative_to(trips.path)) for path in Path(trips.path).rglob("*.parquet")}
    meta = MetaClient.open(trips.path, None, {})
    named = {
        stat.path
        for instant in meta.store.load().commits
        for stats in meta.store.read_commit_metadata(instant).partition_to_write_stats.values()
        for stat in stats
    }
    assert files == named
    assert not [path for path in (Path(trips.path) / ".hoodie/.temp").rglob("*") if path.is_file()]


def test_a_scan_whose_files_are_cleaned(trips: pudi.Table) -> None:
    scan = trips.scan()
    old = next(s for s in trips.file_slices() if s.partition == "nyc").base.path
    trips.upsert(table([trip(0, 20)]))
    (Path(trips.path) / old).unlink()
    with pytest.raises(pudi.NotFoundError, match="gone"):
        scan.to_arrow()


def test_archived_commits_are_seen(tmp_path: Path) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city")
    commits = [made.insert(table([trip(n, 10)])) for n in range(3)]
    first, second, third = (commit for commit in commits if commit is not None)
    savepointed = tmp_path / "savepointed"
    archive(Path(made.path), 1)
    assert set(state(made)) == {"k0000", "k0001", "k0002"}
    assert set(made.scan(as_of=first.instant).to_arrow()["uuid"].to_pylist()) == {"k0000"}
    assert set(made.scan(as_of=second.instant).to_arrow()["uuid"].to_pylist()) == {"k0000", "k0001"}
    assert made.changes(until=first.completion_time).to_arrow()["uuid"].to_pylist() == ["k0000"]
    # archiving goes on beyond a commit that has a savepoint
    shutil.copytree(made.path, savepointed)
    folder = savepointed / ".hoodie/timeline"
    (folder / f"{second.instant}_{third.completion_time}.savepoint").touch()
    later = pudi.Table(savepointed).insert(table([trip(4, 10)]))
    assert later is not None
    meta = MetaClient.open(str(savepointed), None, {})
    beyond = meta.store.load().commit(third.instant)
    assert beyond is not None
    timeline.archive(meta.store, [beyond], ArchiveOptions.of(meta.options))
    assert set(state(pudi.Table(savepointed))) == {"k0000", "k0001", "k0002", "k0004"}


def test_changes_archived_behind_a_commit_that_has_a_savepoint(tmp_path: Path) -> None:
    """Two days lie between commits, so that none may last until the next one."""
    pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", partition_by="city")
    clock = ManualClock()
    made = pudi.Table.of(MetaClient.open(str(tmp_path / "t"), None, {}, Context(clock)), {})
    done = []
    for number in range(6):
        done.append(made.insert(table([trip(number, 10, city=f"c{number}")])))
        clock.advance(2 * 24 * 60 * 60)
    first = done[0]
    saved = {file: file.read_bytes() for file in (tmp_path / "t/.hoodie/timeline").glob(f"{first.instant}*")}
    archive(tmp_path / "t", 4)
    for file, content in saved.items():
        file.write_bytes(content)
    (tmp_path / "t/.hoodie/timeline" / f"{first.instant}_{first.completion_time}.savepoint").touch()
    for number, commit in enumerate(done):
        found = made.changes(since=commit.completion_time).to_arrow()["uuid"].to_pylist()
        assert sorted(found) == [f"k{later:04}" for later in range(number + 1, 6)]


def test_a_slow_commit_is_not_taken_for_an_archived_one(trips: pudi.Table) -> None:
    meta = MetaClient.open(trips.path, None, {})
    slow = meta.store.start(meta.store.request(Action.COMMIT))
    fast = trips.upsert(table([trip(1, 20)]), options={"hoodie.clean.failed.writes.policy": "NEVER"})
    assert fast is not None
    base = next(s for s in trips.file_slices() if s.partition == "nyc").base
    name = f"late-0_0-0-0_{slow.requested}.parquet"
    shutil.copy(Path(trips.path) / base.path, Path(trips.path) / "nyc" / name)
    stat = WriteStat(
        file_id="late-0", path=f"nyc/{name}", prev_commit="null", num_writes=2, num_inserts=2, partition_path="nyc"
    )
    text = TableSnapshot.load(meta).schema.avro
    meta.store.complete(slow, encode_commit_metadata(CommitMetadata({"nyc": (stat,)}, extra_metadata={"schema": text})))
    seen = trips.changes(until=fast.completion_time).to_arrow()
    assert isinstance(seen, pa.Table)
    assert seen.num_rows == 6


def test_a_lock_given_to_a_verb(trips: pudi.Table) -> None:
    (Path(trips.path) / ".hoodie/lock").touch()
    options = {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.wait_time_ms": "200",
    }
    with pytest.raises(pudi.UnavailableError, match="lock"):
        trips.upsert(table([trip(0, 20)]), options=options)
    assert trips.upsert(table([trip(0, 20)])) is not None


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("planned", ["planned", "done"])
def test_a_clustering_of_the_file_group(tmp_path: Path, during: Any, version: str, kind: str, planned: str) -> None:
    """A write that began before it is refused by the plan, or by the replaced file groups; nothing is lost."""
    options = {"hoodie.write.table.version": version}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", ordering="ts", table_type=kind, options=options)
    made.bulk_insert(table([trip(n, 10) for n in range(6)]))
    order = {"hoodie.clustering.plan.strategy.sort.columns": "fare"}
    if planned == "planned":
        during(lambda: other(made).schedule("clustering", options=order))
    else:
        during(lambda: other(made).cluster(order_by="fare"))
    with pytest.raises(pudi.ConflictError, match="file group"):
        made.upsert(table([trip(0, 20)]), options={"hoodie.write.num.retries.on.conflict.failures": "0"})
    assert state(made) == {f"k{n:04}": 10 for n in range(6)}
    made.run_pending()
    made.upsert(table([trip(0, 21)]))
    assert state(made)["k0000"] == 21
    assert made.check().ok


def test_an_insert_goes_on_beside_a_clustering(trips: pudi.Table, during: Any) -> None:
    during(lambda: other(trips).cluster(order_by="fare"))
    trips.insert(table([trip(9, 30)]), options={"hoodie.parquet.small.file.limit": "0"})
    assert state(trips) == {f"k{n:04}": 10 for n in range(6)} | {"k0009": 30}
    assert trips.check().ok
