"""Log compactions of Hudi's, with a write between plan and run: Hudi 1.2 reads the newer records, in version 6 too.

Readers before 1.0, for which version 6 is there, don't (`tests/golden/test_old_versions.py`): pudi makes none there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pudi
from support.hudi import HudiTable
from support.hudi_services import HudiServices
from support.layouts import Layout
from support.rows import assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

BLOCKS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.log.compaction.enable": "true"}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("merging", ["commit", "event"])
def test_a_write_between_plan_and_run(spark: Any, tmp_path: Path, version: int, merging: str) -> None:
    layout = Layout("simple", "flat", merging, version, "mor")
    options = layout.hudi_options("trips") | {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
    hudi = HudiTable(spark, tmp_path / "trips", options)
    hudi.write("insert", table(trip(n, 1, "first") for n in range(3)), "overwrite")
    hudi.write("upsert", table([trip(0, 2, "second")]))
    hudi.write("upsert", table([trip(0, 3, "third")]))
    services = HudiServices(hudi, BLOCKS)
    assert services.schedule("logcompaction") is not None
    hudi.write("upsert", table([trip(0, 4, "fourth")]))
    services.run_pending()
    [now] = [row["rider"] for row in hudi.snapshot() if row["uuid"] == "k0000"]
    assert now == "fourth"
    assert_same(from_arrow(pudi.Table(hudi.path).scan().to_arrow()), hudi.snapshot())
