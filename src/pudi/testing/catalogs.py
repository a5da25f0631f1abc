"""The contract of a `Catalog`, as tests: a new catalog subclasses `CatalogTests` and gives the fixture `catalog`.

One whose tables have no partitions subclasses `PlainCatalogTests`.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pudi.catalogs import Catalog, CatalogColumn, CatalogPartition, CatalogTable, TableFormat, TableName
from pudi.errors import NotFoundError, TableExistsError

_numbers = itertools.count()

FORMAT = TableFormat(
    "org.apache.hudi.hadoop.HoodieParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    {"serialization.format": "1", "path": "file:/contract"},
)

VALUES = ("eu", "asia pac", "a=b", "x/y", "é+%25", "__HIVE_DEFAULT_PARTITION__", "it's", 'say "hi"', "100%", "a.b:c")
"""Partition values with characters that catalogs' own names of partitions encode."""


class PlainCatalogTests:
    """Contract of every catalog, without partitions."""

    @pytest.fixture
    def catalog(self) -> Catalog:
        """A catalog without databases whose names begin with `contract`; tests may share it."""
        raise NotImplementedError

    @pytest.fixture
    def database(self) -> str:
        """Name of a database that isn't there."""
        return f"contract{os.getpid()}_{next(_numbers)}"

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        """URL of a folder that tables may name as their location."""
        return f"file:{tmp_path}"

    @pytest.fixture
    def table(self, catalog: Catalog, database: str, place: str) -> CatalogTable:
        """A table that is registered, as the catalog shows it."""
        catalog.create_database(database)
        catalog.create_table(table_at(database, place))
        return found(catalog, database, "trips")

    def test_a_database_is_there_once_it_is_created(self, catalog: Catalog, database: str) -> None:
        """`create_database` makes one, and leaves one that is there."""
        assert not catalog.has_database(database)
        catalog.create_database(database)
        catalog.create_database(database)
        assert catalog.has_database(database)
        assert catalog.table_names(database) == []

    def test_a_table_comes_back_as_it_was_registered(
        self, catalog: Catalog, database: str, table: CatalogTable, place: str
    ) -> None:
        """Location, columns, comments, format and properties come back, however long."""
        expected = table_at(database, place)
        assert (table.name, table.kind) == (expected.name, expected.kind)
        assert table.location.rstrip("/") == expected.location
        assert table.columns == expected.columns
        assert table.partition_columns == expected.partition_columns
        assert table.format == expected.format
        assert expected.properties.items() <= table.properties.items()
        assert catalog.table_names(database) == ["trips"]

    def test_a_name_is_taken_once(self, catalog: Catalog, database: str, table: CatalogTable, place: str) -> None:
        """A second table of one name is refused; the first one stays."""
        with pytest.raises(TableExistsError, match=rf"{database}\.trips"):
            catalog.create_table(replace(table_at(database, place), columns=()))
        assert found(catalog, database, "trips").columns == table.columns

    def test_what_is_missing_is_said(self, catalog: Catalog, database: str, place: str) -> None:
        """A table without a database or a missing table is an error that names it."""
        assert catalog.table(TableName("nowhere", "trips")) is None
        with pytest.raises(NotFoundError, match="nowhere"):
            catalog.create_table(replace(table_at(database, place), name=TableName("nowhere", "trips")))
        catalog.create_database(database)
        assert catalog.table(TableName(database, "trips")) is None
        assert catalog.tables(database, ["trips", "others"]) == {}
        with pytest.raises(NotFoundError, match=rf"{database}\.trips"):
            catalog.alter_table(table_at(database, place))

    def test_several_tables_come_back_together(
        self, catalog: Catalog, database: str, table: CatalogTable, place: str
    ) -> None:
        """`tables` returns those that are there."""
        catalog.create_table(replace(table_at(database, place), name=TableName(database, "trips_ro")))
        assert set(catalog.tables(database, ["trips", "trips_ro", "trips_rt"])) == {"trips", "trips_ro"}

    def test_a_table_is_altered(self, catalog: Catalog, database: str, table: CatalogTable) -> None:
        """Columns are added, properties set, the format replaced."""
        more = (*table.columns, CatalogColumn("fare", "double", "what it cost"))
        other = replace(table.format, serde_properties={**table.format.serde_properties, "more": "1"})
        catalog.alter_table(
            replace(table.with_properties({"last_commit_time_sync": "1"}), columns=more, format=other), cascade=True
        )
        now = found(catalog, database, "trips")
        assert now.columns == more
        assert now.properties["last_commit_time_sync"] == "1"
        assert now.properties["long"] == table.properties["long"]
        assert now.format == other

    def test_a_table_is_dropped(self, catalog: Catalog, database: str, table: CatalogTable, place: str) -> None:
        """Its name is free again."""
        assert catalog.drop_table(table.name)
        assert not catalog.drop_table(table.name)
        assert catalog.table_names(database) == []
        catalog.create_table(table_at(database, place))
        assert catalog.partitions(found(catalog, database, "trips")) == []

    def test_threads_share_a_catalog(self, catalog: Catalog, database: str, table: CatalogTable, place: str) -> None:
        """Requests from several threads don't mix."""
        names = [f"t{number}" for number in range(12)]

        def add(name: str) -> str:
            catalog.create_table(replace(table_at(database, f"{place}/{name}"), name=TableName(database, name)))
            return found(catalog, database, name).location

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(add, names)) == [f"{place}/{name}/trips" for name in names]
        assert catalog.table_names(database) == sorted([*names, "trips"])

    def test_it_is_used_after_it_was_closed(self, catalog: Catalog, database: str, table: CatalogTable) -> None:
        """Closing ends connections, and the next request opens one."""
        catalog.close()
        catalog.close()
        assert found(catalog, database, "trips") == table


