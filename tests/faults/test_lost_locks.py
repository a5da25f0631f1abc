"""Processes that stand still until their lock runs out, or until they are taken for dead: what they may not do then.

Each was found by the simulation.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.commit.lease import ServiceLease, lease, revert_to_requested
from pudi.commit.rollback import abort, plan_of_pending, resume, roll_back
from pudi.commit.transaction import WriteTransaction
from pudi.concurrency import Liveness
from pudi.config import ArchiveOptions, resolve
from pudi.context import Context, Storage
from pudi.errors import ConflictError, NotFoundError, UnavailableError
from pudi.filegroup import Markers
from pudi.format import (
    PROPERTIES,
    PROPERTIES_BACKUP,
    Action,
    State,
    encode_rollback_plan,
    heartbeat_path,
    history_file,
    parse_data_file,
)
from pudi.metadata_write.client import begin_deltacommit, open_metadata
from pudi.metadata_write.index_logs import write_index_logs
from pudi.metadata_write.rollback import block_requests, roll_back_blocks
from pudi.services.target import ServiceTarget
from pudi.storage import StorageWrapper, open_storage
from pudi.task.index_keys import LoggedKeys
from pudi.task.metadata_files import append_changes
from pudi.testing import FaultStorage, SimulatedCrash
from pudi.timeline import Instant, TimelineStore, archiving
from pudi.timeline.archiving import HistoryWriter, archive_log_name
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

EAGER = {"hoodie.clean.failed.writes.policy": "EAGER"}
Reopened = tuple[pudi.Table, MetaClient, FaultStorage]


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    return f"memory://lost-locks/{abs(hash(request.node.nodeid))}"


def create(root: str, kind: str = "cow", **options: str) -> pudi.Table:
    given = {key.replace("__", "."): value for key, value in options.items()}
    found = pudi.create(
        root, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type=kind, options=given
    )
    found.upsert(table(trip(number, 1) for number in range(6)))
    return found


def writer(root: str, **fault: Any) -> Reopened:
    storage = FaultStorage(open_storage(root), **fault)
    meta = MetaClient.open(root, None, {}, MetaClient.open(root, None, {}).context, storage)
    return pudi.Table.of(meta, {}), meta, storage


def call_of(root: str, kind: str, ending: str) -> int:
    """The number of the call of an upsert that creates a file of such a name."""
    probe, _, storage = writer(root)
    probe.upsert(table([trip(0, 2)]))
    return next(n for n, (made, path) in enumerate(storage.log, 1) if made == kind and path.endswith(ending))


@pytest.mark.parametrize(("kind", "version"), [("cow", "9"), ("mor", "6"), ("mor", "9")])
def test_a_file_that_is_written_after_its_rollback_is_found(root: str, kind: str, version: str) -> None:
    create(root, kind, hoodie__write__table__version=version)
    options = {"hoodie.write.table.version": version, **EAGER}
    at = next(
        number
        for number, (made, path) in enumerate(_log_of_upsert(root), 1)
        if made == "create" and not path.startswith(".hoodie")
    )
    slow, meta, _ = writer(
        root,
        fail_at=at,
        mode="delay",
        on_delay=lambda: pudi.Table(root, options=options).upsert(table([trip(1, 5)])),
    )
    with pytest.raises(ConflictError, match="for dead"):
        slow.upsert(table([trip(0, 7)]))
    assert not list(open_storage(root).list(".hoodie/.temp"))
    opened = pudi.Table(root)
    assert {row["ts"] for row in opened.scan(where="uuid = 'k0000'").to_arrow().to_pylist()} == {2}
    assert opened.check().ok
    assert meta.store.load().pending == ()


def _log_of_upsert(root: str) -> tuple[tuple[str, str], ...]:
    probe, _, storage = writer(root)
    probe.upsert(table([trip(0, 2)]))
    return storage.log


def test_a_write_whose_rollback_has_begun_does_not_complete(root: str) -> None:
    create(root)

    def begin_rollback() -> None:
        other = MetaClient.open(root, None, {})
        target = next(iter(other.store.load().pending))
        other.store.request(Action.ROLLBACK, encode_rollback_plan(plan_of_pending(other, target)))

    at = call_of(root, "create", "parquet")
    slow, _, _ = writer(root, fail_at=at, mode="delay", on_delay=begin_rollback)
    with pytest.raises(ConflictError, match="for dead"):
        slow.upsert(table([trip(0, 7)]))
    opened = pudi.Table(root)
    opened.upsert(table([trip(1, 9)]))  # completes the rollback
    found = {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}
    assert (found["k0000"], found["k0001"]) == (2, 9)
    assert opened.check().ok


def test_a_write_whose_files_went_with_its_rollback_ends_as_a_conflict(root: str) -> None:
    """It looks for them before it asks for its instant, and the rollback died before it had deleted that."""
    create(root, "mor", hoodie__metadata__record__index__enable="true")
    find = LoggedKeys.find

    def finds_late(keys: LoggedKeys, *arguments: Any) -> Any:
        other = MetaClient.open(root, None, {})
        target = next(iter(other.store.load().pending))
        other.store.request(Action.ROLLBACK, encode_rollback_plan(plan_of_pending(other, target)))
        other.storage.delete(Markers(other.storage, target.requested).all_files())
        return find(keys, *arguments)

    with patch.object(LoggedKeys, "find", finds_late), pytest.raises(ConflictError, match="for dead") as raised:
        pudi.Table(root).delete(pa.table({"uuid": ["k0000"], "city": [trip(0, 1)["city"]]}))
    assert isinstance(raised.value.__context__, NotFoundError)
    opened = pudi.Table(root)
    opened.upsert(table([trip(1, 9)]))  # completes the rollback
    assert opened.scan().to_arrow().num_rows == 6
    assert opened.check().ok


@pytest.mark.parametrize(("kind", "version"), [("cow", "9"), ("mor", "6"), ("mor", "9")])
def test_a_write_that_was_rolled_back_before_it_began_does_not_complete(root: str, kind: str, version: str) -> None:
    create(root, kind, hoodie__write__table__version=version)
    start, left = TimelineStore.start, [1]

    def starts_late(store: TimelineStore, instant: Instant, *arguments: Any, **named: Any) -> Instant:
        if left:
            left.pop()
            other = MetaClient.open(root, None, {})
            roll_back(other, next(iter(other.store.load().pending)))
            pudi.Table(root).upsert(table([trip(1, 5)]))
        return start(store, instant, *arguments, **named)

    with (
        patch.object(TimelineStore, "start", starts_late),
        pytest.raises(ConflictError, match="for dead"),
    ):
        pudi.Table(root).upsert(table([trip(0, 7)]))
    opened = pudi.Table(root)
    found = {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}
    assert (found["k0000"], found["k0001"]) == (1, 5)
    assert opened.timeline.pending == ()
    assert opened.check().ok


def test_a_rollback_that_a_late_process_begins_is_completed_by_its_planner(root: str) -> None:
    """The late one had lost the lock when it began it, and goes no further."""
    create(root)
    meta = MetaClient.open(root, None, {})
    target = meta.store.start(meta.store.request(Action.COMMIT))
    request = TimelineStore.request

    def begun_late(store: TimelineStore, *arguments: Any, **named: Any) -> Instant:
        planned = request(store, *arguments, **named)
        MetaClient.open(root, None, {}).store.start(planned)
        return planned

    with patch.object(TimelineStore, "request", begun_late):
        roll_back(meta, target)
    assert meta.store.load().pending == ()


def test_a_rollback_that_its_planner_goes_on_with_is_completed(root: str) -> None:
    create(root)
    meta = MetaClient.open(root, None, {})
    target = meta.store.start(meta.store.request(Action.COMMIT))
    planned = meta.store.request(Action.ROLLBACK, encode_rollback_plan(plan_of_pending(meta, target)))
    meta.store.start(planned)  # by its planner, which stood still since it planned it
    with meta.lock:
        resume(meta, planned)
    assert meta.store.load().pending == ()


@pytest.mark.parametrize(("kind", "version"), [("cow", "9"), ("mor", "6")])
def test_a_file_that_is_written_after_its_rollback_was_planned_goes_too(root: str, kind: str, version: str) -> None:
    create(root, kind, hoodie__write__table__version=version)

    def plan_rollback() -> None:
        other = MetaClient.open(root, None, {})
        target = next(iter(other.store.load().pending))
        other.store.request(Action.ROLLBACK, encode_rollback_plan(plan_of_pending(other, target)))

    def finish_rollback() -> None:
        pudi.Table(root, options=EAGER).upsert(table([trip(1, 5)]))

    log = _log_of_upsert(root)
    marked = next(n for n, (made, path) in enumerate(log, 1) if made == "put" and ".marker." in path)
    written = next(n for n, (made, path) in enumerate(log, 1) if made == "create" and not path.startswith(".hoodie"))
    inner = FaultStorage(open_storage(root), fail_at=marked, mode="delay", on_delay=plan_rollback)
    storage = FaultStorage(inner, fail_at=written + 1, mode="delay", on_delay=finish_rollback)
    meta = MetaClient.open(root, None, {}, MetaClient.open(root, None, {}).context, storage)
    inner.fail_at = inner.calls + marked
    storage.fail_at = storage.calls + written + 1
    with pytest.raises(ConflictError, match="for dead"):
        pudi.Table.of(meta, {}).upsert(table([trip(0, 7)]))
    opened = pudi.Table(root)
    found = {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}
    assert (found["k0000"], found["k0001"]) == (2, 5)
    assert opened.check().ok
    assert not [step for step in opened.maintain().steps if step.name == "orphaned files"]


def test_who_lost_the_lock_deletes_nothing(root: str) -> None:
    create(root)
    meta = MetaClient.open(root, None, {})
    path = next(info.path for info in meta.storage.list() if info.path.endswith(".parquet"))
    with meta.lock, patch.object(type(meta.lock), "verify", side_effect=ConflictError("lost")):
        with pytest.raises(ConflictError, match="lost"):
            meta.delete_locked([path])
        with pytest.raises(ConflictError, match="lost"):
            meta.store.discard(next(iter(meta.store.load().commits)))
    assert meta.storage.head(path).size
    meta.delete_locked([path])
    with pytest.raises(NotFoundError):
        meta.storage.head(path)


class Overtaken(StorageWrapper):
    """A storage whose table's lock another process takes when the properties are read for the n-th time."""

    def __init__(self, inner: Storage, at: int) -> None:
        super().__init__(inner)
        self.left, self.changed = at, list[str]()

    def _call(self, kind: str, path: str, do: Callable[[], Any]) -> Any:
        if path in {PROPERTIES, PROPERTIES_BACKUP} and kind in {"create", "put", "delete"} and self.left <= 0:
            self.changed.append(f"{kind} {path}")
        answer = do()
        if (kind, path) == ("read", PROPERTIES):
            self.left -= 1
            if self.left == 0:
                self.inner.put(".hoodie/lock", b"another's")
        return answer


