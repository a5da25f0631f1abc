"""Where records go: whatever the counts, every update and insert has a task, and files stay within their size."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format import BaseFileName, CommitMetadata, LogFileName, WriteStat
from pudi.plan import LogOptions, WholeLimits, WriteProfile, place, whole_partitions
from pudi.plan.write import SHARES, Sizing, average_record_bytes

MB = 1 << 20


def slice_of(partition: str, number: int, size: int) -> FileSlice:
    name = BaseFileName(f"group-{number}", "0-0-0", "20240101000000000")
    return FileSlice(partition, f"group-{number}", BaseFile(partition, name, size))


def new_id(number: int) -> str:
    return f"new-{number}"


profiles = st.builds(
    lambda updates, inserts: ({("p", f"group-{n}"): count for n, count in updates.items()}, inserts),
    st.dictionaries(st.integers(0, 5), st.integers(0, 10**6), max_size=6),
    st.dictionaries(st.sampled_from(["p", "q"]), st.integers(0, 10**7), max_size=2),
)


@given(profiles, st.lists(st.integers(0, 130 * MB), min_size=6, max_size=6), st.integers(1, 5000))
def test_every_record_has_a_task(
    profile: tuple[dict[tuple[str, str], int], dict[str, int]], sizes: list[int], record_bytes: int
) -> None:
    updates, inserts = profile
    slices = [slice_of("p", number, size) for number, size in enumerate(sizes)]
    sizing = Sizing(small_file_limit=100 * MB, max_file_bytes=120 * MB, record_bytes=record_bytes)
    plan = place(WriteProfile(updates, inserts), slices, sizing, new_id)
    assert [task.number for task in plan.tasks] == list(range(len(plan.tasks)))
    groups = {(task.partition, task.file_id) for task in plan.tasks}
    assert len(groups) == len(plan.tasks)
    assert {group for group, count in updates.items() if count} <= groups
    assert {route.partition for route in plan.routes} == {p for p, count in inserts.items() if count}
    for route in plan.routes:
        assert list(route.upper) == sorted(route.upper)
        assert route.upper[-1] == SHARES
        before = 0
        for number, upper in zip(route.tasks, route.upper, strict=True):
            task = plan.tasks[number]
            assert task.partition == route.partition
            share = inserts[route.partition] * (upper - before) / SHARES
            old = 0 if task.base is None else task.base.size
            room = sizing.max_file_bytes - old + record_bytes  # one record, and the share's resolution
            assert share * record_bytes <= room + inserts[route.partition] * record_bytes / SHARES
            before = upper


def test_small_files_are_filled_before_new_ones_are_made() -> None:
    slices = [slice_of("p", 0, 50 * MB), slice_of("p", 1, 10 * MB), slice_of("p", 2, 110 * MB)]
    sizing = Sizing(small_file_limit=100 * MB, max_file_bytes=120 * MB, record_bytes=1000)
    plan = place(WriteProfile({}, {"p": 100_000}), slices, sizing, new_id)
    assert [task.file_id for task in plan.tasks] == ["group-1"]
    plan = place(WriteProfile({}, {"p": 400_000}), slices, sizing, new_id)
    assert [task.file_id for task in plan.tasks] == ["group-1", "group-0", "new-2", "new-3"]


def test_no_filling_when_the_limit_is_zero() -> None:
    sizing = Sizing(small_file_limit=0, max_file_bytes=120 * MB, record_bytes=1000)
    plan = place(WriteProfile({}, {"p": 10}), [slice_of("p", 0, 0)], sizing, new_id)
    assert [task.file_id for task in plan.tasks] == ["new-0"]


def test_the_newest_large_commit_tells_the_size_of_a_record() -> None:
    def commit(rows: int, size: int) -> CommitMetadata:
        return CommitMetadata({"p": (WriteStat(num_writes=rows, total_write_bytes=size),)})

    assert average_record_bytes([commit(10, 50), commit(100, 2000), commit(7, 7000)], 1000, 1024) == 20
    assert average_record_bytes([commit(0, 5000), commit(10, 50)], 1000, 1024) == 1024


def test_partitions_are_written_whole_within_every_limit_only() -> None:
    limits = WholeLimits(partitions=2, files=2, base_bytes=100, records=10)
    slices = [slice_of("a", 0, 60), slice_of("a", 1, 40), slice_of("b", 0, 100)]
    sizing = Sizing(0, 100, 1.0)
    tasks = whole_partitions({"b": 10, "a": 1}, slices, sizing, limits)
    assert tasks is not None
    assert [(task.number, task.partition, len(task.slices)) for task in tasks] == [(0, "a", 2), (1, "b", 1)]
    for counts, extra in (
        ({"a": 11, "b": 1}, []),  # records
        ({"a": 1, "b": 1, "c": 1}, []),  # partitions
        ({"a": 1, "b": 1}, [slice_of("b", 1, 1)]),  # bytes
        ({"a": 1, "b": 1}, [slice_of("a", 2, 0)]),  # files
    ):
        assert whole_partitions(counts, [*slices, *extra], sizing, limits) is None


def with_log(file_slice: FileSlice) -> FileSlice:
    name = LogFileName(file_slice.file_id, "20240102000000000", 1, "0-0-0")
    return replace(file_slice, logs=(LogFile(file_slice.partition, name, 1),))


@given(profiles, st.sets(st.integers(0, 5)), st.integers(0, 3))
def test_merge_on_read_tables_append(
    profile: tuple[dict[tuple[str, str], int], dict[str, int]], logged: set[int], small_files: int
) -> None:
    updates, inserts = profile
    slices = [slice_of("p", number, number * MB) for number in range(6)]
    slices = [with_log(s) if number in logged else s for number, s in enumerate(slices)]
    sizing = Sizing(small_file_limit=100 * MB, max_file_bytes=120 * MB, record_bytes=10)
    plan = place(WriteProfile(updates, inserts), slices, sizing, new_id, LogOptions(small_files=small_files))
    rewritten = [task for task in plan.tasks if task.base is not None]
    assert len(rewritten) <= (min(small_files, 6 - len(logged)) if inserts.get("p") else 0)
    for task in plan.tasks:
        if task.append is None:
            assert task.base is None or not next(s for s in slices if s.file_id == task.file_id).logs
        else:
            assert updates["p", task.file_id]
            assert task.location == task.file_id
    routed = {number for route in plan.routes for number in route.tasks}
    assert not any(plan.tasks[number].append for number in routed)
