"""Which slices a compaction takes, in what order, and when it's due: as Hudi's strategies and triggers say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from pudi.config import CompactionOptions, resolve
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format import BaseFileName, LogFileName
from pudi.services.compaction_plan import is_due, is_log_compaction_due, plan_compaction, plan_log_compaction
from pudi.timeline import Timeline

MIB = 1 << 20
TODAY = date(2026, 11, 21)


def slice_of(partition: str, number: int, logs: Sequence[int], base: int | None = MIB) -> FileSlice:
    file_id = f"f{number}-0"
    file = None if base is None else BaseFile(partition, BaseFileName(file_id, "0-0-0", "20261121080000000"), base)
    made = [
        LogFile(partition, LogFileName(file_id, f"2026112108000{n + 1}000", 1, "0-0-0"), size)
        for n, size in enumerate(logs)
    ]
    return FileSlice(partition, file_id, file, tuple(made))


def options(**given: object) -> CompactionOptions:
    names = {"strategy": "hoodie.compaction.strategy", "io": "hoodie.compaction.target.io",
             "size": "hoodie.compaction.logfile.size.threshold", "files": "hoodie.compaction.logfile.num.threshold",
             "days": "hoodie.compaction.daybased.target.partitions", "regex": "hoodie.compaction.partition.path.regex",
             "trigger": "hoodie.compact.inline.trigger.strategy",
             "commits": "hoodie.compact.inline.max.delta.commits",
             "seconds": "hoodie.compact.inline.max.delta.seconds",
             "blocks": "hoodie.log.compaction.blocks.threshold"}  # fmt: skip
    return CompactionOptions.of(resolve({names[name]: str(value) for name, value in given.items()}))


def chosen(slices: Sequence[FileSlice], busy: Any = (), **given: object) -> list[str]:
    plan = plan_compaction(slices, options(**given), busy=busy, max_file_size=120 * MIB, today=TODAY)
    return [operation.file_id for operation in plan.operations]


SLICES = [
    slice_of("a", 1, [10, 10]),
    slice_of("a", 2, [500]),
    slice_of("b", 3, []),
    slice_of("b", 4, [30, 30, 30], base=None),
]


def test_by_size_of_logs_the_largest_first() -> None:
    assert chosen(SLICES) == ["f2-0", "f4-0", "f1-0"]
    assert chosen(SLICES, size=50) == ["f2-0", "f4-0"]
    assert chosen(SLICES, strategy="LogFileSizeBased", size=50) == ["f2-0", "f4-0"]


def test_by_number_of_logs() -> None:
    name = "org.apache.hudi.table.action.compact.strategy.LogFileNumBasedCompactionStrategy"
    assert chosen(SLICES, strategy=name) == ["f4-0", "f1-0", "f2-0"]
    assert chosen(SLICES, strategy="LogFileNumBasedCompactionStrategy", files=2) == ["f4-0", "f1-0"]


def test_up_to_an_amount_of_io() -> None:
    slices = [slice_of("a", number, [1], base=10 * MIB) for number in range(4)]
    assert chosen(slices, strategy="BoundedIO", io=39) == ["f0-0", "f1-0"]  # 20 MB each, one beyond the limit
    assert chosen(slices, strategy="BoundedIO", io=0) == []
    assert chosen(slices, strategy="UnBoundedCompactionStrategy", io=0) == [f"f{n}-0" for n in range(4)]
    plan = plan_compaction(slices, options(strategy="BoundedIO", io=1), busy=(), max_file_size=MIB, today=TODAY)
    assert plan.missing_partitions == ("a",)


def test_metrics_are_hudis() -> None:
    [operation] = plan_compaction(
        [slice_of("a", 1, [MIB, 5], base=None)], options(), busy=(), max_file_size=120 * MIB, today=TODAY
    ).operations
    assert operation.base_file is None
    assert operation.base_instant == "20261121080001000"
    assert operation.metrics == {
        "TOTAL_LOG_FILES": 2.0, "TOTAL_LOG_FILES_SIZE": MIB + 5.0, "TOTAL_IO_READ_MB": 1.0,
        "TOTAL_IO_WRITE_MB": 120.0, "TOTAL_IO_MB": 121.0,
    }  # fmt: skip


@pytest.mark.parametrize("style", ["2026/11/{:02}", "year=2026/month=11/day={:02}"])
def test_by_day(style: str) -> None:
    slices = [slice_of(style.format(day), day, [1]) for day in (18, 21, 10, 19)]
    assert chosen(slices, strategy="DayBased", days=2) == ["f21-0", "f19-0"]
    assert chosen(slices, strategy="BoundedPartitionAware", days=2) == ["f19-0", "f18-0", "f10-0"]
    assert chosen(slices, strategy="UnBoundedPartitionAware", days=2) == ["f21-0"]
    with pytest.raises(InvalidArgumentError, match="nyc"):
        chosen([slice_of("nyc", 1, [1])], strategy="DayBased")


def test_by_regular_expression_and_several() -> None:
    assert chosen(SLICES, strategy="PartitionRegexBased", regex="^b") == ["f4-0"]
    both = "PartitionRegexBasedCompactionStrategy,LogFileNumBasedCompactionStrategy"
    assert chosen(SLICES, strategy=both, regex="a|b", files=2) == ["f4-0", "f1-0"]
    with pytest.raises(InvalidArgumentError, match="regex"):
        chosen(SLICES, strategy="PartitionRegexBased")
    with pytest.raises(InvalidArgumentError, match="regular expression"):
        chosen(SLICES, regex="(")


def test_a_class_of_the_users_own_is_refused() -> None:
    with pytest.raises(NotSupportedError, match=r"com\.example\.Mine"):
        chosen(SLICES, strategy="com.example.Mine")


def test_busy_groups_are_left_out() -> None:
    assert chosen(SLICES, busy={("a", "f2-0")}) == ["f4-0", "f1-0"]
    assert chosen(SLICES, busy={(s.partition, s.file_id) for s in SLICES}) == []


def test_log_compaction_takes_slices_with_many_blocks() -> None:
    slices = [*SLICES, slice_of("b", 5, [1, 1, 1])]

    def blocks(file_slice: FileSlice) -> int:
        return {"f2-0": 3, "f5-0": 0}.get(file_slice.file_id, 1)  # f5 has partial updates

    plan = plan_log_compaction(slices, options(blocks=3), busy=(), max_file_size=MIB, blocks=blocks)
    assert [operation.file_id for operation in plan.operations] == ["f2-0", "f4-0"]
    assert plan.logs_only


def timeline(*names: str) -> Timeline:
    return Timeline.from_names(names)


def deltas(*seconds: int) -> list[str]:
    return [f"202611210800{s:02}000_202611210800{s:02}500.deltacommit" for s in seconds]


FIRST = "20261121080000000_20261121080000500.commit"
NOW = "20261121090000000"


@pytest.mark.parametrize(
    ("names", "given", "due"),
    [
        ([], {}, False),
        ([FIRST, *deltas(1, 2, 3, 4)], {}, False),
        ([FIRST, *deltas(1, 2, 3, 4, 5)], {}, True),
        ([*deltas(1, 2)], {"commits": 2}, True),
        ([FIRST, *deltas(1, 2), "20261121080003000_20261121080003500.commit", *deltas(4)], {"commits": 2}, False),
        ([FIRST, *deltas(1)], {"trigger": "TIME_ELAPSED"}, True),
        ([FIRST, *deltas(1)], {"trigger": "TIME_ELAPSED", "seconds": 3601}, False),
        ([FIRST, *deltas(1)], {"trigger": "NUM_AND_TIME"}, False),
        ([FIRST, *deltas(1)], {"trigger": "NUM_AND_TIME", "commits": 1}, True),
        ([FIRST, *deltas(1)], {"trigger": "NUM_OR_TIME"}, True),
        ([FIRST, *deltas(1)], {"trigger": "NUM_OR_TIME", "seconds": 9999}, False),
        ([FIRST, *deltas(1, 2), "20261121080003000.compaction.requested", *deltas(4)], {"commits": 3}, True),
        (
            [FIRST, *deltas(1, 2), "20261121080003000.compaction.requested", *deltas(4)],
            {"commits": 2, "trigger": "NUM_COMMITS_AFTER_LAST_REQUEST"},
            False,
        ),
    ],
)
def test_triggers(names: list[str], given: dict[str, object], due: bool) -> None:
    assert is_due(timeline(*names), options(**given), lambda: NOW) == due


def test_log_compaction_counts_since_both() -> None:
    instants = timeline(FIRST, *deltas(1, 2, 3, 4, 5))
    assert is_log_compaction_due(instants, options(blocks=5), [])
    assert not is_log_compaction_due(instants, options(blocks=5), ["20261121080002000"])
    assert not is_log_compaction_due(timeline(FIRST, "20261121080003000.logcompaction.requested", *deltas(1, 2)),
                                     options(blocks=1), [])  # fmt: skip
