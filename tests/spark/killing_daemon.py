"""PySpark's daemon with a trap: the first worker to finish a file kills its executor (spark.python.daemon.module)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pyspark.daemon

from pudi.engine.spark import tasks
from pudi.task import partition

_write_file = tasks.write_file


def _write_and_die_once(*arguments: Any) -> Any:
    """Write, and be the end of the executor if the file that orders it is there."""
    result = _write_file(*arguments)
    order = Path(os.environ["PUDI_KILL_ORDER"])
    try:
        order.unlink()
    except FileNotFoundError:
        return result
    executor = next(p for p in psutil.Process().parents() if p.name() == "java")
    executor.send_signal(signal.SIGKILL)
    return result


tasks.write_file = partition.write_file = _write_and_die_once

if __name__ == "__main__":
    pyspark.daemon.manager()
