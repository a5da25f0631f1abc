"""The worked examples of Hudi's document on record mergers, in each version and both types of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.mergers_document import EXAMPLES, MODELS, SCHEMA, TWICE, batch, found


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("payload", EXAMPLES)
def test_worked_examples(tmp_path: Path, payload: str, version: int, kind: str) -> None:
    stored, incoming, stands, of_two = EXAMPLES[payload]
    options = {"hoodie.datasource.write.payload.class": MODELS + payload, "hoodie.write.table.version": str(version)}
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type=kind, options=options)
    made.upsert(batch(stored))
    made.upsert(batch(incoming, *TWICE))
    assert found(made.scan().to_arrow().to_pylist()) == [stands, of_two]
    if kind == "mor":
        made.compact()
        assert found(made.scan().to_arrow().to_pylist()) == [stands, of_two]
