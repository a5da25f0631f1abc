"""What to do: reads and writes as pure functions from a table's state and options to plans, which are plain values."""

from pudi.plan.buckets import bucket_name, place_buckets
from pudi.plan.read import ReadPlan, plan_read
from pudi.plan.write import (
    FileTask,
    InsertRoute,
    Operation,
    PartitionTask,
    WholeLimits,
    WritePlan,
    WriteProfile,
    WriteSpec,
    place,
    whole_partitions,
)

__all__ = [
    "FileTask",
    "InsertRoute",
    "Operation",
    "PartitionTask",
    "ReadPlan",
    "WholeLimits",
    "WritePlan",
    "WriteProfile",
    "WriteSpec",
    "bucket_name",
    "place",
    "place_buckets",
    "plan_read",
    "whole_partitions",
]