OVERTAKEN: dict[str, Callable[[pudi.Table], object]] = {
    "create_index": lambda made: made.create_index("record_index"),
    "create_index on": lambda made: made.create_index("secondary_index", columns="rider"),
    "drop_index": lambda made: made.drop_index("column_stats"),
    "upgrade": lambda made: made.upgrade(9),
    "drop metadata": lambda made: made.upsert(table([trip(0, 2)]), options={"hoodie.metadata.enable": "false"}),
}


@pytest.mark.parametrize("verb", OVERTAKEN)
def test_who_lost_the_lock_leaves_the_properties_as_they_are(root: str, verb: str) -> None:
    """Another process may have changed them: an index that it made would be no index any more."""
    options = {"hoodie.write.lock.provider": "FileSystemBasedLockProvider", "hoodie.write.lock.wait_time_ms": "0"}
    for at in count(1):
        create(f"{root}/{at}", "mor", hoodie__write__table__version="8")
        pudi.Table(f"{root}/{at}").create_index("record_index") if verb == "create_index on" else None
        storage = Overtaken(open_storage(f"{root}/{at}"), at)
        opened = pudi.Table.of(MetaClient.open(storage.root, None, options, Context(), storage), options)
        with suppress(ConflictError, UnavailableError):
            OVERTAKEN[verb](opened)
        assert storage.changed == [], at
        if storage.left > 0:
            break
    assert at > 3


