"""Hudi's rarer options of cleaning beside real Hudi: both leave the same files, and each goes on after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import Action, parse_data_file
from support.hudi import HudiTable, table_options
from support.layouts import pairwise
from support.rows import assert_same, from_arrow
from support.trips import table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark]

WITH_METADATA = {"hoodie.metadata.enable": "true"}
WRITING = {**WITH_METADATA, "hoodie.parquet.small.file.limit": "0", "hoodie.archive.automatic": "false"}
AFTER = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "2"}
SOME = {"hoodie.clean.incremental.enabled": "false"}
CHOICES = {
    "so many commits": {**AFTER, "hoodie.clean.max.commits.to.clean": "2"},
    "selected": {**AFTER, **SOME, "hoodie.clean.partition.filter.selected": "nyc,elsewhere"},
    "regex": {**AFTER, **SOME, "hoodie.clean.partition.filter.regex": "c.*|s.*"},
    "before a write": {
        "hoodie.clean.automatic": "false",
        "hoodie.clean.commits.retained": "2",
        "hoodie.prewrite.cleaner.policy": "CLEAN",
    },
}
LAYOUTS = [(6, "cow"), (6, "mor"), (8, "cow"), (9, "cow"), (9, "mor")]


def made(spark: Any, path: Path, layout: tuple[int, str]) -> HudiTable:
    version, kind = layout
    options = table_options("trips", "uuid", "city", "ts", version=version)
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind]
    off = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
    return HudiTable(spark, path, {**options, **WRITING, **off, "hoodie.datasource.write.table.type": kind})


def upsert(hudi: HudiTable, ts: int, **options: str) -> None:
    """One commit of Hudi that leaves older slices, by a compaction in a merge-on-read table."""
    replace(hudi, options={**hudi.options, **options}).write("upsert", table(trip(number, ts) for number in range(6)))
    compact(hudi.path)


def compact(path: Path) -> None:
    mine = pudi.Table(path, options=WITH_METADATA)
    if mine.config.table_type == "MERGE_ON_READ":
        assert mine.compact() is not None


def upsert_by_pudi(path: Path, ts: int, **options: str) -> None:
    done = pudi.Table(path, options={**WRITING, **options}).upsert(table(trip(number, ts) for number in range(6)))
    assert done is not None
    assert not done.failed_services
    compact(path)


def data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and parse_data_file(file.name) is not None}


def cleans(path: Path) -> list[dict[str, Any]]:
    meta = MetaClient.open(str(path), None, {})
    return [meta.store.decoded(each) for each in meta.store.load().of(Action.CLEAN)]


def assert_agree(hudi: HudiTable, about: str) -> None:
    mine = pudi.Table(hudi.path, options=WITH_METADATA)
    rows = from_arrow(mine.scan().to_arrow())
    assert_same(rows, hudi.snapshot(), about=about)
    assert replace(hudi).frame(**WITH_METADATA).count() == len(rows), "by the metadata table"
    assert mine.check().ok, mine.check()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("choice", "layout"), pairwise(list(CHOICES), LAYOUTS))
def test_both_leave_the_same_files(spark: Any, tmp_path: Path, choice: str, layout: tuple[int, str]) -> None:
    hudi = made(spark, tmp_path / "hudi" / "trips", layout)
    hudi.write("bulk_insert", table(trip(number, 10) for number in range(6)), "overwrite")
    for ts in range(11, 14):
        upsert(hudi, ts)
    upsert(hudi, 14, **AFTER)
    for ts in range(15, 18):
        upsert(hudi, ts)
    other = replace(hudi, path=Path(shutil.copytree(hudi.path, tmp_path / "pudi" / "trips")))
    before, options = data_files(hudi.path), CHOICES[choice]
    for ts in (20, 21):
        upsert(hudi, ts, **options)
        upsert_by_pudi(other.path, ts, **options)
        deleted = [before - data_files(each.path) for each in (hudi, other)]
        assert deleted[1] == deleted[0]
        assert deleted[0], "there was something to delete"
    assert [len(cleans(each.path)) for each in (hudi, other)] == [3, 3]
    for each in (hudi, other):
        assert_agree(each, f"cleaned by {each.path.parent.name}")
    upsert(other, 22, **AFTER)
    upsert_by_pudi(hudi.path, 22, **AFTER)
    for each in (hudi, other):
        assert_agree(each, f"cleaned by {each.path.parent.name}, and then by the other one")
    if choice in {"so many commits", "before a write"}:
        assert len(data_files(other.path)) == len(data_files(hudi.path)) < len(before)


def insert(hudi: HudiTable, number: int, **options: str) -> None:
    replace(hudi, options={**hudi.options, **options}).write("bulk_insert", table([trip(number, 1)]))


def insert_by_pudi(hudi: HudiTable, number: int, **options: str) -> None:
    done = pudi.Table(hudi.path, options={**WRITING, **options}).bulk_insert(table([trip(number, 1)]))
    assert done is not None
    assert not done.failed_services


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("first", ["hudi", "pudi"])
def test_cleans_without_files(spark: Any, tmp_path: Path, layout: tuple[int, str], first: str) -> None:
    writers: dict[str, Callable[..., None]] = {"hudi": insert, "pudi": insert_by_pudi}
    hudi = made(spark, tmp_path / "trips", layout)
    hudi.write("bulk_insert", table([trip(0, 1)]), "overwrite")
    empty = {**AFTER, "hoodie.write.empty.clean.interval.hours": "24"}
    for number in range(1, 4):
        writers[first](hudi, number, **empty)
    [clean] = cleans(hudi.path)
    commits = [each.requested for each in pudi.Table(hudi.path).timeline.commits]
    assert clean["totalFilesDeleted"] == 0
    assert clean["earliestCommitToRetain"] == commits[1]
    assert clean["lastCompletedCommitTimestamp"] == commits[2]
    other = "pudi" if first == "hudi" else "hudi"
    writers[other](hudi, 4, **empty)
    assert len(cleans(hudi.path)) == 1, "the other one's counts"
    for ts in (2, 3, 4):
        upsert(hudi, ts)
    before = data_files(hudi.path)
    {"hudi": upsert, "pudi": lambda table, ts, **options: upsert_by_pudi(table.path, ts, **options)}[other](
        hudi, 5, **empty
    )
    assert before - data_files(hudi.path), "then there was something to delete"
    assert_agree(hudi, f"cleaned without files by {first}, then by {other}")
