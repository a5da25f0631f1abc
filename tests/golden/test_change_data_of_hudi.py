"""Change data of Hudi's tables: every CDC query that Hudi answered, and the same with images as structs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.golden import Golden, tables
from support.rows import Row, assert_same, from_arrow, from_spark

TABLES = [table for table in tables("") if "_cdc_" in table.name]
WITH_IMAGES = {"cow_v8_cdc_data_before_after", "cow_v9_cdc_data_before_after"}
"""Copy-on-write tables whose change files say all, so that changes can be read without the slices before."""
QUERIES = [
    pytest.param(table, query, id=f"{table.name}-{query}")
    for table in TABLES
    for query in table.queries()
    if query.startswith("cdc_after")
]


def test_the_corpus_has_every_mode_and_type() -> None:
    assert {table.name for table in TABLES} == {
        "cow_v8_cdc_data_before_after",
        "cow_v9_cdc_data_before_after",
        "cow_v9_cdc_op_key_only",
        "mor_v9_cdc_data_before",
        "mor_v9_cdc_data_before_after",
        "mor_v9_cdc_op_key_only",
    }
    assert len(QUERIES) == 30


@pytest.mark.parametrize(("table", "query"), QUERIES)
def test_a_query_of_hudi(golden_folder: Path, table: Golden, query: str) -> None:
    opened = pudi.Table(str(table.unpack(golden_folder)))
    since = _since(query)
    expected = table.expected()[query]["rows"]
    assert_same(from_arrow(opened.changes(since, format="cdc").to_arrow()), expected, about=query)
    typed = from_arrow(opened.changes(since, format="cdc", images="struct").to_arrow())
    assert_same(typed, [_typed(row) for row in expected], about=query)
    plain = from_arrow(opened.changes(since, format="cdc", meta_fields=False, columns=["after"]).to_arrow())
    assert not any("_hoodie" in (row["after"] or "") for row in plain)


@pytest.mark.parametrize("table", [each for each in TABLES if each.name in WITH_IMAGES], ids=str)
def test_a_clean_takes_change_files_with_their_slices(tmp_path: Path, table: Golden) -> None:
    """And those of retained slices stay: changes since the retained commit read as before."""
    path = table.unpack(tmp_path)
    mine = pudi.Table(str(path), options={"hoodie.clean.automatic": "false", "hoodie.clean.commits.retained": "1"})
    since = mine.timeline.commits[-2].requested
    expected, files = from_arrow(mine.changes(since, format="cdc").to_arrow()), _change_files(path)
    assert mine.clean() is not None
    slices = {name.rpartition("_")[2].partition(".")[0] for name in (file.name for file in path.rglob("*.parquet"))}
    left = _change_files(path)
    assert left < files
    assert {name.split("_")[1].partition(".")[0] for name in left} <= slices
    assert all(name.split("_")[1] < f"{since}." for name in files - left)
    assert_same(from_arrow(mine.changes(since, format="cdc").to_arrow()), expected)
    with pytest.raises(pudi.NotFoundError):
        mine.changes(mine.timeline.commits[0].requested, format="cdc").to_arrow()
    assert mine.check().ok, mine.check()


def _change_files(path: Path) -> set[str]:
    return {file.name for file in path.rglob("*.cdc")}


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_v9_cdc_op_key_only", "mor_v9_cdc_data_before"])
def test_on_spark(spark: Any, golden_folder: Path, name: str) -> None:
    table = Golden(name)
    feed = pudi.Table(str(table.unpack(golden_folder))).changes(format="cdc")
    assert_same(from_spark(feed.to_spark(spark)), table.expected()["cdc_after:000"]["rows"], about=name)
    typed = pudi.Table(feed.plan.table).changes(format="cdc", images="struct", where="op = 'u'")
    expected = [_typed(row) for row in table.expected()["cdc_after:000"]["rows"] if row["op"] == "u"]
    assert_same(from_spark(typed.to_spark(spark)), expected, about=name)


def _since(query: str) -> str | None:
    instant = query.partition(":")[2]
    return None if instant == "000" else instant


def _typed(row: Row) -> Row:
    images = {name: json.loads(row[name] or "null") for name in ("before", "after")}
    return {**row, **{name: image and _data(image) for name, image in images.items()}}


def _data(image: Row) -> Row:
    return {name: value for name, value in image.items() if not name.startswith("_hoodie")}
