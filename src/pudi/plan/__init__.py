"""What to do: reads and writes as pure functions from a table's state and options to plans, which are plain values."""

from pudi.plan.read import ReadPlan, plan_read
from pudi.plan.write import FileTask, InsertRoute, Operation, WritePlan, WriteProfile, WriteSpec, place

__all__ = [
    "FileTask",
    "InsertRoute",
    "Operation",
    "ReadPlan",
    "WritePlan",
    "WriteProfile",
    "WriteSpec",
    "place",
    "plan_read",
]
