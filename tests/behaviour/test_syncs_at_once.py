"""Two syncs of one table at once: none undoes what the other registered, and none fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogPartition, CatalogTable, TableName
from pudi.catalogs.sqlite import SqliteCatalog
from pudi.storage.local import LocalStorage

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
NAME = TableName("default", "trips")


class Interrupted(SqliteCatalog):
    """A catalog in which something else happens before one of its requests."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.step, self.before, self.skip = "", lambda: None, 0

    def interrupt(self, step: str, before: Callable[[], None], skip: int = 0) -> None:
        self.step, self.before, self.skip = step, before, skip

    def _note(self, step: str) -> None:
        if step == self.step:
            self.skip -= 1
            if self.skip < 0:
                self.step = ""
                self.before()

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        self._note("tables")
        return super().tables(database, names)

    def create_table(self, table: CatalogTable) -> None:
        self._note("create_table")
        super().create_table(table)

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        self._note("alter_table")
        super().alter_table(table, cascade=cascade)

    def partitions(self, table: CatalogTable, values: Any = None) -> list[CatalogPartition]:
        self._note("partitions")
        return super().partitions(table, values)

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._note("add_partitions")
        super().add_partitions(table, partitions)

    def drop_partitions(self, table: CatalogTable, values: Any) -> None:
        self._note("drop_partitions")
        super().drop_partitions(table, values)


class Narrow(Interrupted):
    """A catalog that lets no column be dropped, as a metastore."""

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        self._note("alter_table")
        now = self.table(table.name)
        if now is not None and len(table.columns) < len(now.columns):
            raise pudi.RefusedError(f"{self}: the columns of {table.name} are incompatible")
        super().alter_table(table, cascade=cascade)


def rows(*cities: str) -> pa.Table:
    return pa.table({"id": range(len(cities)), "city": cities}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Interrupted:
    return Interrupted(f"{tmp_path}/catalog.db")


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    pudi.create(path, SCHEMA, record_key="id", partition_by="city").insert(rows("nyc", "rome"))
    return path


def registered(catalog: SqliteCatalog) -> tuple[list[str], list[str]]:
    table = catalog.table(NAME)
    assert table is not None
    return sorted(each.values[0] for each in catalog.partitions(table)), [each.name for each in table.columns[5:]]


@pytest.mark.parametrize(
    ("known", "step", "skip"),
    [
        *((False, step, 0) for step in ("tables", "create_table", "alter_table", "add_partitions")),
        *((True, step, 0) for step in ("tables", "alter_table", "partitions", "add_partitions", "drop_partitions")),
        *((known, "tables", 1) for known in (False, True)),
        (True, "alter_table", 1),
    ],
)
def test_the_later_sync_undoes_nothing(catalog: Interrupted, path: str, known: bool, step: str, skip: int) -> None:
    table, other = pudi.Table(path), pudi.Table(path)
    if known:
        table.sync(catalog)
    table.delete_partitions(["nyc"])
    table.add_column("tip", "double")

    def overtake() -> None:
        other.insert(rows("nyc", "oslo").append_column("tip", pa.array([1.0, 2.0])))
        other.add_column("note", "string")
        other.sync(SqliteCatalog(catalog._path))

    catalog.interrupt(step, overtake, skip)
    table.sync(catalog)
    if catalog.step:  # the sync had nothing of the kind to do
        catalog.step = ""
        overtake()
    # no catalog compares and alters at once: the times are the old ones, the next sync mends it
    if step == "alter_table":
        table.sync(catalog)
    expected = ["nyc", "oslo", "rome"], ["id", "tip", "note"]
    assert registered(catalog) == expected
    assert not table.sync(catalog).tables[0].is_changed


def test_a_partition_that_the_other_dropped_after_it_was_compared_comes_back(catalog: Interrupted, path: str) -> None:
    slow, quick = pudi.Table(path), pudi.Table(path)
    slow.sync(catalog)
    slow.delete_partitions(["nyc"])
    inner = SqliteCatalog(catalog._path)

    def compare_again() -> None:
        """The slow sync is to drop nyc: the quick one sees it written again, and compares it before it is dropped."""
        quick.insert(rows("nyc"))
        quick.sync(inner)

    catalog.interrupt("drop_partitions", compare_again)
    slow.sync(catalog)
    assert registered(catalog)[0] == ["nyc", "rome"]


def test_columns_that_a_metastore_refuses_now_are_compared_again(tmp_path: Path, path: str) -> None:
    catalog = Narrow(f"{tmp_path}/catalog.db")
    table, other = pudi.Table(path), pudi.Table(path)
    table.sync(catalog)
    table.add_column("tip", "double")

    def overtake() -> None:
        other.add_column("note", "string")
        other.add_column("more", "string")
        other.sync(SqliteCatalog(catalog._path))

    catalog.interrupt("alter_table", overtake)
    assert not table.sync(catalog).tables[0].columns_changed
    assert registered(catalog)[1] == ["id", "tip", "note", "more"]


def test_properties_that_others_set_meanwhile_stay(catalog: Interrupted, path: str) -> None:
    table = pudi.Table(path)
    table.sync(catalog)
    table.insert(rows("oslo"))
    inner = SqliteCatalog(catalog._path)

    def note() -> None:
        entry = inner.table(NAME)
        assert entry is not None
        inner.alter_table(entry.with_properties({"team": "rides"}))

    catalog.interrupt("add_partitions", note)
    table.sync(catalog)
    entry = catalog.table(NAME)
    assert entry is not None
    assert entry.properties["team"] == "rides"


def test_a_sync_that_never_ends_first_is_said(catalog: Interrupted, path: str) -> None:
    table, number = pudi.Table(path), 0
    table.sync(catalog)
    table.insert(rows("oslo"))
    inner = SqliteCatalog(catalog._path)

    def disturb() -> None:
        nonlocal number
        number += 1
        entry = inner.table(NAME)
        assert entry is not None
        inner.alter_table(entry.with_properties({"last_commit_time_sync": f"2020010100000000{number}"}))
        catalog.interrupt("tables", disturb, 1)

    catalog.interrupt("tables", disturb, 1)
    with pytest.raises(pudi.UnavailableError, match="other processes register the table all the time"):
        table.sync(catalog)


@pytest.mark.parametrize("place", ["manifest", "manifest:absolute"])
def test_a_manifest_never_stays_older_than_another_sync(monkeypatch: pytest.MonkeyPatch, path: str, place: str) -> None:
    slow, quick = pudi.Table(path), pudi.Table(path)
    put, overtaken = LocalStorage.put, []

    def overtake(self: LocalStorage, name: str, data: bytes, *, durable: bool = False) -> None:
        if name.endswith("latest-snapshot.csv") and not overtaken:
            overtaken.append(name)
            quick.insert(rows("oslo"))
            quick.sync(place)
        put(self, name, data, durable=durable)

    monkeypatch.setattr(LocalStorage, "put", overtake)
    done = slow.sync(place)
    listed = Path(path, overtaken[0]).read_text().splitlines()
    bases = [each.base.path for each in pudi.Table(path).file_slices() if each.base is not None]
    assert sorted(each.rpartition("/")[2] for each in listed) == sorted(each.rpartition("/")[2] for each in bases)
    assert len(listed) == 3
    assert done.instant == quick.refresh().timeline.commits[-1].requested