class CatalogTests(PlainCatalogTests):
    """Contract of every catalog with partitions."""

    def test_partitions_stay_while_a_table_is_altered(
        self, catalog: Catalog, database: str, table: CatalogTable
    ) -> None:
        """A new column leaves them."""
        catalog.add_partitions(table, parts(table, ["eu"]))
        more = (*table.columns, CatalogColumn("fare", "double", "what it cost"))
        catalog.alter_table(replace(table, columns=more), cascade=True)
        now = found(catalog, database, "trips")
        assert [each.values for each in catalog.partitions(now)] == [("eu",)]

    def test_a_table_is_dropped_with_its_partitions(
        self, catalog: Catalog, database: str, table: CatalogTable, place: str
    ) -> None:
        """A table of the same name begins without partitions."""
        catalog.add_partitions(table, parts(table, ["eu"]))
        assert catalog.drop_table(table.name)
        catalog.create_table(table_at(database, place))
        assert catalog.partitions(found(catalog, database, "trips")) == []

    def test_partitions_with_any_characters_come_and_go(self, catalog: Catalog, table: CatalogTable) -> None:
        """Values come back as they were given, all or those that are asked for."""
        catalog.add_partitions(table, parts(table, VALUES))
        assert sorted(each.values for each in catalog.partitions(table)) == sorted((each,) for each in VALUES)
        for each in VALUES:
            assert [part.values for part in catalog.partitions(table, [(each,)])] == [(each,)]
        catalog.drop_partitions(table, [(each,) for each in VALUES[1:]])
        assert [each.values for each in catalog.partitions(table)] == [(VALUES[0],)]

    def test_more_partitions_than_a_request_takes(self, catalog: Catalog, table: CatalogTable) -> None:
        """Any number is added, read, moved and dropped."""
        names = [f"v{number:04}" for number in range(230)]
        catalog.add_partitions(table, parts(table, names))
        assert len(catalog.partitions(table)) == len(names)
        catalog.add_partitions(table, parts(table, [*names, "more"]))
        some = [(name,) for name in names[:130]]
        assert len(catalog.partitions(table, [*some, ("missing",)])) == len(some)
        catalog.alter_partitions(table, [CatalogPartition(each, f"{table.location}/moved/{each[0]}") for each in some])
        moved = {each.values: each.location for each in catalog.partitions(table)}
        assert sum("/moved/" in location for location in moved.values()) == len(some)
        catalog.drop_partitions(table, [*some, ("missing",)])
        assert len(catalog.partitions(table)) == len(names) + 1 - len(some)

    def test_partitions_that_are_there_stay_as_they_are(self, catalog: Catalog, table: CatalogTable) -> None:
        """Adding one again changes nothing, and adds those beside it."""
        catalog.add_partitions(table, parts(table, ["eu"]))
        catalog.add_partitions(table, [CatalogPartition(("eu",), f"{table.location}/elsewhere"), *parts(table, ["us"])])
        locations = {each.values[0]: each.location for each in catalog.partitions(table)}
        assert set(locations) == {"eu", "us"}
        assert not locations["eu"].endswith("elsewhere")

    def test_threads_share_a_table(self, catalog: Catalog, table: CatalogTable) -> None:
        """Requests from several threads don't mix."""

        def add(number: int) -> int:
            catalog.add_partitions(table, parts(table, [f"t{number}"]))
            return len(catalog.partitions(table, [(f"t{number}",)]))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(add, range(12))) == [1] * 12
        assert len(catalog.partitions(table)) == 12


def table_at(database: str, place: str) -> CatalogTable:
    """Return a table that may be registered."""
    return CatalogTable(
        TableName(database, "trips"),
        f"{place}/trips",
        (
            CatalogColumn("id", "bigint", "the key"),
            CatalogColumn("place", "struct<city:string,geo:struct<lat:double,lon:double>>"),
            CatalogColumn("tags", "array<string>"),
        ),
        (CatalogColumn("region", "string", "where"),),
        FORMAT,
        {"EXTERNAL": "TRUE", "long": "x" * 4000, "spark.sql.sources.provider": "hudi"},
        owner="pudi",
    )


def found(catalog: Catalog, database: str, name: str) -> CatalogTable:
    """Return a table of the contract's database, which must be there."""
    table = catalog.table(TableName(database, name))
    assert table is not None
    return table


def parts(table: CatalogTable, values: tuple[str, ...] | list[str]) -> list[CatalogPartition]:
    """Return partitions of one column each."""
    return [CatalogPartition((each,), f"{table.location}/p{number}") for number, each in enumerate(values)]
