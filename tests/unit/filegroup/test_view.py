"""The view: which files a reader sees."""

from __future__ import annotations

import pytest

from pudi.context import Context, ManualClock, Storage
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup import FileSystemView, Markers, StorageListing, ViewOptions
from pudi.format import CommitMetadata, IOType, encode_commit_metadata
from pudi.locks import open_lock
from pudi.storage import open_storage
from pudi.timeline import TimelineStore

T1, T2, T3 = "20240101000001000", "20240101000002000", "20240101000003000"
FOLDER = ".hoodie/timeline"


def store_of(storage: Storage) -> TimelineStore:
    context = Context(ManualClock())
    return TimelineStore(storage, FOLDER, f"{FOLDER}/history", "UTC", context, open_lock(storage, None, {}, context))


def table(name: str, *, completed: tuple[str, ...], files: dict[str, list[str]]) -> Storage:
    storage = open_storage(f"memory://{name}")
    for instant in completed:
        storage.put(f"{FOLDER}/{instant}_{instant}.commit", b"")
    for partition, names in files.items():
        storage.put(f"{partition}/.hoodie_partition_metadata".lstrip("/"), b"")
        for file in names:
            storage.put(f"{partition}/{file}".lstrip("/"), b"x")
    return storage


def seen(storage: Storage, until: str | None = None) -> list[str]:
    store = store_of(storage)
    timeline = store.load()
    view = FileSystemView(timeline if until is None else timeline.until(until), StorageListing(storage), store)
    return [s.base.path for s in view.all_slices()]


def test_the_newest_committed_file_of_each_group() -> None:
    names = [f"a-0_0-0-0_{T1}.parquet", f"a-0_1-0-0_{T2}.parquet", f"b-0_0-0-0_{T1}.parquet", f"c-0_0-0-0_{T3}.parquet"]
    storage = table("newest", completed=(T1, T2), files={"x": names, "y/z": names[:1]})
    assert seen(storage) == [f"x/{names[1]}", f"x/{names[2]}", f"y/z/{names[0]}"]
    assert seen(storage, until=T1) == [f"x/{names[0]}", f"x/{names[2]}", f"y/z/{names[0]}"]


def test_folders_that_are_no_partitions_do_not_count() -> None:
    storage = table("folders", completed=(T1,), files={"x": [f"a-0_0-0-0_{T1}.parquet"]})
    storage.put(f"stray/a-0_0-0-0_{T1}.parquet", b"x")
    storage.put("x/notes.txt", b"x")
    assert seen(storage) == [f"x/a-0_0-0-0_{T1}.parquet"]


def test_a_file_older_than_the_timeline_counts_only_where_instants_were_archived() -> None:
    names = [f"a-0_0-0-0_{T1}.parquet", f"b-0_0-0-0_{T2}.parquet"]
    storage = table("archived", completed=(T2, T3), files={"": names})
    assert seen(storage) == [names[1]]
    storage.put(f"{FOLDER}/history/_version_", b"1")
    assert seen(storage) == names


def test_a_replaced_file_group_is_gone_from_its_replacement_on() -> None:
    names = [f"a-0_0-0-0_{T1}.parquet", f"b-0_0-0-0_{T2}.parquet"]
    storage = table("replaced", completed=(T1,), files={"x": names})
    replace = CommitMetadata(operation_type="INSERT_OVERWRITE", partition_to_replace_file_ids={"x": ("a-0",)})
    storage.put(f"{FOLDER}/{T2}_{T2}.replacecommit", encode_commit_metadata(replace))
    assert seen(storage) == [f"x/{names[1]}"]
    assert seen(storage, until=T1) == [f"x/{names[0]}"]


def sliced(storage: Storage, until: str | None = None) -> list[list[str]]:
    """The files of each slice of a merge-on-read table."""
    store = store_of(storage)
    timeline = store.load()
    seen = timeline if until is None else timeline.until(until)
    view = FileSystemView(timeline, StorageListing(storage), store, ViewOptions(seen, logs=True))
    return [[*([s.base.name.name] if s.base else []), *(log.name.name for log in s.logs)] for s in view.all_slices()]


def log_of(file_id: str, instant: str, version: int = 1, token: str = "0-0-0") -> str:
    return f".{file_id}_{instant}.log.{version}_{token}"


def test_logs_belong_to_the_base_that_was_requested_before_they_were_completed() -> None:
    base = [f"a-0_0-0-0_{T1}.parquet", f"a-0_0-0-0_{T3}.parquet"]
    logs = [log_of("a-0", T2), log_of("b-0", T2), log_of("a-0", T3[:-3] + "500")]
    storage = table("assigned", completed=(T1, T3), files={"x": [*base, *logs]})
    late = T3[:-3] + "500"
    storage.put(f"{FOLDER}/{late}_{late}.deltacommit", b"")
    assert sliced(storage) == [[base[1], logs[2]]], "the log of T2 never completed"
    storage.put(f"{FOLDER}/{T2}_{T3[:-3]}200.deltacommit", b"")
    assert sliced(storage) == [[base[1], logs[0], logs[2]], [logs[1]]], "completed after the base was requested"
    assert sliced(storage, until=T2) == [[base[0], logs[0]], [logs[1]]]


def test_what_came_before_the_base_was_requested_is_in_it() -> None:
    base, log = f"a-0_0-0-0_{T3}.parquet", log_of("a-0", T2)
    storage = table("before", completed=(T1, T2, T3), files={"x": [base, log]})
    assert sliced(storage) == [[base]]


