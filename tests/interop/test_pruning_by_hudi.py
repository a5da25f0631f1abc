"""Hudi's queries leave out as many files of a table that pudi wrote as of one that Hudi wrote of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pudi
from support.engines import LocalEngine
from support.hudi import HudiTable
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import assert_same, from_arrow, from_spark
from support.trips import SCHEMA, table, trip
from support.validation import assert_hudi_finds_no_difference, assert_hudi_reads_the_record_index, files_read

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.parquet.small.file.limit": "0",
}
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
BATCHES = [[trip(number, 1000 * batch + number) for number in range(20 * batch, 20 * batch + 20)] for batch in range(4)]
UPDATES = [trip(number, 9000) for number in (3, 24)]
ALL = 12  # four batches in three cities
WHERES = {
    "ts >= 3000 AND ts < 8000": None,
    "ts < 1015": 3,
    "fare > 78": None,
    "ts >= 9000": 2,
    "ts > 20000": 0,
    "uuid = 'k0041'": 1,
    "uuid IN ('k0041', 'k0065', 'none')": 2,
    "city = 'nyc'": 4,
    "city = 'nyc' AND ts >= 3000": None,
    "rider = 'nobody'": 0,
}
"""Queries, and to how many file slices they come down, where that's plain to see."""


@pytest.fixture(scope="module", params=["cow", pytest.param("mor", marks=pytest.mark.slow)])
def both(spark: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The same batches written by pudi and by Hudi, each into new files, and two updates."""
    layout, folder = Layout(kind=request.param), tmp_path_factory.mktemp("pruning")
    mine = PudiTable.create(LocalEngine(), folder / "pudi", SCHEMA, layout, OPTIONS)
    its_options = layout.hudi_options("trips") | OPTIONS | {"hoodie.compact.inline": "false"}
    its = HudiTable(spark, folder / "hudi", its_options)
    for writer in (mine, its):
        for batch in BATCHES:
            writer.write("insert", table(batch))
        writer.write("upsert", table(UPDATES))
    yield mine, its


@pytest.mark.sampled(3)
@pytest.mark.parametrize("where", WHERES)
def test_as_many_files_are_left_out(spark: Any, both: Any, where: str) -> None:
    mine, its = both
    assert len(mine.table.file_slices()) == ALL
    frames = [HudiTable(spark, each.path).frame(**SKIPPING).where(where) for each in (mine, its)]
    of_mine, of_its = map(files_read, frames)
    assert of_mine == of_its
    if WHERES[where] is not None:
        assert of_mine == WHERES[where]
    wanted = from_arrow(pudi.Table(mine.path).scan(where=where).to_arrow())
    assert_same(from_spark(frames[0]), wanted, about=f"Hudi where {where}")


SEVERAL_WRITERS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""With what Hudi's CREATE INDEX is for several writers; it needs the lock provider."""
DAY = 86_400
BY_DAY = "from_unixtime(ts, 'yyyy-MM-dd')"
BY_NAMED = {
    "rider = 'rider-41'": 1,
    "rider IN ('rider-41', 'rider-65', 'none')": 2,
    "rider = 'nobody'": 0,
    f"{BY_DAY} = '1970-01-03'": 3,
    f"{BY_DAY} = '1971-01-01'": 0,
    "upper(rider) = 'NOBODY'": 0,
}
"""Queries that a secondary or an expression index answers, and to how many file slices they come down."""


@pytest.fixture(scope="module")
def named(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The same batches, a day each, with a secondary index and two expression indexes that their writer made."""
    layout, folder = Layout(), tmp_path_factory.mktemp("named")
    options = OPTIONS | {"hoodie.metadata.index.column.stats.enable": "false"}
    mine = PudiTable.create(LocalEngine(), folder / "pudi", SCHEMA, layout, options)
    its = HudiTable(spark, folder / "hudi", layout.hudi_options("trips") | options)
    for writer in (mine, its):
        for day in range(4):
            writer.write("insert", table(trip(n, day * DAY + n, f"rider-{n}") for n in range(20 * day, 20 * day + 20)))
    mine.table.create_index("secondary_index", "rider")
    mine.table.create_index("column_stats", "ts", "by_day", "from_unixtime", options={"format": "yyyy-MM-dd"})
    mine.table.create_index("bloom_filters", "rider", "by_rider", "upper")
    spark.sql(f"CREATE TABLE pruned_by_named USING hudi LOCATION '{its.path}'")
    for option, value in SEVERAL_WRITERS.items():
        spark.sql(f"SET {option}={value}")
    # with no write between, the second would be empty, and beside statistics of an expression Hudi can't write
    # (docs/indexes.md)
    spark.sql("CREATE INDEX rider ON pruned_by_named (rider)")
    its.write("upsert", table([trip(79, 3 * DAY + 79, "rider-79")]))
    spark.sql("CREATE INDEX by_rider ON pruned_by_named USING bloom_filters(rider) OPTIONS(expr='upper')")
    its.write("upsert", table([trip(79, 3 * DAY + 79, "rider-79")]))
    how = "expr='from_unixtime', format='yyyy-MM-dd'"
    spark.sql(f"CREATE INDEX by_day ON pruned_by_named USING column_stats(ts) OPTIONS({how})")
    for option in SEVERAL_WRITERS:
        spark.sql(f"RESET {option}")
    yield mine, its
    spark.sql("DROP TABLE pruned_by_named")


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", BY_NAMED)
def test_as_many_are_left_out_by_secondary_and_expression_indexes(spark: Any, named: Any, where: str) -> None:
    mine, its = named
    frames = [HudiTable(spark, each.path).frame(**SKIPPING).where(where) for each in (mine, its)]
    of_mine, of_its = map(files_read, frames)
    assert of_mine == BY_NAMED[where]
    assert of_mine == of_its
    wanted = from_arrow(pudi.Table(mine.path).scan(where=where).to_arrow())
    assert_same(from_spark(frames[0]), wanted, about=f"Hudi where {where}")


@pytest.mark.slow
def test_hudi_finds_nothing_wrong(spark: Any, both: Any) -> None:
    mine, _ = both
    assert_hudi_finds_no_difference(spark, mine.path)
    assert_hudi_reads_the_record_index(spark, mine.path)
