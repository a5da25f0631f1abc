"""The cost of table services in a commit when none is due: CPU time and storage calls, compared with no services.

python bench/idle_services.py --turns 31
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from small_table import ROWS, SCHEMA, rows

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage

IDLE = {"hoodie.clean.max.commits": "1000", "hoodie.keep.min.commits": "1000", "hoodie.keep.max.commits": "1001"}
NONE = {"hoodie.table.services.enabled": "false"}
METADATA = {"hoodie.metadata.compact.max.delta.commits": "1000"}


def main() -> None:
    """Write to two tables in turns, one with services that aren't due; say the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    cpu: dict[str, list[float]] = {"idle": [], "none": []}
    calls: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in cpu}
        for path in paths.values():
            pudi.create(path, SCHEMA, record_key="id", ordering="ts", partition_by="part", table_type=given.type)
            pudi.Table(path, NONE | METADATA).bulk_insert(rows(range(ROWS), 1))
        for turn in range(given.turns + 3):
            order = list(paths.items()) if turn % 2 else list(paths.items())[::-1]
            for name, path in order:
                options = METADATA | (IDLE if name == "idle" else NONE)
                table = pudi.Table(path, options)
                began = time.process_time()
                table.upsert(rows([turn % 50], 2 + turn))
                if turn > 2:
                    cpu[name].append(time.process_time() - began)
        for name, path in paths.items():
            options = METADATA | (IDLE if name == "idle" else NONE)
            storage = FaultStorage(open_storage(str(path)))
            pudi.Table.of(MetaClient.open(str(path), None, options, Context(), storage), options).upsert(rows([1], 999))
            calls[name] = storage.calls
    idle, none = (1000 * statistics.median(cpu[name]) for name in ("idle", "none"))
    print(f"{given.type}: {idle:.1f} ms of CPU with services that aren't due, {none:.1f} ms without: {idle / none:.3f}")
    print(f"storage calls of a commit: {calls['idle']} and {calls['none']}")


if __name__ == "__main__":
    main()
