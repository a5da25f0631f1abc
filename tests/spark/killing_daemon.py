"""PySpark's daemon with traps (spark.python.daemon.module).

The first worker to finish a file kills its executor, or the first to begin or finish one stops until the write is over.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pyspark.daemon

from pudi.engine.spark import file_tasks
from pudi.task import partition

_write_file = file_tasks.write_file


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


def _write(*arguments: Any) -> Any:
    """Write, and stop before or after it if the file that orders it is there."""
    _stop("before")
    result = _write_and_die_once(*arguments)
    _stop("after")
    return result


def _stop(when: str) -> None:
    """Wait for the end of the write, which comes only if Spark has started another attempt at this task."""
    order, over = (Path(f"{os.environ['PUDI_KILL_ORDER']}-{name}") for name in (when, "over"))
    try:
        order.unlink()
    except FileNotFoundError:
        return
    while not over.exists():
        time.sleep(0.05)


file_tasks.write_file = partition.write_file = _write

if __name__ == "__main__":
    pyspark.daemon.manager()
