"""Tables with metadata tables of Hudi's: pudi upserts into each, and all their partitions are in step afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pudi
from support.golden import Golden, tables
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.rows import assert_same, from_arrow

NOT_WRITTEN = ("cdc", "orc", "nometa", "autokey")
"""Parts of names of tables that aren't written yet, for other reasons than their metadata tables."""
NOT_KEPT = ("secondary_index_", "expr_index_")
CASES = [each for each in tables("") if not any(part in each.name for part in NOT_WRITTEN)]


@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.name)
def test_an_upsert_keeps_it(golden_folder: Path, tmp_path: Path, golden: Golden) -> None:
    path = Path(shutil.copytree(golden.unpack(golden_folder), tmp_path / golden.name))
    table = pudi.Table(path)
    before = table.scan(meta_fields=False).to_arrow()
    kept = set(table.config.metadata_partitions)
    foreign = {name for name in kept if name.startswith(NOT_KEPT)}
    result = table.upsert(before.slice(0, 3), options={"hoodie.metadata.index.drop": ",".join(sorted(foreign))})
    assert result is not None
    assert_same(from_arrow(pudi.Table(path).scan(meta_fields=False).to_arrow()), from_arrow(before))
    assert set(metadata_partitions(path)) == kept - foreign
    if kept:
        assert_listing(path)
        assert timeline_of(path / ".hoodie" / "metadata").commit(result.instant) is not None