def test_who_lost_the_lock_hides_no_log_blocks(root: str) -> None:
    made = create(root, "mor", hoodie__write__table__version="6")
    done = made.upsert(table([trip(0, 2)]))
    meta = MetaClient.open(root, None, {})
    before = [info.path for info in meta.storage.list()]
    blocks = block_requests(
        meta.storage, [path for path in before if ".log." in path and not path.startswith(".hoodie")]
    )
    assert done is not None
    assert blocks
    lost = patch.object(type(meta.lock), "verify", side_effect=ConflictError("lost"))
    with meta.lock, lost, pytest.raises(ConflictError, match="lost"):
        roll_back_blocks(meta.storage, done.instant, done.instant, blocks, meta.lock.verify)
    assert [info.path for info in meta.storage.list() if ".locks" not in info.path] == [
        path for path in before if ".locks" not in path
    ]


def test_a_run_of_a_plan_leaves_what_another_run_completed(root: str) -> None:
    made = create(root, hoodie__metadata__record__index__enable="true")
    done = made.timeline.commits[-1]
    meta = MetaClient.open(root, None, {})
    mdt = open_metadata(meta)
    assert mdt.store.load().commit(done.requested) is not None
    with pytest.raises(
        ConflictError, match="for dead"
    ):  # as it comes back, with its instant inflight when it last looked
        write_index_logs(meta, replace(done, state=State.INFLIGHT, completion=None), (), ())
    assert mdt.store.load().commit(done.requested) is not None
    assert pudi.Table(root).check().ok


