"""Tables of version 5 that pudi upgrades: Hudi 1.2, which refuses to upgrade them itself, goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.engines import LocalEngine
from support.golden import Golden
from support.hudi import HudiTable
from support.pudi_table import PudiTable
from support.rows import META_FIELDS, assert_same, from_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compact.inline": "false",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("name", ["v5_mor_basic", "v5_cow_archived"])
def test_hudi_goes_on(spark: Any, tmp_path: Path, name: str, version: int) -> None:
    kind = "MERGE_ON_READ" if "mor" in name else "COPY_ON_WRITE"
    options = OPTIONS | {"hoodie.write.table.version": str(version), "hoodie.datasource.write.table.type": kind}
    mine = Golden(name).unpack(tmp_path / "pudi")
    pudi.Table(mine).upgrade(version)
    hudi = HudiTable(spark, mine, options | {"hoodie.write.auto.upgrade": "false"})
    expected = Golden(name).expected()["snapshot"]["rows"]
    assert_same(hudi.snapshot(), expected, META_FIELDS, "upgraded by pudi, read by Hudi")
    changed = pudi.Table(mine).scan(where="uuid < 'k03'", meta_fields=False).to_arrow()
    newer = changed.set_column(2, "rider", [["hudi"] * changed.num_rows])
    newer = newer.set_column(1, "ts", [[99] * changed.num_rows])
    hudi.write("upsert", newer)
    keys = {row["uuid"] for row in from_arrow(newer)}
    rows = [row for row in expected if row["uuid"] not in keys] + from_arrow(newer)
    assert_same(PudiTable(LocalEngine(), mine).snapshot(), rows, META_FIELDS, "written by Hudi, read by pudi")
    theirs = HudiTable(spark, Golden(name).unpack(tmp_path / "hudi"), options | {"hoodie.write.auto.upgrade": "true"})
    with pytest.raises(Exception, match="Please upgrade table from version 5 to 6 using a Hudi release prior to"):
        theirs.write("upsert", newer)
