"""Lazy readers over a scan: polars, DuckDB, DataFusion and pyarrow push into it, and get what the whole rows give."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import threading
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import pudi
from pudi.expr import split_conjuncts
from pudi.plan import ReadPlan
from pudi.scan import Scan
from pudi.scan import scan as scan_module
from pudi.task import SliceReader

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

UTC = dt.timezone.utc
COUNT = 400
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("text", pa.string()),
        ("fare", pa.float64()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("paid", pa.bool_()),
        ("raw", pa.binary()),
        ("place", pa.struct([("x", pa.int32()), ("name", pa.string())])),
        ("tags", pa.list_(pa.string())),
    ]
)
TEXTS = [None, "", "a", "A", "ä", "Ä", "ß", "a%", "a_b", "é", "e\u0301", "😀"]
FARES = [None, -1.5, -0.0, 0.0, 1.0, 99.5, float("nan"), float("inf")]


def row(number: int, version: int = 0) -> dict[str, Any]:
    turn = number + 7 * version
    return {
        "id": number,
        "city": ["rome", "oslo", "zürich"][number % 3],
        "text": TEXTS[turn % len(TEXTS)],
        "fare": FARES[turn % len(FARES)],
        "ratio": FARES[(turn + 3) % len(FARES)],
        "price": None if turn % 9 == 0 else Decimal(turn % 50) / 4,
        "day": None if turn % 11 == 0 else dt.date(2024, 1, 1) + dt.timedelta(turn % 100),
        "at": None if turn % 13 == 0 else dt.datetime(2024, 3, 31, tzinfo=UTC) + dt.timedelta(minutes=turn),
        "local": None if turn % 10 == 0 else dt.datetime(2024, 3, 31) + dt.timedelta(minutes=turn),
        "paid": [True, False, None][turn % 3],
        "raw": [b"", b"a", None, b"\xff"][turn % 4],
        "place": None if turn % 6 == 0 else {"x": None if turn % 7 == 0 else turn % 5, "name": f"n{turn % 4}"},
        "tags": None if turn % 8 == 0 else ["t"] * (turn % 3),
    }


def rows(numbers: range, version: int = 0) -> pa.Table:
    return pa.Table.from_pylist([row(number, version) for number in numbers], SCHEMA)


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pudi.Table:
    """A table with updates and deletes, of merge on read in log files."""
    path = tmp_path_factory.mktemp("lazy") / "t"
    made = pudi.create(path, SCHEMA, record_key="id", partition_by="city", table_type=request.param)
    made.insert(rows(range(COUNT)))
    made.upsert(rows(range(0, COUNT, 5), 1))
    made.delete(rows(range(0, COUNT, 50)))
    return made


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[ReadPlan]:
    """The plans that are read from here on."""
    found: list[ReadPlan] = []
    read = scan_module.read_batches

    def noted(storage: Any, plan: ReadPlan) -> pa.RecordBatchReader:
        found.append(plan)
        return read(storage, plan)

    monkeypatch.setattr(scan_module, "read_batches", noted)
    return found


def by_id(found: pa.Table) -> list[dict[str, Any]]:
    """Rows with NaN as a text, so that they can be compared, in the order of their ids."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, float) else value

    made = [{name: plain(value) for name, value in each.items()} for each in found.to_pylist()]
    return sorted(made, key=lambda each: each["id"])


LEAVES = [
    "id = {n}",
    "id > {n}",
    "id BETWEEN {n} AND {m}",
    "id IN ({n}, {m}, 3)",
    "id NOT IN ({n}, {m})",
    "city = 'zürich'",
    "city <> 'rome'",
    "text = 'ä'",
    "text < 'a_b'",
    "text >= 'ß'",
    "text IN ('', '😀', 'A')",
    "text LIKE 'a%'",
    "lower(text) = 'ä'",
    "text IS NULL",
    "fare > 1.0",
    "fare <= 0.0",
    "fare <> 1.0",
    "fare IS NOT NULL",
    "ratio = 99.5",
    "ratio < 1",
    "price > 3.25",
    "price = 7",
    "day >= DATE '2024-02-10'",
    "day = DATE '2024-01-31'",
    "local > TIMESTAMP '2024-03-31 03:30:00'",
    "paid",
    "NOT paid",
    "id % 7 = 3",
    "id + 1 > {n}",
]


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.3:
        leaf = chance.choice(LEAVES)
        low = chance.randrange(COUNT)
        return leaf.format(n=low, m=low + chance.randrange(60))
    form = chance.choice(["({0}) AND ({1})", "({0}) OR ({1})", "NOT ({0})"])
    return form.format(condition(chance, depth - 1), condition(chance, depth - 1))