@pytest.mark.parametrize(("kind", "ending"), [("delete", "commit.requested"), ("create", ".rollback")])
def test_a_rollback_that_died_at_its_end_leaves_nothing_to_hide(tmp_path: Path, kind: str, ending: str) -> None:
    source = tmp_path / "trips"
    create(str(source), "mor", hoodie__write__table__version="6")
    shutil.copytree(source, tmp_path / "probe")
    probe, _, storage = writer(str(tmp_path / "probe"))
    probe.upsert(table([trip(0, 2)]))
    written = next(n for n, (made, path) in enumerate(storage.log, 1) if made == "create" and ".log." in path)
    dead, meta, _ = writer(str(source), fail_at=written, mode="crash", crash_after=True)
    with pytest.raises(SimulatedCrash):
        dead.upsert(table([trip(0, 7)]))
    target = next(iter(MetaClient.open(str(source), None, {}).store.load().pending))
    shutil.copytree(source, tmp_path / "whole")
    _, meta, storage = writer(str(tmp_path / "whole"))
    roll_back(meta, target)
    last = next(n for n, (made, path) in enumerate(storage.log, 1) if made == kind and path.endswith(ending))
    _, meta, _ = writer(str(source), fail_at=last, mode="crash", crash_after=True)
    with pytest.raises(SimulatedCrash):
        roll_back(meta, target)
    with patch("pudi.commit.dead_writers._is_over", return_value=True):
        pudi.Table(source, options=EAGER).upsert(table([trip(1, 5)]))
    opened = pudi.Table(source)
    assert {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}["k0000"] == 1
    assert opened.check().ok


@pytest.mark.parametrize("allowed", [0, 1])
def test_who_lost_the_lock_leaves_the_archive_as_it_is(root: str, allowed: int) -> None:
    looks: list[int] = []

    def verify() -> None:
        looks.append(1)
        if len(looks) > allowed:
            raise ConflictError("lost")

    storage = open_storage(root)
    options = ArchiveOptions.of(resolve({}))
    HistoryWriter(storage, "history", options).add(history_file("20260101000000000", "20260102000000000", 0), b"1")
    late = HistoryWriter(storage, "history", options, verify)
    before = storage.read("history/_version_")
    with pytest.raises(ConflictError, match="lost"):
        late.add(history_file("20260103000000000", "20260104000000000", 0), b"2")
    assert storage.read("history/_version_") == before


def test_each_run_of_a_plan_looks_at_the_lock_before_it_writes_to_the_metadata_table(root: str) -> None:
    opened = create(root, hoodie__clean__automatic="false")
    for ts in range(2, 6):
        opened.upsert(table(trip(number, ts) for number in range(6)))
    options = {"hoodie.clean.commits.retained": "1"}

    def lost_at(number: int) -> Callable[[Any], None]:
        looks: list[int] = []

        def verify(_: Any) -> None:
            looks.append(1)
            if len(looks) == number:
                raise ConflictError("the table's lock was lost")

        return verify

    kind = type(MetaClient.open(root, None, {}).lock)
    for number in range(1, 40):
        with patch.object(kind, "verify", lost_at(number)):
            try:
                opened.clean(options=options)
            except ConflictError:
                assert pudi.Table(root).check().ok
                continue
        break
    assert number > 4
    assert pudi.Table(root).check().ok


def test_an_error_under_a_lost_lock_is_a_conflict(root: str) -> None:
    create(root)
    lock = MetaClient.open(root, None, {}).lock
    with pytest.raises(NotFoundError), lock:
        raise NotFoundError("gone")
    lost = patch.object(type(lock), "verify", side_effect=ConflictError("lost"))
    with lost, pytest.raises(ConflictError, match="lost") as raised, lock:
        raise NotFoundError("gone")
    assert isinstance(raised.value.__cause__, NotFoundError)
    with lock:  # it was given back
        pass


@pytest.mark.parametrize(("kind", "version"), [("cow", "9"), ("mor", "6"), ("mor", "9")])
def test_a_file_whose_marker_goes_with_its_rollback_is_deleted(root: str, kind: str, version: str) -> None:
    create(root, kind, hoodie__write__table__version=version)
    markers: list[Markers] = []

    def roll_back_but_for_markers() -> None:
        other = MetaClient.open(root, None, {})
        target = next(iter(other.store.load().pending))
        with patch.object(Markers, "delete"):
            roll_back(other, target)
        markers.append(Markers(other.storage, target.requested))

    log = _log_of_upsert(root)
    written = next(n for n, (made, path) in enumerate(log, 1) if made == "create" and not path.startswith(".hoodie"))
    reconcile = WriteTransaction.reconcile_markers

    def reconciles(*arguments: Any) -> None:
        reconcile(*arguments)
        markers[0].delete()

    slow, _, _ = writer(root, fail_at=written, mode="delay", on_delay=roll_back_but_for_markers)
    with (
        patch.object(WriteTransaction, "reconcile_markers", reconciles),
        pytest.raises(ConflictError, match="for dead"),
    ):
        slow.upsert(table([trip(0, 7)]))
    opened = pudi.Table(root)
    assert {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}["k0000"] == 2
    assert opened.check().ok
    assert not [step for step in opened.maintain().steps if step.name == "orphaned files"]


