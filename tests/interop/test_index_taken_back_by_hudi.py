"""Hudi's CREATE INDEX right behind another index takes that one back: pudi notices, reads right, and mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from interop.test_named_indexes_with_hudi import LAYOUTS, ON, create_index_by_hudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.metadata import records
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SLOW = pytest.mark.slow
NEWEST = [each for each in LAYOUTS if each.version == 9]  # in version 8 Hudi doesn't


@pytest.mark.slow
@pytest.mark.parametrize("layout", [NEWEST[0], pytest.param(NEWEST[1], marks=SLOW)], ids=str)
@pytest.mark.parametrize("lost", ["secondary_index_rider", pytest.param("record_index", marks=SLOW)])
def test_reads_are_right_until_the_next_write_mends_it(spark: Any, tmp_path: Path, layout: Layout, lost: str) -> None:
    path = tmp_path / "trips"
    PudiTable.create(LocalEngine(), path, SCHEMA, layout)
    trips, hudi = pudi.Table(path), HudiTable(spark, path, layout.hudi_options("trips") | ON)
    trips.bulk_insert(table(trip(n, n) for n in range(30)))
    trips.create_index("record_index")
    if lost != "record_index":
        trips.create_index("secondary_index", "rider")
    create_index_by_hudi(spark, path, "other", "city")
    assert not records(path, lost)
    for written in (False, True):
        if written:
            hudi.write("upsert", table(trip(n, 200 + n, "cid") for n in (1, 3, 5, 41)))
            assert 0 < len(records(path, lost)) < 30
        for where in ("rider = 'ann'", "rider = 'cid'", *(f"uuid = '{trip(n, n)['uuid']}'" for n in (0, 1, 29))):
            found = pudi.Table(path).scan(where=where)
            assert_same(from_arrow(found.to_arrow()), from_spark(hudi.frame().where(where)), about=where)
            assert f"{lost} kept" not in found.explain()
    pudi.Table(path).upsert(table(trip(n, 300 + n, "bob") for n in (0, 1, 5, 40)))
    assert len(records(path, lost)) == 32
    assert pudi.Table(path).check().ok
    column, value = ("rider", "bob") if lost != "record_index" else ("uuid", trip(7, 7)["uuid"])
    where = f"{column} = '{value}'"
    full = from_spark(hudi.frame().where(where))
    by_hudi = hudi.frame(**ON, **{"hoodie.enable.data.skipping": "true"}).where(where)
    assert_same(from_spark(by_hudi), full, about="by Hudi once it's mended")
    assert_hudi_finds_no_difference(spark, path)