class TestDuckDB:
    def test_a_query_gives_what_the_whole_rows_give(self, table: pudi.Table) -> None:
        scan, chance = table.scan(meta_fields=False), random.Random(5)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            connection.register("whole", scan.to_arrow())
            scan.to_duckdb(connection, "pushed")
            wheres = [condition(chance) for _ in range(60)]
            wheres += ["\"at\" > TIMESTAMPTZ '2024-03-31 05:00:00+02:00'", "place.x = 3", "raw = '\\xFF'::BLOB"]
            wheres += ["fare = 'nan'::DOUBLE", "fare > 'nan'::DOUBLE", "fare >= 99.5 OR fare < 0"]
            for where in wheres:
                found, expected = (
                    connection.sql(f"SELECT * FROM {name} WHERE {where}").to_arrow_table()
                    for name in ("pushed", "whole")
                )
                assert by_id(found) == by_id(expected), where

    def test_columns_and_filters_reach_the_plan(self, table: pudi.Table, plans: list[ReadPlan]) -> None:
        pushed = table.scan(meta_fields=False).to_dataset()
        with duckdb.connect() as connection:
            connection.register("pushed", pushed)
            sql = "SELECT text FROM pushed WHERE id = 16 AND city = 'oslo' AND lower(text) <> 'x'"
            assert connection.sql(sql).fetchall() == [(row(16)["text"],)]
        (plan,) = plans
        assert {str(part) for part in split_conjuncts(plan.where)} == {"id = 16", "city = 'oslo'"}
        assert plan.partitions == ("oslo",)
        assert set(plan.columns) == {"id", "city", "text"}

    def test_a_relation_comes_back(self, table: pudi.Table) -> None:
        with duckdb.connect() as connection:
            found = table.scan(["id"], "id < 5").to_duckdb(connection, "trips")
            assert sorted(found.fetchall()) == [(1,), (2,), (3,), (4,)]
            table.scan(["id"], "id < 2").to_duckdb(connection, "trips")
            assert connection.sql("SELECT count(*) FROM trips").fetchall() == [(1,)]


class TestPolars:
    def test_a_query_gives_what_the_whole_rows_give(self, table: pudi.Table) -> None:
        scan, chance = table.scan(meta_fields=False), random.Random(6)
        lazy, whole = scan.to_polars(lazy=True), scan.to_polars()
        assert lazy.collect_schema() == whole.schema
        for _ in range(60):
            where = condition(chance)
            found = lazy.sql(f"SELECT * FROM self WHERE {where}").collect()
            expected = whole.sql(f"SELECT * FROM self WHERE {where}")
            assert by_id(found.to_arrow()) == by_id(expected.to_arrow()), where

    def test_columns_filters_and_head_reach_the_plan(self, table: pudi.Table, plans: list[ReadPlan]) -> None:
        lazy = pudi.scan_polars(table.path)
        folded = pl.col("text").str.to_lowercase().is_null()
        found = lazy.filter((pl.col("id") == 7) & (pl.col("city") == "oslo") & ~folded).select("fare").collect()
        assert found.columns == ["fare"]
        assert "id = 7" in str(plans[-1].where)
        assert plans[-1].partitions == ("oslo",)
        assert set(plans[-1].columns) == {"id", "city", "text", "fare"}
        assert lazy.head(3).collect().height == 3
        assert plans[-1].limit == 3
        assert lazy.head(3).filter(pl.col("id") >= 0).collect().height == 3
        assert (plans[-1].limit, plans[-1].where) == (3, None)
        assert lazy.filter(pl.col("id") > 10).head(3).collect().height == 3
        assert plans[-1].limit is None
        assert lazy.select(pl.len()).collect().item() == COUNT - 8
        assert lazy.filter(pl.col("id") < 0).collect().schema == lazy.collect_schema()

    def test_times_with_zones(self, table: pudi.Table) -> None:
        scan = table.scan(meta_fields=False)
        lazy, whole = scan.to_polars(lazy=True), scan.to_polars()
        moment = dt.datetime(2024, 3, 31, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))
        for predicate in (
            pl.col("at") > moment,
            pl.col("local") <= moment.replace(tzinfo=None),
            pl.col("at") == moment,
        ):
            assert lazy.filter(predicate).collect().sort("id").equals(whole.filter(predicate).sort("id"))

    def test_a_scan_with_a_limit_stays_at_its_rows(self, table: pudi.Table) -> None:
        scan = table.scan(["id"], limit=5)
        assert scan.to_polars(lazy=True).filter(pl.col("id") >= 0).collect().height == 5
        assert scan.to_dataset().count_rows(filter=pads.field("id") >= 0) == 5

    def test_fields_of_structs(self, table: pudi.Table, plans: list[ReadPlan]) -> None:
        scan = table.scan(["id", "place.x", "place.name"])
        whole = pl.from_arrow(scan.to_arrow())
        predicate = (pl.col("place.x") == 3) & (pl.col("place.name") == "n1")
        found = scan.to_polars(lazy=True).filter(predicate).select("place.name", "id").collect()
        assert found.sort("id").equals(whole.filter(predicate).select("place.name", "id").sort("id"))
        assert {str(part) for part in split_conjuncts(plans[-1].where)} == {"place.x = 3", "place.name = 'n1'"}

    def test_rows_are_counted_where_no_column_is_asked_for(self, table: pudi.Table) -> None:
        lazy = table.scan().to_polars(lazy=True)
        assert lazy.with_row_index().select("index").collect().height == COUNT - 8
        assert lazy.head(9).with_row_index().select("index").collect().height == 9
        filtered = lazy.filter(pl.col("id") > 10).with_row_index().select("index")
        assert filtered.collect().height == lazy.filter(pl.col("id") > 10).collect().height

    def test_a_moment_that_python_doesnt_have(self, table: pudi.Table) -> None:
        lazy = table.scan(meta_fields=False).to_polars(lazy=True)
        for name, type_ in (("local", pl.Datetime("us")), ("at", pl.Datetime("us", "UTC")), ("day", pl.Date())):
            far = pl.lit(10**18 if name != "day" else 10**7).cast(type_)
            assert lazy.filter(pl.col(name) > far).collect().height == 0

    def test_rows_of_fields_are_counted(self, table: pudi.Table) -> None:
        scan = table.scan(["id", "place.x"])
        assert scan.to_dataset().to_table(columns=[]).num_rows == COUNT - 8
        context = pytest.importorskip("datafusion").SessionContext()
        context.register_dataset("t", scan.to_dataset())
        assert context.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": COUNT - 8}]


