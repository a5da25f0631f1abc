"""One streaming query, written by Hudi's sink and pudi's in turns: each goes on where the other's batches end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.spark.streaming.sink import CHECKPOINT_KEY, QUERY_KEY
from support.hudi import SMALL

pytestmark = [pytest.mark.interop, pytest.mark.spark]

HUDI = {
    **SMALL,
    "hoodie.table.name": "numbers",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}


def test_hudis_sink_and_pudis_take_turns(tmp_path: Path, spark: Any) -> None:
    path, source, checkpoint = tmp_path / "t", str(tmp_path / "in"), tmp_path / "checkpoint"
    stream = spark.readStream.schema("id long, ts long")

    def run(writer: Any) -> None:
        writer = writer.options(**HUDI).option("checkpointLocation", str(checkpoint)).outputMode("append")
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()

    def ids() -> list[int]:
        found = sorted(pudi.Table(path).scan(["id"]).to_arrow()["id"].to_pylist())
        assert sorted(row["id"] for row in spark.read.format("hudi").load(str(path)).collect()) == found
        return found

    for number in range(4):
        spark.range(number * 5, number * 5 + 5, 1, 1).selectExpr("id", "1L AS ts").write.mode("append").parquet(source)
        frame = stream.parquet(source)
        run(frame.writeStream.format("hudi") if number % 2 else pudi.spark.stream_writer(frame))
        assert ids() == list(range(number * 5 + 5))
        (checkpoint / "commits" / str(number)).unlink()  # as if the process had died: the other one gets it again
        (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
        run(pudi.spark.stream_writer(frame) if number % 2 else frame.writeStream.format("hudi"))
        assert ids() == list(range(number * 5 + 5))
    meta = MetaClient.open(str(path), None, {})
    stated = [meta.store.read_commit_metadata(each).extra_metadata for each in meta.store.load().commits]
    assert [json.loads(extra[CHECKPOINT_KEY]) for extra in stated] == [
        {"default_single_writer": str(n)} for n in range(4)
    ]
    assert [QUERY_KEY in extra for extra in stated] == [True, False, True, False]
