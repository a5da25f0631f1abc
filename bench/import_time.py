"""CPU time of pudi before any work: imports, a small scan, an upsert, the command's help, a Spark worker.

    python bench/import_time.py --runs 9

Each is a process of its own, in turns, and what counts is its CPU time (user and system), the median of the runs. A
bare Python and `import pyarrow`, which pudi can't do without, stand beside it. Where pandas is installed, pyarrow loads
it with the first value that it converts: that's in the scan and the upsert.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAKE = """
import pudi, pyarrow as pa
rows = pa.table({{"key": [f"k{{n}}" for n in range(1000)], "value": list(range(1000))}})
pudi.create({path!r}, rows.schema, record_key="key").bulk_insert(rows)
"""
WAYS = {
    "python": "pass",
    "import pyarrow": "import pyarrow",
    "import pyarrow, .compute, .parquet": "import pyarrow.compute, pyarrow.parquet",
    "import pudi": "import pudi",
    "import pudi; pudi.Table": "import pudi; pudi.Table",
    "import pudi.spark": "import pudi.spark",
    "a Spark worker's tasks": "import pudi.engine.spark.file_tasks",
    "a scan": "import pudi; pudi.Table({path!r}).scan().to_arrow()",
    "a scan with where": "import pudi; pudi.Table({path!r}).scan(where='value < 10').to_arrow()",
    "an upsert": (
        "import pudi, pyarrow as pa; "
        "pudi.Table({path!r}).upsert(pa.table({{'key': ['k1'], 'value': pa.array([7], pa.int64())}}))"
    ),
    "pudi --help": None,
}
"""By name the code of a process; None for the command."""


def cpu_seconds(code: str | None) -> float:
    command = [sys.executable, "-m", "pudi.cli", "--help"] if code is None else [sys.executable, "-c", code]
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "table")
        cpu_seconds(MAKE.format(path=path))
        ways = {name: None if code is None else code.format(path=path) for name, code in WAYS.items()}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(runs):
            for name, code in ways.items():
                taken[name].append(cpu_seconds(code))
    print(f"{'CPU seconds':36} median   least")
    for name, seconds in taken.items():
        print(f"{name:36} {statistics.median(seconds):6.3f}  {min(seconds):6.3f}")


if __name__ == "__main__":
    main()
