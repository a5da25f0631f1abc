"""The examples of the guides that need Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi

pytest.importorskip("typer", reason="the environment of Spark 4 has none")

from support.guides import blocks, run_page

pytestmark = [pytest.mark.spark, pytest.mark.metadata_by_default]


def test_coming_from_a_hudi_job(tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("from-hudi.md", capsys, {"path": str(tmp_path / "trips")})


def test_reading_and_writing_in_a_bucket(tmp_path: Path, spark: Any) -> None:
    rows = spark.range(3).selectExpr("id", "'rome' AS city", "id * 1.5D AS fare", "id AS ts")
    hudi = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "city"}
    pudi.spark.write(rows).options(**hudi).mode("append").save(str(tmp_path / "trips"))
    rows.selectExpr("id + 2 AS id", "city", "fare", "ts").write.parquet(str(tmp_path / "new-trips"))
    scope = {"pudi": pudi, "spark": spark, "hudi": {}}
    readme = [block for block in blocks("../README.md", "python") if "s3a://" in block]
    for block in (*blocks("writing.md", "py"), *blocks("reading.md", "py"), *readme):
        exec(block.replace("s3a://bucket", str(tmp_path)).replace("s3://bucket", str(tmp_path)), scope)
    written = {0: 0.0, 1: 3.0, 2: 0.0, 3: 1.5, 4: 3.0}  # the update doubled 0 to 2, the README's upsert brought 2 to 4
    assert {row["id"]: row["fare"] for row in pudi.Table(tmp_path / "rome").scan().to_arrow().to_pylist()} == written
