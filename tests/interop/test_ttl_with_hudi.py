"""Partition TTL beside real Hudi: both delete the same partitions, and each goes on after the other."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.context.clock import ManualClock
from pudi.format import Action
from pudi.storage import open_storage
from support.hudi import SMALL, HudiTable, table_options
from support.layouts import Layout, pairwise
from support.rows import META_FIELDS, assert_same, from_arrow
from support.spark import to_frame
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

DAY_MS = 24 * 3600 * 1000
WITH_METADATA = {"hoodie.metadata.enable": "true"}
PREFIX = "hoodie.partition.ttl."
DAYS, INLINE = f"{PREFIX}strategy.days.retain", f"{PREFIX}inline"
TYPE, SELECTED = f"{PREFIX}management.strategy.type", f"{PREFIX}strategy.partition.selected"


def _written(path: Path, version: int, kind: str) -> pudi.Table:
    """A table of which partition d30 was written 30 days ago, and so on; d30x again 10 days ago."""
    pudi.create(path, SCHEMA, **_arguments(version, kind))
    options = WITH_METADATA | {"hoodie.parquet.small.file.limit": "0", "hoodie.archive.automatic": "false"}
    for days, cities in ((30, ("d30", "d30x")), (19, ("d19",)), (10, ("d30x", "d10")), (2, ("d2",))):
        clock = ManualClock(time.time_ns() // 1_000_000 - days * DAY_MS)
        client = MetaClient.open(str(path), None, options, Context(clock=clock), open_storage(str(path)))
        mine = pudi.Table.of(client, options)
        mine.upsert(table(trip(1000 * len(city) + int(city.strip("dx")), days, city=city) for city in cities))
        if kind == "mor":
            mine.compact(options={"hoodie.compact.inline.max.delta.commits": "1"})
    return pudi.Table(path, options=options)


def _arguments(version: int, kind: str) -> dict[str, Any]:
    options = {**WITH_METADATA, "hoodie.write.table.version": str(version)}
    return {**Layout(version=version, kind=kind).create_arguments(), "options": options}


def _hudi(spark: Any, path: Path, version: int, kind: str, **more: str) -> HudiTable:
    options = table_options("trips", "uuid", "city", "ts", version=version) | {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "true",  # without any other service inline, Hudi leaves out partition TTL too
        **WITH_METADATA,
    }
    return HudiTable(spark, path, options | more)


def _upsert(hudi: HudiTable, data: pa.Table) -> None:
    """Have Hudi write, and then delete what is due: two commits."""
    options = {**SMALL, **hudi.options, "hoodie.datasource.write.operation": "upsert"}
    to_frame(hudi.spark, data).coalesce(1).write.format("hudi").options(**options).mode("append").save(str(hudi.path))


RULES = {
    "written": {DAYS: "15"},
    "created": {DAYS: "15", TYPE: "KEEP_BY_CREATION_TIME"},
    "selected": {DAYS: "1", SELECTED: "d10,d2"},
    "longest": {DAYS: "24"},
}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind", "named"), pairwise([6, 8, 9], ["cow", "mor"], list(RULES)))
def test_both_delete_the_same_partitions(spark: Any, tmp_path: Path, version: int, kind: str, named: str) -> None:
    rule = RULES[named]
    mine = _written(tmp_path / "pudi" / "trips", version, kind)
    theirs = Path(shutil.copytree(tmp_path / "pudi" / "trips", tmp_path / "hudi" / "trips"))
    new = table([trip(7777, 50, city="now")])
    hudi = _hudi(spark, theirs, version, kind, **{INLINE: "true"}, **rule)
    _upsert(hudi, new)
    done = mine.upsert(new, options={INLINE: "true", **rule})
    assert done is not None
    assert not done.failed_services
    expected = hudi.snapshot()
    assert_same(from_arrow(mine.scan().to_arrow()), expected, META_FIELDS, about="deleted by pudi, and by Hudi")
    assert len(expected) < 6
    other = _hudi(spark, Path(mine.path), version, kind)
    assert_same(other.snapshot(), expected, META_FIELDS, about="Hudi reads what pudi left")
    assert other.frame(**WITH_METADATA).count() == len(expected)
    assert mine.check().ok
    by_hudi = pudi.Table(theirs, options=WITH_METADATA)
    assert_same(from_arrow(by_hudi.scan().to_arrow()), expected, about="pudi reads what Hudi left")
    assert by_hudi.check().ok
    assert by_hudi.run_ttl(options=rule) is None, "nothing is left to do"
    said = [_replaced(by_hudi), _replaced(mine)]
    assert said[0] == said[1]
    for path in (theirs, Path(mine.path)):
        _hudi(spark, path, version, kind).write("upsert", table([trip(8888, 60, city="d30")]))
        again = pudi.Table(path)
        assert len(from_arrow(again.scan().to_arrow())) == len(expected) + 1
        assert again.check().ok


def _replaced(of: pudi.Table) -> list[Any]:
    commits = [of._meta.store.read_commit_metadata(each) for each in of.timeline.of(Action.REPLACECOMMIT)]
    return [(each.operation_type, each.partition_to_replace_file_ids) for each in commits]


@pytest.mark.slow
def test_where_hudi_deletes_young_partitions(spark: Any, tmp_path: Path) -> None:
    """Its days overflow above 24, and it doesn't see log files."""
    path = tmp_path / "trips"
    mine = _written(path, 9, "mor")
    mine.upsert(table([trip(4030, 90, city="d30x")]))  # a log file
    assert mine.run_ttl(options={DAYS: "50"}) is None
    assert mine.run_ttl(options={DAYS: "5", SELECTED: "d30x"}) is None
    hudi = _hudi(spark, path, 9, "mor", **{INLINE: "true", DAYS: "50", SELECTED: "d2"})
    _upsert(hudi, table([trip(7777, 50, city="now")]))
    assert "d2" not in {row["city"] for row in hudi.snapshot()}, "50 days are 7 hours in Hudi"
    hudi = _hudi(spark, path, 9, "mor", **{INLINE: "true", DAYS: "5", SELECTED: "d30x"})
    _upsert(hudi, table([trip(7777, 51, city="now")]))
    assert "d30x" not in {row["city"] for row in hudi.snapshot()}, "written a moment ago"
    assert mine.check().ok
