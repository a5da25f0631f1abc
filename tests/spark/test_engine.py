"""What is special to Spark: unreliable inputs, odd folders, workers that see another place, files of old types."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.engine.spark.engine import SparkEngine, _check_complete
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError, SchemaError, UnavailableError
from support.golden import Golden

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.string()), ("ts", pa.int64()), ("note", pa.string())])


def _table(path: Path, **settings: Any) -> pudi.Table:
    settings = {"record_key": "id", "partition_by": "place", **settings}
    return pudi.create(path / "t", SCHEMA, **settings)


def _frame(spark: Any, count: int, note: str = "a", places: int = 3, start: int = 0) -> Any:
    return spark.range(start, start + count).selectExpr(
        "id", f"concat('p', id % {places}) as place", "id as ts", f"'{note}' as note"
    )


def _notes(table: pudi.Table, spark: Any) -> dict[int, str]:
    rows = table.scan(["id", "note"]).to_spark(spark).collect()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["note"] for row in rows}


def _data_files(table: pudi.Table) -> list[str]:
    return sorted(str(p) for p in Path(table.path).rglob("*") if p.is_file() and ".hoodie/timeline" not in str(p))


def _persisted(spark: Any) -> set[int]:
    """What is kept; that of earlier tests may go at any time."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_verbs_do_what_they_say_and_let_go_of_the_input(tmp_path: Path, spark: Any) -> None:
    before = _persisted(spark)
    table = _table(tmp_path)
    assert table.bulk_insert(_frame(spark, 90)).records_inserted == 90
    result = table.upsert(_frame(spark, 60, "b", start=60))
    assert (result.records_updated, result.records_inserted) == (30, 30)
    assert table.delete(_frame(spark, 10).select("id", "place")).records_deleted == 10
    notes = _notes(table, spark)
    assert Counter(notes.values()) == {"a": 50, "b": 60}
    assert set(notes) == set(range(10, 120))
    assert _persisted(spark) <= before


