"""What to do: reads and writes as pure functions from a table's state and options to plans, which are plain values."""

from pudi.plan.append import Append, LogOptions
from pudi.plan.buckets import place_buckets
from pudi.plan.change import Change
from pudi.plan.merge import MergeJoin
from pudi.plan.merging import Merging
from pudi.plan.read import ReadPlan, plan_read
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
    "Merging",
    "Operation",
    "PartitionTask",
    "ReadPlan",
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