@pytest.mark.parametrize(("kind", "version"), [("cow", "9"), ("mor", "6"), ("mor", "9")])
def test_what_is_written_while_its_rollback_ends_is_swept(root: str, kind: str, version: str) -> None:
    opened = create(root, kind, hoodie__write__table__version=version)
    opened.upsert(table([trip(0, 2)]))
    meta = MetaClient.open(root, None, {})
    target = meta.store.start(meta.store.request(meta.commit_action))
    meta.storage.put(heartbeat_path(target.requested), b"")
    ending = ".parquet" if kind == "cow" else ".log.1"
    found = next(
        info.path for info in meta.storage.list() if ending in info.path and not info.path.startswith(".hoodie")
    )
    partition, _, name = found.rpartition("/")
    parsed = parse_data_file(name)
    assert parsed is not None
    name = name.replace(str(parsed.write_token), "7-7-7")
    name = name if (kind, version) == ("mor", "6") else name.replace(parsed.instant, target.requested)
    complete = TimelineStore.complete

    def completes(*arguments: Any, **named: Any) -> Instant:
        Markers(meta.storage, target.requested).create_missing([f"{partition}/{name}"])
        meta.storage.put(f"{partition}/{name}", bytes(meta.storage.read(found)))
        return complete(*arguments, **named)

    with patch.object(TimelineStore, "complete", completes):
        roll_back(MetaClient.open(root, None, {}), target)
    with patch("pudi.commit.dead_writers._is_over", return_value=True):
        pudi.Table(root, options=EAGER).upsert(table([trip(1, 5)]))
    opened = pudi.Table(root)
    assert {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}["k0000"] == 2
    assert not list(open_storage(root).list(".hoodie/.temp"))
    assert opened.check().ok


def test_of_two_base_files_with_one_instant_the_one_that_the_commit_names_counts(root: str) -> None:
    made = create(root, hoodie__metadata__enable="false")
    done = made.upsert(table([trip(0, 2)]))
    assert done is not None
    storage = open_storage(root)
    files = [info.path for info in storage.list() if info.path.endswith(".parquet")]
    newer = next(path for path in files if done.instant in path)
    group, token, _ = newer.rpartition("/")[2].split("_")
    older = next(path for path in files if group in path and path != newer)
    late = newer.replace(f"_{token}_", "_9-9-9_")
    storage.create(late, bytes(storage.read(older)))
    opened = pudi.Table(root)
    assert {row["uuid"]: row["ts"] for row in opened.scan().to_arrow().to_pylist()}["k0000"] == 2
    opened.upsert(table([trip(0, 3)]))
    storage.delete([late])
    assert pudi.Table(root).scan().to_arrow().num_rows == 6


def test_a_log_file_is_listed_once_by_rollbacks(root: str) -> None:
    create(root, "mor", hoodie__write__table__version="6")
    compacting = {"hoodie.metadata.compact.max.delta.commits": "1", "hoodie.write.table.version": "6"}
    reconcile = WriteTransaction.reconcile_markers

    left = [1]

    def reconciles(*arguments: Any) -> None:
        if left:
            left.pop()
            other = MetaClient.open(root, None, {})
            roll_back(other, next(iter(other.store.load().pending)))
            pudi.Table(root, options=compacting).upsert(table([trip(1, 5)]))
        reconcile(*arguments)

    with (
        patch.object(WriteTransaction, "reconcile_markers", reconciles),
        pytest.raises(ConflictError, match="for dead"),
    ):
        pudi.Table(root).upsert(table([trip(0, 7)]))
    opened = pudi.Table(root, options={"hoodie.metadata.compact.max.delta.commits": "99"})
    opened.insert_overwrite_table(table(trip(number, 8) for number in range(6)))
    for ts in range(9, 12):
        opened.upsert(table(trip(number, ts) for number in range(6)))
    opened.clean(options={"hoodie.clean.commits.retained": "1"})
    assert opened.scan().to_arrow().num_rows == 6
    assert opened.check().ok


