"""What safety from bit rot and from a loss of power costs an upsert of a tenth of the rows.

python bench/durability.py --engine local --rows 1000000 --turns 9
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from trips import SCHEMA, write_trips

import pudi

SYNC = "pudi.write.sync"
WAYS = {"both": (True, True), "checksums alone": (False, True), "neither": (False, False)}
"""Whether commits are synced, and whether pages have checksums that are verified."""
SWITCH = "PUDI_BENCH_UNCHECKED"
"""Variable that names a file: while it is there, pages are neither checked nor given checksums.

pudi has no option for it."""
HOOK = """
import importlib.abc, importlib.util, os, sys

class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "pudi.format.parquet":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            import pyarrow.parquet as real

            class Switched:
                def __getattr__(self, name):
                    return getattr(real, name)

                def ParquetFile(self, *args, page_checksum_verification, **more):
                    return real.ParquetFile(*args, page_checksum_verification=not off(), **more)

                def ParquetWriter(self, *args, write_page_checksum, **more):
                    return real.ParquetWriter(*args, write_page_checksum=not off(), **more)

            module.pq = Switched()

        spec.loader.exec_module = exec_module
        return spec

def off():
    return os.path.exists(os.environ["PUDI_BENCH_UNCHECKED"])

if "PUDI_BENCH_UNCHECKED" in os.environ:
    sys.meta_path.insert(0, Hook())
"""


def main() -> None:
    """Take turns on copies of one table; say the medians and by how much they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--kind", default="cow", help="cow or mor")
    parser.add_argument(
        "--folder", help="where the tables are made: on the disk to be measured; the system's temporary"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        print(json.dumps(measured(given, Path(folder)), indent=2))


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Wall and CPU seconds by way, and what each takes more than the way without both."""
    switch = folder / "unchecked"
    _hook_in(folder / "hook", switch)
    data, made = folder / "data", folder / "made"
    write_trips(data, given.rows)
    read, end = _engine(given.engine)
    settings = {"record_key": "uuid", "partition_by": "city", "ordering": "ts", "table_type": given.kind}
    pudi.create(made, SCHEMA, **settings).bulk_insert(read(data / "trips"))
    wall: dict[str, list[float]] = {way: [] for way in WAYS}
    cpu: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(given.turns + 1):
        ways = list(WAYS.items())
        for way, (sync, checks) in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            switch.unlink(missing_ok=True) if checks else switch.touch()
            _verify_in_spark(checks)
            path = Path(shutil.copytree(made, folder / "table"))
            os.sync()  # what the copy wrote is no part of it
            batch, table = read(data / "upsert_10"), pudi.Table(path, options={SYNC: str(sync).lower()})
            spent, began = _cpu(), time.perf_counter()
            table.upsert(batch)
            if turn:  # the first is for warming up
                wall[way].append(time.perf_counter() - began)
                cpu[way].append(_cpu() - spent)
            shutil.rmtree(path)
    end()
    found = {
        way: {"wall": statistics.median(wall[way]), "cpu": statistics.median(cpu[way]), "all walls": sorted(wall[way])}
        for way in WAYS
    }
    more = {w: {of: found[w][of] / found["neither"][of] - 1 for of in ("wall", "cpu")} for w in WAYS if w != "neither"}
    return {"engine": given.engine, "rows": given.rows, "kind": given.kind, "seconds": found, "more": more}


def _hook_in(folder: Path, switch: Path) -> None:
    """Make this process, and Spark's workers after it, look at the switch wherever they use Parquet."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)
    os.environ[SWITCH] = str(switch)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(folder), str(Path(pudi.__file__).parent.parent), os.environ.get("PYTHONPATH")])
    )
    exec(HOOK, {})
    assert "pudi.format.parquet" not in sys.modules, "it's too late to look at the switch"


def _engine(name: str) -> tuple[Callable[[Path], Any], Callable[[], None]]:
    """What reads a batch, and what ends the engine."""
    if name == "spark":
        from spark import PudiSpark

        session = PudiSpark("3g").session
        return lambda path: session.read.parquet(str(path)), session.stop
    import pyarrow.parquet as pq

    return lambda path: pq.read_table(path).combine_chunks(), lambda: None


def _verify_in_spark(checks: bool) -> None:
    files = sys.modules.get("pudi.engine.spark.files")
    if files is not None:
        options = next(o for o in vars(files).values() if isinstance(o, dict) and CHECK in o)
        options[CHECK] = str(checks).lower()


CHECK = "parquet.page.verify-checksum.enabled"


def _cpu() -> float:
    """Seconds of CPU that this process, and those that it started, have used."""
    own = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (own, *own.children(recursive=True)))


if __name__ == "__main__":
    main()
