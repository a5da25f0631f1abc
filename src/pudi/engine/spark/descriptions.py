"""Names the Spark jobs of an action in Spark's UI: the table, the action, its phase, and what the query is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pudi.context.progress import current_phase

_DESCRIPTION = "spark.job.description"
_LEFT_BY_HUDI = ":"  # Hudi's clearJobStatus names an empty module and an empty activity, whose form is this

_context: ContextVar[Any] = ContextVar("pudi_spark_context", default=None)


def describe_jobs_of(spark: Any) -> None:
    """Describe the jobs that this thread starts in a session.

    Spark Connect has no descriptions of jobs: `SparkSession.addTag` only marks operations, to interrupt them.

    Args:
        spark: the session; of a Connect session nothing is described.
    """
    connect = type(spark).__module__.startswith("pyspark.sql.connect.")
    _context.set(None if connect else getattr(spark, "sparkContext", None))


@contextmanager
def described(table: str, doing: str) -> Iterator[None]:
    """Describe the Spark jobs of a block, unless the user's own description stands.

    Args:
        table: location of the table; empty for that of the phase.
        doing: what the jobs are for.
    """
    context, phase = _context.get(), current_phase()
    if context is None or phase is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    if before is not None and before != _LEFT_BY_HUDI and not before.startswith("pudi: "):
        yield
        return
    name = (table or phase.table).rstrip("/").rpartition("/")[2]
    context.setJobDescription(f"pudi: {phase.action} of {name}, {phase.name}: {doing}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)