def test_no_records_make_no_commit(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    none = _frame(spark, 10).filter("id < 0")
    assert [table.upsert(none), table.insert(none), table.bulk_insert(none), table.delete(none)] == [None] * 4
    assert not list(table.timeline.commits)
    assert table.scan().to_spark(spark).count() == 0


def test_a_random_input_is_evaluated_once(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    table.bulk_insert(_frame(spark, 50))
    drawn = spark.range(400).selectExpr(
        "id + 1000 + cast(rand() * 1e9 as bigint) as id", "concat('p', cast(rand() * 3 as int)) as place",
        "id as ts", "uuid() as note",
    )  # fmt: skip
    result = table.upsert(drawn)
    ids = [row["id"] for row in table.scan(["id"]).to_spark(spark).collect()]
    assert result.records_inserted == len(ids) - 50
    assert len(ids) == len(set(ids))


def test_the_last_version_of_a_key_in_the_input_wins(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    versions = spark.range(0, 300, 1, 4).selectExpr("id % 30 as id", "'p' as place", "0L as ts", "string(id) as note")
    assert table.upsert(versions).records_inserted == 30
    assert _notes(table, spark) == {n: str(270 + n) for n in range(30)}


def test_every_copy_of_a_key_is_updated(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path, options={"hoodie.parquet.small.file.limit": "0"})
    table.insert(_frame(spark, 6))
    table.insert(_frame(spark, 6))
    table.upsert(_frame(spark, 3, "b"))
    rows = table.scan(["id", "note"]).to_spark(spark).collect()
    assert Counter((row["id"], row["note"]) for row in rows) == Counter(
        {(n, "b" if n < 3 else "a"): 2 for n in range(6)}
    )


def test_new_records_are_spread_over_files_of_the_planned_size(tmp_path: Path, spark: Any) -> None:
    table = _table(
        tmp_path,
        options={"hoodie.parquet.max.file.size": "2000", "hoodie.copyonwrite.record.size.estimate": "10"},
    )
    result = table.insert(_frame(spark, 3000, places=1))
    assert result.files_written >= 15
    assert set(_notes(table, spark)) == set(range(3000))


def test_bulk_insert_combines_versions_where_asked(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path, ordering="ts")
    versions = spark.range(0, 200, 1, 4).selectExpr("id % 20 as id", "'p' as place", "-id as ts", "string(id) as note")
    table.bulk_insert(versions, options={"hoodie.combine.before.insert": "true"})
    assert _notes(table, spark) == {n: str(n) for n in range(20)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("verb", ["bulk_insert", "upsert", "insert", "delete"])
@pytest.mark.parametrize(
    ("column", "sql", "message"),
    [
        ("id", "cast(null as bigint)", "id"),
        ("place", "if(id = 7, '../elsewhere', 'p')", "elsewhere"),
        ("place", "if(id = 7, '.hoodie', 'p')", "hoodie"),
    ],
)
def test_bad_keys_are_refused_and_leave_nothing(
    tmp_path: Path, spark: Any, verb: str, column: str, sql: str, message: str
) -> None:
    table = _table(tmp_path)
    table.bulk_insert(_frame(spark, 10))
    before, kept = _data_files(table), _persisted(spark)
    with pytest.raises(InvalidArgumentError, match=message):
        getattr(table, verb)(
            _frame(spark, 20).selectExpr(*[f"{sql} as {c}" if c == column else c for c in SCHEMA.names])
        )
    assert _data_files(table) == before
    assert len(table.timeline.commits) == 1
    assert _persisted(spark) <= kept


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.drop("note"),
        lambda f: f.withColumnRenamed("ts", "TS"),
        lambda f: f.selectExpr("id", "place", "true as ts", "note"),
        lambda f: f.selectExpr("*", "1 as ID"),
    ],
    ids=["missing", "case", "type", "twice"],
)
def test_columns_that_do_not_fit_are_refused_before_anything_runs(tmp_path: Path, spark: Any, change: Any) -> None:
    table = _table(tmp_path)
    with pytest.raises(SchemaError):
        table.upsert(change(_frame(spark, 5)))
    with pytest.raises(SchemaError):
        table.bulk_insert(change(_frame(spark, 5)))


def test_a_delete_looks_at_key_columns_only(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    table.bulk_insert(_frame(spark, 10))
    table.delete(_frame(spark, 4).selectExpr("id", "place", "array(1) as note", "map(1, 2) as other"))
    assert set(_notes(table, spark)) == set(range(4, 10))


ODD_PLACES = [
    "a b",
    "ü/ß",
    "x=1",
    "50%",
    "a%20b",
    "[b]",
    "{c,d}",
    "e*",
    "q?",
    "_under",
    "#h",
    "plus+",
    "a/b/c",
    "'quote'",
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("encode", [False, True], ids=["plain", "encoded"])
def test_partitions_may_have_any_name(tmp_path: Path, spark: Any, encode: bool) -> None:
    options = {"hoodie.datasource.write.partitionpath.urlencode": str(encode).lower()}
    table = _table(tmp_path, options=options)
    frame = spark.createDataFrame(
        [(n, place, 0, "a") for n, place in enumerate(ODD_PLACES)], "id long, place string, ts long, note string"
    )
    table.bulk_insert(frame)
    table.upsert(frame.selectExpr("id", "place", "ts", "'b' as note"))
    rows = table.scan(["id", "place", "note"]).to_spark(spark).collect()
    assert sorted(map(tuple, rows)) == [(n, place, "b") for n, place in enumerate(ODD_PLACES)]


def test_nested_partitions_are_read_once(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    frame = spark.createDataFrame(
        [(1, "a", 0, "x"), (2, "a/b", 0, "x"), (3, "a/b=c", 0, "x")], "id long, place string, ts long, note string"
    )
    table.bulk_insert(frame)
    assert table.upsert(frame).records_updated == 3
    assert set(_notes(table, spark)) == {1, 2, 3}


def test_the_root_may_have_any_name(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path / "a b#c%20d [e]?ü")
    table.bulk_insert(_frame(spark, 9))
    assert table.upsert(_frame(spark, 9, "b")).records_updated == 9
    assert set(_notes(table, spark).values()) == {"b"}


def test_files_that_spark_can_not_reach_are_read_in_python(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_way(*_: Any) -> Any:
        raise CannotReadNatively

    table = _table(tmp_path)
    table.bulk_insert(_frame(spark, 30))
    monkeypatch.setattr(NativeFiles, "frame", no_way)
    assert table.upsert(_frame(spark, 40, "b", start=20)).records_updated == 10
    frame = table.scan(["note", "id", "place"], where="id >= 10").to_spark(spark)
    assert sorted(map(tuple, frame.groupBy("note").count().collect())) == [("a", 10), ("b", 40)]


def test_an_input_that_fails_is_told_as_spark_tells_it(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    failing = _frame(spark, 9).selectExpr("id", "place", "if(id = 5, raise_error('no such trip'), ts) as ts", "note")
    for verb in (table.upsert, table.bulk_insert):
        with pytest.raises(UnavailableError, match="no such trip"):
            verb(failing)
    assert not table.timeline.commits
    assert table.scan().to_spark(spark).count() == 0


def test_keys_that_sql_can_not_say_are_made_in_python(tmp_path: Path, spark: Any) -> None:
    schema = pa.schema([("id", pa.decimal128(10, 2)), ("place", pa.string()), ("note", pa.string())])
    table = pudi.create(tmp_path / "t", schema, record_key="id", partition_by="place")
    frame = spark.range(20).selectExpr("cast(id / 4 as decimal(10, 2)) as id", "'p' as place", "'a' as note")
    table.bulk_insert(frame)
    assert table.upsert(frame).records_updated == 20
    keys = {row[0] for row in table.scan(["_hoodie_record_key"]).to_spark(spark).collect()}
    assert {"0.25", "4.75"} <= keys
    with pytest.raises(InvalidArgumentError, match="null or empty"):
        table.upsert(frame.selectExpr("cast(null as decimal(10, 2)) as id", "place", "note"))


def test_moments_do_not_depend_on_the_session_time_zone(tmp_path: Path, spark: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("on", pa.date32())])
    table = pudi.create(tmp_path / "t", schema, record_key="id")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        frame = spark.sql("select 1L as id, timestamp_micros(1234567) as at, date'1500-02-28' as on")
        table.bulk_insert(frame)
        table.upsert(frame)
        seen = table.scan(["at", "on"]).to_spark(spark).selectExpr("unix_micros(at)", "string(on)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert list(map(tuple, seen)) == [(1234567, "1500-02-28")]
    assert table.scan(["at"]).to_arrow()["at"].cast(pa.int64()).to_pylist() == [1234567]


def test_a_file_that_is_gone_is_an_error_not_fewer_rows(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    table.bulk_insert(_frame(spark, 30))
    scan = table.scan()
    assert scan.plan.slices
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        frame = scan.to_spark(spark)
        (Path(table.path) / scan.plan.slices[0].base.path).unlink()
        with pytest.raises(NotFoundError, match="gone"):
            scan.to_spark(spark)
        with pytest.raises(Exception, match=r"FileNotFound|does not exist|FILE_NOT_EXIST"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_workers_that_see_another_place_are_told_so(spark: Any) -> None:
    table = pudi.create("memory://elsewhere/t", SCHEMA, record_key="id")
    with pytest.raises((pudi.SetupError, NotSupportedError), match=r"worker|process"):
        table.bulk_insert(_frame(spark, 5))
    assert not table.timeline.commits


def test_files_of_before_a_type_changed_are_read_as_the_table_has_it(golden_folder: Path, spark: Any) -> None:
    table = pudi.Table(Golden("cow_v9_evolved").unpack(golden_folder))
    local = table.scan().to_arrow()
    frame = table.scan().to_spark(spark)
    assert frame.columns == local.column_names
    key = "_hoodie_record_key"
    rows = sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row[key])
    assert [{k: str(v) for k, v in r.items()} for r in rows] == [
        {k: str(v) for k, v in r.items()} for r in sorted(local.to_pylist(), key=lambda row: row[key])
    ]


def test_a_scan_filters_and_picks_columns(tmp_path: Path, spark: Any) -> None:
    table = _table(tmp_path)
    first = table.bulk_insert(_frame(spark, 30))
    table.upsert(_frame(spark, 5, "b"))
    frame = table.scan(["note", "id"], where="place = 'p1' AND id > 10").to_spark(spark)
    assert frame.columns == ["note", "id"]
    assert sorted(row["id"] for row in frame.collect()) == [n for n in range(11, 30) if n % 3 == 1]
    assert table.changes(since=first.completion_time).to_spark(spark).count() == 5
    assert table.scan(as_of=first.instant).to_spark(spark).filter("note = 'b'").count() == 0


def test_two_writes_of_one_frame_at_once_do_not_share_what_spark_keeps(tmp_path: Path, spark: Any) -> None:
    engine = SparkEngine(spark)
    frame = _frame(spark, 30).cache()
    one, two = (_prepared(engine, _table(tmp_path / name), frame) for name in ("one", "two"))
    assert one.counts == two.counts == {"p0": 10, "p1": 10, "p2": 10}
    one.release()
    assert [kept.storageLevel.useMemory for kept in two._persisted] == [True]
    two.release()
    frame.unpersist()


def _prepared(engine: SparkEngine, table: pudi.Table, frame: Any) -> Any:
    from pudi.record import KeyGenerator
    from pudi.task.engine import InputSpec

    keys = KeyGenerator("SIMPLE", ("id",), ("place",))
    return engine.prepare(frame, InputSpec(table.path, SCHEMA, keys))


def test_records_that_differ_from_those_counted_are_an_error(tmp_path: Path, spark: Any) -> None:
    from pudi.engine.spark.engine import _Answer
    from pudi.engine.spark.file_tasks import Fingerprint

    records = _prepared(SparkEngine(spark), _table(tmp_path), _frame(spark, 30, places=1))
    group = records.groups["p0"]

    def check(received: int, fingerprint: Fingerprint) -> None:
        _check_complete([("p0", group)], ["p0"], [_Answer(0, received, fingerprint, [])], "t")

    check(30, group.fingerprint)
    others = Fingerprint(group.fingerprint.xor ^ 1, group.fingerprint.total)
    pairs = Fingerprint(group.fingerprint.xor, group.fingerprint.total + 2)  # one record twice for another one twice
    for received, fingerprint in ((29, group.fingerprint), (31, group.fingerprint), (30, others), (30, pairs)):
        with pytest.raises(UnavailableError, match="'p0'"):
            check(received, fingerprint)
    records.release()


@pytest.mark.parametrize("verb", ["upsert", "merge", "merge of some", "merge by another column"])
def test_texts_of_a_collation_are_compared_by_their_bytes(tmp_path: Path, spark: Any, verb: str) -> None:
    if spark.version.startswith("3."):
        pytest.skip("Spark 3.5 has no collations")
    schema = pa.schema([("id", pa.string()), ("name", pa.string()), ("v", pa.int64())])
    table = pudi.create(tmp_path / "t", schema, record_key="id")
    table.insert(pa.table([["a", "B", "A"], ["a", "B", "A"], [1, 2, 3]], schema=schema))
    rows = spark.sql("SELECT * FROM VALUES ('B', 'B', 20L), ('a', 'a', 10L) AS rows(id, name, v)")
    rows = rows.selectExpr("id COLLATE UTF8_LCASE AS id", "name COLLATE UTF8_LCASE AS name", "v")
    if verb == "upsert":
        table.upsert(rows)
    elif verb == "merge":
        table.merge(rows).when_matched_update().when_not_matched_insert().execute()
    elif verb == "merge of some":
        table.merge(rows, on="id").when_matched_update(condition="target.v < source.v").execute()
    else:
        table.merge(rows, on="target.name = source.name").when_matched_update({"v": "source.v"}).execute()
    found = table.scan(["id", "v"]).to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == {"a": 10, "B": 20, "A": 3}