@pytest.mark.parametrize("version", ["6", "9"])
def test_what_comes_after_a_rollback_that_is_long_past_is_swept(root: str, version: str) -> None:
    options = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    options |= {"hoodie.metadata.enable": "false", "hoodie.write.table.version": version}
    create(root, **{key.replace(".", "__"): value for key, value in options.items()})
    opened = pudi.Table(root, options=options)
    done = opened.upsert(table([trip(0, 2)]))
    meta = MetaClient.open(root, None, {})
    target = meta.store.start(meta.store.request(Action.COMMIT))
    roll_back(meta, target)
    for ts in range(3, 12):
        opened.upsert(table(trip(number, ts) for number in range(6)))
    start = opened.timeline.start
    assert done is not None
    assert start is not None
    assert done.instant < target.requested < start
    found = next(
        info.path for info in meta.storage.list() if info.path.endswith(".parquet") and ".hoodie" not in info.path
    )
    partition, _, name = found.rpartition("/")
    parsed = parse_data_file(name)
    assert parsed is not None
    late = {each: f"{partition}/{name.replace(parsed.instant, each)}" for each in (target.requested, done.instant)}
    for instant, path in late.items():  # the second one completed, and is archived
        meta.storage.put(path, bytes(meta.storage.read(found)))
        Markers(meta.storage, instant).create_missing([path])
        meta.storage.put(heartbeat_path(instant), b"")
    with patch("pudi.commit.dead_writers._is_over", return_value=True):
        pudi.Table(root, options={**options, **EAGER, "hoodie.clean.automatic": "false"}).upsert(table([trip(1, 20)]))
    paths = {info.path for info in meta.storage.list()}
    assert [each in paths for each in late.values()] == [False, True]
    assert not [path for path in paths if ".marker." in path]


def test_who_lost_the_lock_leases_no_plan(tmp_path: Path) -> None:
    opened = create(str(tmp_path / "t"), "mor")
    opened.upsert(table([trip(0, 2)]))
    plan = opened.schedule("compaction")
    assert plan is not None
    meta = MetaClient.open(opened.path, None, {})
    base = next(info.path for info in meta.storage.list() if info.path.endswith(".parquet") and "/" in info.path)
    group, _, _ = base.rpartition("/")[2].split("_")
    other = f"{base.rpartition('/')[0]}/{group}_0-7-0_{plan}.parquet"  # as of a run that completed meanwhile
    meta.storage.create(other, b"x")
    with patch.object(type(meta.lock), "verify", side_effect=ConflictError("lost")):
        with pytest.raises(ConflictError, match="lost"):
            opened.run_pending()
        assert meta.storage.head(other).size == 1
        meta.storage.delete([other])
        with pytest.raises(ConflictError, match="lost"):
            opened.run_pending()
    (pending,) = meta.store.load().pending
    assert pending.state is State.REQUESTED
    assert len(opened.run_pending()) == 1
    assert opened.check().ok


@pytest.mark.parametrize("ends_plan", [False, True], ids=["runs the plan itself", "drops the plan"])
def test_a_run_does_not_complete_once_its_files_began_to_go(root: str, ends_plan: bool) -> None:
    """Whoever takes a run for dead may die too, between any two calls, before the run comes back."""
    keep, refused, died = ServiceLease.keep, [], False
    for number in count(1):
        path = f"{root}/{number}"
        opened = create(path, "mor")
        opened.upsert(table(trip(each, 2) for each in range(6)))
        assert opened.schedule("compaction") is not None

        def stands_still(leased: ServiceLease, written: Sequence[str]) -> None:
            nonlocal died
            keep(leased, written)
            try:
                _, other, _ = writer(path, fail_at=number, mode="crash")  # noqa: B023 - called in this turn
                plan = other.store.load().find(leased.instant.requested, leased.instant.action)
                assert plan is not None
                abort(other, plan, dead=True) if ends_plan else revert_to_requested(other, plan)
                died = False
            except SimulatedCrash:
                died = True

        with patch.object(ServiceLease, "keep", stands_still):
            try:
                opened.run_pending()
            except ConflictError:
                refused.append(number)
        late = pudi.Table(path)
        assert {row["ts"] for row in late.scan().to_arrow().to_pylist()} == {2}
        late.compact()
        assert {row["ts"] for row in late.scan().to_arrow().to_pylist()} == {2}
        assert late.check().ok
        if not died:
            break
    assert len(refused) > 3


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_a_run_that_was_taken_over_does_not_complete_while_the_new_one_is_at_work(root: str, service: str) -> None:
    """The new run deleted nothing yet that the old one needs: only that it has begun says so."""
    opened = create(root, "mor")
    opened.upsert(table(trip(each, 2) for each in range(6)))
    assert opened.schedule(service) is not None
    meta = MetaClient.open(root, None, {})
    (plan,) = meta.store.load().pending
    run_jobs, runs = ServiceTarget.run_jobs, ExitStack()

    def stands_still(target: ServiceTarget, *arguments: Any, **named: Any) -> Any:
        with patch("pudi.commit.lease.is_available", return_value=True):
            runs.enter_context(lease(meta, plan, target.write_options))
        return run_jobs(target, *arguments, **named)

    with (
        pytest.raises(ConflictError, match="runs the plan itself"),
        patch.object(ServiceTarget, "run_jobs", stands_still),
    ):
        opened.run_pending()
    (pending,) = meta.store.load().pending
    assert pending.state is State.INFLIGHT
    with suppress(OSError):
        runs.__exit__(OSError, OSError("it fails"), None)
    assert len(pudi.Table(root).run_pending()) == 1
    assert {row["ts"] for row in opened.scan().to_arrow().to_pylist()} == {2}
    assert opened.check().ok
    assert not list(meta.storage.list(".hoodie/.pudi"))