class TestDataFusion:
    def test_a_query_gives_what_the_whole_rows_give(self, table: pudi.Table, plans: list[ReadPlan]) -> None:
        context = pytest.importorskip("datafusion").SessionContext()
        scan, chance = table.scan([name for name in SCHEMA.names if name != "tags"]), random.Random(7)
        context.register_record_batches("whole", [scan.to_arrow().to_batches()])
        context.register_dataset("pushed", scan.to_dataset())
        context.register_table("also", scan.to_dataset())
        floats = ("fare", "ratio")  # pyarrow, by which DataFusion filters datasets, has NaN below no number
        for _ in range(40):
            where = condition(chance)
            if any(name in where for name in floats):
                continue
            found, expected = (
                context.sql(f"SELECT * FROM {name} WHERE {where}").to_arrow_table() for name in ("pushed", "whole")
            )
            assert by_id(found) == by_id(expected), where
        sql = "SELECT text FROM {} WHERE id = 7 AND city = 'oslo'"
        assert context.sql(sql.format("also")).to_arrow_table().num_rows == 1
        assert {str(part) for part in split_conjuncts(plans[-1].where)} == {"id = 7", "city = 'oslo'"}
        assert context.sql("SELECT count(*) AS n FROM pushed").to_pylist() == [{"n": COUNT - 8}]
        assert context.sql("SELECT id FROM pushed LIMIT 4").to_arrow_table().num_rows == 4


def test_a_limit_of_duckdb_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    made.bulk_insert(rows(range(COUNT)))
    scan = made.scan(["id"])
    assert len(scan.plan.slices) > 90
    begun, read = [], SliceReader.read

    def noted(self: SliceReader, file_slice: Any) -> Any:
        begun.append(file_slice)
        return read(self, file_slice)

    monkeypatch.setattr(SliceReader, "read", noted)
    with duckdb.connect() as connection:
        assert len(scan.to_duckdb(connection, "trips").limit(3).fetchall()) == 3
    assert len(begun) < 90


