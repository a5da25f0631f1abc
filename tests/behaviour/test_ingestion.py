"""Ingestion of files and tables: each batch once, bad records apart, and Hudi Streamer's checkpoints."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.ingest import Batch, FileSource, Ingestion, KafkaSource, TableSource, debezium_events, sql_transform
from pudi.ingest.files import CsvOptions
from pudi.ingest.source import Checkpoint

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()), ("city", pa.string())])
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": f.name, "type": ["null", {"int64": "long"}.get(str(f.type), str(f.type))]} for f in SCHEMA],
}


def rows_of(first: int, count: int = 5, ts: int = 1) -> list[dict[str, Any]]:
    numbers = range(first, first + count)
    return [{"id": f"k{n}", "ts": ts, "fare": n / 2, "city": "nyc" if n % 2 else "sf"} for n in numbers]


def put(path: Path, rows: list[dict[str, Any]], at: int = 0) -> Path:
    """Write a file by its suffix; `at` is its time in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = pa.Table.from_pylist(rows, SCHEMA)
    if path.suffix == ".parquet":
        pq.write_table(data, path)
    elif path.suffix == ".orc":
        orc.write_table(data, str(path))
    elif path.suffix == ".csv":
        pa_csv.write_csv(data, path)
    elif path.suffix == ".avro":
        with path.open("wb") as file:
            fastavro.writer(file, {**AVRO, "fields": [_long(f) for f in AVRO["fields"]]}, rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if at:
        os.utime(path, (at, at))
    return path


def _long(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "type": ["null", {"ts": "long", "fare": "double"}.get(field["name"], "string")]}


def job(tmp_path: Path, format: str = "json", **settings: Any) -> Ingestion:
    source = settings.pop("source", None) or FileSource(tmp_path / "src", format)
    roles = {"record_key": "id", "ordering": "ts", **settings}
    return Ingestion(source, tmp_path / "t", **roles)


def read(tmp_path: Path, name: str = "t") -> list[dict[str, Any]]:
    found = pudi.Table(tmp_path / name).scan(meta_fields=False).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row.get("id") or row.get("error_id")))


def extra(tmp_path: Path, number: int = -1) -> dict[str, str]:
    table = pudi.Table(tmp_path / "t")
    metadata = table._meta.store.read_commit_metadata(table.timeline.commits[number])
    return {key: value for key, value in metadata.extra_metadata.items() if "checkpoint" in key or "pudi" in key}


@pytest.mark.parametrize("format", ["parquet", "orc", "csv", "avro", "json"])
def test_new_files_of_every_format_come_once(tmp_path: Path, format: str) -> None:
    put(tmp_path / "src" / f"a.{format}", rows_of(0), at=1000)
    put(tmp_path / "src" / "day" / f"b.{format}", rows_of(3, ts=2), at=1001)
    (tmp_path / "src" / "_temporary").mkdir()
    put(tmp_path / "src" / "_temporary" / f"x.{format}", rows_of(50))
    assert job(tmp_path, format).run() == 1
    assert read(tmp_path) == [*rows_of(0, 3), *rows_of(3, ts=2)]
    assert extra(tmp_path) == {"streamer.checkpoint.key.v2": "1001000", "pudi.ingest.seen": f'["day/b.{format}"]'}
    assert job(tmp_path, format).run() == 0
    put(tmp_path / "src" / f"c.{format}", rows_of(7, 3, ts=3), at=1001)  # later, in the same millisecond
    put(tmp_path / "src" / f"d.{format}", rows_of(20, 1), at=1002)
    assert job(tmp_path, format).run() == 1
    rows = [*rows_of(0, 3), *rows_of(3, 4, ts=2), *rows_of(7, 3, ts=3), *rows_of(20, 1)]
    assert read(tmp_path) == sorted(rows, key=lambda row: row["id"])
    assert job(tmp_path, format).run() == 0