def test_a_run_whose_files_went_with_its_lease_ends_as_a_conflict(root: str) -> None:
    """It looks for them before it asks for its lease: the record index reads their keys."""
    opened = create(root, "mor", hoodie__metadata__record__index__enable="true")
    opened.upsert(table(trip(each, 2) for each in range(6)))
    assert opened.schedule("clustering") is not None
    meta = MetaClient.open(root, None, {})
    (plan,) = meta.store.load().pending
    run_jobs, runs = ServiceTarget.run_jobs, ExitStack()

    def stands_still(target: ServiceTarget, *arguments: Any, **named: Any) -> Any:
        written = run_jobs(target, *arguments, **named)
        with patch("pudi.commit.lease.is_available", return_value=True):
            runs.enter_context(lease(meta, plan, target.write_options))
        return written

    with (
        pytest.raises(ConflictError, match="runs the plan itself") as raised,
        patch.object(ServiceTarget, "run_jobs", stands_still),
    ):
        opened.run_pending()
    assert isinstance(raised.value.__cause__, NotFoundError)
    runs.close()
    assert opened.check().ok


def write_after_the_new_run(root: str, before: Callable[[], object] = lambda: None) -> None:
    """Run the pending plan by a process that is taken for dead.

    Another one completes the plan, the first one writes its files then, and dies.

    Args:
        root: the table's root.
        before: done before the plan is taken over.
    """
    run_jobs = ServiceTarget.run_jobs

    def stands_still(target: ServiceTarget, *arguments: Any, **named: Any) -> Any:
        before()
        with (
            patch.object(ServiceTarget, "run_jobs", run_jobs),
            patch("pudi.commit.lease.liveness_of", return_value=Liveness.DEAD),
        ):
            assert len(pudi.Table(root).run_pending()) == 1
        run_jobs(target, *arguments, **named)
        raise SimulatedCrash

    with patch.object(ServiceTarget, "run_jobs", stands_still), pytest.raises(SimulatedCrash):
        pudi.Table(root).run_pending()


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_what_a_dead_run_wrote_after_the_plan_was_completed_counts_for_nothing(
    root: str, service: str, version: str, metadata: str
) -> None:
    """Nothing tells of its files: its marker went before it wrote them, and it died before it could delete them."""
    given = {"hoodie__metadata__enable": metadata, "hoodie__write__table__version": version}
    opened = create(root, "mor", **given)
    opened.upsert(table(trip(each, 2) for each in range(6)))
    expected = sorted((each, 2) for each in opened.scan().to_arrow()["uuid"].to_pylist())
    assert opened.schedule(service) is not None
    write_after_the_new_run(root)
    opened = pudi.Table(root)
    trips = opened.scan(["uuid", "ts"], where="city != 'elsewhere'")
    assert sorted(tuple(row.values()) for row in trips.to_arrow().to_pylist()) == expected
    assert opened.check().ok
    archiving = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for number in range(50, 58):
        pudi.Table(root, options=archiving).upsert(table([trip(number, 1, city="elsewhere")]))
    assert sorted(tuple(row.values()) for row in trips.to_arrow().to_pylist()) == expected
    (swept,) = [step for step in pudi.Table(root).maintain().steps if step.name == "orphaned files"]
    assert swept.outcome.value == "done"
    assert sorted(tuple(row.values()) for row in trips.to_arrow().to_pylist()) == expected
    assert pudi.Table(root).check().ok
    assert not pudi.Table(root).doctor().orphans


