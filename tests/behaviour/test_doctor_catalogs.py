"""`doctor` says what is registered in the catalogs that options name, and what differs from the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogColumn, CatalogPartition, CatalogTable, TableName
from pudi.catalogs.sqlite import SqliteCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
LAST = "last_commit_time_sync"
DAY = CatalogColumn("day", "date")
NAME = TableName("rides", "trips")


@pytest.fixture
def catalog(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(f"{tmp_path}/catalog.db")


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    place = f"sqlite:{tmp_path}/catalog.db/rides.trips"
    return {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": place}


def rows(*cities: str) -> pa.Table:
    return pa.table({"id": range(len(cities)), "city": cities}, schema=SCHEMA)


def created(path: Path, options: dict[str, str], kind: str = "cow") -> pudi.Table:
    pudi.create(str(path / "t"), SCHEMA, record_key="id", partition_by="city", table_type=kind)
    return pudi.Table(str(path / "t"), options)


def said(table: pudi.Table) -> list[str]:
    return [advice.text for advice in table.doctor().advice if advice.text.startswith("catalog: ")]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_is_registered_is_said(tmp_path: Path, options: dict[str, str], kind: str) -> None:
    table = created(tmp_path, options, kind)
    assert table.doctor().catalogs[0].differences == ("it isn't registered",)
    done = table.insert(rows("rome", "oslo"))
    assert done is not None
    states = table.doctor().catalogs
    assert [each.name for each in states] == [each.name for each in done.syncs[0].tables]
    assert {(each.last_sync, each.differences, each.problem) for each in states} == {(done.instant, (), "")}
    assert said(table) == []
    assert pudi.Table(table.path).doctor().catalogs == ()


Change = Callable[[SqliteCatalog, CatalogTable], None]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda catalog, entry: catalog.drop_partitions(entry, [("rome",)]), "1 partition isn't registered: rome"),
        (
            lambda catalog, entry: catalog.add_partitions(
                entry, [CatalogPartition((f"p{n}",), f"{entry.location}/p{n}") for n in range(4)]
            ),
            "4 partitions hold no data any more: p0, p1, p2, …",
        ),
        (
            lambda catalog, entry: catalog.alter_table(replace(entry, columns=entry.columns[:-1])),
            "columns differ: id is missing, in the table bigint",
        ),
        (
            lambda catalog, entry: catalog.alter_table(replace(entry, location="file:/elsewhere")),
            "it is the table at file:/elsewhere",
        ),
        (
            lambda catalog, entry: catalog.alter_table(replace(entry, partition_columns=(DAY,))),
            "its partition columns are day date, those of the table city string",
        ),
        (
            lambda catalog, entry: catalog.alter_table(replace(entry, properties={})),
            "no sync of it has ended",
        ),
        (
            lambda catalog, entry: catalog.alter_table(entry.with_properties({LAST: "20200101000000000"})),
            "the timeline no longer holds the last registered commit, 20200101000000000",
        ),
    ],
)  # fmt: skip
def test_what_differs_is_said(
    tmp_path: Path, catalog: SqliteCatalog, options: dict[str, str], change: Change, expected: str
) -> None:
    table = created(tmp_path, options)
    table.insert(rows("rome", "oslo"))
    entry = catalog.table(NAME)
    assert entry is not None
    change(catalog, entry)
    before = catalog.table(NAME)
    text = f"catalog: rides.trips in {catalog}: {expected}; run pudi sync, or let the next write do it"
    assert said(table) == [text]
    assert catalog.table(NAME) == before


def test_commits_after_the_last_sync_are_counted(tmp_path: Path, options: dict[str, str]) -> None:
    table = created(tmp_path, options)
    table.insert(rows("rome"))
    later = pudi.Table(table.path).insert(rows("rome"))
    pudi.Table(table.path).insert(rows("rome"))
    assert later is not None
    assert said(table)[0].partition(": ")[2].partition("; run")[0].endswith(
        f"2 commits came after the last sync, the first is {later.instant}"
    )  # fmt: skip


def test_a_catalog_that_fails_is_said(tmp_path: Path, options: dict[str, str]) -> None:
    table = created(tmp_path, options)
    (tmp_path / "catalog.db").write_text("no file of SQLite, but long enough to be looked at as one" * 20)
    state = table.doctor().catalogs[0]
    assert (state.name, state.last_sync) == ("", None)
    assert "no file of SQLite" in state.problem
    assert "no file of SQLite" in said(table)[0]
