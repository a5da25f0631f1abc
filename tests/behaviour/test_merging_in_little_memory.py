"""Slices whose log files don't fit in memory: the same records, by way of a temporary file, in bounded memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pudi
from pudi.config.read_options import MergeMemory
from pudi.errors import InvalidArgumentError, RefusedError
from support.engines import LocalEngine, SparkEngine
from support.golden import Golden, tables
from support.rows import assert_same, from_arrow

TABLES = [table.name for table in tables("mor_")]
OPTIONS = {"hoodie.metadata.enable": "false", "pudi.compaction.verify": "true"}
ARROW = LocalEngine()


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for some records at once."""
    monkeypatch.setattr(MergeMemory, "share", 2048)


@pytest.mark.parametrize("name", TABLES)
def test_every_read_is_the_same(golden_folder: Path, name: str, request: pytest.FixtureRequest) -> None:
    mine = pudi.Table(Golden(name).unpack(golden_folder))
    columns = mine.schema.names[:2][::-1]
    scans = [mine.scan, lambda: mine.scan(columns=[]), lambda: mine.scan(columns=columns), mine.changes]
    expected = [scan().to_arrow() for scan in scans]
    request.getfixturevalue("little")
    for scan, known in zip(scans, expected, strict=True):
        found = scan().to_arrow()
        assert found.schema == known.schema
        assert found.num_rows == known.num_rows
        assert_same(from_arrow(found), from_arrow(known), about=name)


@pytest.mark.parametrize("name", ["mor_v9_services", "mor_v6_types_avrolog", "mor_v9_delete_marker",
                                  "mor_v9_partial_update", "mor_v9_bucket", "mor_v9_payload_partial"])  # fmt: skip
def test_compactions_write_the_same(golden_folder: Path, tmp_path: Path, name: str, little: None) -> None:
    shutil.copytree(Golden(name).unpack(golden_folder), tmp_path / name)
    mine = pudi.Table(tmp_path / name, OPTIONS)
    before = _without_file(mine)
    if name in {"mor_v9_delete_marker", "mor_v9_bucket"}:
        assert mine.compact(log_compaction=True, options={"hoodie.log.compaction.blocks.threshold": "1"}) is not None
        assert_same(_without_file(mine), before, about="logs compacted")
    done = mine.compact()
    assert done is not None
    assert_same(_without_file(mine), before, about="compacted")
    assert_same(_without_file(mine, read_optimized=True), before, about="read-optimized")
    keys = pa.table({name: mine.scan().to_arrow()[name] for name in mine.schema.names})
    assert mine.upsert(keys) is not None, "the new file's bloom filter and key range find its keys"
    assert mine.scan().to_arrow().num_rows == len(before)


