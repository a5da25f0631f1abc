"""Tables with metadata tables of Hudi's: pudi upserts into each, and all their partitions are in step afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pudi
from support.golden import Golden, tables
from support.metadata import assert_listing, metadata_partitions, timeline_of
from support.rows import assert_same, from_arrow

NOT_WRITTEN = ("cdc", "orc", "nometa", "autokey", *(f"v{version}_" for version in range(6)))
"""Parts of names of tables that aren't written, or elsewhere: those below version 6 must be upgraded first."""
CASES = [each for each in tables("") if not any(part in each.name for part in NOT_WRITTEN)]


@pytest.mark.sampled(21)
@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.name)
def test_an_upsert_keeps_it(golden_folder: Path, tmp_path: Path, golden: Golden) -> None:
    path = Path(shutil.copytree(golden.unpack(golden_folder), tmp_path / golden.name))
    table = pudi.Table(path)
    before = table.scan(meta_fields=False).to_arrow()
    kept = set(table.config.metadata_partitions)
    result = table.upsert(before.slice(0, 3))
    assert result is not None
    assert_same(from_arrow(pudi.Table(path).scan(meta_fields=False).to_arrow()), from_arrow(before))
    assert set(metadata_partitions(path)) == kept
    if kept:
        assert_listing(path)
        assert timeline_of(path / ".hoodie" / "metadata").commit(result.instant) is not None
        assert [
            str(each) for each in pudi.Table(path).check().differences if each.index.startswith("secondary_index_")
        ] == []


def test_keys_are_looked_for_by_bloom_filters(golden_folder: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), tmp_path / "t"))
    table = pudi.Table(path)
    before = table.scan(meta_fields=False).to_arrow()
    key = before["uuid"][0].as_py()
    where = f"uuid IN ('{key}', 'nobody')"
    table.upsert(before.slice(0, 3), options={"hoodie.metadata.index.drop": "record_index,secondary_index_idx_rider"})
    assert "bloom_filters kept" not in table.scan(where=where).explain()  # log files may have keys too
    assert table.scan(where=where, columns=["uuid"]).to_arrow()["uuid"].to_pylist() == [key]
    table.compact()
    scan = table.scan(where=where)
    assert scan.to_arrow()["uuid"].to_pylist() == [key]
    assert "index       bloom_filters kept 1 of" in scan.explain()
    assert table.scan(where="uuid = 'nobody'").to_arrow().num_rows == 0
