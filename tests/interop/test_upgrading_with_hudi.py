"""Tables brought to another version, beside real Hudi's own upgrade of a copy; both sides go on with either."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import decode_table_properties
from support.hudi import HudiTable, hudi_rs_snapshot, table_options
from support.rows import assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

PAIRS = [(old, new) for old in (6, 8, 9) for new in (6, 8, 9) if old != new]
NAMES = {6: "SIX", 8: "EIGHT", 9: "NINE"}
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
ARCHIVE = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
PASSING = {
    "hoodie.table.checksum",
    "hoodie.table.metadata.partitions",  # Hudi drops what pudi makes anew
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
    "hoodie.compaction.record.merger.strategy",  # another name of the strategy id, which Hudi writes twice
    "hoodie.table.initial.version",  # Hudi's downgrade means to remove it, and leaves it
    "hoodie.table.keygenerator.type",
    "hoodie.table.multiple.base.file.formats.enable",
}
PRECOMBINE, ORDERING = "hoodie.table.precombine.field", "hoodie.table.ordering.fields"
"""pudi adds the first beside the second below version 9, for the releases of the table's version."""


def _hudi(spark: Any, path: Path, version: int, kind: str) -> HudiTable:
    options = table_options("trips", "uuid", "city", "ts", version=version)
    named = "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE"
    return HudiTable(spark, path, options | OPTIONS | {"hoodie.datasource.write.table.type": named})


def _properties(path: Path) -> dict[str, str]:
    found = decode_table_properties((path / ".hoodie" / "hoodie.properties").read_bytes())
    passing = PASSING | ({PRECOMBINE} if ORDERING in found and found["hoodie.table.version"] != "9" else set())
    return {key: value for key, value in found.items() if key not in passing}


def _instants(path: Path) -> set[tuple[str, str]]:
    store = MetaClient.open(str(path), None, {}).store
    instants = (*store.archived(), *store.load().instants)
    return {(each.requested, each.action.value) for each in instants if each.is_completed}


def _by_hudi(spark: Any, path: Path, old: int, new: int) -> None:
    name = f"t{abs(hash(str(path)))}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    verb = "upgrade_table" if new > old else "downgrade_table"
    try:
        done = spark.sql(f"CALL {verb}(table => '{name}', to_version => '{NAMES[new]}')").collect()
        assert done[0][0] is True
    finally:
        spark.sql(f"DROP TABLE {name}")


def _written(spark: Any, path: Path, version: int, kind: str) -> HudiTable:
    """A table with writes by both sides, a compaction or clustering, a replaced partition, and archived instants."""
    hudi = _hudi(spark, path, version, kind)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(9)), "overwrite")
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(11, 15):
        mine.upsert(table(trip(number, ts) for number in range(ts % 5, 9)))
    if kind == "mor":
        assert mine.compact() is not None
    else:
        assert mine.cluster(order_by="ts") is not None
    hudi.write("insert_overwrite", table([trip(0, 15), trip(30, 15)]))
    hudi.write("upsert", table(trip(number, 16) for number in range(4)))
    mine.clean(options=ARCHIVE)
    mine.archive(options=ARCHIVE)
    mine.upsert(table(trip(number, 17) for number in range(3, 7)))
    return hudi


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_beside_hudis_own(spark: Any, tmp_path: Path, old: int, new: int, kind: str) -> None:
    _written(spark, tmp_path / "mine", old, kind)
    shutil.copytree(tmp_path / "mine", tmp_path / "theirs")
    before = from_arrow(pudi.Table(tmp_path / "mine").scan(meta_fields=False).to_arrow())
    known = _instants(tmp_path / "mine")
    pudi.Table(tmp_path / "mine", options=OPTIONS).upgrade(new, accept_loss=True)
    _by_hudi(spark, tmp_path / "theirs", old, new)
    got, expected = _properties(tmp_path / "mine"), _properties(tmp_path / "theirs")
    if new == 6:  # where Hudi leaves the payload class out, older releases would take another one
        assert got.pop("hoodie.compaction.payload.class").endswith("DefaultHoodieRecordPayload")
        expected.pop("hoodie.compaction.payload.class", None)
    assert got == expected
    assert known <= _instants(tmp_path / "mine")
    for name in ("mine", "theirs"):
        hudi = _hudi(spark, tmp_path / name, new, kind)
        mine = pudi.Table(tmp_path / name, options=OPTIONS)
        assert_same(from_arrow(mine.scan(meta_fields=False).to_arrow()), before, about=f"{name} read by pudi")
        assert_same(hudi.snapshot(), from_arrow(mine.scan().to_arrow()), about=f"{name} read by Hudi")
        if name == "mine":
            assert_same(hudi_rs_snapshot(tmp_path / name), hudi.snapshot(), about="read by hudi-rs")
            past = () if kind == "mor" and new == 6 else mine.timeline.commits[-2:]  # given up, as accepted
            for commit in past:
                assert_same(
                    hudi.as_of(commit.requested),
                    from_arrow(mine.scan(as_of=commit.requested).to_arrow()),
                    about="as of",
                )
        hudi.write("upsert", table(trip(number, 50) for number in range(0, 12, 2)))
        mine.upsert(table(trip(number, 51) for number in range(0, 12, 3)))
        if kind == "mor":
            mine.compact()
        hudi.write("delete", table(trip(number, 52) for number in range(3)))
        assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot(), about=f"{name}: both go on")
        listed = hudi.frame(**{"hoodie.metadata.enable": "true"}).count()
        assert listed == mine.scan().to_arrow().num_rows, f"{name}: by the metadata table"
        if name == "mine":
            assert mine.check().ok, mine.check()
