"""The archived timeline: what manifests name, what is half-written, and that nothing is read before it's needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.context import Context, ManualClock, Storage
from pudi.errors import CorruptError
from pudi.format import (
    Action,
    CommitMetadata,
    RequestedReplaceMetadata,
    State,
    encode_commit_metadata,
    encode_requested_replace_metadata,
)
from pudi.locks import open_lock
from pudi.storage import CountingStorage, open_storage
from pudi.timeline import Timeline, TimelineStore
from support.golden import Golden


def layout_1(storage: Storage) -> TimelineStore:
    context = Context(ManualClock())
    lock = open_lock(storage, None, {}, context)
    return TimelineStore(storage, ".hoodie", ".hoodie/archived", "UTC", context, lock, layout=1)


def opened(path: Path) -> tuple[MetaClient, CountingStorage]:
    storage = CountingStorage(open_storage(str(path)))
    return MetaClient.open(str(path), None, {}, storage=storage), storage


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return Golden("cow_v9_archived").unpack(tmp_path)


def test_the_files_of_the_newest_manifest_are_read(history: Path) -> None:
    store = opened(history)[0].store
    found = store.archived()
    assert len(found) == len({i.requested for i in found}) == 16
    assert all(i.archived and i.is_completed for i in found)
    assert [i.requested for i in found] == sorted(i.requested for i in found)
    first = found[0]
    assert (first.requested, first.completion, first.action) == (
        "20261121080224590",
        "20261121080226898",
        Action.COMMIT,
    )
    assert store.read_commit_metadata(first).operation_type == "BULK_INSERT"
    clean = next(i for i in found if i.action is Action.CLEAN)
    assert store.decoded(clean)["startCleanTime"] == clean.requested
    assert [i.requested for i in store.archived("20261121080248090")] == [
        i.requested for i in found if i.requested >= "20261121080248090"
    ]


def test_the_version_file_may_be_missing_for_a_moment(history: Path) -> None:
    before = opened(history)[0].store.archived()
    (history / ".hoodie" / "timeline" / "history" / "_version_").unlink()
    assert opened(history)[0].store.archived() == before


@pytest.mark.parametrize(
    "content", ["", "[]", '{"files": [{}]}', '{"files": [{"fileName": "../x"}]}', '{"files": [1]}']
)
def test_a_damaged_manifest_is_an_error(history: Path, content: str) -> None:
    (history / ".hoodie" / "timeline" / "history" / "manifest_8").write_text(content)
    with pytest.raises(CorruptError, match="manifest") as raised:
        opened(history)[0].store.archived()
    assert raised.value.path == ".hoodie/timeline/history/manifest_8"


def test_archives_of_version_6(tmp_path: Path) -> None:
    path = Golden("cow_v6_archived").unpack(tmp_path)
    store = opened(path)[0].store
    found = store.archived()
    assert [i.requested for i in found if i.action is Action.COMMIT][:2] == ["20261121080324141", "20261121080326108"]
    assert found[0].completion == "20261121080326039"
    assert store.read_commit_metadata(found[0]).operation_type == "BULK_INSERT"
    clean = [i for i in found if i.action is Action.CLEAN][-1]
    assert store.decoded(clean)["earliestCommitToRetain"] == "20261121080332305"
    (path / ".hoodie" / "history" / ".commits_.archive.9_1-0-1").write_bytes(b"#HUDI#")
    with pytest.raises(CorruptError, match="archived timeline"):
        store.archived()


def test_opening_and_planning_read_nothing_of_the_archive(tmp_path: Path) -> None:
    """A table with 1,000 archived instants costs one listing more than one without any."""
    for name in ("cow_v9_archived", "cow_v6_archived"):
        path = Golden(name).unpack(tmp_path)
        meta, storage = opened(path)
        timeline = meta.store.load()
        TableSnapshot(meta, timeline).view().all_slices()
        with_archive = storage.calls
        folder = path / ".hoodie" / ("timeline/history" if "v9" in name else "history")
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "_version_").touch()
        meta, storage = opened(path)
        TableSnapshot.load(meta).view().all_slices()
        assert storage.calls == with_archive


def test_a_commit_archived_after_the_timeline_was_loaded_is_found(history: Path) -> None:
    meta, _ = opened(history)
    moved = meta.store.archived()[0]
    still_active = Timeline.from_names([f"{moved.requested}_{moved.completion}.commit"]).commits[0]
    assert not still_active.archived
    assert meta.store.read_commit_metadata(still_active) == meta.store.read_commit_metadata(moved)


def test_an_archived_instant_that_is_still_active_comes_once(history: Path) -> None:
    store = opened(history)[0].store
    moved = store.archived()[0]
    active = Timeline.from_names([f"{moved.requested}_{moved.completion}.commit"])
    merged = active.with_archived(store.archived())
    assert len(merged.instants) == 16
    assert not merged.instants[0].archived


def test_an_instant_of_unknown_kind_is_passed_over(history: Path) -> None:
    folder = history / ".hoodie" / "timeline" / "history"
    name = "20261121080236926_20261121080251764_1.parquet"
    rows = pq.read_table(folder / name)
    strange = rows.set_column(2, "action", pa.array(["someday"] * len(rows)))
    pq.write_table(strange, folder / name)
    assert len(opened(history)[0].store.archived()) == 16 - len(rows)


def test_layout_1_tells_clustering_by_its_plan() -> None:
    storage = open_storage("memory://clustering")
    store = layout_1(storage)
    plain = store.start(store.request(Action.REPLACECOMMIT), CommitMetadata(operation_type="INSERT_OVERWRITE"))
    plan = encode_requested_replace_metadata(RequestedReplaceMetadata(operation_type="CLUSTER", version=1))
    clustering = store.start(store.request(Action.REPLACECOMMIT, plan))
    timeline = store.load()
    assert [i.requested for i in timeline.of(Action.REPLACECOMMIT, State.INFLIGHT)] == [plain.requested]
    (found,) = timeline.of(Action.CLUSTERING, State.INFLIGHT)
    assert found.requested == clustering.requested
    assert store.path(found) == f".hoodie/{clustering.requested}.replacecommit.inflight"
    store.discard(found)
    done = store.complete(plain, CommitMetadata(partition_to_replace_file_ids={"x": ("a-0",)}))
    assert store.path(done) == f".hoodie/{plain.requested}.replacecommit"
    assert storage.read(store.path(done)).startswith(b"{\n")
    (completed,) = store.load().instants
    assert store.read_commit_metadata(completed).partition_to_replace_file_ids == {"x": ("a-0",)}


def test_layout_1_takes_no_encoded_commits() -> None:
    store = layout_1(open_storage("memory://encoded"))
    instant = store.start(store.request(Action.COMMIT))
    with pytest.raises(TypeError, match="CommitMetadata"):
        store.complete(instant, encode_commit_metadata(CommitMetadata(operation_type="UPSERT")))
    assert store.load().instants[0].state is State.INFLIGHT


def test_an_upgraded_tables_older_instants_completed_when_their_files_were_made() -> None:
    storage = open_storage("memory://upgraded")
    context = Context(ManualClock())
    store = TimelineStore(storage, "t", "t/history", "UTC", context, open_lock(storage, None, {}, context))
    storage.put("t/20200101000000000.commit", encode_commit_metadata(CommitMetadata(operation_type="INSERT"), 1))
    store.complete(store.start(store.request(Action.COMMIT)), CommitMetadata(operation_type="UPSERT"))
    old, new = store.load().commits
    assert (old.layout, new.layout) == (1, 2)
    assert old.completion is not None and old.completion > "20200101000000000"
    assert [store.read_commit_metadata(i).operation_type for i in (old, new)] == ["INSERT", "UPSERT"]
