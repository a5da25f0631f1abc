"""Make sure, before any work, that a session's Python workers can run pudi's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pudi.engine.spark.session import check_session, in_workers, spark_errors
from pudi.errors import SetupError
from pudi.version import __version__

_APPLICATION = "spark.app.id"

_ready: set[str] = set()
"""Applications whose workers have answered."""


@dataclass(frozen=True, slots=True)
class _Greeting:
    """A task that tells which pudi its worker runs. To load it, a worker needs pudi and what pudi needs."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer once."""
        for _ in batches:
            yield pa.record_batch([pa.array([__version__])], names=["version"])


def check_workers(spark: Any, table: str) -> None:
    """Run a task of one row, once in an application.

    Args:
        spark: the session.
        table: location of the table, for errors.

    Raises:
        SetupError: workers run another Python than the driver, or lack pudi or what it needs, or have another pudi.
        UnavailableError: Spark can't run the task.
    """
    check_session(spark)
    application = str(spark.conf.get(_APPLICATION, ""))
    if application and application in _ready:
        return
    with spark_errors(table, "starting a Python worker"):
        rows = in_workers(spark.range(0, 1, 1, 1), _Greeting().run, "version STRING").collect()
    versions = {row[0] for row in rows} - {__version__}
    if versions:
        raise SetupError(
            f"the driver runs pudi {__version__} and Spark's workers pudi {', '.join(sorted(versions))}: install the "
            "same version on every node",
            table=table,
        )
    _ready.add(application)
