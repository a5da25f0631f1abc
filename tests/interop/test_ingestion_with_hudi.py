"""Hudi's own classes find pudi's checkpoints, and ingestion on Spark writes what the local engine does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.ingest import FileSource, Ingestion, TableSource, sql_transform
from support.hudi import HudiTable
from support.rows import assert_same, from_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def put(folder: Path, name: str, first: int, at: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"id": f"k{n}", "ts": n, "city": "nyc" if n % 2 else "sf"} for n in range(first, first + 4)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(folder / name, (at, at))


def checkpoint_by_hudi(spark: Any, path: Path) -> tuple[str, str]:
    """The class and the key of the checkpoint that Hudi finds in the last commit."""
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
    client = (
        jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(str(path)).build()
    )
    timeline = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    metadata = timeline.readCommitMetadata(timeline.lastInstant().get())
    found = jvm.org.apache.hudi.common.table.checkpoint.CheckpointUtils.getCheckpoint(metadata)
    return found.getClass().getSimpleName(), found.getCheckpointKey()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [("6", "StreamerCheckpointV1"), ("9", "StreamerCheckpointV2")])
def test_hudi_finds_the_checkpoint_and_goes_on(spark: Any, tmp_path: Path, version: str, kind: str) -> None:
    put(tmp_path / "src", "a.json", 0, 1000)
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
    made = {"record_key": "id", "ordering": "ts", "schema": schema, "options": {"hoodie.write.table.version": version}}
    seen: list[Any] = []
    job = Ingestion(FileSource(tmp_path / "src", "json"), tmp_path / "t", spark=spark, report=seen.append, **made)
    assert job.run() == 1
    assert checkpoint_by_hudi(spark, tmp_path / "t") == (kind, "1000000")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.write.table.version": version,
    }
    hudi = HudiTable(spark, tmp_path / "t", options)
    hudi.write("upsert", pa.table({"id": ["k0", "h"], "ts": [50, 1], "city": ["la", "la"]}, schema=schema))
    put(tmp_path / "src", "b.json", 2, 2000)
    steps = [sql_transform("SELECT id, ts + 100 AS ts, city FROM <SRC>")]
    again = Ingestion(FileSource(tmp_path / "src", "json"), tmp_path / "t", spark=spark, transforms=steps, **made)
    assert again.run() == 1
    assert checkpoint_by_hudi(spark, tmp_path / "t") == (kind, "2000000")
    rows = from_arrow(pudi.Table(tmp_path / "t").scan().to_arrow())
    assert_same(hudi.snapshot(), rows, about="Hudi")
    assert {row["id"]: row["ts"] for row in rows} == {
        "k0": 50, "h": 1, "k1": 1, "k2": 102, "k3": 103, "k4": 104, "k5": 105,
    }  # fmt: skip
    copy = Ingestion(TableSource(tmp_path / "t"), tmp_path / "copy", record_key="id", ordering="ts", spark=spark)
    assert copy.run() == 1
    found = pudi.Table(tmp_path / "copy").scan(meta_fields=False).to_arrow().sort_by("id")
    assert found == pudi.Table(tmp_path / "t").scan(meta_fields=False).to_arrow().sort_by("id")
    hudi.write("delete", pa.table({"id": ["k0", "k2"], "ts": [99, 99], "city": ["la", "la"]}, schema=schema))
    again = Ingestion(TableSource(tmp_path / "t"), tmp_path / "copy", spark=spark, report=seen.append)
    assert again.run() == 1
    assert json.loads(seen[-1].to_json())["deleted"] == 2
    found = pudi.Table(tmp_path / "copy").scan(meta_fields=False).to_arrow().sort_by("id")
    assert found == pudi.Table(tmp_path / "t").scan(meta_fields=False).to_arrow().sort_by("id")
    assert again.run() == 0
