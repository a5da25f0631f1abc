"""What a sync costs: requests to the catalog, and calls of the table's storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import Catalog
from pudi.catalogs.sqlite import SqliteCatalog
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
MANY, CHANGED = 1_000, 10
ON = "hoodie.datasource.meta.sync.enable"
TOOL = "hoodie.meta.sync.client.tool.class"


class Counted(SqliteCatalog):
    """A catalog that counts requests and the partitions in them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.calls: Counter[str] = Counter()
        self.partitions_named = 0


def _counting(name: str) -> Any:
    def counted(self: Counted, *arguments: Any, **options: Any) -> Any:
        self.calls[name] += 1
        if "partition" in name:
            self.partitions_named += MANY if len(arguments) < 2 or arguments[1] is None else len(arguments[1])
        return getattr(SqliteCatalog, name)(self, *arguments, **options)

    return counted


for each in sorted(Catalog.__abstractmethods__ - {"address"} | {"partition_values"}):
    setattr(Counted, each, _counting(each))


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "p": [f"p{n:04}" for n in range(first, first + count)]})


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A table of many partitions, registered; its path and that of the catalog."""
    folder = tmp_path_factory.mktemp("budget")
    table = pudi.create(str(folder / "t"), SCHEMA, record_key="id", partition_by="p")
    table.bulk_insert(rows(0, MANY))
    table.sync(SqliteCatalog(str(folder / "catalog.db")))
    yield table.path, str(folder / "catalog.db")


def opened(path: str) -> tuple[pudi.Table, FaultStorage]:
    storage = FaultStorage(open_storage(path))
    return pudi.Table.of(MetaClient.open(path, None, {}, Context(), storage), {}), storage


def test_ten_changed_partitions_among_many_cost_requests_for_ten(many: tuple[str, str]) -> None:
    path, file = many
    pudi.Table(path).upsert(rows(5, CHANGED))
    catalog = Counted(file)
    assert not pudi.Table(path).sync(catalog).tables[0].is_changed
    assert catalog.calls == {"tables": 2, "partitions": 1, "alter_table": 1}
    assert catalog.partitions_named == CHANGED

    pudi.Table(path).insert(rows(MANY, CHANGED))
    catalog = Counted(file)
    assert pudi.Table(path).sync(catalog).tables[0].added == CHANGED
    assert catalog.calls == {"tables": 2, "partitions": 1, "add_partitions": 1, "alter_table": 1}
    assert catalog.partitions_named == 2 * CHANGED

    catalog = Counted(file)
    assert not pudi.Table(path).sync(catalog).tables[0].is_changed
    assert catalog.calls == {"tables": 1}


def test_a_sync_after_a_write_reads_no_files_of_the_table(many: tuple[str, str]) -> None:
    path, file = many
    place = {ON: "true", TOOL: f"sqlite:{file}/default.t"}
    pudi.Table(path).sync(SqliteCatalog(file))
    calls = []
    for options in ({}, place):
        table, storage = opened(path)
        before = storage.calls
        table.upsert(rows(5, CHANGED), options=options)
        calls.append(storage.calls - before)
    assert calls[1] - calls[0] <= 2  # the timeline after the commit, and the commit


def test_a_sync_with_nothing_to_do_reads_the_timeline_alone(many: tuple[str, str]) -> None:
    path, file = many
    pudi.Table(path).sync(SqliteCatalog(file))
    table, storage = opened(path)
    before = storage.calls
    catalog = Counted(file)
    table.sync(catalog)
    assert catalog.calls.total() <= 2
    read = [place for _, place in storage.log[before:]]
    assert len(read) <= 3
    assert all(place.startswith((".hoodie/timeline", ".hoodie/hoodie.properties")) for place in read)
