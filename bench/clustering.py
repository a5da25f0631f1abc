"""Clustering by two uniform columns beside Apache Hudi: seconds, CPU seconds, and the files that filters then read.

python bench/clustering.py --rows 1000000
python bench/clustering.py --sizing --repeats 9  # only pudi's, by copies and by rewriting
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil
import pyarrow as pa

import pudi
from pudi.format.parquet_chunks import NotMovableError
from pudi.task.cluster import JoinedFiles
from spark import Hudi

COLUMNS, RANGE = ["x", "y"], 1_000_000
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
WRITER = METADATA | {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}


def main() -> None:
    """Let the contestants cluster copies of the same table in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=100, help="files after the clustering")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--sizing", action="store_true", help="only by copies and by rewriting, without Spark")
    given = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        target = str(-(-_write(made, given.rows) // given.files))
        runs: dict[str, Callable[[Path], object]] = {} if given.sizing else _with_spark(target, given.memory)
        runs["pudi, Arrow, sized by copies"] = lambda path: pudi.Table(path, WRITER).cluster()
        runs["pudi, Arrow, sized by rewriting"] = _rewriting
        for number in range(given.repeats + 1):
            turns = list(runs.items())
            start = number * 3 % len(turns)
            for name, run in turns[start:] + turns[:start]:
                path = Path(shutil.copytree(made, Path(folder) / "table" / "made"))
                measured = _measured(run, path)
                if number:  # the first round is for warming up
                    found.setdefault(name, []).append(measured | _skipped(path))
                shutil.rmtree(path)
    medians = {
        name: {key: round(statistics.median(each[key] for each in runs), 3) for key in runs[0]}
        for name, runs in found.items()
    }
    print(json.dumps({"rows": given.rows, "of each": medians}, indent=2))


def _with_spark(target: str, memory: str) -> dict[str, Callable[[Path], object]]:
    spark = Hudi(memory).session
    runs: dict[str, Callable[[Path], object]] = {}
    for layout in ("zorder", "hilbert"):
        runs[f"pudi, Arrow, {layout}"] = _pudi(layout, target, None)
        runs[f"pudi, Spark, {layout}"] = _pudi(layout, target, spark)
        runs[f"Hudi, {layout}"] = _hudi(spark, layout, target)
    runs["Hudi, sized"] = _hudi(spark, "linear", str(1 << 30), ordered=False)
    return runs


def _write(path: Path, rows: int) -> int:
    """Write the table to cluster, in eight files; return its size."""
    chance = np.random.default_rng(7)
    data = pa.table(
        {
            "id": [f"{n:012}" for n in chance.permutation(rows)],
            "x": chance.integers(0, RANGE, rows),
            "y": chance.integers(0, RANGE, rows),
            "n": chance.integers(0, 1 << 40, rows),
            "name": [f"name {n}" for n in chance.integers(0, 50_000, rows)],
            "ts": np.arange(rows),
        }
    )
    pudi.create(path, data.schema, record_key="id", ordering="ts", options=METADATA)
    table = pudi.Table(path, WRITER)
    for first in range(8):
        table.bulk_insert(data.slice(rows * first // 8, rows * (first + 1) // 8 - rows * first // 8))
    return sum(each.base.size for each in table.file_slices() if each.base)


def _pudi(layout: str, target: str, spark: Any) -> Callable[[Path], object]:
    def run(path: Path) -> object:
        return pudi.Table(path, WRITER).cluster(order_by=COLUMNS, layout=layout, spark=spark, options={TARGET: target})

    return run


def _rewriting(path: Path) -> object:
    """Put files together as if their row groups couldn't be copied, by the same codec."""

    def refuse(*_: object) -> None:
        raise NotMovableError("rewritten for comparison")

    with mock.patch.object(JoinedFiles, "of", refuse):
        return pudi.Table(path, WRITER).cluster()


def _hudi(spark: Any, layout: str, target: str, *, ordered: bool = True) -> Callable[[Path], object]:
    told = METADATA | {
        TARGET: target,
        "hoodie.clean.automatic": "false",
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.parquet.bloom.filter.enabled": "false",  # pudi makes none by default, and they'd outweigh small files
    }
    options = ",".join(f"{key}={value}" for key, value in told.items())
    order = f"order => '{','.join(COLUMNS)}', order_strategy => '{layout}', " if ordered else ""

    def run(path: Path) -> object:
        return spark.sql(
            f"CALL run_clustering(path => '{path}', op => 'scheduleAndExecute', {order}options => '{options}')"
        ).collect()

    return run


def _measured(run: Callable[[Path], object], path: Path) -> dict[str, float]:
    before, start = _cpu_seconds(), time.perf_counter()
    run(path)
    return {"seconds": time.perf_counter() - start, "cpu seconds": _cpu_seconds() - before}


def _cpu_seconds() -> float:
    """CPU time of this process, of Spark's JVM and of its Python workers."""
    own = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True)))


def _skipped(path: Path) -> dict[str, float]:
    """Shares of the files that filters read: over a tenth of one column's range, and of both."""
    table = pudi.Table(path)
    files = len(table.file_slices())
    tenth = RANGE // 10
    x, y = (f"{name} >= {n * tenth} AND {name} < {(n + 1) * tenth}" for name, n in (("x", 4), ("y", 7)))
    one = [len(table.scan(where=where).plan.slices) for where in (x, y)]
    both = len(table.scan(where=f"{x} AND {y}").plan.slices)
    return {"files": files, "read for one": statistics.mean(one) / files, "read for both": both / files}


if __name__ == "__main__":
    main()