def test_batches_have_a_size_and_files_of_one_moment_stay_together(tmp_path: Path) -> None:
    for n in range(6):
        put(tmp_path / "src" / f"{n}.json", rows_of(n * 10), at=1000 + n // 2)
    seen = []
    source = FileSource(tmp_path / "src", "json", max_bytes=1)
    assert job(tmp_path, source=source, operation="insert", report=seen.append).run() == 3
    assert [(each.checkpoint, each.more, each.result.records_inserted) for each in seen] == [
        ("1000000", True, 10),
        ("1001000", True, 10),
        ("1002000", False, 10),
    ]
    assert json.loads(seen[0].to_json())["inserted"] == 10
    assert len(read(tmp_path)) == 30


@pytest.mark.parametrize(
    ("version", "key"), [("6", "deltastreamer.checkpoint.key"), ("9", "streamer.checkpoint.key.v2")]
)
def test_checkpoints_are_hudi_streamers(tmp_path: Path, version: str, key: str) -> None:
    options = {"hoodie.write.table.version": version}
    put(tmp_path / "src" / "a.json", rows_of(0), at=1000)
    put(tmp_path / "src" / "b.json", rows_of(10), at=2000)
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts", options=options)
    table.write(
        pa.Table.from_pylist(rows_of(90, 1), SCHEMA), pudi.plan.Operation.UPSERT, extra_metadata={key: "1000000"}
    )
    assert job(tmp_path).run() == 1  # Hudi Streamer took a.json in
    assert [row["id"] for row in read(tmp_path)] == ["k10", "k11", "k12", "k13", "k14", "k90"]
    assert extra(tmp_path)[key] == "2000000"
    table.upsert(pa.Table.from_pylist(rows_of(91, 1), SCHEMA))  # a commit of another writer
    assert job(tmp_path).run() == 0
    assert job(tmp_path, checkpoint="earliest").run() == 1
    reset = {"6": "deltastreamer.checkpoint.reset_key", "9": "streamer.checkpoint.reset.key.v2"}[version]
    assert extra(tmp_path)[reset] == "earliest"
    assert job(tmp_path, checkpoint="earliest").run() == 0, "a job that starts again goes on"
    assert len(read(tmp_path)) == 12


def test_a_table_that_says_nothing_needs_a_beginning(tmp_path: Path) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    table.upsert(pa.Table.from_pylist(rows_of(90, 1), SCHEMA))
    with pytest.raises(pudi.InvalidArgumentError, match="checkpoint='earliest'"):
        job(tmp_path).run()
    assert job(tmp_path, checkpoint="earliest").run() == 1
    table.upsert(pa.Table.from_pylist(rows_of(1, 1), SCHEMA))
    table.write(
        pa.Table.from_pylist(rows_of(2, 1), SCHEMA),
        pudi.plan.Operation.UPSERT,
        extra_metadata={"streamer.checkpoint.key.v2": "topic,0:5"},
    )
    with pytest.raises(pudi.InvalidArgumentError, match="another source"):
        job(tmp_path).run()


def test_bad_records_are_refused_or_kept(tmp_path: Path) -> None:
    good = [json.dumps(row) for row in rows_of(0, 300)]
    bad = ['{"id": "half', '{"id": "z", "fare": "much"}', "[1]", '{"id": null}']
    lines = [*good[:100], bad[0], *good[100:200], *bad[1:3], *good[200:], bad[3]]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.json").write_text("\n".join(lines))
    with pytest.raises(pudi.CorruptError, match=r"4 records of .*, the first at line 101: JSON .*[^0-9]; .*a.json"):
        job(tmp_path, schema=SCHEMA).run()
    assert not (tmp_path / "t").exists()
    put(tmp_path / "keyless" / "a.json", [{"id": None, "ts": 7}, *rows_of(0, 1)])
    with pytest.raises(
        pudi.CorruptError, match=r"1 record .*, of 1 file .*keyless, .*\"ts\": 7.*\(id\) is null; .*error"
    ):
        job(tmp_path, source=FileSource(tmp_path / "keyless", "json")).run()
    assert job(tmp_path, schema=SCHEMA, error_table=tmp_path / "bad").run() == 1
    assert len(read(tmp_path)) == 300
    kept = {(row["source"], row["position"]): row["record"] for row in read(tmp_path, "bad")}
    assert kept[("a.json", 101)] == '{"id": "half'
    assert kept[("a.json", 202)] == '{"id": "z", "fare": "much"}'
    assert len(kept) == 4
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("id,ts,fare,city\na,1,2.5,nyc\nb,x,1,nyc\nc,1\nd,4,,\n")
    source = FileSource(tmp_path / "csv", "csv")
    other = Ingestion(source, tmp_path / "c", record_key="id", schema=SCHEMA, error_table=tmp_path / "bad")
    assert other.run() == 1
    assert read(tmp_path, "c") == [
        {"id": "a", "ts": 1, "fare": 2.5, "city": "nyc"},
        {"id": "d", "ts": 4, "fare": None, "city": None},
    ]
    assert [row["position"] for row in read(tmp_path, "bad") if row["source"] == "a.csv"] == [3, 4]
    bare = CsvOptions(header=False, delimiter=";")
    (tmp_path / "csv" / "a.csv").write_text("e;1;2;x\n")
    assert Ingestion(
        FileSource(tmp_path / "csv", "csv", csv=bare), tmp_path / "e", record_key="id", schema=SCHEMA
    ).run()
    assert read(tmp_path, "e") == [{"id": "e", "ts": 1, "fare": 2.0, "city": "x"}]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ('{"id":"a","ts":1}\n{"id":"b","ts":2}\n', pudi.CorruptError, "JSON object and names no columns"),
        ('id,ts\na,1\nb,"2\nc,3\n', pudi.CorruptError, "a quote in it is never closed"),
        ("id,ts,id\na,1,b\n", pudi.SchemaError, "column 'id' more than once"),
        ("id,city\na,\xe9\n", pudi.CorruptError, "UTF-?8"),
        ("id,\xe9\na,1\n", pudi.CorruptError, "UTF-8"),
        ("id,ts\n" + "a,1,1\n" * 1001, pudi.CorruptError, "more than 1,000"),
    ],
    ids=["json", "open quote", "one name twice", "latin-1", "latin-1 names", "rows"],
)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["typed", "untyped"])
def test_a_csv_file_that_is_none_is_refused_as_a_whole(
    tmp_path: Path, text: str, error: type[Exception], words: str, schema: pa.Schema | None
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(error, match=words) as caught:
        job(tmp_path, "csv", schema=schema, ordering=None, error_table=tmp_path / "bad").run()
    assert getattr(caught.value, "path") == "a.csv"  # noqa: B009 - of pudi's errors
    assert not (tmp_path / "t").exists()


def test_a_csv_file_with_many_values_of_other_types_is_refused_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.csv").write_text("id,ts\n" + "a,x\n" * 1001)
    with pytest.raises(pudi.CorruptError, match=r"more than 1,000 .*a\.csv"):
        job(tmp_path, "csv", schema=SCHEMA, error_table=tmp_path / "bad").run()


def test_every_bad_row_of_a_csv_file_has_a_place_of_its_own(tmp_path: Path) -> None:
    rows = [
        "a,1,2024-01-01",
        "b,x,2024-01-02",
        'c,2,"say ""so"", it\'s 5"" long"',
        "d,4,5,6",
        "e,y,z",
        "",
        "f,1",
        "g,7,h",
    ]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.csv").write_text("\n".join(["id,ts,day", *rows]) + "\n")
    job(tmp_path, "csv", schema=SCHEMA, error_table=tmp_path / "bad").run()
    assert [row["id"] for row in read(tmp_path)] == ["a", "c", "g"]
    found = pudi.Table(tmp_path / "bad").scan(["position", "record"]).to_arrow().sort_by("position").to_pylist()
    assert [row["position"] for row in found] == [3, 5, 6, 7]
    assert json.loads(found[0]["record"]) == {"id": "b", "ts": "x", "day": "2024-01-02"}


@pytest.mark.parametrize("lines", [["null", '{"id": "a", "ts": 1}'], ['{"id": "a", "ts": 1}', " null\r"]])
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["typed", "untyped"])
def test_null_is_no_record(tmp_path: Path, lines: list[str], schema: pa.Schema | None) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.json").write_text("\n".join(lines))
    with pytest.raises(pudi.CorruptError, match="null is no record"):
        job(tmp_path, schema=schema).run()
    job(tmp_path, schema=schema, error_table=tmp_path / "bad").run()
    assert [row["id"] for row in read(tmp_path)] == ["a"]
    assert [row["record"].strip() for row in read(tmp_path, "bad")] == ["null"]


