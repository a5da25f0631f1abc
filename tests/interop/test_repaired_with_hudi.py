"""Hudi on tables whose metadata table pudi made anew: it finds no difference, reads through it and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.damage import forget_a_file, lose_a_key, misplace_a_key, remove
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import assert_listing, metadata_partitions
from support.record_index import assert_record_index
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}
DAMAGES = {
    "forgotten file": forget_a_file,
    "lost keys": lambda path: (lose_a_key(path), misplace_a_key(path)),
    "no metadata table": remove(".hoodie/metadata"),
}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("version", [9, 8])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_hudi_goes_on(tmp_path: Path, spark: Any, kind: str, version: int, damage: str) -> None:
    path = tmp_path / "trips"
    layout = Layout("simple", "plain", "event", version, kind)
    pudi.create(path, SCHEMA, **layout.create_arguments())
    hudi = HudiTable(spark, path, layout.hudi_options("trips") | {"hoodie.compact.inline": "false"} | ON)
    hudi.write("upsert", table([trip(number, 10) for number in range(12)]))
    hudi.write("upsert", table([trip(number, 20) for number in range(3, 9)]))
    assert pudi.Table(path).check().ok
    rows = from_arrow(pudi.Table(path).scan().to_arrow())
    partitions = metadata_partitions(path)
    DAMAGES[damage](path)
    assert not pudi.Table(path).check().ok
    if damage == "forgotten file":
        with pytest.raises(AssertionError):
            assert_hudi_finds_no_difference(spark, path)
    done = pudi.Table(path).repair()
    assert done.ok, str(done)
    assert metadata_partitions(path) == partitions
    assert_hudi_finds_no_difference(spark, path)
    frame = hudi.frame(**{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"})
    assert_same(from_spark(frame), rows, about="Hudi")
    found = from_spark(frame.where("uuid = 'k0003'"))
    assert len(found) == 1
    hudi.write("upsert", table([trip(number, 30) for number in range(0, 15, 2)]))
    assert pudi.Table(path).check().ok
    assert_listing(path)
    assert_record_index(path)
    pudi.Table(path, options=ON).upsert(table([trip(number, 40) for number in range(1, 15, 3)]))
    assert pudi.Table(path).check().ok
    frame = hudi.frame(**{"hoodie.metadata.enable": "true"})
    assert_same(from_spark(frame), from_arrow(pudi.Table(path).scan().to_arrow()), about="Hudi in the end")
