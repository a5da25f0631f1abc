"""Plan reads and writes: pure functions from a table's state and options to plans, which are plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pudi.context.runtime import load_export

if TYPE_CHECKING:
    from pudi.plan.log_files import Append, LogOptions, Merging
    from pudi.plan.read import ReadableTable, ReadPlan, Selection, plan_read
    from pudi.plan.row_changes import Change, MergeJoin, MergeUpsert
    from pudi.plan.skipping import IndexSource, skip_slices
    from pudi.plan.write import (
        FileTask,
        InsertRoute,
        Operation,
        PartitionTask,
        SortMode,
        WholeLimits,
        WritePlan,
        WriteProfile,
        WriteSpec,
        place,
        place_buckets,
        whole_partitions,
    )

__all__ = [
    "Append",
    "Change",
    "FileTask",
    "IndexSource",
    "InsertRoute",
    "LogOptions",
    "MergeJoin",
    "MergeUpsert",
    "Merging",
    "Operation",
    "PartitionTask",
    "ReadPlan",
    "ReadableTable",
    "Selection",
    "SortMode",
    "WholeLimits",
    "WritePlan",
    "WriteProfile",
    "WriteSpec",
    "place",
    "place_buckets",
    "plan_read",
    "skip_slices",
    "whole_partitions",
]

_SOURCES = {
    "Append": "pudi.plan.log_files",
    "Change": "pudi.plan.row_changes",
    "FileTask": "pudi.plan.write",
    "IndexSource": "pudi.plan.skipping",
    "InsertRoute": "pudi.plan.write",
    "LogOptions": "pudi.plan.log_files",
    "MergeJoin": "pudi.plan.row_changes",
    "MergeUpsert": "pudi.plan.row_changes",
    "Merging": "pudi.plan.log_files",
    "Operation": "pudi.plan.write",
    "PartitionTask": "pudi.plan.write",
    "ReadPlan": "pudi.plan.read",
    "ReadableTable": "pudi.plan.read",
    "Selection": "pudi.plan.read",
    "SortMode": "pudi.plan.write",
    "WholeLimits": "pudi.plan.write",
    "WritePlan": "pudi.plan.write",
    "WriteProfile": "pudi.plan.write",
    "WriteSpec": "pudi.plan.write",
    "place": "pudi.plan.write",
    "place_buckets": "pudi.plan.write",
    "plan_read": "pudi.plan.read",
    "skip_slices": "pudi.plan.skipping",
    "whole_partitions": "pudi.plan.write",
}
"""The module of each name: a Spark worker loads only what its tasks use."""


def __getattr__(name: str) -> Any:
    return load_export(__name__, _SOURCES, name)