@pytest.mark.parametrize(
    "given",
    [
        {"target": None},
        {"error_table": 1},
        {"checkpoint": 1},
        {"transforms": None},
        {"report": "print"},
        {"operation": ["upsert"]},
        {"options": "a=b"},
        {"storage_options": "a=b"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_arguments_of_an_ingestion_are_checked(tmp_path: Path, given: dict[str, Any]) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    settings = {"target": tmp_path / "t", "record_key": "id", **given}
    with pytest.raises(pudi.InvalidArgumentError):
        Ingestion(FileSource(tmp_path / "src", "json"), **settings)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSource(None, "csv"),  # type: ignore[arg-type]
        lambda: FileSource("x", ["csv"]),  # type: ignore[arg-type]
        lambda: FileSource("x", "csv", max_bytes=0),
        lambda: FileSource("x", "csv", csv={"header": False}),  # type: ignore[arg-type]
        lambda: CsvOptions(delimiter=";;"),
        lambda: CsvOptions(delimiter="\u00b7"),
        lambda: TableSource(None),  # type: ignore[arg-type]
        lambda: TableSource("x", max_commits=0),
        lambda: KafkaSource(1, {"bootstrap.servers": "x"}),  # type: ignore[arg-type]
        lambda: KafkaSource("t", "x"),  # type: ignore[arg-type]
        lambda: KafkaSource("t", {"bootstrap.servers": "x"}, start=["latest"]),  # type: ignore[arg-type]
        lambda: KafkaSource("t", {"bootstrap.servers": "x"}, max_events=0),
        lambda: sql_transform(1),  # type: ignore[arg-type]
        lambda: debezium_events(["mysql"]),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_sources_are_checked(make: Callable[[], object]) -> None:
    with pytest.raises(pudi.InvalidArgumentError):
        make()


@pytest.mark.parametrize("given", [{"max_batches": 0}, {"max_batches": "1"}, {"interval_s": "1"}, {"interval_s": -1}])
def test_arguments_of_a_run_are_checked(tmp_path: Path, given: dict[str, Any]) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    with pytest.raises(pudi.InvalidArgumentError):
        job(tmp_path).run(**given)
    assert not (tmp_path / "t").exists()


def test_json_has_every_type_that_a_schema_asks_for(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("day", pa.date32()),
            ("price", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", tz="UTC")),
            ("list", pa.list_(pa.int64())),
            ("place", pa.struct([("x", pa.int32())])),
            ("raw", pa.binary()),
        ]
    )
    first = {"id": 1, "day": "2024-01-02", "price": "1.25", "at": "2024-01-01T00:00:00Z", "list": [1], "raw": "abc"}
    lines = [first | {"place": {"x": 1}}, {"id": 2, "day": "not a day"}, {"id": 3, "new": 5}]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.json").write_text("\n".join(map(json.dumps, lines)))
    job(tmp_path, schema=schema, ordering=None, error_table=tmp_path / "bad").run()
    assert read(tmp_path) == [
        {
            "id": 1,
            "day": dt.date(2024, 1, 2),
            "price": Decimal("1.25"),
            "at": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
            "list": [1],
            "place": {"x": 1},
            "raw": b"abc",
            "new": None,
        },
        {**dict.fromkeys(schema.names), "id": 3, "new": 5},
    ]
    assert [(row["position"], row["record"]) for row in read(tmp_path, "bad")] == [(2, json.dumps(lines[1]))]


def test_what_contradicts_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    with pytest.raises(pudi.NotFoundError, match="no such folder"):
        Ingestion(FileSource(tmp_path / "scr", "json"), tmp_path / "t", record_key="id").run()
    job(tmp_path).run()
    for given, message in (
        ({"record_key": "ts"}, "record_key=ts is for a new table, and the table has id"),
        ({"ordering": "fare"}, "ordering=fare"),
        ({"partition_by": "city"}, "partition_by=city is for a new table, and the table has none"),
        ({"error_table": f"{tmp_path}/t/"}, "error_table is the target"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match=message):
            job(tmp_path, **given)
    with pytest.raises(pudi.InvalidArgumentError, match="one table"):
        Ingestion(TableSource(tmp_path / "t"), tmp_path / "t")
    other = Ingestion(TableSource(tmp_path / "t"), tmp_path / "u", record_key="id")
    other.run()
    with pytest.raises(pudi.InvalidArgumentError, match=r"'[0-9]{17}' isn't the time of a file"):
        Ingestion(FileSource(tmp_path / "src", "json"), tmp_path / "u").run()
    with pytest.raises(pudi.InvalidArgumentError, match=r"'[0-9]{13}' isn't the time of a commit"):
        Ingestion(TableSource(tmp_path / "u"), tmp_path / "t").run()
    put(tmp_path / "src" / "b.json", [{"id": None, "ts": 1, "fare": 1.0, "city": "nyc"}])
    with pytest.raises(pudi.InvalidArgumentError, match="no table of bad records"):
        job(tmp_path, error_table=tmp_path / "u").run()


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert"])
def test_two_ingestions_of_one_table_count_nothing_twice(tmp_path: Path, operation: str) -> None:
    class Beside:
        """Lets another ingestion take each batch in first."""

        def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
            batch = FileSource(tmp_path / "src", "json").next(after, schema, spark)
            if batch is not None:
                job(tmp_path, operation=operation).run()
            return batch

    put(tmp_path / "src" / "a.json", rows_of(0), at=1000)
    goes_on = job(tmp_path, operation=operation)
    assert goes_on.run() == 1
    put(tmp_path / "src" / "b.json", rows_of(5), at=1001)
    with pytest.raises(pudi.ChangedSinceError, match="another process runs it too"):
        Ingestion(Beside(), tmp_path / "t", operation=operation).run()
    put(tmp_path / "src" / "c.json", rows_of(10), at=1002)
    with pytest.raises(pudi.ChangedSinceError):  # it began before the other one
        goes_on.run()
    assert job(tmp_path, operation=operation).run() == 1
    assert [row["id"] for row in read(tmp_path)] == sorted(row["id"] for row in rows_of(0, 15))


@pytest.mark.parametrize("given", ["city:SIMPLE", ["city:simple", "ts:SIMPLE"], ["city", "ts"]])
def test_a_job_with_a_custom_key_starts_again(tmp_path: Path, given: str | list[str]) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0), at=1000)
    assert job(tmp_path, partition_by=given).run() == 1
    put(tmp_path / "src" / "b.json", rows_of(5), at=1001)
    assert job(tmp_path, partition_by=given).run() == 1
    assert len(read(tmp_path)) == 10
    for other in ("city:TIMESTAMP", ["ts", "city"], "fare:SIMPLE"):
        with pytest.raises(pudi.InvalidArgumentError, match="is for a new table"):
            job(tmp_path, partition_by=other)


def test_two_ingestions_that_make_the_target_take_the_first_batch_once(tmp_path: Path) -> None:
    class Beside:
        """Lets another ingestion take the first batch in, from its table on."""

        def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
            job(tmp_path, operation="insert").run()
            return FileSource(tmp_path / "src", "json").next(after, schema, spark)

    put(tmp_path / "src" / "a.json", rows_of(0))
    with pytest.raises(pudi.ChangedSinceError, match="another process runs it too"):
        job(tmp_path, source=Beside(), operation="insert").run()
    assert len(read(tmp_path)) == 5


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "a.json", rows_of(0))
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.json").symlink_to(tmp_path / "elsewhere" / "a.json")
    with pytest.raises(pudi.PudiError, match=r"a\.json"):
        job(tmp_path).run()


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_damaged_files_and_other_columns_are_named(tmp_path: Path, format: str) -> None:
    put(tmp_path / "src" / f"a.{format}", rows_of(0), at=1000)
    file = put(tmp_path / "src" / f"b.{format}", rows_of(5), at=1001)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(pudi.CorruptError, match=f"b.{format}"):
        job(tmp_path, format).run()
    (tmp_path / "src" / "c.json").write_text('{"id": "a", "ts": {"x": 1}}\n')
    (tmp_path / "src" / "d.json").write_text('{"id": "a", "ts": [1]}\n')
    for each in ("a", "b"):
        (tmp_path / "src" / f"{each}.{format}").unlink()
    with pytest.raises(pudi.SchemaError, match=r"d\.json|c\.json"):
        job(tmp_path).run()


def test_transforms_run_in_their_order(tmp_path: Path) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    steps = [lambda data: data.slice(0, 3), sql_transform("SELECT *, fare * 2 AS twice FROM <SRC> WHERE id <> 'k0';")]
    assert job(tmp_path, transforms=steps).run() == 1
    assert read(tmp_path) == [{**row, "twice": row["fare"] * 2} for row in rows_of(1, 2)]
    with pytest.raises(pudi.InvalidArgumentError, match="<SRC>"):
        sql_transform("SELECT 1")
    put(tmp_path / "src" / "b.json", rows_of(9))
    with pytest.raises(pudi.InvalidArgumentError, match="nope"):
        job(tmp_path, transforms=[sql_transform("SELECT nope FROM <SRC>")]).run()


def test_what_a_transform_returns(tmp_path: Path) -> None:
    put(tmp_path / "src" / "a.json", rows_of(0))
    for wrong, message in (
        ([lambda data: None], "the transform <lambda> returned a NoneType"),
        (["SELECT 1"], "no function; a query is sql_transform"),
        (sql_transform("SELECT * FROM <SRC>"), "a list of functions"),
    ):
        with pytest.raises(pudi.InvalidArgumentError, match=message):
            job(tmp_path, transforms=wrong).run()
    with pytest.raises(pudi.InvalidArgumentError, match="source is FileSource"):
        job(tmp_path, source=str(tmp_path / "src"))
    with pytest.raises(pudi.InvalidArgumentError, match="not a dict"):
        job(tmp_path, schema={"id": "string"})
    job(tmp_path, transforms=[lambda data: data.slice(0, 2).to_reader()]).run()
    assert len(read(tmp_path)) == 2


def test_changes_of_another_table_come_commit_by_commit(tmp_path: Path) -> None:
    raw = pudi.create(tmp_path / "raw", SCHEMA, record_key="id", ordering="ts", table_type="mor")
    for number in range(3):
        raw.upsert(pa.Table.from_pylist(rows_of(number * 2, 4, ts=number), SCHEMA))
    source = TableSource(tmp_path / "raw", max_commits=1)
    seen = []
    assert job(tmp_path, source=source, report=seen.append).run() == 3
    completions = [raw.timeline.order(each) for each in raw.timeline.commits]
    assert [each.checkpoint for each in seen] == completions
    assert read(tmp_path) == read(tmp_path, "raw")
    raw.upsert(pa.Table.from_pylist(rows_of(1, 2, ts=9), SCHEMA))
    assert job(tmp_path, source=TableSource(tmp_path / "raw")).run() == 1
    assert read(tmp_path) == read(tmp_path, "raw")
    third = raw.timeline.commits[2]  # a Hudi Streamer of old left a requested time
    target = pudi.create(tmp_path / "t2", SCHEMA, record_key="id", ordering="ts")
    target.write(
        pa.Table.from_pylist(rows_of(90, 1), SCHEMA),
        pudi.plan.Operation.UPSERT,
        extra_metadata={"deltastreamer.checkpoint.key": third.requested},
    )
    assert Ingestion(TableSource(tmp_path / "raw"), tmp_path / "t2").run() == 1
    assert [row["id"] for row in read(tmp_path, "t2")] == ["k1", "k2", "k90"]


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_late_records_of_another_table_are_left_out_as_it_leaves_them_out(tmp_path: Path, version: str) -> None:
    options = {"hoodie.write.table.version": version}
    raw = pudi.create(tmp_path / "raw", SCHEMA, record_key="id", ordering="ts", table_type="mor", options=options)
    raw.insert(pa.Table.from_pylist(rows_of(0, 4, ts=5), SCHEMA))
    raw.upsert(pa.Table.from_pylist(rows_of(4, 1, ts=5), SCHEMA))  # small: the file group gets a log file
    raw.delete(pa.table({"id": ["k1"]}))
    for number in (1, 2, 4):  # one that was deleted, one in the base file, one in a log file
        raw.upsert(pa.Table.from_pylist([{**row, "fare": 99.0} for row in rows_of(number, 1, ts=3)], SCHEMA))
    raw.upsert(pa.Table.from_pylist(rows_of(3, 1, ts=7), SCHEMA))
    source = TableSource(tmp_path / "raw", max_commits=1)
    assert job(tmp_path, source=source, ordering=None).run() == len(raw.timeline.commits)  # here the last one counts
    assert read(tmp_path) == read(tmp_path, "raw")
    assert [row["id"] for row in read(tmp_path)] == ["k0", "k2", "k3", "k4"]


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_limited_batches_of_a_table_that_was_cleaned_take_what_is_left(tmp_path: Path, table_type: str) -> None:
    raw = pudi.create(tmp_path / "raw", SCHEMA, record_key="id", ordering="ts", table_type=table_type)
    source = TableSource(tmp_path / "raw", max_commits=1)
    raw.upsert(pa.Table.from_pylist(rows_of(0), SCHEMA))
    assert job(tmp_path, source=source).run() == 1
    for ts in range(2, 6):
        raw.upsert(pa.Table.from_pylist(rows_of(ts, ts=ts), SCHEMA))
    if table_type == "mor":
        raw.compact()
    raw.clean(
        options={"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"}
    )
    assert job(tmp_path, source=source).run() == 1
    assert read(tmp_path) == read(tmp_path, "raw")


def _raw(tmp_path: Path, **options: str) -> pudi.Table:
    return pudi.create(tmp_path / "raw", SCHEMA, record_key="id", ordering="ts", options=options)


def _follow(tmp_path: Path, **settings: Any) -> int:
    return job(tmp_path, source=TableSource(tmp_path / "raw"), **settings).run()


@pytest.mark.parametrize("then", ["empty", "later", "copy"])
def test_a_source_table_that_was_made_again_is_refused(tmp_path: Path, then: str) -> None:
    raw = _raw(tmp_path)
    raw.upsert(pa.Table.from_pylist(rows_of(0, 3), SCHEMA))
    shutil.copytree(tmp_path / "raw", tmp_path / "backup")
    raw.upsert(pa.Table.from_pylist(rows_of(10, 3), SCHEMA))
    assert _follow(tmp_path) == 1
    shutil.rmtree(tmp_path / "raw")
    if then == "copy":
        shutil.copytree(tmp_path / "backup", tmp_path / "raw")
    else:
        raw = _raw(tmp_path)
    if then == "later":
        raw.upsert(pa.Table.from_pylist(rows_of(20, 3), SCHEMA))
    before = read(tmp_path)
    with pytest.raises(pudi.InvalidArgumentError, match=r"created again.*new checkpoint") as caught:
        _follow(tmp_path)
    assert caught.value.table == str(tmp_path / "raw")
    assert read(tmp_path) == before
    if then != "empty":  # a checkpoint that the user gives is taken: the target has both tables' records then
        assert _follow(tmp_path, checkpoint="earliest") == 1
        both = {row["id"]: row for row in [*before, *read(tmp_path, "raw")]}
        assert read(tmp_path) == sorted(both.values(), key=lambda row: row["id"])
        assert _follow(tmp_path) == 0


def test_a_source_table_that_undid_commits_is_followed(tmp_path: Path) -> None:
    raw = _raw(tmp_path)
    first = raw.upsert(pa.Table.from_pylist(rows_of(0, 3), SCHEMA))
    assert first is not None
    raw.savepoint(first.instant)
    assert _follow(tmp_path) == 1
    raw.upsert(pa.Table.from_pylist(rows_of(10, 3), SCHEMA))
    assert _follow(tmp_path) == 1
    raw.restore(first.instant)
    assert _follow(tmp_path) == 0
    raw.upsert(pa.Table.from_pylist(rows_of(20, 3), SCHEMA))
    assert _follow(tmp_path) == 1
    assert {row["id"] for row in read(tmp_path, "raw")} <= {row["id"] for row in read(tmp_path)}


def test_a_target_of_version_6_follows_a_table_that_has_completion_times(tmp_path: Path) -> None:
    raw = _raw(tmp_path)
    first = raw.upsert(pa.Table.from_pylist(rows_of(0, 3), SCHEMA))
    assert first is not None
    settings = {"options": {"hoodie.write.table.version": "6"}}
    assert _follow(tmp_path, **settings) == 1
    assert extra(tmp_path)["deltastreamer.checkpoint.key"] == first.instant, "Hudi Streamer goes on by requested times"
    raw.savepoint(first.instant)
    raw.upsert(pa.Table.from_pylist(rows_of(10, 3), SCHEMA))
    assert _follow(tmp_path, **settings) == 1
    assert _follow(tmp_path, **settings) == 0
    raw.restore(first.instant)  # the commit that the checkpoint names is gone
    raw.upsert(pa.Table.from_pylist(rows_of(20, 3), SCHEMA))
    assert _follow(tmp_path, **settings) == 1
    assert [row["id"] for row in read(tmp_path)] == ["k0", "k1", "k10", "k11", "k12", "k2", "k20", "k21", "k22"]


def test_a_continuous_ingestion_remembers_commits_of_the_active_timeline_only(tmp_path: Path) -> None:
    archives = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    running = job(tmp_path, options=archives)
    for n in range(12):
        put(tmp_path / "src" / f"{n}.json", rows_of(n, 1), at=1000 + n)
        assert running.run() == 1
    assert running._progress is not None
    assert len(running._progress.seen) <= len(pudi.Table(tmp_path / "t").timeline.commits) + 4
    assert read(tmp_path) == sorted(rows_of(0, 12), key=lambda row: row["id"])
    put(tmp_path / "src" / "12.json", rows_of(12, 1), at=1012)
    assert job(tmp_path).run() == 1
    put(tmp_path / "src" / "13.json", rows_of(13, 1), at=1013)
    with pytest.raises(pudi.ChangedSinceError):
        running.run()


@pytest.mark.parametrize("then", ["deleted", "created again", "rolled back", "archived"])
def test_a_running_ingestion_sees_what_becomes_of_its_target(tmp_path: Path, then: str) -> None:
    archives = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    running = job(tmp_path, operation="insert")
    for n in range(2):
        put(tmp_path / "src" / f"{n}.json", rows_of(n * 10, 3), at=1000 + n)
        assert running.run() == 1
    target = pudi.Table(tmp_path / "t", options=archives)
    if then == "rolled back":
        target.rollback(target.timeline.commits[-1].requested)
    elif then == "archived":
        for n in range(8):
            target.upsert(pa.Table.from_pylist(rows_of(n % 2, 1), SCHEMA))
        target.clean()
        target.archive()
    else:
        shutil.rmtree(tmp_path / "t")
    if then == "created again":
        pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    put(tmp_path / "src" / "2.json", rows_of(20, 3), at=1002)
    assert running.run() == 1
    assert read(tmp_path) == sorted([*rows_of(0, 3), *rows_of(10, 3), *rows_of(20, 3)], key=lambda row: row["id"])


def test_a_first_batch_that_fails_says_that_it_left_an_empty_table(tmp_path: Path) -> None:
    put(tmp_path / "src" / "a.json", [{"id": "", "ts": 1, "fare": 1.0, "city": "nyc"}, *rows_of(0, 1)])
    with pytest.raises(pudi.PudiError, match=r"t was created for this write and is empty.* delete its folder"):
        job(tmp_path).run()


def test_a_place_in_time_that_a_user_gives_need_not_be_a_commit(tmp_path: Path) -> None:
    raw = _raw(tmp_path)
    raw.upsert(pa.Table.from_pylist(rows_of(0, 3), SCHEMA))
    assert _follow(tmp_path, checkpoint="20300101000000000") == 0
    assert _follow(tmp_path, checkpoint="20200101000000000") == 1
    assert read(tmp_path) == rows_of(0, 3)


def test_a_write_of_a_source_table_below_version_8_that_ends_late_is_not_missed(tmp_path: Path) -> None:
    raw = _raw(tmp_path, **{"hoodie.write.table.version": "6"})
    raw.upsert(pa.Table.from_pylist(rows_of(0, 3), SCHEMA))
    raw.upsert(pa.Table.from_pylist(rows_of(10, 3), SCHEMA))
    second = raw.timeline.commits[1].requested
    raw.upsert(pa.Table.from_pylist(rows_of(20, 3), SCHEMA))
    timeline, held = tmp_path / "raw" / ".hoodie", tmp_path / "held"
    shutil.move(timeline / f"{second}.commit", held)  # the second write is still going on
    assert _follow(tmp_path) == 1
    assert read(tmp_path) == rows_of(0, 3)
    shutil.move(held, timeline / f"{second}.commit")
    assert _follow(tmp_path) == 1
    assert read(tmp_path) == read(tmp_path, "raw")
    assert len(read(tmp_path)) == 9


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("cdc", ["true", "false"])
def test_what_another_table_deletes_reaches_the_target(tmp_path: Path, table_type: str, cdc: str) -> None:
    raw = pudi.create(
        tmp_path / "raw",
        SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        options={"hoodie.table.cdc.enabled": cdc, "hoodie.index.type": "GLOBAL_SIMPLE"},
    )
    raw = pudi.Table(raw.path, options={"hoodie.index.type": "GLOBAL_SIMPLE"})
    seen: list[Any] = []

    def upsert(rows: list[dict[str, Any]]) -> None:
        raw.upsert(pa.Table.from_pylist(rows, SCHEMA))

    def follow() -> list[dict[str, Any]]:
        job(tmp_path, source=TableSource(raw.path), partition_by="city", report=seen.append).run()
        return read(tmp_path)

    upsert(rows_of(0, 10))
    raw.delete(pa.table({"id": ["k9"], "city": ["nyc"]}))
    assert follow() == read(tmp_path, "raw")
    raw.delete(where="fare < 1")
    raw.delete(pa.table({"id": ["k8"], "city": ["sf"]}))
    upsert([{"id": "k8", "ts": 0, "fare": 1.0, "city": "sf"}])  # there again, with a lower ordering value
    upsert([{"id": "k5", "ts": 7, "fare": 2.5, "city": "sf"}])  # in another partition
    assert follow() == read(tmp_path, "raw")
    left = {row["id"]: row["city"] for row in read(tmp_path)}
    assert {"k0", "k1", "k9"}.isdisjoint(left)
    assert left["k5"] == "sf"
    assert ("k8" in left) == (table_type == "cow")  # in log files it loses against its delete
    assert json.loads(seen[-1].to_json())["deleted"] == 4
    raw.delete(pa.table({"id": ["k2"], "city": ["sf"]}))  # nothing but a delete: its commit says where to go on
    assert follow() == read(tmp_path, "raw")
    assert job(tmp_path, source=TableSource(raw.path)).run() == 0
    raw.insert_overwrite(pa.Table.from_pylist([{"id": "k20", "ts": 1, "fare": 1.0, "city": "nyc"}], SCHEMA))
    assert follow() == read(tmp_path, "raw")
    raw.delete_partitions(["sf"])
    assert job(tmp_path, source=TableSource(raw.path, deletes=False)).run() == 1
    assert {row["city"] for row in read(tmp_path)} == {"nyc", "sf"}


def test_the_command_goes_on_after_kill_9_and_takes_everything_once(tmp_path: Path) -> None:
    for n in range(16):
        put(tmp_path / "src" / f"{n:02}.json", rows_of(n * 5), at=1000 + n)
    (tmp_path / "steps.py").write_text("def slow(data):\n    import time\n    time.sleep(0.05)\n    return data\n")
    command = [sys.executable, "-m", "pudi.cli", "ingest", "--source", "json", "--from", "src", "--target", "t"]
    command += ["--op", "insert", "--record-key", "id", "--ordering", "ts", "--limit", "1", "--continuous"]
    command += ["--transform", "steps:slow", "--interval", "0.1"]
    for attempt in range(3):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3 if attempt < 2 else 40):
            line = process.stdout.readline()
            if not line or not json.loads(line)["more"]:
                break
        if attempt < 2:
            time.sleep(0.03 * attempt)
            process.kill()
        else:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=300)
        assert process.returncode == (-signal.SIGKILL if attempt < 2 else 0), err
    assert [row["id"] for row in read(tmp_path)] == sorted(f"k{n}" for n in range(80)), "an insert came twice or never"
    assert pudi.Table(tmp_path / "t").check().ok


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    put(tmp_path / "src" / "a.json", rows_of(0))
    common = ["ingest", "--source", "json", "--from", str(tmp_path / "src"), "--target", str(tmp_path / "t")]
    assert "needs record_key" in run(app, common).output
    assert "operation='merge'" in run(app, [*common, "--op", "merge"]).output
    (tmp_path / "bad.avsc").write_text("{")
    assert "bad.avsc" in run(app, [*common, "--schema", str(tmp_path / "bad.avsc")]).output
    no_broker = ["ingest", "--source", "kafka", "--from", "x", "--target", str(tmp_path / "t"), "--record-key", "id"]
    assert "names no broker" in run(app, no_broker).output
    for option in ("--kafka", "--registry"):
        assert f"{option} is a setting of --source kafka" in run(app, [*common, option, "url=x"]).output
    assert "module:function" in run(app, [*common, "--transform", "x"]).output
    assert "can't be made" in run(app, [*common, "--transform", "no_such_module:x"]).output
    (tmp_path / "failing_step.py").write_text("def step(data):\n    return data['no such column']\n")
    monkeypatch.syspath_prepend(tmp_path)
    failed = run(app, [*common, "--record-key", "id", "--transform", "failing_step:step"])
    assert failed.exit_code == 1
    assert "failing_step.py, line 2: KeyError" in failed.output.replace("\n", " ")
    assert "can't be read" in run(app, [*common, "--sql", "nope.sql", "--record-key", "id"]).output
    (tmp_path / "s.avsc").write_text(json.dumps({**AVRO, "fields": [_long(f) for f in AVRO["fields"]]}))
    done = run(app, [*common, "--record-key", "id", "--schema", str(tmp_path / "s.avsc")])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["inserted"] == 5
