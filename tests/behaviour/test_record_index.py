"""Tables with a record index: after every verb it's what a full scan finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from support.engines import LocalEngine
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions
from support.pudi_table import PudiTable
from support.record_index import assert_record_index
from support.rows import PLACE_FIELDS, assert_same, from_arrow
from support.trips import REPLACING, SCHEMA, steps

METADATA = {"hoodie.metadata.enable": "true"}
GLOBAL = {**METADATA, "hoodie.metadata.global.record.level.index.enable": "true"}
BY_PARTITION = {**METADATA, "hoodie.metadata.record.level.index.enable": "true"}
VERBS = ("insert", "upsert", "upsert", "delete", *REPLACING)

LAYOUTS = [Layout("simple", "plain", "event", version, kind) for version in (6, 8, 9) for kind in ("cow", "mor")] + [
    Layout("simple", "flat", "event", 9),
    Layout("complex", "hive", "commit", 9, "mor"),
]


def _verbs(layout: Layout) -> tuple[str, ...]:
    return VERBS[:4] if layout.folders == "flat" else VERBS


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.version > 6], ids=str)
def test_every_verb_keeps_one_by_partition(tmp_path: Path, layout: Layout) -> None:
    made, model = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, BY_PARTITION), layout.model()
    for step in steps(7, 9, _verbs(layout)):
        getattr(model, step.verb)(from_arrow(step.data), *made.write(step.verb, step.data))
        assert metadata_partitions(made.path) == ["files", "record_index"]
        assert_record_index(made.path, partitioned=True)
        assert_listing(made.path)
        assert_same(made.snapshot(), model.snapshot(), PLACE_FIELDS, f"after {step.verb}")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_verb_keeps_one_over_the_table(tmp_path: Path, layout: Layout) -> None:
    options = {**GLOBAL, "hoodie.index.type": "GLOBAL_SIMPLE"}
    made = PudiTable.create(LocalEngine(), tmp_path / "trips", SCHEMA, layout, options)
    for step in steps(8, 10, ("upsert", "upsert", "delete", "insert_overwrite_table")):
        getattr(made.table, step.verb)(step.data)
        assert metadata_partitions(made.path) == ["files", "record_index"]
        assert_record_index(made.path)
        assert_listing(made.path)