def _without_file(mine: pudi.Table, **scan: Any) -> Any:
    return [{k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in ARROW.read(mine.scan(**scan))]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_lays_over_the_same(spark: Any, tmp_path: Path) -> None:
    mine = _table(tmp_path / "t", rows=20_000, options={"hoodie.memory.merge.max.size": str(1 << 20)})
    mine.upsert(_rows(range(500, 20_000), "newer"))
    mine.delete(_rows(range(0, 500), "").select(["k"]))
    found = SparkEngine(spark).read(mine.scan(columns=["k", "text"]))
    assert_same(found, [{"k": f"k{n:07d}", "text": f"newer {n}"} for n in range(500, 20_000)])


def test_large_base_files_are_merged_some_row_groups_after_the_others(tmp_path: Path, little: None) -> None:
    mine = _table(tmp_path / "t", rows=20_000, options={"hoodie.parquet.block.size": "65536"})
    mine.upsert(_rows(range(19_990, 20_000), "newer"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MergeMemory, "share", 64 << 10)
        found = mine.scan(columns=["k", "text"]).to_arrow()
    assert found["k"].to_pylist() == [f"k{n:07d}" for n in range(20_000)], "in the order of the base file"
    assert found["text"].to_pylist()[19_989:19_992] == ["first 19989", "newer 19990", "newer 19991"]


def _rows(numbers: range, text: str) -> pa.Table:
    keys = [f"k{n:07d}" for n in numbers]
    return pa.table({"k": keys, "ts": pa.array(list(numbers), pa.int64()), "text": [f"{text} {n}" for n in numbers]})


def _table(path: Path, rows: int, options: dict[str, str]) -> pudi.Table:
    first = _rows(range(rows), "first")
    pudi.create(path, first.schema, record_key="k", ordering="ts", table_type="mor")
    mine = pudi.Table(path, options={"hoodie.parquet.small.file.limit": "0", **options})
    mine.insert(first)
    return mine


def test_what_is_wrong_with_memory_options_is_said(tmp_path: Path) -> None:
    mine = _table(tmp_path / "t", rows=3000, options={})
    with pytest.raises(InvalidArgumentError, match="a whole number"):
        pudi.Table(mine.path, options={"hoodie.memory.merge.max.size": "10M"})
    mine.upsert(_rows(range(3000), "x" * 400))
    nowhere = {"hoodie.memory.merge.max.size": str(1 << 20), "hoodie.memory.spillable.map.path": str(tmp_path / "no")}
    with pytest.raises(RefusedError, match=r"hoodie\.memory\.spillable\.map\.path"):
        pudi.Table(mine.path, options=nowhere).scan().to_arrow()


@pytest.mark.parametrize("limit", ["1", "0", "-1"])
def test_any_number_of_bytes_is_taken(tmp_path: Path, limit: str) -> None:
    sizes = {"hoodie.memory.merge.max.size": limit, "hoodie.memory.compaction.max.size": limit}
    mine = _table(tmp_path / "t", rows=3000, options=sizes)
    mine.upsert(_rows(range(100), "new"))
    for _ in range(2):
        texts = mine.scan(columns=["text"]).to_arrow()["text"].to_pylist()
        assert sorted(text.partition(" ")[0] for text in texts) == ["first"] * 2900 + ["new"] * 100
        mine.compact()


LIMIT = 16 << 20

MEASURE = """
import resource, sys
import pyarrow as pa
import pudi, pudi.engine.local, pudi.filegroup

def anonymous():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) << 10

path, what, limit = sys.argv[1], sys.argv[2], sys.argv[3]
table = pudi.Table(path, options={"hoodie.memory.merge.max.size": limit, "hoodie.metadata.enable": "false"})
rows, before, most = 0, anonymous(), 0
if what == "compact":
    done = table.compact()
    rows = done.records_inserted + done.records_updated
else:
    for batch in table.scan().to_batches():
        rows += batch.num_rows
        most = max(most, anonymous())
        del batch
print(rows, pa.default_memory_pool().max_memory(), max(most, anonymous()) - before)
"""


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one file group without base file, whose logs take ten times `LIMIT` in memory."""
    path = tmp_path_factory.mktemp("heavy") / "t"
    chance = np.random.default_rng(7)
    schema = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    pudi.create(path, schema, record_key="k", ordering="ts", table_type="mor", options=options)
    mine = pudi.Table(path, options={**options, "hoodie.logfile.data.block.max.size": str(1 << 20)})
    taken = 0
    while taken < 10 * LIMIT:
        numbers = chance.choice(400_000, 60_000, replace=False)
        texts = pa.array([f"{n:0400d}" for n in numbers])
        rows = pa.table({"k": [f"k{n}" for n in numbers], "ts": pa.array(numbers), "text": texts}, schema=schema)
        taken += rows.nbytes
        mine.upsert(rows)
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["read", "compact"])
def test_memory_is_bounded(heavy: Path, tmp_path: Path, what: str) -> None:
    shutil.copytree(heavy, tmp_path / "t")
    ran = [sys.executable, "-c", MEASURE, str(tmp_path / "t"), what, str(LIMIT)]
    rows, arrow, process = map(int, subprocess.run(ran, capture_output=True, text=True, check=True).stdout.split())
    assert rows > 150_000
    assert arrow < LIMIT + (8 << 20), "what Arrow held at most: the bound, a block and a row group"
    assert process < LIMIT + (80 << 20), "with what allocators keep: in one piece it takes three times as much"
