"""Cleans beside real Hudi: both delete the same files, and each runs the other's plan and reads what it left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import Action, State, parse_data_file
from pudi.format.plans import decode_clean_plan
from pudi.timeline import Instant
from support.changes import LOGGED
from support.hudi import HudiTable, table_options
from support.hudi_services import HudiServices
from support.layouts import pairwise
from support.rows import assert_same, from_arrow, from_spark
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

WITH_METADATA = {"hoodie.metadata.enable": "true"}
ALONE = {
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    **WITH_METADATA,
}
POLICIES = {
    "KEEP_LATEST_COMMITS": ("hoodie.clean.commits.retained", "2"),
    "KEEP_LATEST_FILE_VERSIONS": ("hoodie.clean.fileversions.retained", "2"),
}


def _hudi(spark: Any, path: Path, version: int, kind: str, **more: str) -> HudiTable:
    options = table_options("trips", "uuid", "city", "ts", version=version)
    return HudiTable(
        spark,
        path,
        options
        | {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if kind == "mor" else "COPY_ON_WRITE",
            **ALONE,
            **more,
        },
    )


def _written(hudi: HudiTable) -> HudiTable:
    """Commits of both sides."""
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(12)), "overwrite")
    mine = pudi.Table(hudi.path, options=ALONE)
    for ts in range(11, 15):
        rows = table(trip(number, ts) for number in range(0, 12, ts - 9))
        _upsert(hudi if ts % 3 == 0 else mine, rows)
        _compact(hudi)
    hudi.write("insert_overwrite", table(trip(number, 20) for number in range(0, 12, 3)))
    for ts in range(21, 24):
        rows = table([trip(number, ts) for number in range(0, 12, 2)])
        _upsert(hudi if ts % 3 == 0 else mine, rows)
        _compact(hudi)
    return hudi


def _upsert(writer: HudiTable | pudi.Table, rows: pa.Table) -> None:
    if isinstance(writer, pudi.Table):
        writer.upsert(rows)
    else:
        writer.write("upsert", rows)


def _compact(hudi: HudiTable) -> None:
    if hudi.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        assert pudi.Table(hudi.path, options=WITH_METADATA).compact() is not None


def _data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and parse_data_file(file.name) is not None}


def _clean(hudi: HudiTable, options: dict[str, str]) -> None:
    """Have Hudi clean: by an upsert, after which it does."""
    cleaning = {"hoodie.clean.automatic": "true", "hoodie.clean.trigger.max.commits": "1", **options}
    HudiTable(hudi.spark, hudi.path, {**hudi.options, **cleaning}).write("upsert", table([trip(0, 90)]))


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind", "policy"), pairwise([6, 8, 9], ["cow", "mor"], list(POLICIES)))
def test_both_delete_the_same_files(spark: Any, tmp_path: Path, version: int, kind: str, policy: str) -> None:
    hudi = _written(_hudi(spark, tmp_path / "hudi" / "trips", version, kind))
    hudi.write("upsert", table([trip(0, 80)]))
    path = Path(shutil.copytree(hudi.path, tmp_path / "pudi" / "trips"))
    key, value = POLICIES[policy]
    mine = pudi.Table(path, options=WITH_METADATA)
    _clean(hudi, {"hoodie.clean.policy": policy, key: value})
    before = _data_files(path)
    mine.upsert(table([trip(0, 90)]), options={"hoodie.parquet.small.file.limit": "0"})
    assert mine.clean(options={"hoodie.clean.policy": policy, key: value}) is not None
    assert before - _data_files(path) == before - _data_files(hudi.path)
    other = HudiTable(spark, path, hudi.options)
    expected = other.snapshot()
    assert_same(from_arrow(mine.scan().to_arrow()), expected, about="cleaned by pudi")
    assert mine.check().ok, mine.check()
    listed = HudiTable(spark, path, hudi.options).frame(**WITH_METADATA)
    assert listed.count() == len(expected), "Hudi lists by the metadata table that pudi cleaned"
    other.write("upsert", table(trip(number, 99) for number in range(4)))
    assert_same(from_arrow(pudi.Table(path).scan().to_arrow()), other.snapshot(), about="Hudi goes on")
    assert pudi.Table(path).check().ok


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "cow"), (9, "mor")])
def test_hudi_runs_a_plan_of_pudi(spark: Any, tmp_path: Path, version: int, kind: str) -> None:
    hudi = _written(_hudi(spark, tmp_path / "trips", version, kind))
    mine = pudi.Table(hudi.path, options=WITH_METADATA)
    instant = mine.schedule("clean", options={"hoodie.clean.commits.retained": "2"})
    assert instant is not None
    meta = MetaClient.open(mine.path, None, {})
    planned = meta.store.decoded(meta.store.load().find(instant, Action.CLEAN))  # type: ignore[arg-type]
    paths = {each["filePath"] for named in planned["filePathsToBeDeletedPerPartition"].values() for each in named}
    names = {path.rpartition("/")[2] for path in paths}
    assert names <= {name.rpartition("/")[2] for name in _data_files(hudi.path)}
    _clean(hudi, {"hoodie.clean.commits.retained": "2"})
    assert instant in {each.requested for each in mine.timeline.of(Action.CLEAN)}
    assert not names & {name.rpartition("/")[2] for name in _data_files(hudi.path)}
    assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot(), about="cleaned by Hudi")
    assert mine.check().ok


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "kind"), [(9, "cow"), (9, "mor"), (8, "cow"), (6, "cow")])
@pytest.mark.parametrize("planner", ["pudi", "Hudi"])
def test_each_runs_plans_of_the_other_that_name_logged_changes(
    spark: Any, tmp_path: Path, planner: str, version: int, kind: str
) -> None:
    """A clean deletes the files with logged changes of its slices, and both read the changes that are left."""
    few = {"hoodie.clean.commits.retained": "2"}
    hudi = _hudi(spark, tmp_path / "trips", version, kind, **LOGGED)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(6)), "overwrite")
    mine = pudi.Table(hudi.path, options=ALONE)
    for ts in range(11, 17):
        _upsert(hudi if ts % 3 == 0 else mine, table(trip(number, ts) for number in range(6)))
        _compact(hudi)
    services = HudiServices(hudi, few)
    instant = mine.schedule("clean", options=few) if planner == "pudi" else services.schedule("clean")
    (pending,) = mine.timeline.pending
    assert (pending.requested, pending.action) == (instant, Action.CLEAN)
    named = _named_by(mine, pending)
    logged = {name for name in named if name.endswith(".cdc")}
    assert logged, "the plan names files with logged changes"
    before = _all_files(hudi.path)
    assert logged <= {path.rpartition("/")[2] for path in before}
    if planner == "pudi":
        services.run_pending()
    else:
        mine.run_pending()
    assert mine.timeline.pending == ()
    assert {path.rpartition("/")[2] for path in before - _all_files(hudi.path)} == named
    assert_same(from_arrow(mine.scan().to_arrow()), hudi.snapshot(), about="cleaned")
    since = mine.timeline.commits[-2]
    asked = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": since.completion or since.requested,
    }
    changes = from_arrow(mine.changes(since.completion or since.requested, format="cdc").to_arrow())
    assert len(changes) == (6 if kind == "cow" else 0), "the newest commit of a merge-on-read table is a compaction"
    assert_same(from_spark(hudi.frame(**asked)), changes, about="changes")
    assert mine.check().ok, mine.check()


def _named_by(mine: pudi.Table, clean: Instant) -> set[str]:
    meta = MetaClient.open(mine.path, None, {})
    path = meta.store.path(clean, State.REQUESTED)
    files = decode_clean_plan(meta.store.read(clean, State.REQUESTED), path=path).files
    return {file.rpartition("/")[2] for each in files.values() for file in each}


def _all_files(path: Path) -> set[str]:
    """Data files and files with logged changes."""
    files = {str(file.relative_to(path)) for file in path.rglob("*.cdc")}
    return files | _data_files(path)
