"""Hard deletion in tables that real Hudi wrote: it reads what is left, goes on, and can't read the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.hudi import HudiTable, table_options
from support.rows import assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

WITH_METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_hudi_goes_on(spark: Any, tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "trips"
    options = table_options("trips", "uuid", "city", "ts", version=version) | {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.clean.commits.retained": "2",
        **WITH_METADATA,
    }
    hudi = HudiTable(spark, path, options)
    hudi.write("bulk_insert", table(trip(number, 10, "mallory") for number in range(9)), "overwrite")
    for ts in range(11, 15):
        hudi.write("upsert", table(trip(number, ts, "ann" if number else "mallory") for number in range(0, 9, 2)))
    hudi.write("delete", table([trip(2, 100)]))
    before = sorted(each.requested for each in pudi.Table(path).timeline.commits)
    mine = pudi.Table(path, options=WITH_METADATA)
    done = mine.forget("rider = 'mallory'")
    assert done.ok, str(done)
    assert {row["uuid"] for row in from_arrow(mine.scan().to_arrow())} == {"k0004", "k0006", "k0008"}
    assert mine.check().ok, mine.check()
    other = HudiTable(spark, path, options)
    assert_same(other.snapshot(), from_arrow(mine.scan().to_arrow()), about="Hudi reads what is left")
    assert other.frame(**WITH_METADATA).count() == 3
    assert (
        other.frame(**WITH_METADATA, **{"hoodie.enable.data.skipping": "true"}).where("rider = 'mallory'").count() == 0
    )
    with pytest.raises(Exception, match=r"(?i)clean|earliest|not.*found|does not exist"):
        other.frame(**{"as.of.instant": before[0]}).collect()
    for ts in range(20, 24):
        other.write("upsert", table(trip(number, ts) for number in range(0, 12, 3)))
    again = pudi.Table(path, options=WITH_METADATA)
    assert_same(from_arrow(again.scan().to_arrow()), other.snapshot(), about="Hudi goes on, and cleans")
    assert again.check().ok, again.check()
    assert again.forget("rider = 'mallory'").records == 0