def test_what_a_dead_run_wrote_to_a_file_group_that_was_replaced_is_swept(root: str) -> None:
    """The commit names no file of the group, and an archived replacement doesn't say that the group was replaced."""
    opened = create(root, "mor", hoodie__write__table__version="6")
    opened.upsert(table(trip(each, 2) for each in range(6)))
    assert opened.schedule("compaction") is not None
    write_after_the_new_run(root, lambda: pudi.Table(root).delete_partitions(["nyc"]))
    archiving = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for number in range(50, 58):
        pudi.Table(root, options=archiving).upsert(table([trip(number, 1, city="elsewhere")]))
    assert any("/nyc/" in f"/{info.path}" and ".parquet" in info.path for info in open_storage(root).list())
    assert pudi.Table(root).check().ok
    assert pudi.Table(root).maintain().ok
    assert not [info for info in open_storage(root).list("nyc") if ".parquet" in info.path]
    assert pudi.Table(root).check().ok


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("first", ["new", "old"])
@pytest.mark.parametrize("entries", ["same", "other"])
def test_a_run_that_was_taken_over_adds_nothing_to_the_record_index(
    root: str, entries: str, version: str, first: str
) -> None:
    """Two runs of a plan have one instant: where the new one completes, entries of the old one would count as well.

    Where the old one was faster the new one gives up too, unless it would write the same entries.
    """
    displaced = first == "old" and entries == "other"
    record_index = "hoodie__metadata__record__index__"
    index = {f"{record_index}enable": "true", f"{record_index}min__filegroup__count": "1"}
    index["hoodie__metadata__compact__max__delta__commits"] = "1"  # so that its file slices have no log files yet
    opened = create(root, "mor", **index, hoodie__write__table__version=version)
    opened.upsert(table(trip(each, 2) for each in range(6)))
    assert opened.schedule("clustering") is not None
    waiting: list[Any] = []

    def write(*arguments: Any, **named: Any) -> Any:
        if not waiting:  # the old run, about to write its file
            waiting.append(lambda: append_changes(*arguments, **named))
            gives_up = pytest.raises(ConflictError, match="runs the plan too") if displaced else nullcontext()
            with patch("pudi.commit.lease.liveness_of", return_value=Liveness.DEAD), gives_up:
                assert len(pudi.Table(root).run_pending()) == 1
            return waiting[0]()
        if first == "old" and len(waiting) == 1:
            waiting.append(waiting[0]())
            waiting[0] = lambda: waiting[1]
        return append_changes(*arguments, **named)

    ids = patch("pudi.services.clustering_run.uuid5", lambda *_: uuid4()) if entries == "other" else nullcontext()
    with (
        ids,
        patch("pudi.task.index_keys.append_changes", write),
        pytest.raises(ConflictError, match=r"runs the plan (itself|too)|took this write for dead"),
    ):
        opened.run_pending()
    assert opened.check().ok
    assert len(pudi.Table(root).run_pending()) == (1 if displaced else 0)
    opened.upsert(table(trip(each, 3) for each in range(6)))
    assert [row["ts"] for row in opened.scan().to_arrow().to_pylist()] == [3] * 6


def test_a_file_that_is_missing_in_a_run_of_its_own_is_named(root: str) -> None:
    opened = create(root, "mor")
    opened.upsert(table(trip(each, 2) for each in range(6)))
    meta = MetaClient.open(root, None, {})
    assert opened.schedule("compaction") is not None
    log = next(log.path for each in opened.file_slices() for log in each.logs)
    meta.storage.delete([log])
    with pytest.raises(NotFoundError, match=r"no such file|is gone"):
        opened.run_pending()


def test_a_deltacommit_that_a_late_process_began_is_a_conflict(root: str) -> None:
    create(root)
    mdt = open_metadata(MetaClient.open(root, None, {}))
    request, at = TimelineStore.request, "20990101000000000"

    def began_late(store: TimelineStore, *arguments: Any, **named: Any) -> Instant:
        made = request(store, *arguments, **named)
        store.storage.create(store.path(made, State.INFLIGHT), b"")  # by a process that was taken for dead
        return made

    with patch.object(TimelineStore, "request", began_late), pytest.raises(ConflictError, match="come back"):
        begin_deltacommit(mdt, at)


def test_an_archive_file_that_a_late_process_wrote_is_a_conflict(root: str) -> None:
    opened = create(root, hoodie__write__table__version="6", hoodie__metadata__enable="false")
    for ts in range(2, 8):
        opened.upsert(table([trip(0, ts)]))
    newest = archiving._newest_log

    def wrote_late(store: TimelineStore) -> Any:
        found = newest(store)
        store.storage.create(f"{store.history}/{archive_log_name(found[0] + 1)}", b"")
        return found

    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    with (
        patch.object(archiving, "_newest_log", wrote_late),
        pytest.raises(ConflictError, match="at the same time") as caught,
    ):
        opened.archive(options=keep)
    assert caught.value.path is not None
    MetaClient.open(root, None, {}).storage.delete([caught.value.path])
    assert opened.archive(options=keep)
    assert opened.check().ok
    assert len(opened.timeline.commits) < 7