class TestDatasets:
    def test_what_datasets_can(self, table: pudi.Table, plans: list[ReadPlan]) -> None:
        scan = table.scan(meta_fields=False)
        made, whole = scan.to_dataset(), scan.to_arrow()
        assert isinstance(made, pads.Dataset)
        assert made.schema == whole.schema
        assert made.count_rows() == whole.num_rows
        assert made.head(3).num_rows == 3
        assert plans[-1].limit == 3
        assert made.head(3, columns=["id"], filter=pads.field("id") > 10).num_rows == 3
        assert plans[-1].limit is None
        filter = (pads.field("id") > 10) & (pc.utf8_upper(pads.field("city")) == "OSLO")
        assert by_id(made.to_table(filter=filter)) == by_id(whole.filter(filter))
        some = made.filter(pads.field("id") > 10).filter(pads.field("city") == "oslo")
        assert some.count_rows(filter=pads.field("id") < 50) == len([n for n in range(11, 50) if n % 3 == 1 and n % 50])
        doubled = made.to_table(columns={"twice": pads.field("id") + pads.field("id")}, filter=pads.field("id") == 3)
        assert doubled.to_pylist() == [{"twice": 6}]
        (fragment,) = made.get_fragments(pads.field("id") == 3)
        assert fragment.to_table(columns=["id"]).to_pylist() == [{"id": 3}]
        assert pl.scan_pyarrow_dataset(made).filter(pl.col("id") == 3).collect().height == 1

    def test_no_reader_goes_around_pudi(self, table: pudi.Table) -> None:
        made = table.scan().to_dataset()
        with pytest.raises(FileNotFoundError, match="a pudi scan, which is read by the methods of its dataset"):
            pads.Scanner.from_dataset(made).to_table()
        with pytest.raises(pudi.NotSupportedError, match="with another schema"):
            made.replace_schema(pa.schema([]))

    def test_a_dataset_is_pickled_with_its_scan(self, table: pudi.Table) -> None:
        made = table.scan().to_dataset().filter(pads.field("id") == 3)
        again = pickle.loads(pickle.dumps(made))
        assert again.to_table(columns=["id"]).to_pydict() == {"id": [3]}
        assert again.count_rows() == 1

    def test_many_scanners_at_once_dont_wait_for_each_other(self, table: pudi.Table) -> None:
        made, found, before = table.scan(meta_fields=False).to_dataset(), [], pa.io_thread_count()
        pa.set_io_thread_count(1)  # a scanner takes batches in one of these threads, and files are read in others
        try:
            reads = [threading.Thread(target=lambda: found.append(made.count_rows()), daemon=True) for _ in range(4)]
            for each in reads:
                each.start()
            for each in reads:
                each.join(60)
            assert found == [COUNT - 8] * 4
            assert pa.io_thread_count() == 1
        finally:
            pa.set_io_thread_count(before)

    def test_each_query_sees_the_scans_instant(self, tmp_path: Path) -> None:
        made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="city")
        made.insert(rows(range(5)))
        before = made.scan(meta_fields=False)
        dataset, lazy = before.to_dataset(), before.to_polars(lazy=True)
        made.insert(rows(range(5, 9)))
        assert dataset.count_rows() == dataset.count_rows() == lazy.collect().height == 5

    def test_a_file_that_was_cleaned_meanwhile(self, tmp_path: Path) -> None:
        made = pudi.create(tmp_path / "t", SCHEMA, record_key="id")
        made.insert(rows(range(5)))
        scan = made.scan(meta_fields=False)
        dataset, lazy = scan.to_dataset(), scan.to_polars(lazy=True)
        for version in range(3):
            made.upsert(rows(range(5), version))
        made.clean(options={"hoodie.cleaner.commits.retained": "1"})
        with pytest.raises(pudi.NotFoundError, match="clean"):
            dataset.to_table()
        with pytest.raises((pudi.NotFoundError, pl.exceptions.ComputeError), match="clean"):
            lazy.collect()
        with duckdb.connect() as connection, pytest.raises(Exception, match="clean"):
            scan.to_duckdb(connection, "trips").fetchall()


class TestStreams:
    @pytest.fixture(autouse=True)
    def any_size(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(scan_module, "_MANY_BYTES", 0)
        scan_module._warn_once.cache_clear()
        yield
        scan_module._warn_once.cache_clear()

    def test_a_reader_whose_filter_is_lost_is_warned_of_once(self, table: pudi.Table) -> None:
        scan: Scan = table.scan(["id"])
        with pytest.warns(UserWarning, match=r"polars.lazyframe reads all rows of the scan.*to_polars\(lazy=True\)"):
            pl.LazyFrame(scan)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pl.LazyFrame(scan)
        assert caught == []

    def test_who_wants_all_rows_isnt_warned(self, table: pudi.Table) -> None:
        pa.table(table.scan(["id"]))
        pl.DataFrame(table.scan(["id"]))
        pl.LazyFrame(table.scan(["id"], "id = 3"))
