"""The worked examples of Hudi's document on record mergers beside Hudi itself: where the two differ, Hudi is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.hudi import HudiTable
from support.mergers_document import EXAMPLES, MODELS, TWICE, batch, found

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("payload", EXAMPLES)
def test_worked_examples(spark: Any, tmp_path: Path, payload: str, version: int, kind: str) -> None:
    stored, incoming, stands, of_two = EXAMPLES[payload]
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.payload.class": MODELS + payload,
    }
    hudi = HudiTable(spark, tmp_path / "t", options)
    hudi.write("upsert", batch(stored), "overwrite")
    hudi.write("upsert", batch(incoming, *TWICE))
    assert found(hudi.snapshot()) == [stands, of_two]
    assert found(pudi.Table(hudi.path).scan().to_arrow().to_pylist()) == [stands, of_two]