def test_logs_go_by_instant_version_and_token_and_change_data_is_none() -> None:
    logs = [log_of("a-0", T1, 10), log_of("a-0", T1, 2, "1-0-0"), log_of("a-0", T1, 2), log_of("a-0", T2)]
    storage = table("order", completed=(T1, T2), files={"x": [*logs, f"{log_of('a-0', T1)}.cdc"]})
    assert sliced(storage) == [[logs[2], logs[1], logs[0], logs[3]]]


def test_a_pending_compaction_has_no_base_and_takes_no_log_away() -> None:
    names = [f"a-0_0-0-0_{T1}.parquet", f"a-0_0-0-0_{T2}.parquet", log_of("a-0", T3)]
    storage = table("pending", completed=(T1, T3), files={"x": names})
    storage.put(f"{FOLDER}/{T2}.compaction.requested", b"")
    assert sliced(storage) == [[names[0], names[2]]]


def test_log_files_are_refused_by_name() -> None:
    storage = table("logs", completed=(T1,), files={"x": [f".a-0_{T1}.log.1_0-0-0"]})
    with pytest.raises(NotSupportedError, match="log files"):
        seen(storage)


@pytest.mark.parametrize("extension", ["lance"])
def test_base_files_of_other_formats_are_refused_by_name(extension: str) -> None:
    name = f"x/a-0_0-0-0_{T1}.{extension}"
    storage = table(extension, completed=(T1,), files={"x": [name[2:]]})
    with pytest.raises(NotSupportedError, match=extension) as raised:
        seen(storage)
    assert raised.value.path == name


@pytest.mark.parametrize("foreign", ["export_day_1.csv", "export_day_1.parquet", f"export_day_{T1}.csv", "a_b_1.orc"])
def test_strangers_files_are_no_base_files(foreign: str) -> None:
    storage = table(f"strangers-{foreign}", completed=(T1,), files={"x": [f"a-0_0-0-0_{T1}.parquet", foreign]})
    storage.put(f"{FOLDER}/history/_version_", b"1")
    assert seen(storage) == [f"x/a-0_0-0-0_{T1}.parquet"]


NOT_OWNED = [
    f"x/a-0_0-0-0_{T2}.parquet",
    f"x/.a-0_{T2}.log.1_0-0-0",
    f".hoodie/a-0_0-0-0_{T1}.parquet",
    f".hoodie/timeline/a-0_0-0-0_{T1}.parquet",
    ".hoodie/hoodie.properties",
    "x/.hoodie_partition_metadata",
    "x/notes.txt",
]


@pytest.mark.parametrize("path", NOT_OWNED)
@pytest.mark.parametrize("kind", ["direct", "listed"])
def test_markers_that_name_what_the_instant_can_not_have_written_are_refused(path: str, kind: str) -> None:
    storage = open_storage(f"memory://markers-{kind}-{path.replace('/', '-')}")
    folder = f".hoodie/.temp/{T1}"
    if kind == "direct":
        source = f"{folder}/{path}.marker.CREATE"
        storage.put(source, b"")
    else:
        source = f"{folder}/MARKERS0"
        storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
        storage.put(source, f"x/a-0_0-0-0_{T1}.parquet.marker.CREATE\n{path}.marker.MERGE\n".encode())
    with pytest.raises(CorruptError) as raised:
        Markers(storage, T1).files()
    assert (raised.value.path, raised.value.instant) == (source, T1)


@pytest.mark.parametrize("path", [*NOT_OWNED, f"../a-0_0-0-0_{T1}.parquet", f"/a-0_0-0-0_{T1}.parquet", ""])
def test_only_files_of_the_instant_are_owned(path: str) -> None:
    markers = Markers(open_storage("memory://owned"), T1)
    with pytest.raises(CorruptError):
        markers.owned(path)
    for mine in (f"a-0_0-0-0_{T1}.parquet", f"x/y/a-0_0-0-0_{T1}.parquet", f"x/.a-0_{T1}.log.1_0-0-0"):
        assert markers.owned(mine) == mine


def test_a_listed_partition_may_hold_any_line_separator_but_a_newline() -> None:
    storage = open_storage("memory://markers-separators")
    path = f"a\u2028b\x85c/a-0_0-0-0_{T1}.parquet"
    storage.put(f".hoodie/.temp/{T1}/MARKERS0", f"{path}.marker.CREATE\n".encode())
    assert Markers(storage, T1).files() == [path]


def test_markers_of_both_kinds_name_the_same_files() -> None:
    storage = open_storage("memory://markers")
    direct = Markers(storage, T1)
    direct.create("x/y", f"a-0_0-0-0_{T1}.parquet", IOType.CREATE)
    direct.create("", f"b-0_0-0-0_{T1}.parquet", IOType.MERGE)
    assert direct.files() == [f"b-0_0-0-0_{T1}.parquet", f"x/y/a-0_0-0-0_{T1}.parquet"]
    served = Markers(storage, T2)
    storage.put(f".hoodie/.temp/{T2}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put(f".hoodie/.temp/{T2}/MARKERS0", f"x/a-0_0-0-0_{T2}.parquet.marker.CREATE\n".encode())
    storage.put(f".hoodie/.temp/{T2}/MARKERS1", f"b-0_0-0-0_{T2}.parquet.marker.MERGE\n".encode())
    assert served.files() == [f"b-0_0-0-0_{T2}.parquet", f"x/a-0_0-0-0_{T2}.parquet"]
    served.delete()
    assert served.files() == []
    assert len(direct.files()) == 2
